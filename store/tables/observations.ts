import { namedFiles } from '../../ingest/log/split.ts';
import { unmapped } from './projection.ts';
import { group, table } from './table.ts';

export const observations = table('observations', 'What the environment showed.', {
  keys: { episode_id: 'text', event_source: ['text', 'event.source'], event_id: ['text', 'event.id'] },
  groups: [
    group('environment.observed', {
      columns: {
        kind: 'text not null',
        content: ['json', 'content', namedFiles],
        state: ['json', 'state', namedFiles],
        call_id: 'text',
        turn: 'integer',
        seq: 'bigint',
        occurred_at: ['timestamptz', 'event.time'],
        unmapped: ['json', unmapped, namedFiles],
      },
    }),
  ],
});
