/**
 * Items of the OpenAI Responses API, as `result.to_input_list()` and the sessions of the OpenAI Agents SDK keep them (openai-agents-python,
 * src/agents/memory): messages, calls of tools and their outputs, reasoning.
 */
import { asText } from '../../events/json.ts';
import { CHAT_ROLES } from '../kit/chat-message.ts';
import { messageList } from '../kit/message-list.ts';
import { chatOfItems, isResponseItem } from '../kit/openai-responses.ts';

export const openaiResponses = messageList({
  name: 'openai-responses',
  summary:
    'Items of the OpenAI Responses API [{type, role, content} · {type: "function_call", call_id}]: input lists, Agents SDK sessions',
  isMessage: isResponseItem,
  mayBe: ({ role, content, type }) => CHAT_ROLES.has(asText(role)) && content !== undefined && type === undefined,
  member: 'items',
  read: (items) => chatOfItems(items).map((message) => ({ message })),
});
