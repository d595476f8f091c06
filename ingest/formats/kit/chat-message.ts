/**
 * Messages of the OpenAI chat API and back. Text parts carry their text as `content`; the tool calls of an assistant become parts
 * beside its text; a tool message stays a message with its `tool_call_id`. Members without a place go along under their own name.
 */
import type { Refusal } from '../../../errors.ts';
import type { Content, Message, Part } from '../../events/events.ts';
import { canonicalJson, given, isRecord } from '../../events/json.ts';
import { keepText, parseWritten, writtenArguments } from '../../events/spelling.ts';
import { needsEscape } from '../../events/text.ts';
import { badIdentifier, refusal } from './native.ts';

export type ChatMessage = Readonly<Record<string, unknown>> & { readonly role: string };

/** A tool call as the model wrote it, and as far as it could be read. */
export type ChatToolCall = {
  readonly id: string;
  readonly name: string;
  readonly type: string;
  readonly arguments: unknown;
  readonly arguments_raw: string | null;
  readonly parse_error: string | null;
};

export const CHAT_ROLES = new Set(['system', 'developer', 'user', 'assistant', 'tool', 'function']);

/** Why a value is not a chat message; null where it is one. */
export function badMessage(value: unknown, field: string): Refusal | null {
  if (!isRecord(value)) return refusal('bad_type', field, 'a message object', value);
  const { role, content, name, tool_calls: calls } = value;
  if (typeof role !== 'string' || !CHAT_ROLES.has(role)) {
    return refusal('bad_type', `${field}.role`, `one of ${[...CHAT_ROLES].join(', ')}`, role);
  }
  if (name !== undefined && name !== null) {
    const bad = badIdentifier(name, `${field}.name`);
    if (bad) return bad;
  }
  if (Array.isArray(content)) {
    for (const [i, part] of content.entries()) {
      if (!isRecord(part) || typeof part.type !== 'string' || part.type === '') {
        return refusal('bad_shape', `${field}.content[${i}]`, 'a part with a type', part);
      }
    }
  } else if (content !== undefined && content !== null && typeof content !== 'string') {
    return refusal('bad_type', `${field}.content`, 'a text, a list of parts or null', content);
  }
  if (calls === undefined || calls === null) return null;
  if (!Array.isArray(calls)) return refusal('bad_type', `${field}.tool_calls`, 'a list of tool calls', calls);
  for (const [i, call] of calls.entries()) {
    const place = `${field}.tool_calls[${i}]`;
    if (!isRecord(call)) return refusal('bad_type', place, 'a tool call object', call);
    const bad = badIdentifier(call.id, `${place}.id`);
    if (bad) return bad;
    const asked = call.function ?? call.custom;
    if (!isRecord(asked)) return refusal('bad_shape', `${place}.function`, 'name and arguments', asked);
    const badName = badIdentifier(asked.name, `${place}.function.name`);
    if (badName) return badName;
  }
  return null;
}

/** The tool calls of an assistant message, in order. The message must have passed `badMessage`. */
export function toolCallsOf(message: Readonly<Record<string, unknown>>): readonly ChatToolCall[] {
  if (!Array.isArray(message.tool_calls)) return [];
  return (message.tool_calls as Record<string, unknown>[]).map((call) => {
    const asked = (call.function ?? call.custom) as Record<string, unknown>;
    return {
      id: call.id as string,
      name: asked.name as string,
      type: typeof call.type === 'string' ? call.type : 'function',
      ...(call.function == null ? freeInput(asked.input) : readArguments(asked.arguments ?? asked.input)),
    };
  });
}

/** A custom tool takes a text of any form. */
const freeInput = (input: unknown): Arguments => ({ arguments: input ?? null, arguments_raw: null, parse_error: null });

type Arguments = Pick<ChatToolCall, 'arguments' | 'arguments_raw' | 'parse_error'>;

/**
 * Arguments are a text the model wrote: kept as written, and parsed where they are an object that can be stored. The text of an object is
 * written in the order and spelling of its source.
 */
export function readArguments(written: unknown): Arguments {
  if (isRecord(written)) return { arguments: written, arguments_raw: writtenArguments(written), parse_error: null };
  if (typeof written !== 'string') return { arguments: written ?? null, arguments_raw: null, parse_error: null };
  const unread = (why: string): Arguments => ({ arguments: null, arguments_raw: written, parse_error: why });
  const parsed = parseWritten(written);
  if ('refusal' in parsed) return unread(`expected ${parsed.refusal.expected}, got ${parsed.refusal.got}`);
  if (!isRecord(parsed.value)) return unread('expected a JSON object');
  if (/\\u(?:0000|d[89a-f])/i.test(written) && hasUnsafeKey(parsed.value)) return unread('a key holds U+0000');
  keepText(parsed.value, written);
  return { arguments: parsed.value, arguments_raw: written, parse_error: null };
}

function hasUnsafeKey(value: unknown): boolean {
  if (Array.isArray(value)) return value.some(hasUnsafeKey);
  return isRecord(value) && Object.entries(value).some(([key, member]) => needsEscape(key) || hasUnsafeKey(member));
}

/** A chat message in the vocabulary. It must have passed `badMessage`. */
export function toMessage(native: ChatMessage): Message {
  const { role, content, tool_calls: calls, reasoning_content: first, reasoning, ...rest } = native;
  // vLLM (since 0.12), OpenRouter and Ollama call it `reasoning`.
  const isOther = first == null && role === 'assistant' && typeof reasoning === 'string';
  const thought = isOther ? reasoning : first;
  const reasons = role === 'assistant' && typeof thought === 'string';
  const callParts = role === 'assistant' ? toolCallsOf(native).map(toolCallPart) : [];
  const kept = {
    ...(calls !== undefined && callParts.length === 0 ? { tool_calls: calls } : {}),
    ...(thought !== undefined && !reasons ? { reasoning_content: thought } : {}),
    ...(reasoning !== undefined && !isOther ? { reasoning } : {}),
  };
  if (!reasons && callParts.length === 0) {
    return { ...rest, ...kept, role, ...given('content', toContent(content)) } as Message;
  }
  const text = toContent(content) ?? [];
  const parts: Part[] = [
    ...(reasons ? [{ type: 'reasoning', content: thought }] : []),
    ...(typeof text === 'string' ? [{ type: 'text', content: text }] : text),
    ...callParts,
  ];
  return { ...rest, ...kept, role, content: parts, ...(content === undefined ? { content_absent: true } : {}) };
}

/** The text of a native content; undefined where it has none. */
export function textIn(content: unknown): string | undefined {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return undefined;
  const texts = content.flatMap((part) => (isRecord(part) && typeof part.text === 'string' ? [part.text] : []));
  return texts.length === 0 ? undefined : texts.join('\n');
}

/** A native content in the vocabulary; null stays null, absent stays absent. */
export function toContent(content: unknown): Content | null | undefined {
  if (!Array.isArray(content)) return content as string | null | undefined;
  return content.map((part: Record<string, unknown>) => {
    const { type, text, ...rest } = part;
    return type === 'text' && typeof text === 'string' && !('content' in part)
      ? { ...rest, type, content: text }
      : (part as Part);
  });
}

function toolCallPart(call: ChatToolCall): Part & Record<string, unknown> {
  const { id, name, arguments_raw: raw, type } = call;
  const asked = call.arguments ?? raw;
  return {
    type: 'tool_call',
    id,
    name,
    arguments: asked,
    ...(raw === null || typeof asked === 'string' ? {} : { arguments_raw: raw }),
    ...(type === 'function' ? {} : { call_type: type }),
  };
}

/** A message of the vocabulary as the chat API writes it. */
export function fromMessage(message: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const { content, content_absent: absent, ...rest } = message;
  if (!Array.isArray(content)) return content === undefined ? rest : { ...rest, content };
  const parts = content as Part[];
  const calls = parts.filter((part) => part.type === 'tool_call');
  const thought = parts.find((part) => part.type === 'reasoning');
  const answer = parts.find((part) => part.type === 'tool_call_response');
  if (answer && parts.length === 1) {
    const { id, response } = answer as Part & { id?: unknown; response?: unknown };
    const text = typeof response === 'string' ? response : canonicalJson(response ?? null);
    return { ...rest, content: text, ...given('tool_call_id', id ?? undefined) };
  }
  const others = parts.filter((part) => part.type !== 'tool_call' && part !== thought);
  if (calls.length === 0 && !thought) return { ...rest, content: others.map(fromPart) };
  return {
    ...rest,
    ...(absent ? {} : { content: fromTexts(others) }),
    ...(thought ? { reasoning_content: thought.content } : {}),
    ...(calls.length > 0 ? { tool_calls: calls.map(fromToolCall) } : {}),
  };
}

const isPlainText = (part: Part): boolean =>
  part.type === 'text' && typeof part.content === 'string' && Object.keys(part).length === 2;

function fromTexts(parts: readonly Part[]): unknown {
  const [only] = parts;
  if (!only) return null;
  return parts.length === 1 && isPlainText(only) ? only.content : parts.map(fromPart);
}

function fromPart(part: Part): unknown {
  const { type, content, ...rest } = part as Part & { text?: unknown };
  return type === 'text' && typeof content === 'string' && rest.text === undefined
    ? { ...rest, type, text: content }
    : part;
}

function fromToolCall(part: Part): unknown {
  const {
    id,
    name,
    arguments: asked,
    arguments_raw: raw,
    call_type: type = 'function',
  } = part as Record<string, unknown>;
  const written = raw ?? (typeof asked === 'string' ? asked : asked == null ? undefined : writtenArguments(asked));
  return { id, type, function: { name, ...given('arguments', written) } };
}
