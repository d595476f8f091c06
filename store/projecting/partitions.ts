/**
 * The locks under which events of a key are applied, one for each partition: the row that keeps how far it was read. A key's partition is
 * the one that its producers should have chosen; whoever has events of it elsewhere takes the lock of that one too.
 */
import { kafkaPartitionOf, partitionOf } from '../../ingest/log/partition.ts';
import { EMBEDDED_LOG, type Place } from '../../ingest/log/postgres.ts';
import type { Session } from '../db/pool.ts';

/** Name of the projection under which positions in an outer log are kept. */
export const ARCHIVE = 'archive';
/** Name of the projection under which it is kept how far the tables are. */
export const FACTS = 'facts';

export type KeyPartition = Pick<Place, 'log' | 'partition'>;

/** The partition of a key: of the topic that was opened last, of the embedded log where there is none. */
export async function partitionsByKey(tx: Session): Promise<(key: string) => KeyPartition> {
  const { rows } = await tx.query<{ log: number; partitions: number }>(
    `select log, partitions from troupe.logs where log <> ${EMBEDDED_LOG} order by replaced_at desc nulls first, log desc limit 1`,
    [],
    { name: 'log_of_keys' },
  );
  const topic = rows[0];
  return topic === undefined
    ? (key) => ({ log: EMBEDDED_LOG, partition: partitionOf(key) })
    : (key) => ({ log: topic.log, partition: kafkaPartitionOf(key, topic.partitions) });
}

export const partitionLabel = ({ log, partition }: KeyPartition): string => `${log}/${partition}`;

/** The partitions of these keys, each once. */
export const partitionsAmong = (
  keys: Iterable<string>,
  partitionOfKey: (key: string) => KeyPartition,
): readonly KeyPartition[] => [
  ...new Map(Array.from(keys, (key) => [partitionLabel(partitionOfKey(key)), partitionOfKey(key)])).values(),
];

const LOCKS = `
  select log, partition from troupe.positions
  where projection = case when log = ${EMBEDDED_LOG} then '${FACTS}' else '${ARCHIVE}' end`;
const AMONG = 'and (log, partition) in (select * from unnest($1::smallint[], $2::smallint[]))';
const paramsOf = (partitions: readonly KeyPartition[]): unknown[] => [
  partitions.map(({ log }) => log),
  partitions.map(({ partition }) => partition),
];

/** Takes the locks of these partitions, in the one order in which everybody takes them. */
export async function lockPartitions(tx: Session, partitions: readonly KeyPartition[]): Promise<void> {
  if (partitions.length === 0) return;
  await tx.query(`${LOCKS} ${AMONG} order by log, partition for update`, paramsOf(partitions), {
    name: 'partitions_lock',
  });
}

/** Takes those of these locks that nobody holds. Returns the names of what it has. */
export async function tryPartitions(tx: Session, partitions: readonly KeyPartition[]): Promise<ReadonlySet<string>> {
  if (partitions.length === 0) return new Set();
  const { rows } = await tx.query<KeyPartition>(
    `${LOCKS} ${AMONG} order by log, partition for update skip locked`,
    paramsOf(partitions),
    { name: 'partitions_try' },
  );
  return new Set(rows.map(partitionLabel));
}

/** Takes all of them: nobody else projects or archives until the transaction ends. */
export async function lockAllPartitions(tx: Session): Promise<void> {
  await tx.query(`${LOCKS} order by log, partition for update`, [], { name: 'partitions_lock_all' });
}
