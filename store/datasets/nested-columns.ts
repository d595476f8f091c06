/**
 * Columns whose values are lists and structs, and the JSON text of PostgreSQL that they come from. What fits no member of a message stands
 * in `others` as JSON, so that nothing is lost; what a reader is given again is a message of the chat API.
 */

import { isRecord, type JsonObject } from '../../ingest/events/json.ts';
import { fromMessage, textIn } from '../../ingest/formats/kit/chat-message.ts';
import type { ColumnKind } from './columns.ts';
import { nestedArray } from './list-buffers.ts';
import type { ValueShape } from './shape.ts';

/** How the values of a column are stored, and what they are outside the file. */
type NestedColumn = {
  readonly shape: ValueShape;
  /** From what the JSON text of PostgreSQL says. */
  readonly stored: (value: unknown) => unknown;
  /** From what the file holds: structs with all members, the missing ones null. */
  readonly read: (value: unknown) => unknown;
};

const CALLS: ValueShape = {
  list: { struct: { id: 'text', type: 'text', function: { struct: { name: 'text', arguments: 'text' } } } },
};
const MESSAGE = {
  role: 'text',
  content: 'text',
  name: 'text',
  reasoning_content: 'text',
  tool_calls: CALLS,
  tool_call_id: 'text',
  others: 'json',
} as const;

const STEP = {
  ...({ step_id: 'text', call_id: 'text', candidate: 'int', agent: 'text', role: 'text', turn: 'int' } as const),
  ...({ chosen: 'bool', checkpoint_id: 'text', input: { list: 'text' }, system: 'text' } as const),
  ...({ tools: { list: 'json' }, text: 'text', content: 'json' } as const),
  ...({ prompt_token_ids: { list: 'int' }, token_ids: { list: 'int' } } as const),
  ...({ logprobs: { list: 'number' }, loss_mask: { list: 'int' }, cut: 'bool' } as const),
  ...({ reward: 'number', advantage: 'number', reason: 'text' } as const),
} as const;

const LEARNT = {
  ...({
    step_id: 'text',
    turn: 'int',
    checkpoint_id: 'text',
    messages: 'int',
    cut: 'bool',
    from: 'int',
    tokens: 'int',
  } as const),
  ...({ reward: 'number', advantage: 'number', reason: 'text' } as const),
} as const;

const isText = (value: unknown): value is string => typeof value === 'string';

const FITS: Readonly<Record<string, (value: unknown) => boolean>> = {
  role: isText,
  content: (value) => isText(value) || value === null,
  name: isText,
  reasoning_content: isText,
  tool_call_id: isText,
  tool_calls: (value) => Array.isArray(value) && value.length > 0 && value.every(isCall),
};

const hasOnly = (value: JsonObject, names: readonly string[]): boolean =>
  Object.entries(value).every(([name, member]) => names.includes(name) && member !== null);

const isCall = (call: unknown): boolean =>
  isRecord(call) &&
  hasOnly(call, ['id', 'type', 'function']) &&
  isText(call.id) &&
  isText(call.type) &&
  isRecord(call.function) &&
  hasOnly(call.function, ['name', 'arguments']) &&
  Object.values(call.function).every(isText);

/**
 * Content in parts stands in `others`, and its text in `content` for readers of the file. `content` is null in most messages that have none;
 * one that lacks the member is marked.
 */
function storedMessage(message: unknown): JsonObject {
  const chat = isRecord(message) ? fromMessage(message) : { value: message };
  const [fitting, others]: [string, unknown][][] = [[], []];
  for (const [name, value] of Object.entries(chat))
    (Object.hasOwn(FITS, name) && FITS[name]!(value) ? fitting! : others!).push([name, value]);
  if (!('content' in chat)) others!.push(['content_absent', true]);
  const text = Array.isArray(chat.content) ? textIn(chat.content) : undefined;
  if (text !== undefined) fitting!.push(['content', text]);
  return { ...Object.fromEntries(fitting!), others: others!.length > 0 ? Object.fromEntries(others!) : null };
}

function readStoredMessage(value: unknown): JsonObject {
  const { content, others, tool_calls: calls, ...rest } = value as JsonObject;
  const { content_absent: absent, ...more } = (others ?? {}) as JsonObject;
  return {
    ...there(rest),
    ...(absent || 'content' in more ? {} : { content }),
    ...(calls ? { tool_calls: (calls as readonly JsonObject[]).map(readCall) } : {}),
    ...more,
  };
}

const readCall = ({ function: asked, ...call }: JsonObject): JsonObject => ({
  ...there(call),
  function: there(asked as JsonObject),
});

/** Without the members that are null. */
const there = (value: JsonObject): JsonObject =>
  Object.fromEntries(Object.entries(value).filter(([, member]) => member !== null));

const listOf =
  (one: (value: unknown) => unknown) =>
  (value: unknown): unknown =>
    Array.isArray(value) ? value.map(one) : null;

const same = (value: unknown): unknown => value;

/** @throws TroupeError `sql_failed` for an array of arrays */
const flat = (value: unknown): unknown => {
  for (const one of value as unknown[]) if (Array.isArray(one)) throw nestedArray();
  return value;
};

/** Definitions as they were sent, one that came alone as a list of one. */
const toolList = (value: unknown): unknown => (Array.isArray(value) || value === null ? value : [value]);

export const NESTED: Readonly<Partial<Record<ColumnKind, NestedColumn>>> = {
  messages: {
    shape: { list: { struct: MESSAGE } },
    stored: listOf(storedMessage),
    read: listOf(readStoredMessage),
  },
  named_messages: {
    shape: { list: { struct: { hash: 'text', ...MESSAGE } } },
    stored: (value) => Object.entries(value as JsonObject).map(([hash, one]) => ({ hash, ...storedMessage(one) })),
    read: (value) =>
      Object.fromEntries((value as JsonObject[]).map(({ hash, ...one }) => [hash as string, readStoredMessage(one)])),
  },
  tools: { shape: { list: 'json' }, stored: toolList, read: same },
  steps: {
    shape: { list: { struct: STEP } },
    stored: listOf((step) => ({ ...(step as JsonObject), tools: toolList((step as JsonObject).tools) })),
    read: same,
  },
  answers: { shape: { list: { struct: LEARNT } }, stored: same, read: same },
  'text[]': { shape: { list: 'text' }, stored: flat, read: same },
  // JSON has no NaN and no infinity: PostgreSQL writes them as texts.
  'float8[]': {
    shape: { list: 'number' },
    stored: (value) => (flat(value) as unknown[]).map((one) => (one === null ? null : Number(one))),
    read: same,
  },
  'bool[]': { shape: { list: 'bool' }, stored: flat, read: same },
};

/** A list of messages, or of definitions of tools, of a row: JSON text in a dataset that was frozen before these columns were nested. */
export const listIn = (value: unknown): readonly JsonObject[] | null => {
  const list: unknown = typeof value === 'string' ? JSON.parse(value) : value;
  return Array.isArray(list) ? (list as readonly JsonObject[]) : null;
};
