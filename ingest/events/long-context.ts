/**
 * How the data of a call is written whose context is long. Each call of a session names every message before it, so that their texts together
 * grow with the square of the session. Here the messages of a conversation are written once, one behind the other, and a call
 * has the bytes up to the last one that it read. What is left of the square is hashing these bytes, since ids and digests are of all of them.
 */
import { createHash } from 'node:crypto';
import type { Event } from './events.ts';
import { canonicalJson, isRecord, sha256 } from './json.ts';
import { knownOf } from './known-json.ts';

/** Canonical JSON in three parts; `messages` are those of `input`, with commas between, and are shared with other calls. */
export type LongJson = {
  readonly before: string;
  readonly messages: Uint8Array;
  readonly after: string;
};

/** Canonical JSON, in one text or in parts. */
export type WrittenJson = string | LongJson;

/** Fewer messages are written anew: it takes no longer. */
const FEWEST = 8;

const WRITTEN = new WeakMap<object, LongJson>();

/** The canonical JSON of data: in parts where `input` is a list of at least 8 messages that never change (`writeOnce`). */
export function writtenOf(data: unknown): WrittenJson {
  if (!isRecord(data) || !Array.isArray(data.input) || data.input.length < FEWEST) return canonicalJson(data);
  const known = WRITTEN.get(data);
  if (known !== undefined) return known;
  const messages = bytesOf(data.input);
  if (messages === null) return canonicalJson(data);
  const members = Object.keys(data).sort();
  const at = members.indexOf('input');
  const some = (names: readonly string[]): string =>
    canonicalJson(Object.fromEntries(names.map((name) => [name, data[name]]))).slice(1, -1);
  const [first, last] = [some(members.slice(0, at)), some(members.slice(at + 1))];
  const written = {
    before: `{${first}${first === '' ? '' : ','}"input":[`,
    messages,
    after: `]${last === '' ? '' : ','}${last}}`,
  };
  WRITTEN.set(data, written);
  return written;
}

/** The canonical JSON of an event's data. */
export const writtenAs = (event: Pick<Event, 'data' | 'json'>): WrittenJson => WRITTEN.get(event.data) ?? event.json;

/** The same object with the member `json`, which of parts is put together each time it is asked for. */
export const withJson = <T extends object>(event: T, written: WrittenJson): T & { readonly json: string } =>
  typeof written === 'string'
    ? Object.assign(event, { json: written })
    : (Object.defineProperty(event, 'json', { get: () => textOf(written), enumerable: true }) as T & { json: string });

/** The one text of it. */
export const textOf = (written: WrittenJson): string =>
  typeof written === 'string'
    ? written
    : written.before +
      Buffer.from(written.messages.buffer, written.messages.byteOffset, written.messages.length).toString() +
      written.after;

/** SHA-256 (hex) of JSON between two other texts. */
export function sha256Around(before: string, written: WrittenJson, after = ''): string {
  if (typeof written === 'string') return sha256(before + written + after);
  const hash = createHash('sha256')
    .update(before + written.before)
    .update(written.messages);
  return hash.update(written.after + after).digest('hex');
}

/** Characters that it holds for itself, without what it shares with other calls. */
export const ownLength = (written: WrittenJson): number =>
  typeof written === 'string' ? written.length : written.before.length + written.after.length;

/** Its characters, of the messages their bytes. */
export const fullLength = (written: WrittenJson): number =>
  ownLength(written) + (typeof written === 'string' ? 0 : written.messages.length);

/** The messages of the longest context so far that begins with the same message. Bytes that a call has are never written again. */
type Conversation = {
  readonly messages: object[];
  /** Where each message ends. */
  readonly ends: number[];
  bytes: Buffer;
};

const CONVERSATIONS = new WeakMap<object, Conversation>();

/** Null where a message may change. */
function bytesOf(input: readonly unknown[]): Uint8Array | null {
  if (!lasts(input[0])) return null;
  let known = CONVERSATIONS.get(input[0]);
  let same = 0;
  if (known) while (same < input.length && known.messages[same] === input[same]) same++;
  const added = input.slice(same);
  if (!added.every(lasts)) return null;
  if (known === undefined || (same < input.length && same < known.messages.length)) {
    known = {
      messages: known?.messages.slice(0, same) ?? [],
      ends: known?.ends.slice(0, same) ?? [],
      bytes: Buffer.from(known?.bytes.subarray(0, known.ends[same - 1] ?? 0) ?? []),
    };
    CONVERSATIONS.set(input[0], known);
  }
  for (const message of added) append(known, message);
  return known.bytes.subarray(0, known.ends[input.length - 1]);
}

const lasts = (message: unknown): message is object => isRecord(message) && knownOf(message) !== undefined;

function append(to: Conversation, message: object): void {
  const text = canonicalJson(message);
  const from = to.ends.at(-1) ?? 0;
  const comma = from === 0 ? 0 : 1;
  // A text of UTF-16 takes at most three bytes for each unit.
  const most = from + comma + text.length * 3;
  if (most > to.bytes.length) {
    const larger = Buffer.allocUnsafe(2 * most);
    to.bytes.copy(larger, 0, 0, from);
    to.bytes = larger;
  }
  if (comma) to.bytes[from] = 0x2c;
  to.messages.push(message);
  to.ends.push(from + comma + to.bytes.write(text, from + comma));
}
