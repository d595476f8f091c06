/** What something comes from, and what was made of it. */
import { Type } from 'typebox';
import type { Lineage } from '../../store/explore/lineage.ts';
import { named, nullable } from './fields.ts';
import { defaulted, operation } from './operation.ts';

const Tree = Type.Object({}, { additionalProperties: true, description: 'kind, id, comes_from and led_to' });

export const lineage = operation({
  name: 'lineage',
  notes:
    'Two trees: what it comes from, and what was made of it. At most 20 things below one and 500 in a tree are listed, the nearest first, each followed once; a line marks what is left out.',
  examples: [{ id: 'ab12cd34ef56ab78' }, { id: 'run-1-c2/0', depth: 3 }, { id: '90b3dbb907620061/train/17' }],
  input: {
    id: named('an episode, step, dataset, row of a dataset (DATASET/SPLIT/ROW) or checkpoint'),
    depth: defaulted(
      Type.Integer({ minimum: 1, maximum: 10, description: 'number of relations to follow in each direction' }),
      2,
    ),
  },
  output: Type.Object({
    lineage: Type.Array(
      Type.Object({
        checkpoint_id: nullable(Type.String()),
        relation: nullable(Type.String()),
        dataset_id: nullable(Type.String()),
        episodes: Type.Integer(),
        steps: Type.Integer(),
        other_checkpoint_id: nullable(Type.String()),
      }),
      { description: 'its relations to checkpoints' },
    ),
    pruned: Type.Array(
      Type.Object({
        archive_id: nullable(Type.String()),
        uri: nullable(Type.String()),
        episodes: Type.Integer(),
        first_episode_id: nullable(Type.String()),
        pruned_at: nullable(Type.String()),
      }),
      { description: 'archives that hold episodes of it' },
    ),
    found: Type.Array(Type.Unsafe<Lineage>(Tree), { description: 'a tree each way for each thing of that id' }),
  }),
  scope: 'read',
  changes: false,
  large: true,
  run: async () => (await import('./lineage/run.ts')).lineage,
  text: async () => (await import('./lineage/text.ts')).found,
});
