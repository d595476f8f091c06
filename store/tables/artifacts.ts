import { group, table } from './table.ts';

export const artifacts = table('artifacts', 'Files, patches, datasets and records that belong to something.', {
  keys: { key: ['text', 'event.key'], artifact_id: 'text' },
  groups: [
    group('artifact.attached', {
      columns: {
        episode_id: 'text',
        role: 'text not null',
        media_type: 'text',
        sha256: 'text',
        size: 'bigint',
        uri: 'text',
        name: 'text',
        target: 'json',
      },
    }),
  ],
});
