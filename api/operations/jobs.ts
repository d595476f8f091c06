/** Jobs: what was requested, what runs, and what became of it. */
import { Type } from 'typebox';
import { named, nullable, reason } from './fields.ts';
import { filterInput } from './filtered-list.ts';
import { listInput, listOf } from './lists.ts';
import { operation } from './operation.ts';

const does = () => import('./jobs/run.ts');
const prints = () => import('./jobs/text.ts');

const text = nullable(Type.String());
const Listed = {
  job_id: Type.String(),
  kind: text,
  state: text,
  outcome: text,
  plan: text,
  parent_job_id: text,
  worker: text,
  requested_at: text,
  started_at: text,
  finished_at: text,
  made: nullable(Type.String({ description: 'what it made, in a few words' })),
  error: Type.Unknown({ description: 'why it failed' }),
  waits_for: nullable(Type.String({ description: 'the trainings of this machine that it waits for' })),
};
const job = named('its id');

export const list = operation({
  name: 'jobs.list',
  about: 'list jobs, newest first',
  examples: [{ limit: 5 }, { kind: 'plan', state: 'running' }, { filter: 'kind = sft and outcome is not null' }],
  input: {
    ...listInput(['-requested_at', 'finished_at', 'job_id', 'kind', 'state'], 20),
    ...filterInput('kind', 'state', 'outcome', 'plan'),
  },
  output: listOf(Type.Object(Listed)),
  scope: 'read',
  changes: false,
  run: async () => (await does()).list,
  text: async () => (await prints()).listed,
});

export const show = operation({
  name: 'jobs.show',
  about: 'show a job with what it is to do and its result',
  examples: [{ job: 'nightly-1/1/train-solver' }],
  input: { job },
  output: Type.Object({
    ...Listed,
    done: nullable(Type.Number({ description: 'how far it is' })),
    total: nullable(Type.Number()),
    spec: Type.Unknown(),
    result: Type.Unknown(),
  }),
  scope: 'read',
  changes: false,
  large: true,
  run: async () => (await does()).show,
  text: async () => (await prints()).shown,
});

export const metrics = operation({
  name: 'jobs.metrics',
  about: 'show the numbers that a job reported by step, such as the losses of a training; of a long one some 500 steps',
  examples: [{ job: 'nightly-1/1/train-solver' }],
  input: { job },
  output: Type.Object({
    items: Type.Array(
      Type.Object({
        name: Type.String(),
        steps: Type.Array(Type.Integer()),
        values: Type.Array(nullable(Type.Number())),
      }),
      { description: 'a curve for each number; none for a job that reported none' },
    ),
  }),
  scope: 'read',
  changes: false,
  large: true,
  run: async () => (await does()).metrics,
  text: async () => (await prints()).curves,
});

export const cancel = operation({
  name: 'jobs.cancel',
  about: 'cancel a queued or running job and its children; nothing it still produces is published',
  notes: 'A worker that runs the job stops within seconds, a training run after its current step.',
  examples: [{ job: 'schedule/nightly/2026-11-24T02:00:00Z', reason: 'wrong dataset' }],
  input: { job, reason: Type.Optional(reason) },
  output: Type.Object({ cancelled: Type.Array(Type.String(), { description: 'the job and its parts' }) }),
  scope: 'train',
  changes: true,
  run: async () => (await does()).cancel,
  text: async () => (await prints()).cancelled,
});
