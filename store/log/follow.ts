/** Reading a log outside the database into the archive, from the stored positions on, for ever or up to where it ends now. */
import { setTimeout as sleep } from 'node:timers/promises';
import { TroupeError } from '../../errors.ts';
import { repartitioned } from '../../ingest/log/kafka-log.ts';
import type { LogPartition } from '../../ingest/log/log.ts';
import type { LogSource, Reading } from '../../ingest/log/source.ts';
import { isTransient } from '../db/faults.ts';
import type { Db } from '../db/pool.ts';
import { ARCHIVE, lockAllHomes } from '../projecting/homes.ts';
import { announce } from '../projecting/projector.ts';
import { settleRest } from '../projecting/unsettled.ts';
import { ARCHIVING, archiveIn, truncated } from './archive.ts';

export type FollowOptions = {
  readonly signal: AbortSignal;
  /** Told of trouble that is waited out: a database or broker that is away. */
  readonly onTrouble?: (error: unknown) => void;
  /** How often the topic is looked at when nothing comes. */
  readonly lookMs?: number;
};

const RETRY_MS = { least: 50, most: 2000 };

/**
 * Brings what the log holds into `troupe.events` and the tables until the signal, sharing the partitions with all who do the same.
 * @throws TroupeError `log_truncated` and `log_repartitioned` where going on would lose or reorder something; nothing is skipped.
 */
export async function followLog(
  db: Db,
  source: LogSource,
  { signal, onTrouble = () => {}, lookMs = 15_000 }: FollowOptions,
): Promise<void> {
  const failed = new AbortController();
  const both = AbortSignal.any([signal, failed.signal]);
  await patiently(both, onTrouble, () => openLog(db, source));
  const looking = (async () => {
    while (!both.aborted) {
      await sleep(lookMs, undefined, { signal: both }).catch(() => {});
      if (both.aborted) return;
      try {
        await openLog(db, source);
      } catch (error) {
        if (isTransient(error)) onTrouble(error);
        else throw error;
      }
    }
  })();
  looking.catch(() => failed.abort());
  await source.read({ signal: both, alone: false, onTrouble, ...reading(db, source, both, onTrouble) });
  if (failed.signal.aborted) await looking;
}

/**
 * Brings in what the log holds now, whoever else reads it. Returns how many events were new.
 * @throws TroupeError as `followLog`, and `interrupted` when the signal comes first.
 */
export async function bringIn(
  db: Db,
  source: LogSource,
  { signal }: { readonly signal?: AbortSignal } = {},
): Promise<number> {
  const partitions = await openLog(db, source);
  const before = await positionsIn(db, source.name);
  const behind = (now: ReadonlyMap<number, number>) =>
    partitions.some(({ partition, end }) => (now.get(partition) ?? 0) < end);
  if (!behind(before.positions)) return 0;
  const done = new AbortController();
  const either = signal ? AbortSignal.any([signal, done.signal]) : done.signal;
  const { assigned, take } = reading(db, source, either, () => {});
  const look = async () => {
    const now = await positionsIn(db, source.name);
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
  return (await positionsIn(db, source.name)).applied - before.applied;
}

const reading = (db: Db, source: LogSource, signal: AbortSignal, onTrouble: (error: unknown) => void) => ({
  assigned: async (partitions: readonly number[]): Promise<ReadonlyMap<number, number>> => {
    const ask = () =>
      db.query<{ partition: number; offset: number }>(
        `select partition, coalesce(last_offset, position) as offset from troupe.positions
       where projection = $1 and log = ${NEWEST} and partition = any($3::smallint[])`,
        [ARCHIVE, source.name, partitions],
      );
    const found = await patiently(signal, onTrouble, ask);
    // The last record is read again, to see that it is still the same.
    return new Map((found?.rows ?? []).map(({ partition, offset }) => [partition, Number(offset)]));
  },
  take: async (readings: readonly Reading[], lost: () => boolean): Promise<ReadonlyMap<number, number> | null> => {
    for (let pause = RETRY_MS.least; ; pause = Math.min(RETRY_MS.most, pause * 2)) {
      try {
        return await db
          .transaction((tx) => archiveIn(tx, source.name, readings), { settings: ARCHIVING })
          .then(
            async ({ accepted }) => {
              if (accepted > 0) await afterCommit(db);
              return NOWHERE;
            },
            (error) => {
              if (error instanceof TroupeError && error.code === 'fenced') return stored(db, source, readings);
              throw error;
            },
          );
      } catch (error) {
        if (!isTransient(error)) throw error;
        onTrouble(error);
        if (lost()) return null;
        await sleep(pause);
      }
    }
  },
});
/** What a batch leaves for others is settled, and they hear of it, outside of its transaction. */
async function afterCommit(db: Db): Promise<void> {
  await settleRest(db);
  await announce(db);
}

const NOWHERE: ReadonlyMap<number, number> = new Map();

/** Where these partitions are to be read, since they were read from elsewhere. @throws TroupeError `log_truncated` */
async function stored(db: Db, source: LogSource, readings: readonly Reading[]): Promise<ReadonlyMap<number, number>> {
  await openLog(db, source);
  const { positions } = await positionsIn(db, source.name);
  return new Map(readings.map(({ partition }) => [partition, positions.get(partition)!]));
}

/** Looks at the topic and compares it with what is known of it; opens a position for each partition of a new one. */
async function openLog(db: Db, source: LogSource): Promise<readonly LogPartition[]> {
  const { name } = source;
  const before = (await positionsIn(db, name)).positions;
  const { cluster, partitions } = await source.facts().catch((error) => {
    if (error instanceof TroupeError && error.code === 'not_found') return { cluster: null, partitions: [] };
    throw error;
  });
  const { rows } = await db.query<{ cluster_id: string | null; partitions: number }>(
    'select cluster_id, partitions from troupe.logs where name = $1 order by generation desc limit 1',
    [name],
  );
  const [known] = rows;
  const topic = name.slice(name.indexOf(':') + 1);
  if (known === undefined) {
    if (partitions.length === 0)
      throw new TroupeError('unreachable', `There is no topic ${topic} yet; it is made with the first event.`);
    await openPositions(db, name, cluster, partitions);
    return partitions;
  }
  if (partitions.length === 0) {
    throw new TroupeError(
      'log_truncated',
      `Topic ${topic} is gone: it was deleted, or another cluster answers. What was read is in the tables; to begin anew, choose a new name for kafka_topic.`,
    );
  }
  if (known.cluster_id !== null && cluster !== null && known.cluster_id !== cluster) {
    throw new TroupeError(
      'log_truncated',
      `Topic ${topic} was read from cluster ${known.cluster_id}, but cluster ${cluster} answers now. Point kafka_brokers at the first, or choose a new name for kafka_topic.`,
    );
  }
  if (known.partitions !== partitions.length) {
    if (source.accepts !== partitions.length) throw repartitioned(topic, known.partitions, partitions.length);
    await openPositions(db, name, cluster, partitions);
  }
  // Positions move and records go while we look: the end is held against what was read before, the beginning against what is now.
  const after = (await positionsIn(db, name)).positions;
  for (const { partition, begin, end } of partitions) {
    const [least, most] = [before.get(partition) ?? 0, after.get(partition) ?? begin];
    if (end < least) throw truncated(name, partition, least, { begin, end });
    if (begin > most) throw truncated(name, partition, most, { begin, end });
  }
  return partitions;
}

/** A position for each partition that has none, and how many there are. */
const openPositions = (
  db: Db,
  log: string,
  cluster: string | null,
  partitions: readonly LogPartition[],
): Promise<void> =>
  db.transaction(async (tx) => {
    // Where keys are at home changes now: whoever applies something ends first.
    await tx.query('lock table troupe.logs in share row exclusive mode');
    await lockAllHomes(tx);
    const { rows } = await tx.query<{ log: number }>(
      `with known as (
         update troupe.logs set partitions = $3 where log = (select log from troupe.logs where name = $1 order by generation desc limit 1)
         returning log
       ), made as (
         insert into troupe.logs (log, name, cluster_id, partitions)
         select (select max(log) + 1 from troupe.logs), $1, $2, $3 where not exists (select from known) returning log
       )
       select log from known union all select log from made`,
      [log, cluster, partitions.length],
    );
    await tx.query(
      `insert into troupe.positions (projection, log, partition, position, began)
       select name, $1, partition, begin, case when name = '${ARCHIVE}' then begin end
       from json_to_recordset($2::json) as p (partition smallint, begin bigint), (values ('${ARCHIVE}'), ('facts')) n (name)
       on conflict do nothing`,
      [rows[0]!.log, JSON.stringify(partitions)],
    );
  });

/** The number of the incarnation of a log that is read now, by its name, `$2`. */
const NEWEST = '(select log from troupe.logs where name = $2 order by generation desc limit 1)';

/** The offset that is read next of each partition, and how many events were new so far. */
async function positionsIn(
  db: Db,
  log: string,
): Promise<{ readonly positions: ReadonlyMap<number, number>; readonly applied: number }> {
  const { rows } = await db.query<{ partition: number; position: number; applied: number }>(
    `select partition, position, applied from troupe.positions where projection = $1 and log = ${NEWEST}`,
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
