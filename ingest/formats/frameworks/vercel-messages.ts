/**
 * UIMessages of the Vercel AI SDK (vercel/ai 5, packages/ai/src/ui/ui-messages.ts), as an application stores its chats: parts of a message
 * are texts, reasoning and tools with their result; `step-start` begins a model call.
 */
import { asText, given, isRecord, type JsonObject } from '../../events/json.ts';
import { writtenArguments } from '../../events/spelling.ts';
import type { ChatMessage } from '../kit/chat-message.ts';
import { messageList } from '../kit/message-list.ts';

const ROLES = new Set(['system', 'user', 'assistant']);

export const vercelMessages = messageList({
  name: 'vercel-messages',
  summary: 'Vercel AI SDK UIMessages [{id, role, parts: [{type}]}], alone or in the messages of a chat',
  isMessage: ({ role, parts, kind }) =>
    ROLES.has(asText(role)) && kind === undefined && Array.isArray(parts) && parts.every(isTyped),
  member: 'messages',
  read: (list) => list.flatMap((native) => messagesOf(native).map((message) => ({ message }))),
});

const isTyped = (part: unknown): part is JsonObject => isRecord(part) && typeof part.type === 'string';

function messagesOf({ role, parts }: JsonObject): ChatMessage[] {
  const steps: JsonObject[][] = [[]];
  for (const part of parts as JsonObject[]) {
    if (part.type !== 'step-start') steps.at(-1)!.push(part);
    else if (steps.at(-1)!.length > 0) steps.push([]);
  }
  if (role === 'assistant') return steps.filter((step) => step.length > 0).flatMap(stepOf);
  return [{ role: role as string, content: contentOf(steps.flat()) }];
}

const isTool = ({ type, toolCallId: id }: JsonObject): boolean =>
  (type === 'dynamic-tool' || /^tool-/.test(asText(type))) && typeof id === 'string';

function stepOf(parts: readonly JsonObject[]): ChatMessage[] {
  const tools = parts.filter(isTool);
  const thoughts = parts.filter(({ type }) => type === 'reasoning').map(({ text }) => asText(text ?? ''));
  const rest = parts.filter((part) => !isTool(part) && part.type !== 'reasoning');
  const calls = tools.map(({ type, toolName, toolCallId: id, input, rawInput }) => ({
    id,
    type: 'function',
    function: {
      name: toolName ?? asText(type).slice('tool-'.length),
      arguments: typeof input === 'string' ? input : writtenArguments(input ?? rawInput ?? {}),
    },
  }));
  const answer = {
    role: 'assistant',
    content: contentOf(rest),
    ...(thoughts.length > 0 ? { reasoning_content: thoughts.join('\n') } : {}),
    ...(calls.length > 0 ? { tool_calls: calls } : {}),
  };
  const results = tools
    .filter(({ state }) => state === 'output-available' || state === 'output-error')
    .map(({ toolCallId: id, state, output, errorText }): ChatMessage => {
      const returned = state === 'output-error' ? errorText : output;
      const content = typeof returned === 'string' ? returned : writtenArguments(returned ?? null);
      return { role: 'tool', tool_call_id: id, content, ...(state === 'output-error' ? { is_error: true } : {}) };
    });
  return [answer, ...results];
}

function contentOf(parts: readonly JsonObject[]): unknown {
  const [only] = parts;
  if (!only) return null;
  if (parts.length === 1 && only.type === 'text') return only.text;
  return parts.map(({ type, text, ...rest }) => ({ ...rest, type, ...given('text', text) }));
}
