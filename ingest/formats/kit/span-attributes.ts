/** Reading attributes of spans: JSON in text, lists that were flattened into names, and what is left over. */
import type { Content, EventData, Message, Part } from '../../events/events.ts';
import { given, isRecord, notJson, put, without } from '../../events/json.ts';
import { parseWritten } from '../../events/spelling.ts';
import { isIdentifier, needsEscape } from '../../events/text.ts';
import type { Attributes } from '../../traces/otlp/span.ts';

type Choice = EventData<'generation.completed'>['choices'][number];

/** Deepest nesting of JSON in an attribute: an event around it may not be deeper than validation allows. */
const MAX_DEPTH = 96;

/** JSON in a text, or the value itself where it is structured already; undefined where the text is no JSON. */
export function jsonIn(value: unknown): unknown {
  if (typeof value !== 'string') return value === null ? undefined : value;
  const parsed = parseWritten(value);
  return 'value' in parsed && notJson(parsed.value, '', MAX_DEPTH) === null && !hasUnsafeKey(parsed.value)
    ? parsed.value
    : undefined;
}

/** A row of a table that holds objects as JSON in texts: these members as the objects that they are. */
export function withObjects<T extends Readonly<Record<string, unknown>>>(row: T, names: readonly string[]): T {
  const read = names.flatMap((name) => {
    const found = typeof row[name] === 'string' ? jsonIn(row[name]) : undefined;
    return isRecord(found) || Array.isArray(found) ? [[name, found] as const] : [];
  });
  return read.length === 0 ? row : { ...row, ...Object.fromEntries(read) };
}

/** A text as the JSON it is, or as itself. */
export const jsonOrText = (value: unknown): unknown => {
  const read = jsonIn(value);
  return read === undefined ? value : read;
};

function hasUnsafeKey(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  if (Array.isArray(value)) return value.some(hasUnsafeKey);
  for (const key in value) if (needsEscape(key) || hasUnsafeKey((value as Record<string, unknown>)[key])) return true;
  return false;
}

/**
 * Arguments as Python passes them to a function, `{args, kwargs}`: those by name are the tool's. Undefined for anything else, and where
 * some have no name.
 */
export function argumentsByName(value: unknown): Record<string, unknown> | undefined {
  if (!isRecord(value) || !isRecord(value.kwargs)) return undefined;
  return Array.isArray(value.args) && value.args.length > 0 ? undefined : value.kwargs;
}

/** The members of a flattened list: `prefix.10.a.b` is member `a.b` of entry 10. Numbers order it, gaps do not count. */
export function flattened(attributes: Attributes, prefix: string): Record<string, unknown>[] {
  const entries = new Map<number, Record<string, unknown>>();
  for (const [key, value] of Object.entries(attributes)) {
    if (!key.startsWith(`${prefix}.`)) continue;
    const found = /^(\d{1,6})(?:\.(.+))?$/.exec(key.slice(prefix.length + 1));
    if (!found) continue;
    const at = Number(found[1]);
    const entry = entries.get(at) ?? {};
    entry[found[2] ?? ''] = value;
    entries.set(at, entry);
  }
  return [...entries].sort(([a], [b]) => a - b).map(([, entry]) => entry);
}

/** Attributes under a prefix, without it; undefined where there are none. */
export function under(attributes: Attributes, prefix: string): Record<string, unknown> | undefined {
  let found: Record<string, unknown> | undefined;
  for (const key of Object.keys(attributes)) {
    if (!key.startsWith(prefix)) continue;
    found ??= {};
    put(found, key.slice(prefix.length), attributes[key]);
  }
  return found;
}

/** Attributes that nothing was made of, by name; undefined where there are none. */
export function leftover(
  attributes: Attributes,
  mapped: (key: string) => boolean,
): Record<string, unknown> | undefined {
  let rest: Record<string, unknown> | undefined;
  for (const key of Object.keys(attributes)) {
    if (mapped(key) || needsEscape(key)) continue;
    rest ??= {};
    put(rest, key, attributes[key]);
  }
  return rest;
}

export function textAt(attributes: Attributes, ...names: readonly string[]): string | undefined {
  for (const name of names) {
    const value = attributes[name];
    if (typeof value === 'string' && value !== '') return value;
  }
  return undefined;
}

export function idAt(attributes: Attributes, ...names: readonly string[]): string | undefined {
  for (const name of names) {
    const value = attributes[name];
    if (value !== undefined && isIdentifier(value)) return value;
  }
  return undefined;
}

/** A role that can be kept as one; `unknown` where the source has none, so that the message is kept nevertheless. */
export const roleOf = (role: unknown): string =>
  typeof role === 'string' && role !== '' && role.length <= 64 && !needsEscape(role) ? role : 'unknown';

/** A message of parts; of one plain text the text alone. */
export function messageOf(role: unknown, parts: readonly Part[], rest: Record<string, unknown> = {}): Message {
  const { name, ...more } = rest;
  return {
    ...given('content', contentOf(parts)),
    ...(isIdentifier(name) ? { name } : name == null ? {} : { native_name: name }),
    role: roleOf(role),
    ...more,
  } as Message;
}

export function contentOf(parts: readonly Part[]): string | Part[] | undefined {
  const [only] = parts;
  if (!only) return undefined;
  const plain = parts.length === 1 && only.type === 'text' && typeof only.content === 'string';
  return plain && Object.keys(only).length === 2 ? (only.content as string) : [...parts];
}

/** A call that stands in an answer, as far as it is known. */
export const callPart = (id: unknown, name: unknown, asked: unknown): Part =>
  without({ type: 'tool_call', id: id ?? undefined, name, arguments: asked }) as Part;

/** A candidate with the parts, or the content, that it has, and why it ended. */
export const choiceOf = (index: number, content: Content | null | undefined, reason: unknown): Choice =>
  without({ index, content, finish_reason: reason }) as Choice;

/** Finish reasons have two spellings in the field. */
export const finishReason = (reason: unknown): string | undefined =>
  typeof reason !== 'string' ? undefined : /^tool[-_]calls?$/.test(reason) ? 'tool_call' : reason.replace('-', '_');
