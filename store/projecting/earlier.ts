/**
 * What the tables hold already of a key when a batch is applied. Events of a key mostly lie in one partition, and before the batch is
 * what lies before its first event. Where other partitions hold more of the key, as a producer with a partitioner of its own makes them
 * do, it is what those partitions are applied to.
 */
import type { Place } from '../../ingest/log/postgres.ts';
import { type Positions, partitionName } from './read-batch.ts';

type KeyedPlace = Place & { readonly key: string };

/** The parameters `$2` to `$9` of a query that ends in {@link EARLIER}; `$1` is for the keys. */
export function earlierParams(batch: readonly KeyedPlace[], applied: Positions | null): unknown[] {
  const firsts = [...firstsOf(batch).values()];
  const others = applied ?? [];
  return [
    firsts.map(({ key }) => key),
    ...(['log', 'partition', 'position'] as const).map((name) => firsts.map((first) => first[name])),
    ...(['log', 'partition', 'position'] as const).map((name) => others.map((other) => other[name])),
    applied === null ? Number.MAX_SAFE_INTEGER : 0,
  ];
}

/** Of rows `e` of the log, those before the batch. */
export const EARLIER = `
  left join unnest($2::text[], $3::smallint[], $4::smallint[], $5::bigint[]) as b (key, log, partition, first)
    on b.key = e.key and b.log = e.log and b.partition = e.partition
  left join unnest($6::smallint[], $7::smallint[], $8::bigint[]) as a (log, partition, next) on a.log = e.log and a.partition = e.partition
  where e.position < coalesce(b.first, a.next, $9::bigint)`;

/** The same for rows that were read. */
export function isEarlier(batch: readonly KeyedPlace[], applied: Positions | null): (event: KeyedPlace) => boolean {
  const firsts = firstsOf(batch);
  const others = new Map(applied?.map((place) => [partitionName(place), place.position]));
  const rest = applied === null ? Number.POSITIVE_INFINITY : 0;
  return (event) =>
    Number(event.position) < (firsts.get(nameOf(event))?.position ?? others.get(partitionName(event)) ?? rest);
}

const nameOf = (event: KeyedPlace): string => `${partitionName(event)}/${event.key}`;

/** Of each key and partition the first event of the batch. */
function firstsOf(batch: readonly KeyedPlace[]): ReadonlyMap<string, KeyedPlace> {
  const firsts = new Map<string, KeyedPlace>();
  for (const { key, log, partition, position } of batch) {
    const place = { key, log, partition, position: Number(position) };
    const before = firsts.get(nameOf(place));
    if (before === undefined || place.position < before.position) firsts.set(nameOf(place), place);
  }
  return firsts;
}
