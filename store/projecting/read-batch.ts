/** What the log holds beyond the positions: the events of the next batch. */
import type { EventName } from '../../ingest/events/events.ts';
import { groupBy } from '../../ingest/events/group-by.ts';
import { inCanonicalOrder } from '../../ingest/events/json.ts';
import { readRecorded } from '../../ingest/formats/traces/live-traces.ts';
import type { Place, PlacedSplit } from '../../ingest/log/postgres.ts';
import { copiedRows } from '../db/copied-rows.ts';
import type { Session } from '../db/pool.ts';
import { parseTimestamptz } from '../db/values.ts';
import type { LoggedEvent } from './amend.ts';
import { withTexts } from './stored-texts.ts';

/** An event with every text in its place. A context that its call names stays a name, as does a text that its row names: the tables hold the names. */
export type LogEvent = LoggedEvent & Place;

/** Of each partition, the place that is to be read next. */
export type Positions = readonly Place[];

/** A partition's name among those of all logs. */
export const partitionName = ({ log, partition }: Pick<Place, 'log' | 'partition'>): string => `${log}/${partition}`;

/** Where an event lies, and what it is about. */
export type KeyedPlace = Place & { readonly key: string };

/** How much is read at a time. */
export type Portion = {
  /** Events of one partition. */
  readonly perPartition: number;
  /** Events of all partitions. */
  readonly most: number;
  /** Bytes, as they are stored, from which on an event is set aside: it is named, not read. */
  readonly aside: number;
};

export type LogBatch = {
  /** In the order of partition and position. */
  readonly events: readonly LogEvent[];
  /** Those that are set aside, which were not read. */
  readonly large: readonly KeyedPlace[];
  /** Of what was read, as it came. */
  readonly bytes: number;
  /** False where some partition may hold more. */
  readonly all: boolean;
};

/**
 * What comes after the positions. A batch maps the traces of its spans from the beginning, so of a partition that has more to read
 * as many events are taken as these traces have spans already: batches double, and n spans that wait are mapped n log n times, not n².
 */
export async function readBatch(tx: Session, positions: Positions, portion: Portion): Promise<LogBatch> {
  const batch = await read(tx, positions, portion);
  if (batch.all) return batch;
  const spans = batch.events.filter(({ name }) => name === 'span.recorded');
  if (spans.length === 0) return batch;
  const begins = new Map(positions.map((place) => [partitionName(place), place.position]));
  const keys = new Map(spans.map((span) => [span.key, begins.get(partitionName(span))!]));
  const { rows } = await tx.query<{ earlier: string }>(
    `select count(*) as earlier from unnest($1::text[], $2::bigint[]) as t (key, first) cross join lateral (
       select e.position from troupe.stored_events e where e.key = t.key and e.name = 'span.recorded' offset 0
     ) e where e.position < t.first`,
    [[...keys.keys()], [...keys.values()]],
    { name: 'spans_told' },
  );
  const again = Math.min(Number(rows[0]!.earlier), MOST_AT_ONCE);
  return again > portion.perPartition ? read(tx, positions, { ...portion, perPartition: again }) : batch;
}

/** Events of a partition in the largest batch: a transaction stays within seconds, and its rows within memory. */
const MOST_AT_ONCE = 4000;

/** Bytes of one partition in a batch, as they are stored; one event more may be taken. A batch stays within memory, however large its events. */
const MOST_BYTES = 2 * 1024 * 1024;
/**
 * Bytes of all partitions in a batch, as they are stored and again as they are read, which may be a hundred times as many: parsing and
 * writing them stays within seconds on a slow processor. One event more may be taken.
 */
const MOST_IN_ALL = { stored: 4 * 1024 * 1024, read: 8 * 1024 * 1024 };

/**
 * The bytes of an event without its texts: compressed as it is stored.
 * The rows of a dataset, which nothing else repeats as much as, become 20 times as large when they are read, and four times that as rows of
 * a table: a million of them were 120 MiB of the projector's memory as 2 MiB of text in a batch.
 */
export const STORED_SIZE = `case when name = 'artifact.attached' then 4 * octet_length(data::text) else pg_column_size(data) end`;

/**
 * By COPY: rows of the wire protocol cost the server and the reader twice as much. Of each partition the first events come before the
 * later ones of the others, so that a partition of large events leaves room for one of small ones.
 */
async function read(tx: Session, positions: Positions, { perPartition, most, aside }: Portion): Promise<LogBatch> {
  const places = positions.map(
    ({ log, partition, position }) => `(${log}::smallint, ${partition}::smallint, ${position}::bigint)`,
  );
  if (places.length === 0) return { events: [], large: [], bytes: 0, all: true };
  const copy = tx.copyOut(
    `copy (
       select key, source, id, name, time::text, case when is_large then null else data::text end, log::text, partition::text, position::text,
              type_version::text, until::text
       from (
         select e.*, sum(e.size) over in_turn as until_all, count(*) over in_turn as nth
         from (values ${places.join(', ')}) p (log, partition, position)
         cross join lateral (
           select *, sum(size) over (order by position) as until
           from (
             select *, case when is_large then 0 else stored end as size
             from (
               select *, stored >= ${aside} as is_large
               from (
                 select key, source, id, name, time, data, log, partition, position, type_version, ${STORED_SIZE} as stored
                 from troupe.stored_events e
                 where e.log = p.log and e.partition = p.partition and e.position >= p.position order by e.position limit ${Number(perPartition)}
               ) e
             ) e
           ) e
         ) e
         where e.until - e.size < ${MOST_BYTES}
         window in_turn as (order by e.until, e.log, e.partition, e.position)
         order by e.until, e.log, e.partition, e.position offset 0
       ) e
       where (until_all - size < ${MOST_IN_ALL.stored} and nth <= ${most}) or nth = 1
     ) to stdout (format binary)`,
  );
  const { rows, cut } = await copiedRows(copy, 11, MOST_IN_ALL.read);
  const runs = groupBy(rows.map(storedRow), partitionName);
  const whole = await withTexts(tx, [...runs.values()], { most: MOST_BYTES, inAll: MOST_IN_ALL.read });
  const stored = [...runs.values()].reduce((sum, run) => sum + run.at(-1)!.until, 0);
  const isCut = cut || rows.length >= most || stored >= MOST_IN_ALL.stored;
  const full = [...runs].filter(
    ([, run], i) =>
      isCut || run.length === perPartition || run.at(-1)!.until >= MOST_BYTES || whole[i]!.length < run.length,
  );
  const all = whole.flat().sort(inLogOrder);
  const bytes = all.reduce((sum, { data }) => sum + (data?.length ?? 0), 0);
  const taken = withoutCut(all, new Set(full.map(([name]) => name)));
  return {
    events: taken.flatMap((row) => (row.data === null ? [] : [eventOf(row as StoredEvent)])),
    large: taken.filter(({ data }) => data === null),
    bytes,
    all: full.length === 0 && !isCut,
  };
}

/**
 * Without the events at the end of these partitions that have one key, of which more may follow: what is written once need not be looked
 * for, mapped again and summed up again. A key that fills the batch of its partition is cut.
 */
function withoutCut<Event extends KeyedPlace>(events: readonly Event[], full: ReadonlySet<string>): readonly Event[] {
  const firsts = new Map<string, number>();
  // Where the last run of events of one key begins.
  const runs = new Map<string, number>();
  let before: { readonly name: string; readonly key: string } | undefined;
  for (const event of events) {
    const { position, key } = event;
    const name = partitionName(event);
    if (before?.name !== name) firsts.set(name, position);
    if (before?.name !== name || before.key !== key) runs.set(name, position);
    before = { name, key };
  }
  const isCut = (event: KeyedPlace): boolean => {
    const name = partitionName(event);
    return full.has(name) && runs.get(name) !== firsts.get(name) && event.position >= runs.get(name)!;
  };
  return events.filter((event) => !isCut(event));
}

/** Events that were just placed, as the log would give them back, in its order. */
export const asRead = (placed: readonly PlacedSplit[]): readonly LogEvent[] =>
  placed
    .map(({ event, split, log, partition, position }): LogEvent => {
      const { key, source, id, name, type_version, json } = event;
      const data = name === 'span.recorded' ? readRecorded(json) : inCanonicalOrder(split.data);
      return { key, source, id, name, type_version, time: keptTime(event.time), data, log, partition, position };
    })
    .sort(inLogOrder);

/** PostgreSQL leaves out zeros at the end of a second. */
const keptTime = (time: string | null): string | null =>
  time?.replace(/\.(\d*?)0*Z$/, (_, digits: string) => (digits === '' ? 'Z' : `.${digits}Z`)) ?? null;

const inLogOrder = (a: Place, b: Place): number =>
  a.log - b.log || a.partition - b.partition || a.position - b.position;

/** A row of the columns key, source, id, name, time, data, log, partition, position, type_version and until, as texts; without data where the event is set aside. */
export const storedRow = ([key, source, id, name, time, data, log, partition, position, version, until]: readonly (
  | string
  | null
)[]) => ({
  key: key!,
  source: source!,
  id: id!,
  name: name as EventName,
  type_version: Number(version),
  time: time == null ? null : parseTimestamptz(time),
  data: data ?? null,
  log: Number(log),
  partition: Number(partition),
  position: Number(position),
  until: Number(until),
});

type StoredEvent = ReturnType<typeof storedRow> & { readonly data: string };

/** The event of a row that has its texts. */
export const eventOf = ({ until, ...event }: StoredEvent): LogEvent => ({
  ...event,
  data: event.name === 'span.recorded' ? readRecorded(event.data) : JSON.parse(event.data),
});
