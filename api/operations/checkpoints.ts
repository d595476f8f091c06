/** Checkpoints: weights with their lineage. */
import { Type } from 'typebox';
import { nullable } from './fields.ts';
import { filterInput } from './filtered-list.ts';
import { listInput, listOf } from './lists.ts';
import { defaulted, operation } from './operation.ts';

const text = nullable(Type.String());

export const list = operation({
  name: 'checkpoints.list',
  about: 'list the checkpoints that the project knows, newest first',
  notes: 'Those of jobs and of the demo, of `train --policy`, and those added.',
  examples: [{ limit: 5 }, { policy: 'solver', all: true }, { filter: 'step > 100' }],
  input: Type.Object(
    {
      ...listInput(['-saved_at', 'checkpoint_id', 'policy']),
      ...filterInput('policy', 'job_id', 'parent_id'),
      all: defaulted(Type.Boolean({ description: 'include live weights between two checkpoints' }), false),
    },
    { additionalProperties: false },
  ),
  output: listOf(
    Type.Object({
      checkpoint_id: Type.String(),
      ...{ policy: text, parent_id: text },
      step: nullable(Type.Integer()),
      kept: nullable(Type.Boolean({ description: 'false of live weights between two checkpoints' })),
      ...{ uri: text, sha256: text },
      dataset_ids: Type.Unknown({ description: 'datasets that it was trained on' }),
      job_id: text,
      metrics: Type.Unknown({ description: 'what was measured of it' }),
      code_version: text,
      adapter_base: nullable(Type.String({ description: 'of an adapter, the checkpoint that it goes over' })),
      saved_at: text,
      erasures: nullable(Type.Array(Type.String(), { description: 'erasures of what it was trained on' })),
    }),
  ),
  scope: 'read',
  changes: false,
  run: async () => (await import('./checkpoints/run.ts')).list,
  text: async () => (await import('./checkpoints/text.ts')).listed,
});
