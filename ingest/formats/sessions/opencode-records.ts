/** Records of opencode: sessions, messages and parts, from an export or as files of their own, by session. */
import { canonicalJson, isRecord, type JsonObject } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import type { NativeRefusal } from '../kit/format.ts';
import { badIdentifier, refusal } from '../kit/native.ts';

/** A message with its parts, in the order of their ids, which are made of times. */
export type SessionMessage = {
  readonly info: JsonObject & { readonly id: string };
  readonly parts: readonly JsonObject[];
};
export type Session = {
  readonly id: string;
  /** Null where only messages of it are known. */
  readonly info: JsonObject | null;
  readonly messages: readonly SessionMessage[];
  /** What all of this was read from, in one order however it came: the original of the session. */
  readonly records: readonly JsonObject[];
};

export const isExport = (
  value: unknown,
): value is { readonly info: JsonObject; readonly messages: readonly unknown[] } =>
  isRecord(value) && isRecord(value.info) && isSession(value.info) && Array.isArray(value.messages);
const isSession = (value: unknown): boolean =>
  isRecord(value) && typeof value.id === 'string' && value.id.startsWith('ses_') && isRecord(value.time);
const isMessage = (value: unknown): boolean =>
  isRecord(value) && 'sessionID' in value && (value.role === 'user' || value.role === 'assistant');
const isPart = (value: unknown): boolean =>
  isRecord(value) && 'messageID' in value && 'sessionID' in value && typeof value.type === 'string';

export const isOpencode = (value: unknown): boolean =>
  isExport(value) || (isSession(value) && isRecord(value) && 'title' in value) || isMessage(value) || isPart(value);

/** The sessions in these files, and what could not be read, by its place. */
export function sessionsIn(records: readonly unknown[]) {
  const refusals: NativeRefusal[] = [];
  const found = new Map<string, JsonObject>();
  const broken = new Set<unknown>();
  const keep = (at: number, field: string, value: unknown): void => {
    const bad = badRecord(value, field);
    if (bad) {
      refusals.push({ ...bad, at });
      if (isRecord(value)) broken.add(value.sessionID ?? value.id);
      return;
    }
    const record = value as JsonObject;
    const key = record.id as string;
    const known = found.get(key);
    if (!known || isNewer(record, known)) found.set(key, record);
  };
  for (const [at, record] of records.entries()) {
    if (!isExport(record)) {
      keep(at, '', record);
      continue;
    }
    keep(at, 'info', record.info);
    for (const [i, message] of record.messages.entries()) {
      const { info, parts } = isRecord(message) ? message : {};
      keep(at, `messages[${i}].info`, info);
      if (!Array.isArray(parts)) refusals.push({ ...refusal('bad_type', `messages[${i}].parts`, 'a list', parts), at });
      else for (const [p, part] of parts.entries()) keep(at, `messages[${i}].parts[${p}]`, part);
    }
  }
  const bySession = new Map<string, JsonObject[]>();
  for (const record of [...found.values()].sort(byId)) {
    const id = (isMessage(record) || isPart(record) ? record.sessionID : record.id) as string;
    bySession.set(id, [...(bySession.get(id) ?? []), record]);
  }
  return { sessions: [...bySession].map(([id, own]) => sessionOf(id, own)), refusals, broken };
}

function sessionOf(id: string, records: readonly JsonObject[]): Session {
  const parts = new Map<unknown, JsonObject[]>();
  for (const part of records.filter(isPart)) parts.set(part.messageID, [...(parts.get(part.messageID) ?? []), part]);
  const messages = records
    .filter((one) => !isPart(one) && isMessage(one))
    .map((info) => ({ info: info as SessionMessage['info'], parts: parts.get(info.id) ?? [] }))
    .sort((a, b) => createdOf(a.info) - createdOf(b.info));
  return { id, info: records.find((one) => !isPart(one) && !isMessage(one)) ?? null, messages, records };
}

/** Milliseconds since 1970; 0 where nothing says so. */
const createdOf = ({ time }: JsonObject): number =>
  isRecord(time) && typeof time.created === 'number' ? time.created : 0;

const byId = (a: JsonObject, b: JsonObject): number => ((a.id as string) < (b.id as string) ? -1 : 1);

/** Whether `a` is the newer of two states of a record: the one with the later time, else the longer one. */
function isNewer(a: JsonObject, b: JsonObject): boolean {
  const [late, early] = [latest(a), latest(b)];
  if (late !== early) return late > early;
  const [more, less] = [canonicalJson(a), canonicalJson(b)];
  return more.length === less.length ? more > less : more.length > less.length;
}

function latest(record: JsonObject): number {
  const times = [record.time, isRecord(record.state) ? record.state.time : undefined].flatMap((time) =>
    isRecord(time) ? Object.values(time) : [],
  );
  return Math.max(0, ...times.filter((time) => typeof time === 'number'));
}

function badRecord(value: unknown, field: string): NativeRefusal | null {
  const at = (name: string): string => (field === '' ? name : `${field}.${name}`);
  if (!isRecord(value)) return refusal('bad_type', field, 'an object', value);
  const bad = badIdentifier(value.id, at('id'));
  if (bad || isSession(value)) return bad;
  if (!isMessage(value) && !isPart(value))
    return refusal('bad_shape', field, 'a session, a message or a part of opencode', value);
  const badSession = badIdentifier(value.sessionID, at('sessionID'));
  if (badSession || !isPart(value)) return badSession;
  const badMessage = badIdentifier(value.messageID, at('messageID'));
  if (badMessage || value.type !== 'tool') return badMessage;
  if (!isRecord(value.state)) return refusal('bad_type', at('state'), 'an object', value.state);
  return badIdentifier(value.callID, at('callID')) ?? badIdentifier(value.tool, at('tool'));
}

/** The session that a task of another one was given to; null of one that a person began. */
export const parentOf = ({ info }: Session): string | null =>
  info && isIdentifier(info.parentID) ? info.parentID : null;
