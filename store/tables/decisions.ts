import type { EventData } from '../../ingest/events/events.ts';
import { unmapped } from './projection.ts';
import { group, table } from './table.ts';

type Decided = EventData<'decision.made'> | EventData<'control.transferred'>;
const isTransfer = (data: Decided): data is EventData<'control.transferred'> => 'to_agent' in data;

export const decisions = table('decisions', 'Decisions in an episode; a hand-over is one about who goes on.', {
  keys: { episode_id: 'text', event_source: ['text', 'event.source'], event_id: ['text', 'event.id'] },
  groups: [
    group(['decision.made', 'control.transferred'], {
      columns: {
        author: ['text', (data) => (isTransfer(data) ? data.from_agent : data.by)],
        kind: 'text not null',
        decision: [
          'json',
          (data) => {
            if (!isTransfer(data)) return data.decision;
            const { to_agent, child_episode_id, tool_call_id, reason } = data;
            return {
              to_agent,
              ...(child_episode_id ? { child_episode_id } : {}),
              ...(tool_call_id ? { tool_call_id } : {}),
              ...(reason ? { reason } : {}),
            };
          },
        ],
        turn: 'integer',
        seq: 'bigint',
        occurred_at: ['timestamptz', 'event.time'],
        unmapped: ['json', unmapped],
      },
    }),
  ],
});
