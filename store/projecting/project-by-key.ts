/**
 * The log into empty tables, key by key instead of in the order of arrival. However the events of a key lie among those of others, its
 * rows are made once: nothing that was written is looked for, told again or summed up again. What is appended meanwhile is left alone.
 */
import { KEYED } from '../../ingest/log/keyed.ts';
import { copiedRows } from '../db/copied-rows.ts';
import type { Db, Session } from '../db/pool.ts';
import { applyOrBury } from './apply.ts';
import { type Prepared, prepare } from './prepare.ts';
import { APPLYING } from './projector.ts';
import { EMBEDDED, eventOf, type Positions, type Read } from './read-news.ts';

export type ByKeyOptions = {
  /** Schema that holds the empty tables. */
  readonly schema: string;
  /** Name under which positions are kept; there are none of it yet. */
  readonly projection: string;
  /** Events of a transaction. A key is cut only where it has more than these, and then told as the projector tells it. */
  readonly portion?: number;
  readonly onApplied?: (events: number) => void;
};

const PORTION = 8000;

/** Applies what the log holds now, and leaves the positions there. The caller sees to it that nothing is taken out of the log meanwhile. */
export async function projectByKey(db: Db, options: ByKeyOptions): Promise<void> {
  const settings = `set local search_path = ${options.schema}, pg_catalog; ${KEYED}`;
  const end = await endOf(db);
  const counts = new Map([...end.keys()].map((partition) => [partition, { applied: 0, dead: 0 }]));
  const read = (from: Place): Promise<Portion> => {
    const ahead = db.transaction((tx) => readPortion(tx, from, { end, most: options.portion ?? PORTION }), {
      settings,
    });
    // Where writing fails first nobody waits for it any more.
    ahead.catch(() => {});
    return ahead;
  };
  let reading: Promise<Portion> | null = read(BEGINNING);
  while (reading !== null) {
    const { events, prepared, next }: Portion = await reading;
    reading = next === null ? null : read(next);
    if (events.length === 0) continue;
    const dead = await db.transaction((tx) => applyOrBury(tx, events, { prepared }), {
      settings: `${APPLYING}; ${settings}`,
    });
    for (const event of events) counts.get(event.partition)![dead.has(event) ? 'dead' : 'applied']++;
    options.onApplied?.(events.length);
  }
  await db.query(
    `insert into troupe.positions (projection, log, partition, position, applied, dead)
     select $1, $2, * from unnest($3::smallint[], $4::bigint[], $5::bigint[], $6::bigint[])`,
    [
      options.projection,
      EMBEDDED,
      [...end.keys()],
      [...end.values()],
      [...counts.values()].map(({ applied }) => applied),
      [...counts.values()].map(({ dead }) => dead),
    ],
  );
}

/** Positions commit in order and without gaps: whatever lies before these can be seen. */
async function endOf(db: Db): Promise<Positions> {
  const { rows } = await db.query<{ partition: number; end: string }>(
    'select partition, next_position as end from troupe.log_partitions order by partition',
  );
  return new Map(rows.map(({ partition, end }) => [partition, Number(end)]));
}

/** The last event that was read, in the order of key and position. */
type Place = { readonly key: string; readonly position: number };

const BEGINNING: Place = { key: '', position: -1 };

type Portion = {
  readonly events: readonly Read[];
  /** Null where it could not be made, which is so again when the events are applied one by one. */
  readonly prepared: Prepared | null;
  readonly next: Place | null;
};

/** Bytes of a portion, as they are stored; one event more may be taken. One is written while the next is read: two are held. */
const MOST_BYTES = 16 * 1024 * 1024;

type Bounds = { readonly end: Positions; readonly most: number };

async function readPortion(tx: Session, from: Place, { end, most }: Bounds): Promise<Portion> {
  // COPY takes no parameters.
  await tx.query(`select set_config('troupe.after', $1, true)`, [from.key]);
  const copy = tx.copyOut(
    `copy (
       select key, source, id, name, time::text, data, partition::text, position::text, until::text
       from (
         select *, pg_column_size(data) as size, sum(pg_column_size(data)) over (order by key, position) as until
         from (
           select key, source, id, name, time, data, partition, position from troupe.events
           where key >= current_setting('troupe.after')
             and (key > current_setting('troupe.after') or position > ${Number(from.position)})
           order by key, position limit ${Number(most)}
         ) e
       ) e
       where until - size < ${MOST_BYTES}
     ) to stdout (format binary)`,
  );
  const { rows } = await copiedRows(copy);
  const read = rows.map(eventOf);
  const more = rows.length === most || Number(rows.at(-1)?.[8] ?? 0) >= MOST_BYTES;
  const whole = more ? withoutLastKey(read) : read;
  const last = whole.at(-1);
  const events = whole.filter(({ partition, position }) => position < end.get(partition)!);
  return {
    events,
    prepared: await prepare(tx, events).catch(() => null),
    next: more ? { key: last!.key, position: last!.position } : null,
  };
}

/** More of the last key may follow; a key that fills a portion alone is cut. */
function withoutLastKey(events: readonly Read[]): readonly Read[] {
  const { key } = events.at(-1)!;
  const begin = events.findIndex((event) => event.key === key);
  return begin === 0 ? events : events.slice(0, begin);
}
