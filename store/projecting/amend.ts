/**
 * The effective content of an event once all its amendments are known. Both the event and the amendments stay in the log; the tables show this.
 * Amendments apply in the order of (time, id), whatever the order of arrival.
 */
import { asSent, decodeDraft } from '../../ingest/events/decode.ts';
import type { Draft, EventData, EventName } from '../../ingest/events/events.ts';
import { canonicalJson, isRecord } from '../../ingest/events/json.ts';
import { versionOf } from '../tables/projection.ts';

export type LoggedEvent = {
  readonly key: string;
  readonly source: string;
  readonly id: string;
  readonly name: EventName;
  /** The version of `data`: that in which the event was sent. An amendment of it has the same version. */
  readonly type_version: number;
  readonly time: string | null;
  readonly data: unknown;
};

/** The corrected event, or null where it was rejected. An amendment that would make the event invalid is left out. */
export function amended(event: LoggedEvent, amendments: readonly LoggedEvent[]): LoggedEvent | null {
  const mine = amendments
    .filter((a) => {
      const target = (a.data as EventData<'record.amended'>).target;
      return target.source === event.source && target.id === event.id;
    })
    .sort((a, b) => (versionOf(a) < versionOf(b) ? -1 : 1));
  let data = event.data;
  for (const amendment of mine) {
    const { op, patch, set } = asSent(amendment.data) as EventData<'record.amended'>;
    // What was erased is gone from the event itself.
    if (op === 'erase') continue;
    if (op === 'reject') return null;
    const sent = asSent(data);
    const next =
      op === 'supersede'
        ? patch
        : withoutOldTexts(
            op === 'merge'
              ? mergePatch(sent, patch)
              : (set ?? []).reduce<unknown>((d, s) => setAt(d, s.path, s.value), sent),
            sent,
          );
    const decoded = decodeDraft({ ...event, data: next } as unknown as Draft);
    if (decoded.event && decoded.event.key === event.key) data = decoded.event.data;
  }
  return { ...event, data };
}

/** Without the text of arguments that became others: what the call asks now is written anew. */
function withoutOldTexts(now: unknown, before: unknown): unknown {
  if (now === before) return now;
  if (Array.isArray(now))
    return now.map((one, i) => withoutOldTexts(one, Array.isArray(before) ? before[i] : undefined));
  if (!isRecord(now)) return now;
  const old = isRecord(before) ? before : {};
  const isOld =
    typeof now.arguments_raw === 'string' &&
    now.arguments_raw === old.arguments_raw &&
    canonicalJson(now.arguments ?? null) !== canonicalJson(old.arguments ?? null);
  return Object.fromEntries(
    Object.entries(now).flatMap(([name, value]) =>
      isOld && name === 'arguments_raw' ? [] : [[name, withoutOldTexts(value, old[name])]],
    ),
  );
}

/** RFC 7396. */
export function mergePatch(target: unknown, patch: unknown): unknown {
  if (!isRecord(patch)) return patch;
  // A Map, since a key may be `__proto__`, which an assignment would not take as a key.
  const result = new Map(isRecord(target) ? Object.entries(target) : []);
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) result.delete(key);
    else result.set(key, mergePatch(result.get(key), value));
  }
  return Object.fromEntries(result);
}

/** The value with one place, named by a JSON pointer (RFC 6901), replaced or, for the last name, added; unchanged where there is no such place. */
export function setAt(target: unknown, pointer: string, value: unknown): unknown {
  if (pointer === '') return value;
  const [, head = '', ...rest] = pointer.split('/');
  const name = head.replaceAll('~1', '/').replaceAll('~0', '~');
  const tail = rest.length === 0 ? '' : `/${rest.join('/')}`;
  if (Array.isArray(target)) {
    const index = Number(name);
    return /^\d+$/.test(name) && index < target.length
      ? target.map((item, i) => (i === index ? setAt(item, tail, value) : item))
      : target;
  }
  if (!isRecord(target)) return target;
  if (tail !== '' && !Object.hasOwn(target, name)) return target;
  return { ...target, [name]: setAt(Object.hasOwn(target, name) ? target[name] : undefined, tail, value) };
}
