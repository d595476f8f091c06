/** How acts are stated: ids that tell readings apart and sort the later and the fuller one last, and an order that needs no other act. */
import { CANONICAL, type Draft, type EventData, type EventName } from '../events.ts';
import { canonicalJson, hashWritten } from '../json.ts';

export type Speak = <N extends EventName>(
  name: N,
  place: readonly (string | number)[],
  data: EventData<N>,
  time: string | null,
  said?: { readonly revision?: string | undefined; readonly full?: boolean },
) => Draft;

/** Ids of a later update and of a fuller reading sort after those of an earlier and a poorer one. */
export function speaker(source: string): Speak {
  const first = canonicalJson(source);
  return (name, place, data, time, { revision = '', full = true } = {}) => {
    const json = canonicalJson(data);
    let before = `${first},"${name}"`;
    for (const part of place) before += `,${canonicalJson(part)}`;
    const id = hashWritten(`${before},${json},${canonicalJson(time)}`);
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

/** Microseconds since 1970: the order of an act in its episode that no other act is needed for. */
export const seqOf = (time: string | null): { seq?: number } => {
  if (time === null) return {};
  const fraction = (/\.(\d+)/.exec(time)?.[1] ?? '').padEnd(6, '0');
  const milliseconds = Date.parse(time);
  return Number.isNaN(milliseconds)
    ? {}
    : { seq: Math.floor(milliseconds / 1000) * 1e6 + Number(fraction.slice(0, 6)) };
};

export const millisecondsBetween = (start: string | null, end: string | null): number | undefined => {
  const [from, to] = [seqOf(start).seq, seqOf(end).seq];
  return from === undefined || to === undefined || to < from ? undefined : (to - from) / 1000;
};
