/**
 * From a log outside the database into `troupe.events`, the archive of record, exactly once in effect. What was read of some partitions
 * is applied in ONE transaction: the events, what became of them in the tables, the dead letters and the positions, under the lock of
 * the positions it started from. So a record that comes again is skipped, and a reader that lost its partition writes nothing.
 */
import { setImmediate as pause } from 'node:timers/promises';
import { type Refusal, TroupeError } from '../../errors.ts';
import { type DecodeResult, encodeEnvelope } from '../../ingest/events/decode.ts';
import { type LogRecord, rawOf, readRecord, recordDigest } from '../../ingest/log/kafka-record.ts';
import { KEYED } from '../../ingest/log/keyed.ts';
import { type AppendResult, ERASED_REFUSAL, prunedRefusal } from '../../ingest/log/log.ts';
import {
  copyEvents,
  lookUp,
  type PlacedEvent,
  type PlacedSplit,
  unstorable,
  withSplit,
  writeLetters,
} from '../../ingest/log/postgres.ts';
import type { Reading } from '../../ingest/log/source.ts';
import { isAboutData } from '../db/faults.ts';
import type { Session } from '../db/pool.ts';
import { applyBatch } from '../projecting/apply.ts';
import { updateDerivedLater } from '../projecting/derived-state.ts';
import { LARGE_TEXT, nameOf, setAside } from '../projecting/late.ts';
import { ARCHIVE, FACTS, lockPartitions, partitionsAmong, partitionsByKey } from '../projecting/partitions.ts';
import { positionsOf } from '../projecting/positions.ts';
import { type PreparedBatch, prepare } from '../projecting/prepare.ts';
import { APPLYING, movePositions } from '../projecting/projector.ts';
import { asRead, type LogEvent, type Positions } from '../projecting/read-batch.ts';
import { type Incarnation, otherRecord, topicOf } from './known-log.ts';

export type ArchiveResult = {
  readonly accepted: number;
  /** The keys of what was accepted. */
  readonly keys: ReadonlySet<string>;
  readonly duplicates: number;
  readonly dead: number;
  /** Records below the stored position: they were applied before. */
  readonly skipped: number;
};

/** Settings of a transaction that archives. What the server loses of it is read again from the stored positions: the log has it. */
export const ARCHIVING = `${APPLYING}; ${KEYED}`;

type StoredPosition = {
  readonly partition: number;
  readonly position: number;
  readonly last_offset: number | null;
  readonly last_digest: string | null;
};

/**
 * Applies what was read, inside the caller's transaction, which has the settings `ARCHIVING`, and projects it; with `aside` it is only
 * archived, and projected later.
 * @throws TroupeError `fenced` when a partition's stored position does not lie within what the reader knew of it: before what was read,
 * and between them something would be lost; or behind the log's end, which the reader must ask for anew. `log_replaced` when the log is
 * not the one that was read before.
 */
export async function archiveIn(
  tx: Session,
  { log: number, name: log, label }: Incarnation,
  readings: readonly Reading[],
  { aside: allAside = false }: { readonly aside?: boolean } = {},
): Promise<ArchiveResult> {
  await tx.query('set local search_path = facts, pg_catalog');
  const read = readings.map((reading) => ({ reading, records: reading.records.map(readOf) }));
  const keys = read.flatMap(({ records }) => records.flatMap(({ event }) => (event ? [event.key] : [])));
  const stored = await lockPlaces(tx, number, readings, keys);
  const ends = new Map<number, { dead: number; accepted: number; duplicates: number }>();
  const events: (PlacedEvent & { record: LogRecord })[] = [];
  const letters: { place: string; raw: Uint8Array; refusal: Refusal }[] = [];
  const placeOf = (partition: number, position: number) => `${topicOf(label)}/${partition}/${position}`;
  let skipped = 0;
  for (const { reading, records } of read) {
    const { partition } = reading;
    const place = stored.get(partition);
    // An end below the position is no proof that the log was cut: a reader that slept holds what it fetched before others went on.
    if (place === undefined || place.position < reading.from || reading.end < place.position)
      throw fenced(log, reading, place);
    checkSame(log, reading, place);
    const counts = { dead: 0, accepted: 0, duplicates: 0 };
    ends.set(partition, counts);
    for (const { record, event, refusal } of records) {
      if (record.offset < place.position) skipped++;
      else if (refusal === undefined) events.push({ event, log: number, partition, position: record.offset, record });
      else {
        counts.dead++;
        letters.push({ place: placeOf(partition, record.offset), raw: rawOf(record), refusal });
      }
    }
  }
  const applied = await positionsOf(tx, FACTS);
  const { answers, placed, prepared, aside } = await appendOrBury(tx, events, {
    applied,
    least: allAside ? 0 : LARGE_TEXT,
  });
  for (const [i, answer] of answers.entries()) {
    const { event, partition, position, record } = events[i]!;
    const place = placeOf(partition, position);
    const counts = ends.get(partition)!;
    if (answer === 'accepted') counts.accepted++;
    else if (answer === 'duplicate') counts.duplicates++;
    else {
      counts.dead++;
      if (answer === 'conflict') {
        const raw = Buffer.from(JSON.stringify(encodeEnvelope(event)));
        letters.push({ place, raw, refusal: otherBody(event.id) });
      } else if (answer === 'erased') letters.push({ place, raw: new Uint8Array(), refusal: ERASED_REFUSAL });
      else {
        const refusal = 'pruned' in answer ? prunedRefusal(answer) : answer;
        letters.push({ place, raw: rawOf(record), refusal });
      }
    }
  }
  if (letters.length > 0) await writeLetters(tx, 'kafka', letters);
  if (placed.length > 0) {
    const small = aside.size === 0 ? placed : placed.filter((event) => !aside.has(nameOf(event)));
    await setAside(
      tx,
      placed.filter((event) => aside.has(nameOf(event))),
    );
    const dead = await applyBatch(tx, small, { applied, prepared, updateDerived: updateDerivedLater });
    await movePositions(tx, FACTS, { events: placed, dead });
  }
  await movePlaces(tx, number, readings, stored, ends);
  const sum = { accepted: 0, duplicates: 0, dead: 0 };
  for (const counts of ends.values()) {
    for (const name of ['accepted', 'duplicates', 'dead'] as const) sum[name] += counts[name];
  }
  return { ...sum, keys: new Set(placed.map(({ key }) => key)), skipped };
}

const READ = new WeakMap<LogRecord, DecodeResult>();

const readOf = (record: LogRecord) => ({ record, ...(READ.get(record) ?? readRecord(record)) });

/** Reads the records before their transaction begins: nobody waits for it meanwhile, and a second try need not read them again. */
export async function readBefore(readings: readonly Reading[]): Promise<void> {
  for (const { records } of readings)
    for (const record of records) {
      if (READ.has(record)) continue;
      READ.set(record, readRecord(record));
      await pause();
    }
}

/** Makes these records dead letters, whatever they hold, when they are archived. */
export function refuseBefore(readings: readonly Reading[], refusal: Refusal): void {
  for (const { records } of readings) for (const record of records) READ.set(record, { refusal });
}

/** Locks what was read, and the partitions of its keys: a producer may spread them by a rule of its own. */
async function lockPlaces(
  tx: Session,
  log: number,
  readings: readonly Reading[],
  keys: readonly string[],
): Promise<ReadonlyMap<number, StoredPosition>> {
  const partitions = readings.map(({ partition }) => partition);
  const own = partitions.map((partition) => ({ log, partition }));
  await lockPartitions(tx, [...own, ...partitionsAmong(new Set(keys), await partitionsByKey(tx))]);
  const { rows } = await tx.query<StoredPosition>(
    `select partition, position, last_offset, last_digest from troupe.positions
     where projection = $1 and log = $2 and partition = any($3::smallint[])`,
    [ARCHIVE, log, partitions],
    { name: 'archive_stored' },
  );
  return new Map(
    rows.map((row) => [
      row.partition,
      {
        ...row,
        position: Number(row.position),
        last_offset: row.last_offset === null ? null : Number(row.last_offset),
      },
    ]),
  );
}

const fenced = (log: string, { partition, from }: Reading, place: StoredPosition | undefined): TroupeError =>
  new TroupeError(
    'fenced',
    `Partition ${partition} of ${log} was read from offset ${from}, but its stored position is ${place?.position ?? 'gone'}; nothing of it was applied.`,
  );

/** The record that was applied last must still be the same. */
function checkSame(log: string, { partition, records }: Reading, place: StoredPosition): void {
  const again = records.find(({ offset }) => offset === place.last_offset);
  if (again === undefined || recordDigest(again) === place.last_digest) return;
  throw otherRecord(log, partition, again.offset);
}

/** The message where retention removed records that were not read. */
export const truncated = (log: string, partition: number, position: number, begin: number): TroupeError =>
  new TroupeError(
    'log_truncated',
    `Partition ${partition} of ${log} begins at offset ${begin}, after the stored position ${position}: ${begin - position} offsets were removed by retention before they were read. Nothing was skipped or applied. Those records are lost to Troupe: send them again. \`troupe log adopt\` then reads what the topic still holds, as a new log; what is in the tables stays.`,
  );

type Appending = {
  readonly answers: readonly (AppendResult | Refusal)[];
  /** What was accepted, in the order of the log. */
  readonly placed: readonly LogEvent[];
  /** What was made of it meanwhile, where all of it was appended at once. */
  readonly prepared: PreparedBatch | null;
  /** The names of those that are set aside. */
  readonly aside: ReadonlySet<string>;
};

/** `least`: characters of an event, without its texts, from which on it is set aside. */
type Preparing = { readonly applied: Positions; readonly least: number };

const largeAmong = (accepted: readonly PlacedSplit[], least: number): ReadonlySet<string> =>
  new Set(accepted.filter(({ split }) => split.json.length >= least).map(nameOf));

/** A record that the database cannot hold must not stop the others: then each is appended alone, and it gets its reason. */
async function appendOrBury(tx: Session, events: readonly PlacedEvent[], how: Preparing): Promise<Appending> {
  if (events.length === 0) return { answers: [], placed: [], prepared: null, aside: new Set() };
  const whole = await attempt(tx, () => appendAndPrepare(tx, events, how));
  if (!('reason' in whole)) return whole.value;
  const answers: (AppendResult | Refusal)[] = [];
  const accepted: PlacedSplit[] = [];
  for (const event of events) {
    const one = await attempt(tx, () => append(tx, [event]));
    answers.push('reason' in one ? unstorable(one.reason) : one.value.answers[0]!);
    if ('value' in one) accepted.push(...one.value.accepted);
  }
  return { answers, placed: asRead(accepted), prepared: null, aside: largeAmong(accepted, how.least) };
}

async function append(tx: Session, events: readonly PlacedEvent[]) {
  const { answers, accepted } = await newAmong(tx, events);
  await copyEvents(tx, accepted);
  return { answers, accepted };
}

async function newAmong(tx: Session, events: readonly PlacedEvent[]) {
  const answers = await lookUp(
    tx,
    events.map(({ event }) => event),
  );
  return { answers, accepted: events.filter((_, i) => answers[i] === 'accepted').map(withSplit) };
}

/** While the server takes the events their rows are made here. */
async function appendAndPrepare(
  tx: Session,
  events: readonly PlacedEvent[],
  { applied, least }: Preparing,
): Promise<Appending> {
  const { answers, accepted } = await newAmong(tx, events);
  const placed = asRead(accepted);
  const aside = largeAmong(accepted, least);
  const small = placed.filter((event) => !aside.has(nameOf(event)));
  const [written, prepared] = await Promise.allSettled([copyEvents(tx, accepted), prepare(tx, small, applied)]);
  if (written.status === 'rejected') throw written.reason;
  if (prepared.status === 'rejected') throw prepared.reason;
  return { answers, placed, prepared: prepared.value, aside };
}

async function attempt<T>(
  tx: Session,
  work: () => Promise<T>,
): Promise<{ readonly value: T } | { readonly reason: string }> {
  await tx.query('savepoint archiving');
  try {
    const value = await work();
    await tx.query('release savepoint archiving');
    return { value };
  } catch (error) {
    // What the environment fails at is tried again as a whole.
    if (!isAboutData(error)) throw error;
    await tx.query('rollback to savepoint archiving');
    return { reason: (error as Error).message };
  }
}

const otherBody = (id: string): Refusal => ({
  code: 'id_conflict',
  field: 'id',
  expected: 'an id that was not used before, or the same event again',
  got: `${JSON.stringify(id)} with another body`,
});

async function movePlaces(
  tx: Session,
  log: number,
  readings: readonly Reading[],
  places: ReadonlyMap<number, StoredPosition>,
  ends: ReadonlyMap<number, { readonly dead: number; readonly accepted: number; readonly duplicates: number }>,
): Promise<void> {
  const moved = readings.flatMap(({ partition, next, records }) => {
    const { position, last_offset, last_digest } = places.get(partition)!;
    if (next <= position) return [];
    const last = records.at(-1);
    const kept =
      last === undefined ? { last_offset, last_digest } : { last_offset: last.offset, last_digest: recordDigest(last) };
    const { accepted: applied, duplicates, dead } = ends.get(partition)!;
    return [{ partition, position: next, ...kept, applied, duplicates, dead }];
  });
  if (moved.length === 0) return;
  await tx.query(
    `update troupe.positions p set position = n.position, last_offset = n.last_offset, last_digest = n.last_digest,
            applied = p.applied + n.applied, duplicates = p.duplicates + n.duplicates, dead = p.dead + n.dead
     from json_to_recordset($3::json) as n (partition smallint, position bigint, last_offset bigint, last_digest text, applied bigint, duplicates bigint, dead bigint)
     where p.projection = $1 and p.log = $2 and p.partition = n.partition`,
    [ARCHIVE, log, JSON.stringify(moved)],
    { name: 'archive_move' },
  );
}
