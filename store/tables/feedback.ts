import type { EventData } from '../../ingest/events/events.ts';
import { unmapped } from './projection.ts';
import { group, table } from './table.ts';

const ofEpisode = ({ target }: EventData<'feedback.recorded'>): string | null =>
  (target.kind === 'episode' ? (target.episode_id ?? target.id) : target.episode_id) ?? null;

export const feedback = table('feedback', 'What was said about a target after the fact.', {
  keys: { key: ['text', 'event.key'], feedback_id: 'text' },
  groups: [
    group('feedback.recorded', {
      columns: {
        episode_id: ['text', (data) => (data.target.kind === 'foreign' ? null : ofEpisode(data))],
        target_kind: ['text not null', ({ target }) => target.kind],
        target_id: ['text', (data) => data.target.id ?? ofEpisode(data)],
        other_id: ['text', ({ target }) => target.other_id],
        entry: ['integer', ({ target }) => target.entry],
        kind: 'text not null',
        name: 'text not null',
        value: [
          'double precision',
          ({ value }) => (typeof value === 'number' ? value : typeof value === 'boolean' ? Number(value) : null),
        ],
        value_json: ['json', 'value'],
        label: ['text', ({ label, value }) => label ?? (typeof value === 'string' ? value : null)],
        matrix: 'json',
        taxonomy: 'json',
        author: ['text', 'by'],
        annotator: 'text',
        explanation: 'text',
        confidence: 'double precision',
        flags: 'json',
        unmapped: ['json', unmapped],
        occurred_at: ['timestamptz', 'event.time'],
      },
    }),
  ],
  also: {
    resolved_episode_id: ['text', 'the episode that a foreign target turned out to be'],
    resolved_call_id: ['text', 'the call that a foreign target turned out to be'],
  },
});
