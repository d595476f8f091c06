/** Judging: methods over episodes. */
import { Type } from 'typebox';
import { methods } from './judge/methods.ts';
import { sharesOf } from './judge/shares.ts';
import { filter } from './lists.ts';
import { defaulted, described, language, operation, written } from './operation.ts';

const Count = Type.Integer();

export const judge = operation({
  name: 'judge',
  notes:
    'Without methods those of the setting judge run, and where it names none correctness_filter, agreement_score and grpo_advantage. A group is judged once all its episodes are closed, and again when something about it changes. One that stays smaller than its announced size is judged after close_after seconds without events; its credits have the reason partial_group. Results are stored side by side: the same method with other parameters does not replace them. Two processes, one with --share 1/2 and one with --share 2/2, have half of the groups each. What always runs, in `troupe run judge` or `troupe up`, is the setting judge: TROUPE_JUDGE=correctness_filter,grpo_advantage',
  examples: [
    {},
    {
      methods: [{ method: 'correctness_filter' }, { method: 'grpo_advantage', params: { scale_std: false } }],
      all: true,
    },
    { filter: 'tags.phase = teach and reward is not null' },
    { share: '1/2' },
  ],
  input: {
    methods: Type.Optional(methods),
    filter: described(filter, 'only these episodes, their groups and their replays: a filter as in a recipe'),
    episodes: Type.Optional(
      written(
        Type.Array(Type.String({ maxLength: 512, pattern: '^[^\\u0000]*$' }), {
          description: 'only these episodes, their groups and their replays',
        }),
        { flag: 'episode', value: 'id...' },
      ),
    ),
    share: Type.Optional(
      written(
        language(
          Type.String({
            description: 'only the k-th of n shares of the groups, so that n processes divide the work',
          }),
          sharesOf,
        ),
        { value: 'k/n' },
      ),
    ),
    all: defaulted(Type.Boolean({ description: 'include episodes that did not change since they were judged' }), false),
  },
  output: Type.Object({
    episodes: Count,
    methods: Type.Array(Type.String()),
    rows: Type.Record(Type.String(), Count, { description: 'written, by table' }),
    without_value: Type.Record(Type.String(), Count, { description: 'of these, those that have a reason instead' }),
    silent: Type.Array(Type.String(), { description: 'methods without a result: the episodes lack what they judge' }),
    unread: Type.Array(
      Type.Object({ target: Type.String(), name: Type.String(), count: Count, readers: Type.Array(Type.String()) }),
      { description: 'rewards of steps and agents that none of these methods reads' },
    ),
    groups: Count,
    of_one: Type.Object({ alone: Count, unplaced: Count }, { description: 'groups with one episode' }),
    partial: Type.Integer({ description: 'groups with fewer closed members than announced' }),
    open: Type.Object({ unfinished: Count, reopened: Count }, { description: 'episodes that are not judged' }),
    waiting: Type.Integer({ description: 'closed episodes that wait for members of their group' }),
    close_after: Type.Number({ description: 'seconds without events after which nobody waits for them' }),
    warnings: Type.Array(Type.String()),
  }),
  scope: 'train',
  changes: true,
  long: 'Judging',
  run: async () => (await import('./judge/run.ts')).judge,
  text: async () => (await import('./judge/text.ts')).judged,
});
