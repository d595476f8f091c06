/** A message as layouts write it: read from what a dataset holds, without the differences between the clients that sent it. */

import { canonicalJson, isRecord } from '../../../ingest/events/json.ts';
import { parseWritten, writtenArguments } from '../../../ingest/events/spelling.ts';
import { fromMessage } from '../../../ingest/formats/kit/chat-message.ts';

export type ToolCall = {
  readonly id: string | null;
  readonly name: string;
  /** As the model wrote them; JSON text unless the model made a mistake. */
  readonly written: string;
};

export type Message = {
  readonly role: 'system' | 'user' | 'assistant' | 'tool';
  /** Text parts joined by line breaks; null where there is none. */
  readonly text: string | null;
  readonly name: string | null;
  readonly reasoning: string | null;
  readonly calls: readonly ToolCall[];
  /** The call that a tool answers. */
  readonly callId: string | null;
  /** Types of parts that are no text, such as `image_url`. */
  readonly media: readonly string[];
  /** Number of borders between text parts, which joining removes. */
  readonly borders: number;
  /** Names of members that have no place here. */
  readonly others: readonly string[];
};

const ROLES: Readonly<Record<string, Message['role']>> = {
  system: 'system',
  developer: 'system',
  user: 'user',
  assistant: 'assistant',
  tool: 'tool',
  function: 'tool',
};

/** A message of a dataset's `prompt`. Null for a role that no chat API knows. */
export function readMessage(stored: Readonly<Record<string, unknown>>): Message | null {
  const chat = fromMessage(stored);
  const { role, content, name, tool_calls: calls, tool_call_id: callId, reasoning_content: thought, ...rest } = chat;
  const known = ROLES[String(role)];
  if (!known) return null;
  const parts = Array.isArray(content) ? content.filter(isRecord) : [];
  const texts = parts.flatMap((part) => (part.type === 'text' && typeof part.text === 'string' ? [part.text] : []));
  return {
    role: known,
    text: typeof content === 'string' ? content : texts.length > 0 ? texts.join('\n') : null,
    name: typeof name === 'string' ? name : null,
    reasoning: typeof thought === 'string' ? thought : null,
    calls: Array.isArray(calls) ? calls.filter(isRecord).flatMap(readCall) : [],
    callId: typeof callId === 'string' ? callId : null,
    media: parts.filter((part) => part.type !== 'text').map((part) => String(part.type)),
    borders: Math.max(0, texts.length - 1),
    others: Object.keys(rest).filter((key) => rest[key] !== null && rest[key] !== undefined),
  };
}

function readCall(call: Readonly<Record<string, unknown>>): readonly ToolCall[] {
  const asked = call.function ?? call.custom;
  if (!isRecord(asked) || typeof asked.name !== 'string') return [];
  const given = asked.arguments ?? asked.input ?? {};
  const written = typeof given === 'string' ? given : writtenArguments(given);
  return [{ id: typeof call.id === 'string' ? call.id : null, name: asked.name, written }];
}

/** Arguments as an object; null where the model wrote no JSON object. */
export function argumentsOf(call: ToolCall): Readonly<Record<string, unknown>> | null {
  const read = parseWritten(call.written);
  return 'value' in read && isRecord(read.value) ? read.value : null;
}

/** What makes two messages the same turn of a conversation: reasoning and names are often not sent back. */
export const messageKey = ({ role, text, calls, callId }: Message): string =>
  canonicalJson([role, text ?? '', calls.map(({ name, written }) => [name, written]), callId]);

export const isAssistant = ({ role }: Message): boolean => role === 'assistant';
