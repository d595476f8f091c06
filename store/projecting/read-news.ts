/** What the log holds beyond the positions: the events of the next batch. */
import type { EventName } from '../../ingest/events.ts';
import { readRecorded } from '../../ingest/formats/live-traces.ts';
import { groupBy } from '../../ingest/group-by.ts';
import { inCanonicalOrder } from '../../ingest/json.ts';
import type { Place, SplitPlaced } from '../../ingest/log/postgres.ts';
import { copiedRows } from '../db/copied-rows.ts';
import type { Session } from '../db/pool.ts';
import { parseTimestamptz } from '../db/values.ts';
import type { Stored } from './amend.ts';
import { withTexts } from './stored-texts.ts';

/** An event with every text in its place. A context that its call names stays a name, as does a text that its row names: the tables hold the names. */
export type Read = Stored & Place;

/** Of each partition, the place that is to be read next. */
export type Positions = readonly Place[];

/** A partition's name among those of all logs. */
export const partitionName = ({ log, partition }: Pick<Place, 'log' | 'partition'>): string => `${log}/${partition}`;

export type News = {
  /** In the order of partition and position. */
  readonly events: readonly Read[];
  /** Of what was read, as it came. */
  readonly bytes: number;
  /** False where some partition may hold more. */
  readonly all: boolean;
};

/**
 * What comes after the positions. A batch maps the traces of its spans from the beginning, so of a partition that has more to read
 * as many events are taken as these traces have spans already: batches double, and n spans that wait are mapped n log n times, not n².
 */
export async function readNews(tx: Session, positions: Positions, perPartition: number): Promise<News> {
  const news = await read(tx, positions, perPartition);
  if (news.all) return news;
  const spans = news.events.filter(({ name }) => name === 'span.recorded');
  if (spans.length === 0) return news;
  const begins = new Map(positions.map((place) => [partitionName(place), place.position]));
  const keys = new Map(spans.map((span) => [span.key, begins.get(partitionName(span))!]));
  const { rows } = await tx.query<{ earlier: string }>(
    `select count(*) as earlier from unnest($1::text[], $2::bigint[]) as t (key, first) cross join lateral (
       select e.position from troupe.stored_events e where e.key = t.key and e.name = 'span.recorded' offset 0
     ) e where e.position < t.first`,
    [[...keys.keys()], [...keys.values()]],
    { name: 'spans_told' },
  );
  const most = Math.min(Number(rows[0]!.earlier), MOST_AT_ONCE);
  return most > perPartition ? read(tx, positions, most) : news;
}

/** Events of a partition in the largest batch: a transaction stays within seconds, and its rows within memory. */
const MOST_AT_ONCE = 4000;

/** Bytes of one partition in a batch, as they are stored; one event more may be taken. A batch stays within memory, however large its events. */
const MOST_BYTES = 2 * 1024 * 1024;

/**
 * The bytes of an event without its texts: compressed as it is stored.
 * The rows of a dataset, which nothing else repeats as much as, become 20 times as large when they are read, and four times that as rows of
 * a table: a million of them were 120 MiB of the projector's memory as 2 MiB of text in a batch.
 */
export const STORED_SIZE = `case when name = 'artifact.attached' then 4 * octet_length(data::text) else pg_column_size(data) end`;

/** By COPY: rows of the wire protocol cost the server and the reader twice as much. */
async function read(tx: Session, positions: Positions, perPartition: number): Promise<News> {
  const places = positions.map(
    ({ log, partition, position }) => `(${log}::smallint, ${partition}::smallint, ${position}::bigint)`,
  );
  if (places.length === 0) return { events: [], bytes: 0, all: true };
  const copy = tx.copyOut(
    `copy (
       select e.key, e.source, e.id, e.name, e.time::text, e.data::text, e.log::text, e.partition::text, e.position::text, e.type_version::text,
              e.until::text
       from (values ${places.join(', ')}) p (log, partition, position)
       cross join lateral (
         select *, sum(size) over (order by position) as until
         from (
           select key, source, id, name, time, data, log, partition, position, type_version, ${STORED_SIZE} as size from troupe.stored_events e
           where e.log = p.log and e.partition = p.partition and e.position >= p.position order by e.position limit ${Number(perPartition)}
         ) e
       ) e
       where e.until - e.size < ${MOST_BYTES}
     ) to stdout (format binary)`,
  );
  const { rows } = await copiedRows(copy, 11);
  const runs = groupBy(rows.map(storedRow), partitionName);
  const whole = await withTexts(tx, [...runs.values()], MOST_BYTES);
  const full = [...runs].filter(
    ([, run], i) => run.length === perPartition || run.at(-1)!.until >= MOST_BYTES || whole[i]!.length < run.length,
  );
  const events = whole.flatMap((run) => run.map(eventOf)).sort(inLogOrder);
  const bytes = whole.reduce((sum, run) => sum + run.reduce((all, { data }) => all + data.length, 0), 0);
  return { events: withoutCut(events, new Set(full.map(([name]) => name))), bytes, all: full.length === 0 };
}

/**
 * Without the events at the end of these partitions that have one key, of which more may follow: what is written once need not be looked
 * for, mapped again and summed up again. A key that fills the batch of its partition is cut.
 */
function withoutCut(events: readonly Read[], full: ReadonlySet<string>): readonly Read[] {
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
  const isCut = (event: Read): boolean => {
    const name = partitionName(event);
    return full.has(name) && runs.get(name) !== firsts.get(name) && event.position >= runs.get(name)!;
  };
  return events.filter((event) => !isCut(event));
}

/** Events that were just placed, as the log would give them back, in its order. */
export const asRead = (placed: readonly SplitPlaced[]): readonly Read[] =>
  placed
    .map(({ event, split, log, partition, position }): Read => {
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

/** A row of the columns key, source, id, name, time, data, log, partition, position, type_version and until, as texts. */
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
  data: data!,
  log: Number(log),
  partition: Number(partition),
  position: Number(position),
  until: Number(until),
});

/** The event of a row that has its texts. */
export const eventOf = ({ until, ...event }: ReturnType<typeof storedRow>): Read => ({
  ...event,
  data: event.name === 'span.recorded' ? readRecorded(event.data) : JSON.parse(event.data),
});
