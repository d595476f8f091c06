/** A bare list of chat messages, as programs keep the one that they send: of the OpenAI chat API, or of Anthropic's Messages API. */
import { asText } from '../../events/json.ts';
import { fromAnthropic } from '../kit/anthropic-blocks.ts';
import { CHAT_ROLES, type ChatMessage } from '../kit/chat-message.ts';
import { messageList } from '../kit/message-list.ts';
import { withCallIds } from './chat-unnamed.ts';

export const chatMessages = messageList({
  name: 'chat-messages',
  summary:
    'A bare list of chat messages [{role, content}] of the OpenAI or the Anthropic API: a file is a conversation, or a line',
  // Logs of AgentScope, tasks of Cline and sessions of Goose hold such messages too, with more.
  isMessage: (one) =>
    CHAT_ROLES.has(asText(one.role)) &&
    ('content' in one || 'tool_calls' in one) &&
    !['type', 'metadata', 'ts', 'created', 'messages', 'history'].some((name) => name in one),
  read: (list) => (withCallIds(fromAnthropic(list)) as ChatMessage[]).map((message) => ({ message })),
});
