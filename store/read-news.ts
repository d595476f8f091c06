/** What the log holds beyond the positions: the events of the next batch. */
import type { Stored } from './amend.ts';
import type { Session } from './db/pool.ts';

/** The embedded log's name in `troupe.positions`. */
export const EMBEDDED = 'embedded';

export type Read = Stored & { readonly partition: number; readonly position: number };

/**
 * What comes after the positions. A batch tells the traces of its spans from the beginning, so of a partition that has more to read
 * as many events are taken as these traces have spans already: batches double, and n spans that wait are told n log n times, not n².
 */
export async function readNews(tx: Session, projection: string, perPartition: number): Promise<Read[]> {
  const read = async (most: number): Promise<Read[]> => {
    const { rows } = await tx.query<Read>(
      `select e.* from troupe.positions p
       cross join lateral (
         select key, source, id, name, time, data, partition, position from troupe.events e
         where e.partition = p.partition and e.position >= p.position order by e.position limit $3
       ) e
       where p.projection = $1 and p.log = $2 order by e.partition, e.position`,
      [projection, EMBEDDED, most],
      { name: 'positions_read' },
    );
    return rows;
  };
  const events = await read(perPartition);
  const spans = events.filter(({ name }) => name === 'span.recorded');
  if (events.length < perPartition || spans.length === 0) return events;
  const { rows } = await tx.query<{ earlier: string }>(
    `select count(*) as earlier from troupe.events e join troupe.positions p on p.partition = e.partition
     where p.projection = $1 and p.log = $2 and e.key = any($3::text[]) and e.name = 'span.recorded' and e.position < p.position`,
    [projection, EMBEDDED, [...new Set(spans.map(({ key }) => key))]],
    { name: 'spans_told' },
  );
  const most = Math.min(Number(rows[0]!.earlier), MOST_AT_ONCE);
  return most > perPartition ? read(most) : events;
}

/** Events of a partition in the largest batch: a transaction stays within seconds, and its rows within memory. */
const MOST_AT_ONCE = 4000;
