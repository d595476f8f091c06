import { group, table } from './table.ts';

export const checkpoints = table('checkpoints', 'Weights with their lineage.', {
  keys: { checkpoint_id: 'text' },
  groups: [
    group('checkpoint.saved', {
      columns: {
        parent_id: 'text',
        policy: 'text',
        uri: 'text',
        sha256: 'text',
        step: 'bigint',
        dataset_ids: 'json',
        job_id: 'text',
        kept: 'boolean',
        config: 'json',
        metrics: 'json',
        code_version: 'text',
        saved_at: ['timestamptz', 'event.time'],
      },
    }),
  ],
});
