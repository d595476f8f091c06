/**
 * Assembles the chunks of a streamed response into the body that the request would have had without `stream`. Texts and lists are
 * appended; for other fields the last value wins, unknown ones included. Pure.
 */

import { asText, isRecord } from '../../../ingest/events/json.ts';
import { parseWritten } from '../../../ingest/events/spelling.ts';
import { laterUsage } from '../../../ingest/formats/kit/usage.ts';
import { LOST } from './token-ids.ts';

export type Assembler = {
  /** Takes one chunk; true if it holds output of the model. */
  readonly take: (piece: unknown) => boolean;
  /** The body so far; null before the first chunk. */
  readonly body: () => Record<string, unknown> | null;
  /** Whether the stream said that the response is whole. */
  readonly isWhole: () => boolean;
};

type GrowingBody = Record<string, unknown>;

/** Text fields that a chunk appends to. */
const CONTINUED = new Set([
  'content',
  'refusal',
  'reasoning_content',
  'reasoning',
  'text',
  'arguments',
  'input',
  // Of speech:
  'data',
  'transcript',
]);
/** Members that a chunk adds to. */
const MERGED = new Set(['function', 'function_call', 'custom', 'audio']);
/** Lists that a chunk appends to. */
const LISTED = new Set(['token_ids', 'reasoning_details', 'annotations', 'images']);

/** For /v1/chat/completions and /v1/completions. */
export function chunks(object: 'chat.completion' | 'text_completion'): Assembler {
  let head: GrowingBody | null = null;
  const choices = new Map<number, GrowingBody>();
  /** Choices of which a chunk had output and no token ids, and how many chunks of a choice had some: servers may send all in one. */
  const unnamed = new Set<unknown>();
  const named = new Map<unknown, number>();

  return {
    take: (piece) => {
      if (!isRecord(piece)) return false;
      const { choices: parts, usage, ...rest } = piece;
      head ??= {};
      if (usage !== undefined) head.usage = laterUsage(head.usage, usage) ?? null;
      for (const [name, value] of Object.entries(rest)) if (value !== null || !(name in head)) head[name] = value;
      let hasOutput = false;
      for (const part of Array.isArray(parts) ? parts.filter(isRecord) : []) {
        const { index = 0, delta, ...stated } = part;
        const choice = choices.get(index as number) ?? { index };
        choices.set(index as number, choice);
        let isOutput = false;
        if (object === 'chat.completion') {
          choice.message ??= { role: 'assistant', content: null };
          if (isRecord(delta)) isOutput = add(choice.message as GrowingBody, delta);
        }
        isOutput = add(choice, stated) || isOutput;
        if (hasItems(stated.token_ids)) named.set(index, (named.get(index) ?? 0) + 1);
        else if (isOutput) unnamed.add(index);
        hasOutput ||= isOutput;
      }
      return hasOutput;
    },
    body: () => {
      if (head === null) return null;
      const listed = [...choices.values()]
        .sort((a, b) => Number(a.index) - Number(b.index))
        .map((choice) =>
          (named.get(choice.index) ?? 0) > 1 && unnamed.has(choice.index) ? { ...choice, [LOST]: true } : choice,
        )
        .map(ended);
      return { ...head, object, ...(listed.length === 0 && 'error' in head ? {} : { choices: listed }) };
    },
    // Not by [DONE]: proxies write it behind a stream that broke off, and servers leave it out.
    isWhole: () =>
      choices.size > 0 && [...choices.values()].every((choice) => typeof choice.finish_reason === 'string'),
  };
}

const hasItems = (list: unknown): boolean => Array.isArray(list) && list.length > 0;

/** Merges a chunk into `to`; true if it had output. */
function add(to: GrowingBody, piece: GrowingBody): boolean {
  let hasOutput = false;
  for (const [name, value] of Object.entries(piece)) {
    const before = to[name];
    if (name === 'tool_calls' && Array.isArray(value)) {
      to[name] = continued(Array.isArray(before) ? before : [], value);
      hasOutput = true;
    } else if (name === 'content' && (Array.isArray(value) || (Array.isArray(before) && typeof value === 'string'))) {
      to[name] = withParts(before, value);
      hasOutput ||= value.length > 0;
    } else if (CONTINUED.has(name) && typeof value === 'string') {
      to[name] = (typeof before === 'string' ? before : '') + value;
      hasOutput ||= value !== '';
    } else if (name === 'logprobs' && isRecord(value)) {
      to[name] = lists(isRecord(before) ? before : {}, value);
    } else if (LISTED.has(name) && Array.isArray(value)) {
      to[name] = extended(before, value);
      hasOutput ||= value.length > 0;
    } else if (MERGED.has(name) && isRecord(value)) {
      to[name] = { ...(isRecord(before) ? before : {}) };
      hasOutput = add(to[name] as GrowingBody, value) || hasOutput;
    } else if ((value !== null && value !== '') || before === undefined) to[name] = value;
  }
  return hasOutput;
}

/** Members of a part that hold its text, or parts of it: Mistral streams `{ type: 'thinking', thinking: [{ type: 'text', text }] }`. */
const TEXT_OF: Readonly<Record<string, string>> = { text: 'text', thinking: 'thinking' };

/** A content that is a list of parts, with more of it: a piece that continues the last part joins it. */
function withParts(before: unknown, more: unknown): unknown[] {
  const parts = typeof before === 'string' ? asParts(before) : [...(Array.isArray(before) ? before : [])];
  for (const part of typeof more === 'string' ? asParts(more) : (more as unknown[])) {
    const last = parts.at(-1);
    const member = isRecord(part) && isRecord(last) && part.type === last.type ? TEXT_OF[asText(part.type)] : undefined;
    const joined = member && joinedText((last as GrowingBody)[member], (part as GrowingBody)[member]);
    if (joined === undefined) parts.push(part);
    else parts[parts.length - 1] = { ...(last as GrowingBody), ...(part as GrowingBody), [member!]: joined };
  }
  return parts;
}

const asParts = (text: string): unknown[] => (text === '' ? [] : [{ type: 'text', text }]);

/** Undefined where the two are not of one form. */
function joinedText(before: unknown, more: unknown): unknown {
  if (typeof before === 'string' && typeof more === 'string') return before + more;
  return Array.isArray(before) && Array.isArray(more) ? withParts(before, more) : undefined;
}

/**
 * Tool calls; name, type and id come once, the arguments in parts. A call begins with its index. Servers that give all calls the same index,
 * or none, begin one with another id and name, or, without ids, with a name where the arguments before are whole or had another name.
 */
function continued(before: readonly unknown[], pieces: readonly unknown[]): GrowingBody[] {
  const calls = before.map((call) => ({ ...(call as GrowingBody) }));
  for (const { index, ...piece } of pieces.filter(isRecord)) {
    const asked = piece.function ?? piece.custom;
    const last = calls.findLast((call) => call.index === index);
    const begins =
      last === undefined || (isRecord(asked) && Boolean(asked.name) && isOther(last, index, piece.id, asked));
    if (begins) calls.push({ index });
    add(begins ? calls.at(-1)! : last, piece);
  }
  return calls;
}

/** Whether a piece with a name begins another call than the last one with its index. */
function isOther(last: GrowingBody, index: unknown, id: unknown, asked: GrowingBody): boolean {
  const before = last.function ?? last.custom;
  if (index === undefined || (id && last.id && id !== last.id)) return true;
  if (!isRecord(before)) return false;
  const goesOn = Boolean(asked.arguments);
  if (id) return goesOn && isWhole(before.arguments);
  return isWhole(before.arguments) || (!last.id && before.name !== asked.name);
}

/** Whether the text is an object of JSON. */
function isWhole(written: unknown): boolean {
  if (typeof written !== 'string' || !written.trimEnd().endsWith('}')) return false;
  const parsed = parseWritten(written);
  return 'value' in parsed && isRecord(parsed.value);
}

/** A choice whose tool calls stand in their order, without the index that the chunks name them by. */
function ended(choice: GrowingBody): GrowingBody {
  const { message } = choice;
  if (!isRecord(message) || !Array.isArray(message.tool_calls)) return choice;
  const place = ({ index }: GrowingBody): number => (Number.isSafeInteger(index) ? (index as number) : 0);
  const calls = [...(message.tool_calls as GrowingBody[])].sort((a, b) => place(a) - place(b));
  return { ...choice, message: { ...message, tool_calls: calls.map(({ index: _, ...call }) => call) } };
}

/** The list, extended in place: copying it for each token would be quadratic. */
function extended(before: unknown, more: readonly unknown[]): unknown[] {
  const list = Array.isArray(before) ? before : [];
  for (const item of more) list.push(item);
  return list;
}

/** Appends to the lists of each field. */
function lists(before: GrowingBody, piece: GrowingBody): GrowingBody {
  const all = { ...before };
  for (const [name, value] of Object.entries(piece)) {
    const there = all[name];
    if (Array.isArray(value)) all[name] = extended(there, value);
    else all[name] = value ?? there ?? null;
  }
  return all;
}

/** For /v1/responses: the last event holds the whole response; a stream that was cut off gives the items so far. */
export function responseEvents(): Assembler {
  let response: GrowingBody | null = null;
  let ended = false;
  const items = new Map<number, GrowingBody>();
  return {
    take: (event) => {
      if (!isRecord(event)) return false;
      const { type, output_index: place, delta } = event;
      if (isRecord(event.response)) {
        response = event.response;
        ended = /^response\.(completed|incomplete|failed)$/.test(asText(type));
      } else if (type === 'error') response = { ...response, error: event.error ?? event };
      if (isRecord(event.item) && Number.isSafeInteger(place)) items.set(place as number, { ...event.item });
      if (typeof delta !== 'string') return false;
      const item = items.get(place as number);
      if (item) grow(item, event, delta);
      return delta !== '';
    },
    body: () => {
      if (ended || response === null) return response;
      const output = [...items.entries()].sort(([a], [b]) => a - b).map(([, item]) => item);
      return { ...response, output };
    },
    isWhole: () => ended,
  };
}

/** Members that a delta of these events appends to: a text of the item, or of a part in a list of it. */
const GROWN: readonly (readonly [
  type: RegExp,
  member: string,
  part?: { place: string; type: string; text: string },
])[] = [
  [/arguments\.delta$/, 'arguments'],
  [/custom_tool_call_input\.delta$/, 'input'],
  [/code_interpreter_call_code\.delta$/, 'code'],
  [/output_text\.delta$/, 'content', { place: 'content_index', type: 'output_text', text: 'text' }],
  [/refusal\.delta$/, 'content', { place: 'content_index', type: 'refusal', text: 'refusal' }],
  [/reasoning_text\.delta$/, 'content', { place: 'content_index', type: 'reasoning_text', text: 'text' }],
  [/reasoning_summary_text\.delta$/, 'summary', { place: 'summary_index', type: 'summary_text', text: 'text' }],
];

function grow(item: GrowingBody, event: GrowingBody, delta: string): void {
  const [, member, part] = GROWN.find(([type]) => type.test(asText(event.type))) ?? [];
  if (member === undefined) return;
  if (part === undefined) {
    item[member] = `${asText(item[member] ?? '')}${delta}`;
    return;
  }
  const list = Array.isArray(item[member]) ? [...item[member]] : [];
  const place = event[part.place];
  const at = Number.isSafeInteger(place) && (place as number) >= 0 && (place as number) < 1000 ? (place as number) : 0;
  while (list.length <= at) list.push({ type: part.type, [part.text]: '' });
  list[at] = { ...list[at], [part.text]: `${asText(list[at]?.[part.text] ?? '')}${delta}` };
  item[member] = list;
}

/** For /v1/messages: blocks by index; fields of the end override those of the start. */
export function messageEvents(): Assembler {
  let message: GrowingBody | null = null;
  let ended = false;
  const blocks = new Map<number, GrowingBody>();
  const written = new Map<number, string>();
  return {
    take: (event) => {
      if (!isRecord(event)) return false;
      const { type, index, delta, usage } = event;
      if (type === 'message_start' && isRecord(event.message)) message = { ...event.message };
      else if (type === 'error') message = { ...message, error: event.error ?? event };
      else if (type === 'message_stop') ended = true;
      else if (type === 'message_delta') {
        message = {
          ...message,
          ...(isRecord(delta) ? delta : {}),
          usage: laterUsage(message?.usage ?? {}, usage ?? {}),
        };
      }
      const place = Number.isSafeInteger(index) ? (index as number) : -1;
      if (type === 'content_block_start' && isRecord(event.content_block))
        blocks.set(place, { ...event.content_block });
      const block = blocks.get(place);
      if (type !== 'content_block_delta' || block === undefined || !isRecord(delta)) return false;
      if (typeof delta.partial_json === 'string') written.set(place, (written.get(place) ?? '') + delta.partial_json);
      for (const name of ['text', 'thinking', 'signature'])
        if (typeof delta[name] === 'string') block[name] = `${asText(block[name] ?? '')}${delta[name]}`;
      if (delta.citation !== undefined) block.citations = extended(block.citations, [delta.citation]);
      return true;
    },
    body: () => {
      if (message === null) return null;
      const content = [...blocks.entries()]
        .sort(([a], [b]) => a - b)
        .map(([place, block]) => read(block, written.get(place)));
      return { ...message, ...(message.type === 'message' ? { content } : {}) };
    },
    isWhole: () => ended,
  };
}

/** A block with its input, which arrives as parts of a JSON text; a text that was cut off stays a text. */
function read(block: GrowingBody, json: string | undefined): GrowingBody {
  if (json === undefined || json === '') return block;
  const parsed = parseWritten(json);
  return { ...block, input: 'value' in parsed ? parsed.value : json };
}

/** For responses that are never streamed. */
export const wholeOnly = (): Assembler => ({ take: () => false, body: () => null, isWhole: () => true });
