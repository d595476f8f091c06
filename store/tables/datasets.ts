import type { EventData } from '../../ingest/events/events.ts';
import { groupOfEach, table } from './table.ts';

export const datasets = table('datasets', 'Frozen recipes.', {
  keys: { dataset_id: ['text', 'artifact_id'] },
  groups: [
    groupOfEach('artifact.attached', ({ data }) => (data.role === 'dataset' ? [data] : []), {
      columns: {
        name: 'text',
        sha256: 'text',
        uri: 'text',
        manifest: 'json',
        frozen_at: ['timestamptz', 'event.time'],
      },
    }),
  ],
});

/** The rows of a dataset by split, each entry the candidates of one call, whose rows follow each other: `row` is that of the first. */
function rowsOfDataset({ artifact_id, role, rows }: EventData<'artifact.attached'>) {
  if (role !== 'dataset') return [];
  const splits = Object.entries(
    (rows ?? {}) as Readonly<
      Record<string, readonly (readonly [string, string | null, readonly (number | null)[], row?: number])[]>
    >,
  );
  return splits.flatMap(([split, calls]) => {
    let next = 0;
    return calls.map(([episode_id, call_id, candidates, row = next]) => {
      next = row + candidates.length;
      return { dataset_id: artifact_id, split, row, episode_id, call_id, candidates };
    });
  });
}

export const datasetRows = table(
  'dataset_rows',
  'Rows of datasets: candidates of one call, whose rows follow each other.',
  {
    keys: { dataset_id: 'text', split: 'text', row: 'integer' },
    groups: [
      groupOfEach('artifact.attached', ({ data }) => rowsOfDataset(data), {
        version: null,
        columns: { episode_id: 'text not null', call_id: 'text', candidates: 'integer[] not null' },
      }),
    ],
  },
);
