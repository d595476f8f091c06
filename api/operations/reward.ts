/** Rewards of recorded episodes by a source of the settings. */
import { Type } from 'typebox';
import { EXIT } from '../../errors.ts';
import { named } from './fields.ts';
import { filter } from './lists.ts';
import { described, operation } from './operation.ts';

export const reward = operation({
  name: 'reward',
  notes:
    'Takes closed episodes without a reward, and records what the source gives as feedback. An episode that the source gives no reward stays without one, and the reasons are printed. Live episodes are rewarded on a schedule: a job of kind reward with the spec {use, where}.',
  examples: [
    { use: 'grader' },
    { use: 'grader', filter: 'task.domain = airline and tags.rollout is null', limit: 100 },
  ],
  input: {
    use: named('source of the rewards: a name under rewards in troupe.yaml'),
    filter: described(filter, 'only these episodes: a filter as in a recipe'),
    limit: Type.Optional(Type.Integer({ minimum: 1, description: 'at most this many episodes' })),
  },
  output: Type.Object({
    episodes: Type.Integer({ description: 'without a reward, that the filter selects' }),
    rewarded: Type.Integer(),
    failed: Type.Record(Type.String(), Type.Integer(), { description: 'those that got none, by reason' }),
  }),
  scope: 'train',
  changes: true,
  long: 'Rewarding',
  exit: ({ rewarded, episodes }) => (rewarded === episodes ? EXIT.done : EXIT.failed),
  run: async () => (await import('./reward/run.ts')).reward,
  text: async () => (await import('./reward/text.ts')).rewarded,
});
