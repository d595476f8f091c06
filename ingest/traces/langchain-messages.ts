/** Messages of LangChain as ours: serialised constructors, their plain form `{type, content}`, and `{role, content}`. */
import type { Message, Part } from '../events/events.ts';
import { asText, given, isRecord, type JsonObject, ownOf, without } from '../events/json.ts';
import { isIdentifier } from '../events/text.ts';
import { badMessage, type ChatMessage, toMessage } from '../formats/kit/chat-message.ts';
import { callPart, contentOf, messageOf } from '../formats/kit/span-attributes.ts';

const ROLES: Readonly<Record<string, string>> = {
  human: 'user',
  ai: 'assistant',
  system: 'system',
  tool: 'tool',
  function: 'function',
  HumanMessage: 'user',
  AIMessage: 'assistant',
  SystemMessage: 'system',
  ToolMessage: 'tool',
  FunctionMessage: 'function',
};

/** The members of a message, whatever form it has, and its class. */
export function unfold(value: unknown): { readonly kind: string | null; readonly fields: JsonObject } {
  if (!isRecord(value)) return { kind: null, fields: {} };
  const path = value.id;
  if (value.type === 'constructor' && Array.isArray(path) && isRecord(value.kwargs)) {
    return { kind: asText(path.at(-1)).replace(/Chunk$/, ''), fields: value.kwargs };
  }
  if (isRecord(value.data) && typeof value.type === 'string') return { kind: value.type, fields: value.data };
  return {
    kind: typeof value.type === 'string' && Object.hasOwn(ROLES, value.type) ? value.type : null,
    fields: value,
  };
}

export function toLangchainMessage(value: unknown): Message {
  const { kind, fields } = unfold(value);
  if (kind === null && !isLangchain(value) && badMessage(value, '') === null) return toMessage(value as ChatMessage);
  const role = (kind !== null ? ownOf(ROLES, kind) : undefined) ?? fields.role;
  const rest = without(
    fields,
    ...['content', 'role', 'tool_calls', 'type', 'id', 'additional_kwargs', 'response_metadata', 'usage_metadata'],
    ...['invalid_tool_calls', 'lc_direct_tool_output', 'example', 'tool_call_chunks'],
  );
  return messageOf(
    role,
    partsOf(fields),
    Object.fromEntries(Object.entries(rest ?? {}).filter(([, member]) => member !== null)),
  );
}

/** Whether what has a role holds members of LangChain: calls with `args`, or what it keeps of the provider's message. */
export const isLangchain = (value: unknown): boolean =>
  isRecord(value) &&
  (isRecord(value.additional_kwargs) ||
    (Array.isArray(value.tool_calls) && value.tool_calls.some((call) => isRecord(call) && 'args' in call)));

/** What a tool returned. Tools of LangChain return a message, which alone knows the id of the call; any other value is the result. */
export function toolResult(value: unknown): {
  readonly output?: unknown;
  readonly callId?: string;
  readonly status?: 'error';
} {
  const { kind, fields } = unfold(value);
  if (kind !== 'ToolMessage' && kind !== 'tool') return given('output', value);
  return {
    ...given('output', fields.content),
    ...(isIdentifier(fields.tool_call_id) ? { callId: fields.tool_call_id } : {}),
    ...(fields.status === 'error' ? { status: 'error' } : {}),
  };
}

/** The content of a candidate: its message, or its text where it has none. */
export function generationContent(generation: unknown): string | Part[] | undefined {
  const { message, text } = isRecord(generation) ? generation : {};
  const parts = isRecord(message) ? partsOf(unfold(message).fields) : [];
  return parts.length > 0 ? contentOf(parts) : typeof text === 'string' ? text : undefined;
}

function partsOf(fields: JsonObject): Part[] {
  const { content } = fields;
  const { tool_calls: own = [] } = isRecord(fields.additional_kwargs) ? fields.additional_kwargs : {};
  const calls = [fields.tool_calls, own].map(recordsIn).find((list) => list.length > 0) ?? [];
  const invalid = recordsIn(fields.invalid_tool_calls);
  const parts: Part[] =
    typeof content === 'string'
      ? content === '' && calls.length + invalid.length > 0
        ? []
        : [{ type: 'text', content }]
      : Array.isArray(content)
        ? content.filter((part) => !isRecord(part) || part.type !== 'tool_use').map(toPart)
        : [];
  return [...parts, ...[...calls, ...invalid].map(toCall)];
}

const recordsIn = (list: unknown): JsonObject[] => (Array.isArray(list) ? list.filter(isRecord) : []);

function toPart(part: unknown): Part {
  if (typeof part === 'string') return { type: 'text', content: part };
  if (isRecord(part) && typeof part.text === 'string')
    return { ...without(part, 'text', 'type'), type: 'text', content: part.text };
  return isRecord(part) && typeof part.type === 'string' ? (part as Part) : { type: 'raw', content: part };
}

function toCall(call: JsonObject): Part {
  const asked = isRecord(call.function) ? call.function : call;
  return callPart(call.id, asked.name, asked.args ?? asked.arguments);
}
