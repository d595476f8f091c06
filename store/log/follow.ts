/** Reading a log outside the database into the archive, from the stored positions on, for ever or up to where it ends now. */
import { setTimeout as sleep } from 'node:timers/promises';
import { TroupeError } from '../../errors.ts';
import { repartitioned } from '../../ingest/log/kafka-log.ts';
import type { LogPartition } from '../../ingest/log/log.ts';
import { replacedBy, type TopicNow } from '../../ingest/log/replaced.ts';
import type { LogSource, Reading } from '../../ingest/log/source.ts';
import { isTooMuch, isTransient } from '../db/faults.ts';
import type { Db } from '../db/pool.ts';
import { ARCHIVE } from '../projecting/partitions.ts';
import { applyPending } from '../projecting/pending-changes.ts';
import { announce, type OnBatch } from '../projecting/projector.ts';
import { ARCHIVING, archiveIn, readBefore, refuseBefore, truncated } from './archive.ts';
import { addLog, lockLogs, placePartitions, topicNow } from './incarnations.ts';
import { type Incarnation, knownLog, topicOf } from './known-log.ts';

export type FollowOptions = {
  readonly signal: AbortSignal;
  /** Called with errors that are waited out: an unreachable database or broker. */
  readonly onTrouble?: (error: unknown) => void;
  /** Called after each batch that was applied. */
  readonly onBatch?: OnBatch;
  /** How often the topic is looked at when nothing comes. */
  readonly lookMs?: number;
};

const RETRY_MS = { least: 50, most: 2000 };

/**
 * Brings what the log holds into `troupe.events` and the tables until the signal, sharing the partitions with all who do the same.
 * @throws TroupeError `log_replaced`, `log_truncated` and `log_repartitioned` where going on would lose or reorder something; nothing is skipped.
 */
export async function followLog(
  db: Db,
  source: LogSource,
  { signal, onTrouble = () => {}, onBatch = () => {}, lookMs = 15_000 }: FollowOptions,
): Promise<void> {
  const failed = new AbortController();
  const both = AbortSignal.any([signal, failed.signal]);
  const opened = await patiently(both, onTrouble, async () => (await openLog(db, source)) ?? missing(source));
  if (opened === null) return;
  const { log } = opened;
  const looking = (async () => {
    while (!both.aborted) {
      await sleep(lookMs, undefined, { signal: both }).catch(() => {});
      if (both.aborted) return;
      try {
        await lookAgain(db, source, log);
      } catch (error) {
        if (isTransient(error)) onTrouble(error);
        else throw error;
      }
    }
  })();
  looking.catch(() => failed.abort());
  await source.read({
    signal: both,
    alone: false,
    onTrouble,
    ...reading(db, source, log, both, { onTrouble, onBatch }),
  });
  if (failed.signal.aborted) await looking;
}

/**
 * Brings in what the log holds now, whoever else reads it. Returns how many events were new; none where there is no topic yet.
 * @throws TroupeError as `followLog`, and `interrupted` when the signal comes first.
 */
export async function bringIn(
  db: Db,
  source: LogSource,
  { signal }: { readonly signal?: AbortSignal } = {},
): Promise<number> {
  const opened = await openLog(db, source);
  if (opened === null) return 0;
  const { log, partitions } = opened;
  const before = await positionsIn(db, log);
  const behind = (now: ReadonlyMap<number, number>) =>
    partitions.some(({ partition, end }) => (now.get(partition) ?? 0) < end);
  if (!behind(before.positions)) return 0;
  const done = new AbortController();
  const either = signal ? AbortSignal.any([signal, done.signal]) : done.signal;
  const { assigned, take } = reading(db, source, log, either, { onTrouble: () => {}, onBatch: () => {} });
  const look = async () => {
    const now = await positionsIn(db, log);
    if (!behind(now.positions)) done.abort();
  };
  const timer = setInterval(() => void look().catch(() => {}), 250);
  try {
    await source.read({
      signal: either,
      alone: true,
      onTrouble: () => {},
      assigned,
      take: async (readings, lost) => {
        const elsewhere = await take(readings, lost);
        await look();
        return elsewhere;
      },
    });
  } finally {
    clearInterval(timer);
  }
  if (!done.signal.aborted)
    throw new TroupeError('interrupted', 'It was stopped before the tables had caught up with the log.');
  return (await positionsIn(db, log)).applied - before.applied;
}

const missing = (source: LogSource): never => {
  throw new TroupeError(
    'unreachable',
    `There is no topic ${topicOf(source.name)} yet; it is made with the first event.`,
  );
};

/** What is read belongs to the incarnation that was compared with the topic, also where another is adopted meanwhile. */
const reading = (
  db: Db,
  source: LogSource,
  log: Incarnation,
  signal: AbortSignal,
  { onTrouble, onBatch }: Required<Pick<FollowOptions, 'onTrouble' | 'onBatch'>>,
) => ({
  assigned: async (partitions: readonly number[]): Promise<ReadonlyMap<number, number>> => {
    const ask = () =>
      db.query<{ partition: number; offset: number }>(
        `select partition, coalesce(last_offset, position) as offset from troupe.positions
       where projection = $1 and log = $2 and partition = any($3::smallint[])`,
        [ARCHIVE, log.log, partitions],
      );
    const found = await patiently(signal, onTrouble, ask);
    // The last record is read again, to see that it is still the same.
    return new Map((found?.rows ?? []).map(({ partition, offset }) => [partition, Number(offset)]));
  },
  take: async (readings: readonly Reading[], lost: () => boolean): Promise<ReadonlyMap<number, number> | null> => {
    let records = MOST_RECORDS;
    let tries = 0;
    let pause: number = RETRY_MS.least;
    for (let left = readings; left.length > 0; ) {
      const { piece, rest } = firstOf(left, { records, bytes: MOST_BYTES });
      const began = performance.now();
      try {
        await readBefore(piece);
        const settings = `${ARCHIVING}; set local idle_in_transaction_session_timeout = '${PATIENCE_S[tries]}s'`;
        const aside = tries > 0;
        const { accepted, keys } = await db.transaction((tx) => archiveIn(tx, log, piece, { aside }), { settings });
        if (accepted > 0) {
          onBatch({ events: accepted, keys, delay: delayOf(piece) }, (performance.now() - began) / 1000);
          await afterCommit(db);
        }
        left = rest;
        [tries, pause, records] = [0, RETRY_MS.least, Math.min(MOST_RECORDS, 2 * records)];
      } catch (error) {
        if (error instanceof TroupeError && error.code === 'fenced') return stored(db, source, log, readings);
        if (!isTransient(error)) throw error;
        onTrouble(error);
        if (lost()) return null;
        if (isTooMuch(error)) {
          const held = piece.reduce((sum, one) => sum + one.records.length, 0);
          if (held <= 1 && tries === PATIENCE_S.length - 1) layAside(piece, error as Error);
          else if (held <= 1) tries++;
          records = Math.ceil(held / SMALLER);
        }
        await sleep(pause);
        pause = Math.min(RETRY_MS.most, pause * 2);
      }
    }
    return NOWHERE;
  },
});

/** Records and bytes that are applied in one transaction; one record more may be taken. A fetch may hold a hundred times as many. */
const MOST_RECORDS = 2000;
const MOST_BYTES = 4 * 1024 * 1024;
/** What was too much for a transaction is tried again as so small a part. */
const SMALLER = 16;
/** How long a transaction may be idle: a record that was too much alone is archived with more time, and projected by others; after these tries
 * it becomes a dead letter. */
const PATIENCE_S = [8, 60, 300] as const;

/** The one record of a piece that the database gives up on is none that can be stored. */
const layAside = (piece: readonly Reading[], { message }: Error): void =>
  refuseBefore(piece, {
    code: 'too_large',
    field: 'data',
    expected: `an event that is written within ${PATIENCE_S.at(-1)} s`,
    got: message,
  });

/** The first records of these readings, those of each partition before the later ones of the others, and what is left. */
function firstOf(
  readings: readonly Reading[],
  most: { readonly records: number; readonly bytes: number },
): { readonly piece: readonly Reading[]; readonly rest: readonly Reading[] } {
  const counts = readings.map(() => 0);
  const sizes = readings.map(() => 0);
  let [records, bytes] = [0, 0];
  while (records < most.records && (bytes < most.bytes || records === 0)) {
    let next = -1;
    for (const [i, reading] of readings.entries())
      if (counts[i]! < reading.records.length && (next < 0 || sizes[i]! < sizes[next]!)) next = i;
    if (next < 0) return { piece: readings, rest: [] };
    const size = readings[next]!.records[counts[next]!]!.value?.length ?? 0;
    if (records > 0 && bytes + size > most.bytes) break;
    counts[next]!++;
    sizes[next]! += size + 1;
    bytes += size;
    records++;
  }
  const cut = readings.map((reading, i) => ({ reading, count: counts[i]! }));
  return {
    piece: cut.flatMap(({ reading, count }) => {
      const { records } = reading;
      if (count === records.length) return [reading];
      return count === 0 ? [] : [{ ...reading, next: records[count]!.offset, records: records.slice(0, count) }];
    }),
    rest: cut.flatMap(({ reading, count }) => {
      const { records } = reading;
      if (count === records.length) return [];
      return [count === 0 ? reading : { ...reading, from: records[count]!.offset, records: records.slice(count) }];
    }),
  };
}

/** What a batch leaves for others is applied, and they are notified, outside of its transaction. */
async function afterCommit(db: Db): Promise<void> {
  await applyPending(db);
  await announce(db);
}

const NOWHERE: ReadonlyMap<number, number> = new Map();

/** Where these partitions are to be read, since they were read from elsewhere. @throws TroupeError `log_replaced`, `log_truncated` */
async function stored(
  db: Db,
  source: LogSource,
  log: Incarnation,
  readings: readonly Reading[],
): Promise<ReadonlyMap<number, number>> {
  await lookAgain(db, source, log);
  const { positions } = await positionsIn(db, log);
  return new Map(readings.map(({ partition }) => [partition, positions.get(partition)!]));
}

type TopicState = { readonly log: Incarnation; readonly partitions: readonly LogPartition[] };

/**
 * Looks at the topic and compares it with what is known of it; opens a position for each partition of a new one. Null while there is no
 * topic and none was ever read.
 */
async function openLog(db: Db, source: LogSource): Promise<TopicState | null> {
  const { name } = source;
  const topic = topicOf(name);
  // What is known is asked first: it grows while the topic is looked at.
  const known = await knownLog(db, name);
  const now = await topicNow(source);
  const { partitions } = now;
  if (known === null) {
    if (partitions.length === 0) return null;
    await openPositions(db, name, now);
    return { log: (await knownLog(db, name))!, partitions };
  }
  const why = replacedBy(topic, known, now);
  if (why !== null) throw why;
  if (known.partitions !== partitions.length) {
    if (source.accepts !== partitions.length) throw repartitioned(topic, known.partitions, partitions.length);
    await openPositions(db, name, now);
  }
  // Positions move and records go while we look: the beginning is held against what is stored now.
  const { positions } = await positionsIn(db, known);
  for (const { partition, begin } of partitions) {
    const position = positions.get(partition) ?? begin;
    if (begin > position) throw truncated(name, partition, position, begin);
  }
  return { log: known, partitions };
}

/** The same for who reads this incarnation. @throws TroupeError `log_replaced` where another was adopted meanwhile */
async function lookAgain(db: Db, source: LogSource, log: Incarnation): Promise<void> {
  const now = (await openLog(db, source))!.log;
  if (now.log === log.log) return;
  throw new TroupeError(
    'log_replaced',
    `Another topic ${topicOf(log.name)} was adopted as ${now.label} while this process read ${log.label}. Start it again: it then reads the new one.`,
  );
}

/** A position for each partition that has none, and how many there are. */
const openPositions = (db: Db, name: string, now: TopicNow): Promise<void> =>
  db.transaction(async (tx) => {
    await lockLogs(tx);
    const { rows } = await tx.query<{ log: number }>(
      `with known as (
         update troupe.logs set partitions = $2 where log = (select log from troupe.logs where name = $1 order by generation desc limit 1)
         returning log
       )
       select log from known`,
      [name, now.partitions.length],
    );
    await placePartitions(tx, rows[0]?.log ?? (await addLog(tx, name, now)), now.partitions);
  });

/** The offset that is read next of each partition, and how many events were new so far. */
async function positionsIn(
  db: Db,
  { log }: Incarnation,
): Promise<{ readonly positions: ReadonlyMap<number, number>; readonly applied: number }> {
  const { rows } = await db.query<{ partition: number; position: number; applied: number }>(
    'select partition, position, applied from troupe.positions where projection = $1 and log = $2',
    [ARCHIVE, log],
    { name: 'archive_positions' },
  );
  return {
    positions: new Map(rows.map(({ partition, position }) => [partition, Number(position)])),
    applied: rows.reduce((sum, { applied }) => sum + Number(applied), 0),
  };
}

async function patiently<T>(
  signal: AbortSignal,
  onTrouble: (error: unknown) => void,
  work: () => Promise<T>,
): Promise<T | null> {
  for (let pause = 200; !signal.aborted; pause = Math.min(5000, pause * 2)) {
    try {
      return await work();
    } catch (error) {
      if (!isTransient(error)) throw error;
      onTrouble(error);
      await sleep(pause, undefined, { signal }).catch(() => {});
    }
  }
  return null;
}

/** Seconds since the oldest of these records was written, by the clock of the broker or of who sent it. */
function delayOf(readings: readonly Reading[]): number {
  const oldest = readings.reduce(
    (least, { records }) => records.reduce((of, { timestamp }) => Math.min(of, Number(timestamp)), least),
    Date.now(),
  );
  return (Date.now() - oldest) / 1000;
}
