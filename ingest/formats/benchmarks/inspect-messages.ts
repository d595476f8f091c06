/** Messages of Inspect AI, and the texts that a sample keeps apart from them. */
import type { Message, Part } from '../../events/events.ts';
import { given, isRecord, type JsonObject, put } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';

const NAMED = /^(?:attachment|tc):\/\/([0-9a-f]{32})$/;

/** A value in which each text that names an attachment is that attachment; a name without one stays. */
export function resolved(value: unknown, attachments: JsonObject): unknown {
  if (typeof value === 'string') return attachments[NAMED.exec(value)?.[1] ?? ''] ?? value;
  if (Array.isArray(value)) return value.map((one) => resolved(one, attachments));
  if (!isRecord(value)) return value;
  const copy: Record<string, unknown> = {};
  for (const [key, member] of Object.entries(value)) put(copy, key, resolved(member, attachments));
  return copy;
}

/** A content as parts: reasoning, texts and tool calls; other blocks under their own type. */
export function partsOf({ content, tool_calls: calls }: JsonObject): Part[] {
  const blocks =
    typeof content === 'string' ? (content === '' ? [] : [content]) : Array.isArray(content) ? content : [];
  return [
    ...blocks.map((block: unknown): Part => {
      if (typeof block === 'string') return { type: 'text', content: block };
      if (!isRecord(block)) return { type: 'json', content: block };
      const { type, text, reasoning, ...rest } = block;
      if (type === 'text') return { ...rest, type, content: text };
      if (type === 'reasoning') return { ...rest, type, content: reasoning };
      return { ...block, type: typeof type === 'string' && type !== '' ? type : 'json' };
    }),
    ...(Array.isArray(calls) ? calls.filter(isRecord) : []).map(
      ({ id, function: name, arguments: asked }) => ({ type: 'tool_call', id, name, arguments: asked ?? null }) as Part,
    ),
  ];
}

export function messageOf(native: unknown): Message {
  if (!isRecord(native)) return { role: 'unknown', content: [{ type: 'json', content: native }] };
  const { role, tool_call_id: id, error } = native;
  return {
    role: typeof role === 'string' && role !== '' && role.length <= 64 ? role : 'unknown',
    content: partsOf(native),
    ...given('tool_call_id', role === 'tool' ? (id ?? undefined) : undefined),
    ...(role === 'tool' && isRecord(error) ? { is_error: true, error } : {}),
  } as Message;
}

export const textOf = (content: unknown): string =>
  partsOf({ content })
    .flatMap((part) => (part.type === 'text' && typeof part.content === 'string' ? [part.content] : []))
    .join('\n');

/** The tool calls of a message that name themselves and their tool. */
export function toolsIn({ tool_calls: calls }: JsonObject) {
  const isAsked = (one: unknown): one is JsonObject & { readonly id: string; readonly function: string } =>
    isRecord(one) && isIdentifier(one.id) && isIdentifier(one.function);
  return (Array.isArray(calls) ? (calls as unknown[]) : []).filter(isAsked);
}
