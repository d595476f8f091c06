/** Gates: the report of one, and the decision of one that is left to a person. */
import { Type } from 'typebox';
import { EXIT } from '../../errors.ts';
import { named, nullable, reason } from './fields.ts';
import { operation } from './operation.ts';
import { detach, exitOfRun, runEnd } from './plan/fields.ts';

const does = () => import('./gate/run.ts');
const prints = () => import('./gate/text.ts');

const run = named('run of a plan, such as nightly-1');
const json = Type.Object({}, { additionalProperties: true });

export const show = operation({
  name: 'gate.show',
  about: 'show the report of a gate',
  notes:
    'A canary that is under way has the report of now. The command ends with 7 where the candidate did not pass, or not yet.',
  examples: [{ run: 'nightly-1' }, { run: 'nightly-1', round: 2 }],
  input: {
    run,
    round: Type.Optional(
      Type.Integer({ minimum: 1, description: 'round of the run (default: the last one with a report)' }),
    ),
  },
  output: Type.Object(
    {
      gate: Type.String({ description: 'job that holds the report' }),
      ...{ format: Type.String(), kind: Type.String(), passed: Type.Boolean(), reason: Type.String() },
      by: Type.Optional(Type.String({ description: 'who decided' })),
      main: Type.Optional(json),
      guardrails: Type.Optional(Type.Array(json)),
      watch: nullable(Type.Object({}, { additionalProperties: true, description: 'of what the gate released' })),
    },
    { additionalProperties: true },
  ),
  scope: 'read',
  changes: false,
  run: async () => (await does()).show,
  text: async () => (await prints()).shown,
  exit: ({ passed }) => (passed ? EXIT.done : EXIT.gate),
});

const decision = {
  examples: [{ run: 'nightly-1', reason: 'read 20 answers' }],
  input: { run, reason: Type.Optional(reason), detach },
  output: runEnd({ gate: Type.String({ description: 'job that was decided' }) }),
  scope: 'train',
  changes: true,
  long: 'Run',
  text: async () => (await prints()).decided,
  exit: exitOfRun,
} as const;

export const accept = operation({
  ...decision,
  name: 'gate.accept',
  about: 'release the candidates of a run that waits for a decision or has a canary under way, and continue the run',
  run: async () => (await does()).accept,
});

export const refuse = operation({
  ...decision,
  name: 'gate.refuse',
  about:
    'keep the candidates of a run that waits for a decision or has a canary under way unreleased, and continue the run',
  run: async () => (await does()).refuse,
});
