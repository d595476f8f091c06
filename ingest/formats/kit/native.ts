/** How formats read native records and state facts: identifiers, refusals by native field, and ids that depend on content alone. */
import { got, type Refusal } from '../../../errors.ts';
import type { Draft, EventData, EventName } from '../../events/events.ts';
import { canonicalJson, hashId, isRecord, sha256 } from '../../events/json.ts';
import { writeOnce } from '../../events/known-json.ts';
import { sha256Around, writtenOf } from '../../events/long-context.ts';
import { asTaught } from '../../events/taught.ts';
import { isIdentifier } from '../../events/text.ts';
import type { Conversion, NativeRecord, RestoredEvent } from './format.ts';

/** A refusal of one native field, such as `messages[2].tool_call_id`. */
export const refusal = (code: Refusal['code'], field: string, expected: string, value: unknown): Refusal => ({
  code,
  field,
  expected,
  got: got(value),
});

/** A record of which nothing is kept. */
export const refused = (...refusals: readonly Refusal[]): Conversion => ({ drafts: [], refusals, raw: null });

/** The id of what a record holds, for formats that name none. */
export const recordId = (format: string, record: NativeRecord): string =>
  hashId(format, record.canonical, record.ordinal);

/** The task of a text: formats that carry no task id meet in it. SHA-256 of the text, NFC-normalised and trimmed. */
export const taskIdOfText = (text: string): string => `text/${sha256(text.normalize('NFC').trim()).slice(0, 32)}`;

/** Why a value cannot be an identifier; null where it can. */
export function badIdentifier(value: unknown, field: string): Refusal | null {
  if (typeof value !== 'string') return refusal('bad_type', field, 'a text', value);
  if (isIdentifier(value)) return null;
  const expected = 'a text of 1 to 512 bytes without U+0000 and lone surrogates';
  return refusal('bad_identifier', field, expected, value);
}

/** Data of an event in which what may be absent may be undefined; the emitter drops it. */
export type Optionals<T> = {
  [K in keyof T]:
    | (object extends Pick<T, K> ? undefined : never)
    | (NonNullable<T[K]> extends readonly (infer Item extends { index: number })[] ? readonly Optionals<Item>[] : T[K]);
};

/** The same data without members that are undefined, in it, in its choices and agents and in the objects of ours that it holds. */
function said<T>(data: T, depth = 1): T {
  if (Array.isArray(data)) {
    const items = data.map((item) => said(item, depth - 1));
    return (items.some((item, i) => item !== data[i]) ? items : data) as T;
  }
  if (!isRecord(data)) return data;
  let copy: Record<string, unknown> | undefined;
  for (const name of Object.keys(data)) {
    const value = data[name];
    const lists = name === 'choices' || name === 'agents';
    const kept = depth > 0 && (lists || isRecord(value)) ? said(value, lists ? depth : depth - 1) : value;
    if (kept === value && value !== undefined) continue;
    copy ??= { ...data };
    if (kept === undefined) delete copy[name];
    else copy[name] = kept;
  }
  return (copy ?? data) as T;
}

/** Creates the events of one format. */
export type Emitter = {
  /** A fact of one record: its id is made of `place`, which no other fact of the format has. */
  readonly event: <N extends EventName>(
    name: N,
    place: readonly (string | number)[],
    data: Optionals<EventData<N>>,
    time?: string | null,
  ) => Draft;
  /** A fact that other records may state equally: its id is derived from its content. */
  readonly state: <N extends EventName>(name: N, data: Optionals<EventData<N>>) => Draft;
};

/**
 * Data of an event with the texts of all arguments. Each call of a conversation repeats the messages of the call before it: once stated
 * they never change, so each is written once.
 */
function lasting<T>(name: EventName, given: T): T {
  const data = asTaught(name, said(given));
  const { input } = data as { readonly input?: unknown };
  if (Array.isArray(input)) for (const message of input) if (isRecord(message)) writeOnce(message);
  return data;
}

export function emitterFor(format: string): Emitter {
  const source = `/import/${format}`;
  return {
    event: (name, place, data, time = null) =>
      ({ name, source, id: hashId(format, name, ...place), time, data: lasting(name, data) }) as unknown as Draft,
    state: (name, given) => {
      const data = asTaught(name, said(given));
      return { name, source, id: hashId(format, name, data), time: null, data } as unknown as Draft;
    },
  };
}

/**
 * The emitter of a format whose runs have ids of their own and may be exported again when they have grown or changed: the digest of
 * a fact's content is its revision and part of its id, so that a later export never conflicts with an earlier one.
 */
export function revisedEmitter(format: string): Emitter {
  const { state } = emitterFor(format);
  return {
    event: (name, place, given, time = null) => {
      const data = lasting(name, given);
      const id = hashWithData([format, name, ...place], data, time);
      return { name, source: `/import/${format}`, id, time, data } as unknown as Draft;
    },
    state,
  };
}

/** What `hashId` makes of these parts, the data and the time. */
function hashWithData(parts: readonly unknown[], data: unknown, time: string | null): string {
  const before = `${canonicalJson(parts).slice(0, -1)},`;
  return sha256Around(before, writtenOf(data), `,${canonicalJson(time)}]`).slice(0, 32);
}

/** The original record, attached to its episode: the artifact is its JSON, named by its hash. What may be read again keeps its order. */
export function rawRecord(emit: Emitter, episodeId: string, original: string): { draft: Draft; artifactId: string } {
  const artifactId = sha256(original);
  const draft = emit.event('artifact.attached', [episodeId, artifactId], {
    artifact_id: artifactId,
    episode_id: episodeId,
    role: 'raw-record',
    media_type: 'application/json',
    sha256: artifactId,
    size: Buffer.byteLength(original),
  });
  return { draft, artifactId };
}

/** How an episode began: of several reports of it the last by time, which the tables show. */
export const startOf = (episode: readonly RestoredEvent[]): RestoredEvent['data'] =>
  episode
    .filter(({ name }) => name === 'episode.started')
    .reduce<RestoredEvent | undefined>(
      (last, one) => (last === undefined || (one.time ?? '') > (last.time ?? '') ? one : last),
      undefined,
    )?.data ?? {};
