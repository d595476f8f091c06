import { namedFiles, namedTexts } from '../../ingest/log/split.ts';
import { partsOf, textOf, unmapped } from './projection.ts';
import { group, table } from './table.ts';

export const messages = table('messages', 'What members, users and the environment said to each other.', {
  keys: { episode_id: 'text', message_id: 'text' },
  groups: [
    group('message.sent', {
      columns: {
        sender: ['text', 'from'],
        receivers: ['json', 'to'],
        role: 'text',
        text: ['text', ({ content }) => textOf(content), namedTexts],
        content: ['json', ({ content }) => partsOf(content), namedFiles],
        channel: 'text',
        in_reply_to: 'text',
        call_id: 'text',
        turn: 'integer',
        seq: 'bigint',
        sent_at: ['timestamptz', 'event.time'],
        flags: 'json',
        unmapped: ['json', unmapped, namedFiles],
      },
    }),
  ],
});
