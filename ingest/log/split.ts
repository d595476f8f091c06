/**
 * Events as the archive holds them. What events of one key repeat lies once beside them, as bodies: the messages that a call read form
 * a chain, so that the context of the next call adds only what is new, and the call names the last of them; a long text is a body that
 * the event names. An image or a file is such a text, and of it and of the longest texts the bytes lie once for all keys. The functions of
 * `migrations/0001_log.sql`, and `store/projecting/stored-texts.ts`, join the same marks, so a change here needs a migration.
 */
import type { Event, EventName } from '../events/events.ts';
import { canonicalJson, isRecord, sha256 } from '../events/json.ts';
import { knownOf } from '../events/known-json.ts';
import { textOf, type WrittenJson, writtenAs } from '../events/long-context.ts';
import { type Base64Text, base64Text, filesIn } from './base64.ts';

/** One row of `troupe.bodies`. `hash` is of `previous` and `body`, in the form of a UUID. */
export type Body = {
  readonly key: string;
  readonly hash: string;
  readonly previous: string | null;
  /** A message of a context as canonical JSON, its long texts by name; or a text, or a piece of one. */
  readonly body: string;
  /** Where the body is an image or a file. */
  readonly base64?: Base64Text;
  /** True of a text that lies once for all keys, since a system prompt or a file that agents read is in many episodes. */
  readonly shared?: boolean;
};

/** What the archive holds of an event. */
export type SplitEvent = {
  /** Canonical JSON of the data, with contexts and long texts by name, and a mark for the id that its key names. */
  readonly json: string;
  /** The data with its context, and the text of {@link namedMember}, by name, and every other text in its place. */
  readonly data: unknown;
  /** What the names stand for, each before those that follow it in a chain. */
  readonly bodies: readonly Body[];
};

/** U+FFFE escapes what PostgreSQL cannot hold and is followed by four hex digits there: no text of an event begins like these. */
const CONTEXT = '\uFFFE@';
const TEXT = '\uFFFE#';
/** What stands in the place of the id that the key of an event names. */
export const OWN_MARK = '\uFFFE.';
const OWN_ID = `"${OWN_MARK}"`;

/** Characters (code points) of the longest text that stays in its event: a body costs about 200 bytes beside its text, and no id is longer. */
export const LONGEST = 512;
/** A longer text of a span, or in `unmapped`, is a chain of pieces: tracing clients send a context as one text, which grows at its end with each call. */
const WHOLE = 4096;
const PIECE = 2048;
/** A longer text (in UTF-16 units) is shared by all keys that hold it. Where only one does, that costs 250 bytes. */
const SHARED = 768;

/** The context of a call that read no message. */
export const EMPTY_CONTEXT = '00000000-0000-0000-0000-000000000000';

/** The name of the context that this value of `input` stands for; null where the messages are here. */
export const contextNamed = (input: unknown): string | null =>
  typeof input === 'string' && input.startsWith(CONTEXT) ? input.slice(CONTEXT.length) : null;

/** Members of an event's data whose text its row names too (`store/tables/long-texts.ts`): who makes rows need not read it. */
const NAMED_MEMBERS: Readonly<Partial<Record<string, string>>> = {
  'agent.defined': 'system_instructions',
  'message.sent': 'content',
  'tool.returned': 'output',
};

/**
 * The member of the data of this event, as the archive holds it, that is the name of such a text; null where there is none. Members are
 * sorted, so without a second brace before it the name is one of the data itself; where another object comes first the text is read.
 */
export function namedMember(name: string, json: string): string | null {
  const member = NAMED_MEMBERS[name];
  const start = member === undefined ? '' : json.slice(0, Math.max(0, json.indexOf(`"${TEXT}`)));
  return start.endsWith(`"${member}":`) && start.lastIndexOf('{') === 0 ? member! : null;
}

/** True of the name of a text. */
export const isTextName = (value: unknown): boolean => typeof value === 'string' && value.startsWith(TEXT);

export type Context = { readonly hash: string; readonly bodies: readonly Body[] };

/** The messages that a call read as a chain, under the key of their events. */
export function contextOf(key: string, messages: readonly unknown[]): Context {
  const bodies: Body[] = [];
  let hash = EMPTY_CONTEXT;
  for (const message of messages) {
    const previous = hash === EMPTY_CONTEXT ? null : hash;
    const added = linkOf(key, previous, message);
    for (const body of added) bodies.push(body);
    hash = added.at(-1)!.hash;
  }
  return { hash, bodies };
}

/** Links that were made before of messages that never change: each call of a long conversation repeats those of the call before it. */
const LINKS = new WeakMap<object, readonly Body[]>();

/** The bodies of a message that follows others: its long texts, and last itself. */
function linkOf(key: string, previous: string | null, message: unknown): readonly Body[] {
  const lasting = isRecord(message) && knownOf(message) !== undefined ? message : null;
  const known = lasting ? LINKS.get(lasting) : undefined;
  const last = known?.at(-1);
  if (known && last?.key === key && last.previous === previous) return known;
  const bodies: Body[] = [];
  const body = canonicalJson(withoutTexts(message, keptIn(key, bodies)));
  link(bodies, { key, previous, body }, CONTEXT);
  if (lasting) LINKS.set(lasting, bodies);
  return bodies;
}

/** The value with each long text by name, and the bodies that these names stand for. */
export function namedTexts(key: string, value: unknown): { readonly value: unknown; readonly bodies: readonly Body[] } {
  const bodies: Body[] = [];
  return { value: withoutTexts(value, keptIn(key, bodies)), bodies };
}

/** The value with each image and file by name, and the bodies that these names stand for. */
export function namedFiles(key: string, value: unknown): { readonly value: unknown; readonly bodies: readonly Body[] } {
  const bodies: Body[] = [];
  const replace: Replace = (text, member, holder) => keptFile(key, text, { member, holder, bodies }) ?? text;
  return { value: withoutTexts(value, replace), bodies };
}

/** What the archive holds of an event of this name and key. `written` is the canonical JSON of its data. */
export function splitData(name: EventName, key: string, data: unknown, written: WrittenJson): SplitEvent {
  const input = name === 'generation.requested' && isRecord(data) ? data.input : null;
  if (typeof written === 'string' && written.length <= LONGEST && !Array.isArray(input))
    return { json: withoutId(key, written), data, bodies: [] };
  const context = Array.isArray(input) && input.length > 0 ? contextOf(key, input) : null;
  const short = context === null ? data : { ...(data as object), input: CONTEXT + context.hash };
  const bodies = [...(context?.bodies ?? [])];
  const text = keptIn(key, bodies);
  const pieces: Replace = (one, member, holder) =>
    keptFile(key, one, { member, holder, bodies }) ?? keptPieces(key, one, bodies);
  const named = withMembers(short, (member, value) =>
    withoutTexts(value, name === 'span.recorded' || member === 'unmapped' ? pieces : text, member, short),
  );
  const json = withoutId(key, named === data ? textOf(written) : canonicalJson(named));
  const member = namedMember(name, json);
  if (member === null) return { json, data: short, bodies };
  return { json, data: { ...(data as object), [member]: (named as Record<string, unknown>)[member] }, bodies };
}

/** An id that JSON writes as it is and that is longer than its mark. Every event names the episode, task or job of its key. */
const MARKABLE = /^[ !#-[\]-~]{7,}$/;

/** The text is put back as a text, so it may stand for anything; it is valid JSON as well, since a mark is a string too. */
function withoutId(key: string, json: string): string {
  const id = key.slice(2);
  return MARKABLE.test(id) ? json.replaceAll(`"${id}"`, OWN_ID) : json;
}

export const splitEvent = (event: Event): SplitEvent => splitData(event.name, event.key, event.data, writtenAs(event));

/** What stands in the place of a long text, which stands in this member of this object or in a list there. */
type Replace = (text: string, member: string, holder: unknown) => string;

/** The value with each long text replaced; the value itself where there is none. */
function withoutTexts(value: unknown, replace: Replace, within = '', holder: unknown = null): unknown {
  if (typeof value === 'string') return isLong(value, LONGEST) ? replace(value, within, holder) : value;
  if (Array.isArray(value)) {
    if (typeof value[0] === 'number') return value;
    let copy: unknown[] | null = null;
    for (const [i, item] of value.entries()) {
      const now = withoutTexts(item, replace, within, holder);
      if (now === item) continue;
      copy ??= [...value];
      copy[i] = now;
    }
    return copy ?? value;
  }
  return withMembers(value, (name, member) => withoutTexts(member, replace, name, value));
}

/** The object with what `change` makes of each member; the object itself where that is the same. */
function withMembers(value: unknown, change: (name: string, member: unknown) => unknown): unknown {
  if (!isRecord(value)) return value;
  let copy: Map<string, unknown> | null = null;
  for (const name of Object.keys(value)) {
    const now = change(name, value[name]);
    if (now === value[name]) continue;
    // A Map, since a key may be `__proto__`, which an assignment would not take as a key.
    copy ??= new Map(Object.entries(value));
    copy.set(name, now);
  }
  return copy === null ? value : Object.fromEntries(copy);
}

const keptIn =
  (key: string, bodies: Body[]): Replace =>
  (text, member, holder) =>
    keptFile(key, text, { member, holder, bodies }) ?? keptText(key, text, bodies);

function keptText(key: string, text: string, bodies: Body[], base64?: Base64Text): string {
  const body = base64
    ? { key, previous: null, body: text, base64 }
    : { key, previous: null, body: text, shared: text.length > SHARED };
  return TEXT + link(bodies, body, TEXT);
}

/** The name of an image or a file; null for any other text. */
function keptFile(
  key: string,
  text: string,
  { member, holder, bodies }: { readonly member: string; readonly holder: unknown; readonly bodies: Body[] },
): string | null {
  const base64 = isRecord(holder) ? base64Text(text, member, holder) : null;
  return base64 && keptText(key, text, bodies, base64);
}

function keptPieces(key: string, text: string, bodies: Body[]): string {
  if (!isLong(text, WHOLE)) return keptText(key, text, bodies);
  let previous: string | null = null;
  let at = 0;
  // What comes before a file and after the last whole piece is a body together with it.
  for (const { from, to, media_type } of [...filesIn(text), { from: text.length, to: text.length, media_type: null }]) {
    for (let end = after(text, at, PIECE); end < from; end = after(text, at, PIECE)) {
      previous = link(bodies, { key, previous, body: text.slice(at, end) }, TEXT);
      at = end;
    }
    const base64 = media_type === null ? {} : { base64: { at: from - at, media_type } };
    if (at < to) previous = link(bodies, { key, previous, body: text.slice(at, to), ...base64 }, TEXT);
    at = to;
  }
  return TEXT + previous;
}

/** Adds a body that follows `previous`; answers with its hash. */
function link(bodies: Body[], body: Omit<Body, 'hash'>, mark: string): string {
  const hash = asUuid(sha256(`${body.previous ?? ''}\n${mark}${body.body}`));
  bodies.push({ ...body, hash });
  return hash;
}

const asUuid = (hex: string): string =>
  `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20, 32)}`;

/** True where a text has more code points than that. */
const isLong = (text: string, most: number): boolean =>
  text.length > most && (text.length > 2 * most || after(text, 0, most) < text.length);

/** Where so many code points from `at` end, or the text does. */
function after(text: string, at: number, count: number): number {
  let end = at;
  for (let n = 0; n < count && end < text.length; n++) {
    const unit = text.charCodeAt(end);
    end += unit >= 0xd800 && unit < 0xdc00 ? 2 : 1;
  }
  return Math.min(end, text.length);
}
