/** What the database knows of a log outside of it, for whoever writes to that log: to see that it is still the same. */

import { TroupeError } from '../../errors.ts';
import type { LogGuard } from '../../ingest/log/kafka-log.ts';
import { recordDigest } from '../../ingest/log/kafka-record.ts';
import { type KnownLog, type KnownPlace, replaced, type TopicNow } from '../../ingest/log/replaced.ts';
import type { LogSource } from '../../ingest/log/source.ts';
import type { Session } from '../db/pool.ts';
import { ARCHIVE } from '../projecting/partitions.ts';
import type { SealedFile } from '../server/sealed.ts';

/** One incarnation of a log: the first that was read under its name, or one that took the place of that. */
export type Incarnation = {
  /** Its number in `troupe.logs`. */
  readonly log: number;
  /** `kafka:<topic>`. */
  readonly name: string;
  /** The name, and from the second incarnation on `#1`, `#2` …. */
  readonly label: string;
};

/** What is stored of the newest incarnation of this name; null for a log that was never read. */
export async function knownLog(db: Pick<Session, 'query'>, name: string): Promise<(KnownLog & Incarnation) | null> {
  const { rows: topics } = await db.query<Incarnation & { cluster_id: string | null; partitions: number }>(
    'select log, name, label, cluster_id, partitions from troupe.logs where name = $1 order by generation desc limit 1',
    [name],
  );
  const [topic] = topics;
  if (topic === undefined) return null;
  const { rows } = await db.query<KnownPlace>(
    'select partition, position, last_offset, last_digest from troupe.positions where projection = $1 and log = $2 order by partition',
    [ARCHIVE, topic.log],
  );
  const places = rows.map(({ partition, position, last_offset, last_digest }) => ({
    partition,
    position: Number(position),
    last_offset: last_offset === null ? null : Number(last_offset),
    last_digest,
  }));
  const { log, label, cluster_id: cluster, partitions } = topic;
  return { log, name, label, cluster, partitions, places };
}

/**
 * Reads of each partition the record that was read last, where it is still there.
 * Returns false where the signal came before all were compared.
 * @throws TroupeError `log_replaced` where one is another record.
 */
export async function compareLast(
  source: LogSource,
  known: KnownLog,
  { partitions }: TopicNow,
  signal: AbortSignal,
): Promise<boolean> {
  const there = known.places.filter(({ partition, last_offset }) => {
    const now = partitions.find((one) => one.partition === partition);
    return now !== undefined && last_offset !== null && now.begin <= last_offset && last_offset < now.end;
  });
  const left = new Map(there.map((place) => [place.partition, place]));
  if (left.size === 0) return true;
  const done = new AbortController();
  await source.read({
    signal: AbortSignal.any([signal, done.signal]),
    alone: true,
    onTrouble: () => {},
    assigned: async () =>
      new Map(partitions.map(({ partition, end }) => [partition, left.get(partition)?.last_offset ?? end])),
    take: async (readings) => {
      for (const { partition, records } of readings) {
        const place = left.get(partition);
        left.delete(partition);
        const again = records.find(({ offset }) => offset === place?.last_offset);
        if (place === undefined || again === undefined || recordDigest(again) === place.last_digest) continue;
        throw otherRecord(source.name, partition, again.offset);
      }
      if (left.size === 0) done.abort();
      return new Map();
    },
  });
  return left.size === 0;
}

/** The topic of a log by its name. */
export const topicOf = (name: string): string => name.slice(name.indexOf(':') + 1);

/** Why a topic is another log where the record that was read last is not there any more. */
export const otherRecord = (name: string, partition: number, offset: number): TroupeError =>
  replaced(
    topicOf(name),
    `the record at offset ${offset} of partition ${partition} is not the one that was read there`,
  );

/** How long the database is asked, before what was sealed counts; and how long records are read to be compared. */
const PATIENCE_MS = { ask: 1500, compare: 20_000 };

/** What whoever writes to the log compares it with: what the database knows, or knew when it was asked last. */
export const guardOf = (db: Pick<Session, 'query'>, source: LogSource, seal: SealedFile<KnownLog>): LogGuard => ({
  known: async () => {
    let known: KnownLog | null;
    try {
      known = await soon(knownLog(db, source.name));
    } catch {
      return seal.read();
    }
    try {
      if (known !== null) seal.write(known);
    } catch {
      // Then what was sealed before counts while the database is away.
    }
    return known;
  },
  compare: async (known, now) => {
    await compareLast(source, known, now, AbortSignal.timeout(PATIENCE_MS.compare));
  },
});

function soon<T>(work: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const late = () => reject(new TroupeError('unreachable', 'The database did not answer in time.'));
    const timer = setTimeout(late, PATIENCE_MS.ask);
    work.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}
