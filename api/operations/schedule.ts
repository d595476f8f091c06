/** Schedules: they request jobs by cron or at an interval. */
import { Type } from 'typebox';
import { ScheduleDefinition } from '../../store/queue/schedules/definition-schema.ts';
import { PAUSE_AFTER } from '../../store/queue/schedules/jobs-in-a-row.ts';
import { duration, named, nullable, pairs, reason } from './fields.ts';
import { listInput, listOf } from './lists.ts';
import { defaulted, described, operation, written } from './operation.ts';
import { conditionOf, conditionText, hoursOf, hoursText } from './schedule/words.ts';

const { cron, every_seconds, zone, job, overlap, catch_up_seconds, jitter_seconds } = ScheduleDefinition.properties;
const { when, budget_per_day, hours } = ScheduleDefinition.properties;

const name = named('the schedule');
const does = () => import('./schedule/run.ts');
const prints = () => import('./schedule/text.ts');

const Paused = nullable(Type.Object({ by: Type.String(), reason: Type.String(), at: Type.String() }));
const State = {
  name: Type.String(),
  definition: ScheduleDefinition,
  paused: Paused,
  next: Type.Array(Type.String(), { description: 'its next five times, in UTC; none while it is paused' }),
};

const jobsInARow = (what: keyof typeof PAUSE_AFTER, why: string) =>
  Type.Optional(
    Type.Integer({
      ...{ minimum: 0, maximum: 100, default: PAUSE_AFTER[what] },
      description: `pause after so many jobs in a row ${why}; 0: never`,
    }),
  );

export const add = operation({
  name: 'schedule.add',
  about: 'add a schedule that requests jobs',
  notes:
    'The scheduler works in each process of `troupe run work`, which `troupe up` starts. `--job` names a file such as `{kind: freeze, spec: {recipe: {name: good, where: reward >= 1, unit: step}}}`.',
  examples: [
    {
      name: 'nightly',
      cron: '0 3 * * *',
      zone: 'Europe/Berlin',
      job: { kind: 'evaluate', spec: { sets: { all: {} } } },
    },
    {
      name: 'often',
      every_seconds: 21_600,
      jitter_seconds: 600,
      job: { kind: 'evaluate', spec: { sets: { all: {} } } },
    },
    {
      ...{ name: 'grown', every_seconds: 600, when: { new_episodes: 500 }, dry_run: true },
      job: { kind: 'evaluate', spec: { sets: { all: {} } } },
    },
  ],
  input: {
    name,
    cron,
    every_seconds: duration('every', every_seconds),
    zone: defaulted(zone, 'UTC'),
    job: written(job, { file: 'job' }),
    overlap: defaulted(overlap, 'skip'),
    catch_up_seconds: defaulted(duration('catch-up', catch_up_seconds), 86_400),
    jitter_seconds: defaulted(duration('jitter', jitter_seconds), 0),
    when: written(when, { value: 'condition', parse: conditionOf, text: conditionText }),
    pause_after: Type.Optional(
      Type.Object(
        {
          failed: jobsInARow('failed', 'that failed'),
          refused: jobsInARow('refused', 'whose gate refused the candidates'),
          rolled_back: jobsInARow('rolled_back', 'whose release was rolled back'),
          over_budget: jobsInARow('over_budget', 'that the budget of their plan ended'),
        },
        { additionalProperties: false },
      ),
    ),
    budget_per_day: pairs(
      described(
        budget_per_day,
        'once it is used up, no job starts before midnight of the zone: tokens, seconds or usd; repeatable',
      ),
    ),
    hours: written(hours, { value: 'from-to', parse: hoursOf, text: hoursText }),
    dry_run: defaulted(
      Type.Boolean({ description: 'check the schedule, show it with its next times, and add nothing' }),
      false,
    ),
  },
  output: Type.Object({ ...State, added: Type.Boolean(), notes: Type.Array(Type.String()) }),
  scope: 'train',
  changes: true,
  run: async () => (await does()).add,
  text: async () => (await prints()).added,
});

export const list = operation({
  name: 'schedule.list',
  about: 'list schedules',
  examples: [{}, { sort: '-name', limit: 10 }],
  input: listInput(['name', 'when', 'job']),
  output: listOf(
    Type.Object({
      name: Type.String(),
      when: Type.String({ description: 'its times and its condition' }),
      job: Type.String({ description: 'kind of its job' }),
      paused: Paused,
      next: nullable(Type.String({ description: 'its next time, in UTC' })),
    }),
  ),
  scope: 'read',
  changes: false,
  run: async () => (await does()).list,
  text: async () => (await prints()).listed,
});

export const show = operation({
  name: 'schedule.show',
  about: 'show a schedule: its next times, its last jobs, and the ticks it skipped with their reasons',
  examples: [{ name: 'nightly' }, { name: 'nightly', limit: 50 }],
  input: {
    name,
    limit: defaulted(
      Type.Integer({ minimum: 1, maximum: 500, description: 'maximum number of jobs and of skipped ticks' }),
      10,
    ),
  },
  output: Type.Object({
    ...State,
    since: Type.String({ description: 'when it was added' }),
    decided_until: Type.String({ description: 'every tick up to then is decided' }),
    checked: nullable(
      Type.Object({
        at: Type.String(),
        new_episodes: nullable(Type.Integer()),
        detail: Type.Optional(Type.String()),
      }),
    ),
    backfill: Type.Array(Type.String(), { description: 'ticks that are still to be run afterwards' }),
    runs: Type.Array(
      Type.Object({
        job_id: Type.String(),
        due_at: Type.String(),
        state: Type.String(),
        outcome: nullable(Type.String()),
        result: Type.Unknown(),
        error: Type.Unknown(),
        as_of: nullable(Type.String({ description: 'the time whose recordings it read' })),
      }),
      { description: 'its last jobs, newest first' },
    ),
    skipped: Type.Array(
      Type.Object({
        due_at: Type.String(),
        until: Type.String(),
        count: nullable(Type.Integer()),
        reason: Type.String(),
        detail: nullable(Type.String()),
      }),
      { description: 'ticks that started no job, newest first' },
    ),
  }),
  scope: 'read',
  changes: false,
  run: async () => (await does()).show,
  text: async () => (await prints()).shown,
});

export const pause = operation({
  name: 'schedule.pause',
  about: 'start no jobs until the schedule is resumed; a running job continues',
  examples: [{ name: 'nightly', reason: 'labels are being checked' }],
  input: { name, reason },
  output: Type.Object(State),
  scope: 'train',
  changes: true,
  run: async () => (await does()).pause,
  text: async () => (await prints()).paused,
});

export const resume = operation({
  name: 'schedule.resume',
  about: 'start jobs again at the next tick; ticks during the pause are skipped',
  examples: [{ name: 'nightly' }],
  input: { name, reason: Type.Optional(reason) },
  output: Type.Object(State),
  scope: 'train',
  changes: true,
  run: async () => (await does()).resume,
  text: async () => (await prints()).resumed,
});

export const run = operation({
  name: 'schedule.run',
  about: 'request the job of a schedule now, regardless of its times, its hours and its pause',
  examples: [{ name: 'nightly' }],
  input: { name },
  output: Type.Object({ name: Type.String(), job_id: Type.String() }),
  scope: 'train',
  changes: true,
  run: async () => (await does()).run,
  text: async () => (await prints()).requested,
});

export const dryRun = operation({
  name: 'schedule.dry-run',
  about: 'print what the scheduler would do now and at the next ticks, and change nothing',
  examples: [{ name: 'nightly' }],
  input: { name },
  output: Type.Object({
    ...State,
    running: nullable(Type.String({ description: 'its job that has not ended' })),
    new_episodes: nullable(Type.Integer()),
    condition: nullable(Type.Object({ holds: Type.Boolean(), detail: Type.String() })),
    budget_used_up: nullable(Type.String({ description: 'which budget of the day is used up' })),
    would_pause: nullable(Type.String({ description: 'why the next tick would pause it' })),
    decisions: Type.Array(
      Type.Object({
        action: Type.Enum(['fire', 'skip']),
        instant: Type.String(),
        until: Type.Optional(Type.String()),
        detail: Type.Optional(Type.String()),
      }),
      { description: 'what is due now' },
    ),
  }),
  scope: 'read',
  changes: false,
  run: async () => (await does()).dryRun,
  text: async () => (await prints()).dryRun,
});

export const backfill = operation({
  name: 'schedule.backfill',
  about: 'run ticks that started no job, each on what had been recorded at its time',
  notes:
    'The scheduler starts one job after the other, the oldest first, within the hours and the budget of the schedule. A tick has one job at most.',
  examples: [
    { name: 'nightly', from: '2026-05-01', to: '2026-05-08', dry_run: true },
    { name: 'nightly', from: '2026-05-01' },
  ],
  input: {
    name,
    from: Type.String({ description: 'first time, such as 2026-05-01 or 2026-05-01T03:00:00Z' }),
    to: Type.Optional(Type.String({ description: 'last time; now if left out' })),
    dry_run: defaulted(
      Type.Boolean({ description: 'list the ticks and what had been recorded by then, and start nothing' }),
      false,
    ),
  },
  output: Type.Object({
    name: Type.String(),
    started: Type.Boolean({ description: 'false for a dry run' }),
    ticks: Type.Array(
      Type.Object({
        tick: Type.String(),
        events: nullable(Type.Integer({ description: 'recorded by then; only of a dry run' })),
      }),
    ),
  }),
  scope: 'train',
  changes: true,
  run: async () => (await does()).backfill,
  text: async () => (await prints()).backfilled,
});

export const endBackfill = operation({
  name: 'schedule.end-backfill',
  about: 'forget the ticks of a backfill whose jobs have not started',
  examples: [{ name: 'nightly' }],
  input: { name },
  output: Type.Object({ name: Type.String(), ended: Type.Integer({ description: 'ticks that were left' }) }),
  scope: 'train',
  changes: true,
  run: async () => (await does()).endBackfill,
  text: async () => (await prints()).ended,
});

export const remove = operation({
  name: 'schedule.remove',
  about: 'remove a schedule; its jobs and their history stay',
  examples: [{ name: 'nightly', reason: 'replaced by weekly' }],
  input: { name, reason: Type.Optional(reason) },
  output: Type.Object({ name: Type.String(), removed: Type.Boolean() }),
  scope: 'train',
  changes: true,
  run: async () => (await does()).remove,
  text: async () => (await prints()).removed,
});
