/**
 * The log into empty tables, key by key instead of in the order of arrival. However the events of a key lie among those of others, its
 * rows are made once: nothing that was written is looked up, mapped again or summed up again. What is appended meanwhile is left alone.
 */
import { KEYED } from '../../ingest/log/keyed.ts';
import type { Place } from '../../ingest/log/postgres.ts';
import { copiedRows } from '../db/copied-rows.ts';
import type { Db, Session } from '../db/pool.ts';
import { applyBatch } from './apply.ts';
import { updateDerived } from './derived-state.ts';
import { logEnds } from './positions.ts';
import { type PreparedBatch, prepare } from './prepare.ts';
import { APPLYING } from './projector.ts';
import { eventOf, type LogEvent, type Positions, partitionName, STORED_SIZE, storedRow } from './read-batch.ts';
import { withTexts } from './stored-texts.ts';

export type ByKeyOptions = {
  /** Schema of the tables. */
  readonly schema: string;
  /** Makes the tables, without rows of the keys that the log holds, while the first events are read. */
  readonly makeTables: () => Promise<void>;
  /** Name under which positions are kept; there are none of it yet. */
  readonly projection: string;
  /** Events of a transaction. A key is cut only where it has more than these, and then processed as the projector does. */
  readonly portion?: number;
  readonly onApplied?: (events: number) => void;
};

const PORTION = 8000;

/** Applies what the log holds now, and leaves the positions there. The caller sees to it that nothing is taken out of the log meanwhile. */
export async function projectByKey(db: Db, options: ByKeyOptions): Promise<void> {
  const settings = `set local search_path = ${options.schema}, pg_catalog; ${KEYED}`;
  const end = await logEnds(db);
  const ends = new Map(end.map((place) => [partitionName(place), place.position]));
  const counts = new Map([...ends.keys()].map((name) => [name, { applied: 0, dead: 0 }]));
  const read = (from: After): Promise<Portion> => {
    const ahead = db.transaction((tx) => readPortion(tx, from, { ends, most: options.portion ?? PORTION }), {
      settings,
    });
    // Where writing fails first nobody waits for it any more.
    ahead.catch(() => {});
    return ahead;
  };
  let reading: Promise<Portion> | null = read(BEGINNING);
  await options.makeTables();
  while (reading !== null) {
    const { events, prepared, applied, next }: Portion = await reading;
    reading = next === null ? null : read(next);
    if (events.length === 0) continue;
    const dead = await db.transaction((tx) => applyBatch(tx, events, { prepared, applied, updateDerived }), {
      settings: `${APPLYING}; ${settings}`,
    });
    for (const event of events) counts.get(partitionName(event))![dead.has(event) ? 'dead' : 'applied']++;
    options.onApplied?.(events.length);
  }
  await db.query(
    `insert into troupe.positions (projection, log, partition, position, applied, dead)
     select $1, * from unnest($2::smallint[], $3::smallint[], $4::bigint[], $5::bigint[], $6::bigint[])`,
    [
      options.projection,
      end.map(({ log }) => log),
      end.map(({ partition }) => partition),
      end.map(({ position }) => position),
      [...counts.values()].map(({ applied }) => applied),
      [...counts.values()].map(({ dead }) => dead),
    ],
  );
}

/** The last event that was read, in the order of key and place. */
type After = Place & { readonly key: string };

const BEGINNING: After = { key: '', log: -1, partition: -1, position: -1 };

type Portion = {
  readonly events: readonly LogEvent[];
  /** Null where it could not be made, which is so again when the events are applied one by one. */
  readonly prepared: PreparedBatch | null;
  /** How far a key was read that the portion goes on with. */
  readonly applied: Positions;
  readonly next: After | null;
};

/** Bytes of a portion, as they are stored; one event more may be taken. One is written while the next is read: two are held. */
const MOST_BYTES = 16 * 1024 * 1024;

type Bounds = { readonly ends: ReadonlyMap<string, number>; readonly most: number };

async function readPortion(tx: Session, from: After, { ends, most }: Bounds): Promise<Portion> {
  // COPY takes no parameters.
  await tx.query(`select set_config('troupe.after', $1, true)`, [from.key]);
  const copy = tx.copyOut(
    `copy (
       select key, source, id, name, time::text, data::text, log::text, partition::text, position::text, type_version::text, until::text
       from (
         select *, sum(size) over (order by key, log, partition, position) as until
         from (
           select key, source, id, name, time, data, log, partition, position, type_version, ${STORED_SIZE} as size from troupe.stored_events e
           where key >= current_setting('troupe.after')
             and (key > current_setting('troupe.after') or (log, partition, position) > (${from.log}, ${from.partition}, ${from.position}))
           order by key, log, partition, position limit ${Number(most)}
         ) e
       ) e
       where until - size < ${MOST_BYTES}
     ) to stdout (format binary)`,
  );
  const { rows, cut } = await copiedRows(copy, 11, 4 * MOST_BYTES);
  const stored = rows.map(storedRow);
  const [fitting] = await withTexts(tx, [stored], { most: MOST_BYTES, inAll: MOST_BYTES });
  const read = fitting!.map((row) => eventOf({ ...row, data: row.data! }));
  const more = cut || rows.length === most || (stored.at(-1)?.until ?? 0) >= MOST_BYTES || read.length < rows.length;
  const whole = more ? withoutLastKey(read) : read;
  const last = whole.at(-1);
  const events = whole.filter((event) => event.position < (ends.get(partitionName(event)) ?? 0));
  const applied = [...ends].map(([name, end]) => readUntil(from, name, end));
  return {
    events,
    prepared: await prepare(tx, events, applied).catch(() => null),
    applied,
    next: more ? { key: last!.key, log: last!.log, partition: last!.partition, position: last!.position } : null,
  };
}

/** Of a partition, how far it was read of the key that the portion before ended in: partitions are read one after the other. */
function readUntil(from: After, name: string, end: number): Place {
  const [log, partition] = name.split('/').map(Number) as [number, number];
  const order = log - from.log || partition - from.partition;
  return { log, partition, position: order < 0 ? end : order === 0 ? from.position + 1 : 0 };
}

/** More of the last key may follow; a key that fills a portion alone is cut. */
function withoutLastKey(events: readonly LogEvent[]): readonly LogEvent[] {
  const { key } = events.at(-1)!;
  const begin = events.findIndex((event) => event.key === key);
  return begin === 0 ? events : events.slice(0, begin);
}
