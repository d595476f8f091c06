import { group, table } from './table.ts';

export const releases = table('releases', 'Which checkpoint each policy serves, from when on.', {
  keys: { release_id: 'text' },
  groups: [
    group('policy.released', {
      columns: {
        policies: 'json not null',
        teams: 'json',
        reason: 'text',
        author: ['text', 'by'],
        metrics: 'json',
        released_at: ['timestamptz', 'event.time'],
      },
    }),
  ],
});
