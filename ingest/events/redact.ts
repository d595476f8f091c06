/**
 * Secrets are taken out before the log: what is in the log is never taken out of it again. Where a secret stood there is a mark with
 * the name of its rule, and the event counts its marks in `redactions`. What is redacted depends on the text alone, and redacting
 * again changes nothing, so importing or sending the same twice gives duplicates and no conflicts.
 */
import { digestOf } from './decode.ts';
import { type Event, keyOf } from './events.ts';
import { canonicalJson, isRecord } from './json.ts';
import { ownLength, textOf, withJson, writtenAs, writtenOf } from './long-context.ts';
import { MARK, markOf, mayHoldSecret, RULES, type Rule } from './redact-rules.ts';
import { respelled } from './spelling.ts';
import { ESCAPED_FLAG } from './text.ts';
import { upcast } from './upcast/catalogue.ts';

export type Redactor = {
  readonly text: (text: string) => string;
  /** The same value where nothing was found; otherwise a copy, keys redacted too. */
  readonly value: (value: unknown) => unknown;
  /** The same event where nothing was found. */
  readonly event: (event: Event) => Event;
  /** How many texts each rule changed since this redactor was made. */
  readonly found: () => Readonly<Record<string, number>>;
};

/** A rule of the user: a name, and a pattern that the caller guarantees to run in linear time. */
export type OwnRule = {
  readonly name: string;
  readonly pattern: RegExp;
  /** A literal that every match contains; null where none is known. */
  readonly hint: string | null;
};

/** Rules that may find something, and whether something was found before. */
type Suspicion = { readonly rules: readonly Rule[]; readonly holdsMark: boolean };

/** A redactor by the built-in rules and these. */
export function createRedactor(own: readonly OwnRule[] = []): Redactor {
  const added = own.map(({ name, pattern, hint }): Rule => ({ name, pattern, hints: [hint ?? ''] }));
  const hinted = (rules: readonly Rule[], text: string): Rule[] =>
    rules.filter(({ hints }) => hints.some((hint) => text.includes(hint)));
  /** Rules that may find something in the text, or in JSON text. */
  const applying = (text: string): Rule[] => [
    ...(mayHoldSecret(text) ? hinted(RULES, text) : []),
    ...hinted(added, text),
  ];
  const found = new Map<string, number>();
  const note = (name: string): void => void found.set(name, (found.get(name) ?? 0) + 1);

  const identify = (event: Event): Event => (added.length === 0 ? event : identified(event, text));
  const text = (raw: string): string => applyAll(applying(raw), raw, note);
  const value = (json: unknown): unknown => {
    const written = JSON.stringify(json) ?? '';
    const hidden = written.includes(`"${MODEL_ARGUMENTS}":`) ? withoutUnknownArguments(json, note) : json;
    const applied = applying(written);
    return applied.length === 0 ? hidden : mapTexts(hidden, (raw) => applyAll(applied, raw, note));
  };
  const look = (json: string): Suspicion => ({ rules: applying(json), holdsMark: json.includes('[redacted:') });
  /** What was found in messages that never change: each call of a conversation repeats those of the call before it. */
  const seen = new WeakMap<object, Suspicion>();
  const lookAt = (given: Event): Suspicion => {
    const json = writtenAs(given);
    if (typeof json === 'string') return look(json);
    const own = look(json.before + json.after);
    const rules = new Set(own.rules);
    let { holdsMark } = own;
    for (const message of (given.data as { readonly input: readonly object[] }).input) {
      const found = seen.get(message) ?? look(canonicalJson(message));
      seen.set(message, found);
      for (const one of found.rules) rules.add(one);
      holdsMark ||= found.holdsMark;
    }
    return { rules: [...RULES, ...added].filter((one) => rules.has(one)), holdsMark };
  };
  const event = (given: Event): Event => {
    const { rules: applied, holdsMark } = lookAt(given);
    if (applied.length === 0 && !holdsMark) return identify(given);
    const redact = (raw: string): string => applyAll(applied, raw, note);
    const mapped = applied.length === 0 ? given.data : mapTexts(given.data, redact);
    if (mapped === given.data && !holdsMark) return identify(given);
    const data = withoutTokens(given, mapped as Record<string, unknown>);
    const marked = counted(data);
    const json = writtenOf(marked);
    const before = writtenAs(given);
    if (ownLength(json) === ownLength(before) && textOf(json) === textOf(before)) return identify(given);
    const key = keyOf(given.name, upcast(given.name, given.type_version, marked) as Record<string, unknown>);
    const digest = digestOf(given, json);
    const { name, type_version, source, id, time } = given;
    return identify(withJson({ name, type_version, source, id, time, key, data: marked, digest }, json) as Event);
  };
  return { text, value, event, found: () => Object.fromEntries(found) };
}

/** Until nothing more is found: a mark may end the word that hid the next secret. */
function applyAll(rules: readonly Rule[], raw: string, note: (name: string) => void): string {
  for (let text = raw, rounds = 0; ; rounds++) {
    const before = text;
    for (const { name, hints, pattern } of rules) {
      if (!hints.some((hint) => text.includes(hint))) continue;
      const mark = markOf(name);
      const replaced = text.replace(pattern, (...found) => {
        const kept = found.at(-1) as { readonly before?: string; readonly after?: string } | string;
        return typeof kept === 'object' ? `${kept.before ?? ''}${mark}${kept.after ?? ''}` : mark;
      });
      if (replaced !== text) note(name);
      text = replaced;
    }
    if (text === before || rounds === MOST_ROUNDS) return text;
  }
}

const MOST_ROUNDS = 8;

/** Ids that the producer chose: validation refuses those with a built-in shape, so only a rule of the user finds something here. */
function identified(event: Event, text: (value: string) => string): Event {
  const [id, source] = [text(event.id), text(event.source)];
  return id === event.id && source === event.source ? event : { ...event, id, source };
}

/** The same value where nothing changed. Two keys that became one keep both members: the second is numbered. */
function mapTexts(value: unknown, change: (text: string) => string): unknown {
  if (typeof value === 'string') return change(value);
  if (Array.isArray(value)) {
    // Token ids and log-probabilities: most of what an event of ours holds.
    if (typeof value[0] === 'number') return value;
    const items = value.map((item) => mapTexts(item, change));
    return items.some((item, i) => item !== value[i]) ? respelled(items, value) : value;
  }
  if (!isRecord(value)) return value;
  const members = new Map<string, unknown>();
  /** The number that the next member of a name gets: a million keys may all be secrets of one rule. */
  const numbers = new Map<string, number>();
  let same = true;
  for (const [key, member] of Object.entries(value)) {
    const [changed, mapped] = [change(key), mapTexts(member, change)];
    same &&= changed === key && mapped === member;
    let name = changed;
    let next = numbers.get(changed) ?? 2;
    for (; members.has(name); next++) name = `${changed}#${next}`;
    if (name !== changed) numbers.set(changed, next);
    members.set(name, mapped);
  }
  return same ? value : respelled(Object.fromEntries(members), value);
}

/** What tau2-bench hands on to LiteLLM as it is: parameters of sampling, and whatever else its user gave, such as `api_key`. */
const MODEL_ARGUMENTS = 'llm_args';
/** Arguments of LiteLLM whose texts are no secrets. Numbers and booleans are none under any name. */
const KNOWN_ARGUMENTS: ReadonlySet<string> = new Set([
  ...['model', 'custom_llm_provider', 'api_base', 'base_url', 'api_version', 'service_tier', 'modalities'],
  ...['stop', 'reasoning_effort', 'thinking', 'reasoning', 'verbosity', 'tool_choice', 'response_format'],
]);

/** Every text under an unknown name of the arguments is replaced: a key of a server of one's own has no shape that a rule could know. */
function withoutUnknownArguments(value: unknown, note: (name: string) => void): unknown {
  if (Array.isArray(value)) {
    const items = value.map((item) => withoutUnknownArguments(item, note));
    return respelled(items, value);
  }
  if (!isRecord(value)) return value;
  const hide = (member: unknown): unknown => {
    if (Array.isArray(member)) return member.map(hide);
    if (isRecord(member)) return mapValues(member, hide);
    if (typeof member !== 'string') return member;
    note(MODEL_ARGUMENTS);
    return markOf(MODEL_ARGUMENTS);
  };
  return mapValues(value, (member, name) =>
    name === MODEL_ARGUMENTS && isRecord(member)
      ? mapValues(member, (one, argument) => (KNOWN_ARGUMENTS.has(argument) ? one : hide(one)))
      : withoutUnknownArguments(member, note),
  );
}

const mapValues = (record: Record<string, unknown>, change: (value: unknown, name: string) => unknown) =>
  respelled(Object.fromEntries(Object.entries(record).map(([name, value]) => [name, change(value, name)])), record);

const OF_TOKENS = ['token_ids', 'logprobs', 'raw_logprobs', 'top_logprobs', 'loss_mask'];
const REDACTED_TOKENS = 'redacted_tokens';

/** Token ids spell the text: a candidate whose text held a secret loses them. */
function withoutTokens(given: Event, data: Record<string, unknown>): Record<string, unknown> {
  if (given.name !== 'generation.completed') return data;
  const before = (given.data as { readonly choices: readonly unknown[] }).choices;
  let lost = false;
  const choices = (data.choices as Record<string, unknown>[]).map((choice, i) => {
    if (!OF_TOKENS.some((name) => choice[name] != null)) return choice;
    if (canonicalJson(choice) === canonicalJson(before[i])) return choice;
    lost = true;
    return Object.fromEntries(Object.entries(choice).filter(([name]) => !OF_TOKENS.includes(name)));
  });
  if (!lost) return data;
  const flags = Array.isArray(data.flags) ? (data.flags as string[]) : [];
  // The flag of the escape stays last.
  const escaped = flags.at(-1) === ESCAPED_FLAG ? [ESCAPED_FLAG] : [];
  const others = flags.slice(0, flags.length - escaped.length);
  return { ...data, choices, flags: [...others, REDACTED_TOKENS, ...escaped] };
}

/** The event with how often each rule found something, by its marks. */
function counted(data: Record<string, unknown>): Record<string, unknown> {
  const { redactions: _, ...rest } = data;
  const counts: Record<string, number> = {};
  const json = writtenOf(rest);
  const texts =
    typeof json === 'string'
      ? [marksIn(json)]
      : [marksIn(json.before + json.after), ...(rest.input as object[]).map(marksOf)];
  for (const names of texts) for (const name of names) counts[name] = (counts[name] ?? 0) + 1;
  return Object.keys(counts).length === 0 ? data : { ...rest, redactions: counts };
}

const marksIn = (json: string): string[] => Array.from(json.matchAll(MARK), ([, name]) => name as string);

/** The marks of messages that never change. */
const MARKS = new WeakMap<object, readonly string[]>();

function marksOf(message: object): readonly string[] {
  const marks = MARKS.get(message) ?? marksIn(canonicalJson(message));
  MARKS.set(message, marks);
  return marks;
}
