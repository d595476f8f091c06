/**
 * Messages of Anthropic's Messages API as messages of the OpenAI chat API: tool calls are blocks `tool_use` of the assistant, results
 * are blocks `tool_result` of the user, reasoning is a block `thinking`. Files labelled as OpenAI chat often hold them.
 */
import { asText, given, isRecord, type JsonObject, ownOf, without } from '../../events/json.ts';
import { writtenArguments } from '../../events/spelling.ts';
import { isIdentifier } from '../../events/text.ts';
import type { ChatMessage } from './chat-message.ts';

const BLOCKS = new Set(['tool_use', 'tool_result', 'thinking', 'redacted_thinking']);

const blocksOf = (message: unknown): readonly JsonObject[] =>
  isRecord(message) && Array.isArray(message.content) ? message.content.filter(isRecord) : [];

/** Whether a message holds blocks that the OpenAI chat API does not have. */
const hasAnthropicBlocks = (message: unknown): boolean =>
  blocksOf(message).some(({ type }) => BLOCKS.has(type as string));

/**
 * A list of messages in which those with Anthropic blocks are written as the OpenAI chat API does; the others stay as they are. The
 * system prompt stands beside the messages and becomes the first of them. What is no list, or has no such blocks, is given back.
 */
export function fromAnthropic(messages: unknown, system?: unknown): unknown {
  if (!Array.isArray(messages) || !messages.some(hasAnthropicBlocks)) return messages;
  const instructions = typeof system === 'string' || Array.isArray(system) ? [{ role: 'system', content: system }] : [];
  return [
    ...instructions,
    ...messages.flatMap((message) => (hasAnthropicBlocks(message) ? chatMessages(message) : [message])),
  ];
}

/** An answer of the Messages API, `{type: "message", content, stop_reason}`, as a choice of the chat API; null where it is none. */
export function anthropicChoice(response: JsonObject): JsonObject | null {
  if (response.type !== 'message' || !Array.isArray(response.content)) return null;
  const { role = 'assistant', content, stop_reason: reason } = response;
  const [message] = hasAnthropicBlocks(response) ? chatMessages({ role, content }) : [{ role, content }];
  return { index: 0, message, ...given('finish_reason', ownOf(STOPS, asText(reason)) ?? reason ?? undefined) };
}

const STOPS: Readonly<Record<string, string>> = { end_turn: 'stop', tool_use: 'tool_call', max_tokens: 'length' };

function chatMessages(message: JsonObject): ChatMessage[] {
  const parts = message.content as readonly unknown[];
  const typed = (type: string) => parts.filter((part): part is JsonObject => isRecord(part) && part.type === type);
  const results = typed('tool_result').filter(({ tool_use_id: id }) => isIdentifier(id));
  const calls = typed('tool_use').filter(({ id, name }) => isIdentifier(id) && isIdentifier(name));
  const read = new Set<unknown>([...results, ...calls]);
  const rest = parts.filter((part) => !read.has(part)).map(toPart);
  const chatMessage: ChatMessage = {
    ...message,
    role: message.role as string,
    content: rest.length === 0 && calls.length > 0 ? null : rest,
    ...(calls.length > 0 ? { tool_calls: calls.map(toCall) } : {}),
  };
  // A result stands before what the user adds to it: it answers the message before.
  return [...results.map(toResult), ...(rest.length > 0 || calls.length > 0 ? [chatMessage] : [])];
}

const toCall = ({ id, name, input }: JsonObject) => ({
  id,
  type: 'function',
  // A text that was cut off while it was streamed is not read.
  function: { name, arguments: typeof input === 'string' ? input : writtenArguments(input ?? {}) },
});

function toResult(block: JsonObject): ChatMessage {
  const { tool_use_id: id, content, is_error: failed } = block;
  return {
    ...without(block, 'type', 'tool_use_id', 'content', 'is_error'),
    role: 'tool',
    tool_call_id: id,
    content: textOf(content),
    ...(failed === true ? { is_error: true } : {}),
  };
}

/** Text alone is given as text, as the chat API has it. */
function textOf(content: unknown): unknown {
  if (!Array.isArray(content)) return content ?? null;
  const [only] = content as unknown[];
  return content.length === 1 && isRecord(only) && only.type === 'text' && typeof only.text === 'string'
    ? only.text
    : content;
}

function toPart(part: unknown): unknown {
  if (!isRecord(part) || part.type !== 'thinking' || typeof part.thinking !== 'string') return part;
  return { ...without(part, 'thinking'), type: 'reasoning', content: part.thinking };
}
