/** How acts become events: ids that distinguish readings and sort the later and the fuller one last, and an order that needs no other act. */
import { CANONICAL, type Draft, type EventData, type EventName } from '../events/events.ts';
import { canonicalJson, hashOfWritten } from '../events/json.ts';
import { asTaught } from '../events/taught.ts';
import type { Optionals } from '../formats/kit/native.ts';

/**
 * States an event. Literals of data name their members in the order of canonical JSON, those without a value as undefined: they all
 * have one shape and need no sorting, which is most of what building and writing them would take.
 */
export type Emit = <N extends EventName>(
  name: N,
  place: readonly (string | number)[],
  data: Optionals<EventData<N>>,
  time: string | null,
  reading?: { readonly revision?: string | undefined; readonly full?: boolean },
) => Draft;

/** What every event of an act has beside its own data: where it came from, and what has no place. */
export type Provenance = {
  readonly flags: string[] | undefined;
  readonly native: Record<string, unknown>;
  readonly unmapped: Record<string, unknown> | undefined;
};

/** Ids of a later update and of a fuller reading sort after those of an earlier and a poorer one. */
export function emitterOf(source: string): Emit {
  const first = canonicalJson(source);
  return (name, place, given, time, { revision = '', full = true } = {}) => {
    const data = asTaught(name, given);
    let before = `${first},"${name}"`;
    for (const part of place) before += `,${canonicalJson(part)}`;
    const written = canonicalJson(data);
    const whole = `[${before},${written},${canonicalJson(time)}]`;
    const id = hashOfWritten(whole);
    // Hashing put the pieces of the whole together: a part of it is there already, the pieces would be put together once more.
    const json = whole.slice(before.length + 2, before.length + 2 + written.length);
    return {
      name,
      source,
      id: (revision === '' ? '' : `${revision}/`) + (full ? '1' : '0') + id,
      time,
      data,
      [CANONICAL]: { of: data, json },
    } as unknown as Draft;
  };
}

/** Microseconds since 1970: the order of an act in its episode that no other act is needed for. Undefined where the time is unknown. */
export function seqOf(time: string | null): number | undefined {
  if (time === null) return undefined;
  if (PLAIN.test(time)) {
    const seq = secondOf(time.slice(0, 19)) * 1e6 + microsecondsOf(time.slice(20, -1));
    return Number.isNaN(seq) ? undefined : seq;
  }
  const milliseconds = Date.parse(time);
  if (Number.isNaN(milliseconds)) return undefined;
  return Math.floor(milliseconds / 1000) * 1e6 + microsecondsOf(/\.(\d+)/.exec(time)?.[1] ?? '');
}

/** The form in which most times come. */
const PLAIN = /^\d{4}-\d\d-\d\dT(?:[01]\d|2[0-3]):\d\d:\d\d\.\d+Z$/;

const microsecondsOf = (fraction: string): number => Number(fraction.slice(0, 6).padEnd(6, '0'));

/** Times of one trace lie together: the last second is asked for again and again. */
let last = { text: '', second: 0 };

function secondOf(text: string): number {
  if (text !== last.text) last = { text, second: Date.parse(`${text}Z`) / 1000 };
  return last.second;
}

export const millisecondsBetween = (start: string | null, end: string | null): number | undefined => {
  const [from, to] = [seqOf(start), seqOf(end)];
  return from === undefined || to === undefined || to < from ? undefined : (to - from) / 1000;
};
