/**
 * The locks under which events of a key are applied, one for each partition: the row that keeps how far it was read. A key's home is the
 * partition that its producers should have chosen; whoever has events of it elsewhere takes the lock of its home too.
 */
import { kafkaPartitionOf, partitionOf } from '../../ingest/log/partition.ts';
import { EMBEDDED_LOG, type Place } from '../../ingest/log/postgres.ts';
import type { Session } from '../db/pool.ts';

/** Name of the projection under which positions in an outer log are kept. */
export const ARCHIVE = 'archive';
/** Name of the projection under which it is kept how far the tables are. */
export const FACTS = 'facts';

export type Home = Pick<Place, 'log' | 'partition'>;

/** Where keys are at home: in the topic that was opened last, in the embedded log where there is none. */
export async function homesOf(tx: Session): Promise<(key: string) => Home> {
  const { rows } = await tx.query<{ log: number; partitions: number }>(
    `select log, partitions from troupe.logs where log <> ${EMBEDDED_LOG} order by replaced_at desc nulls first, log desc limit 1`,
    [],
    { name: 'log_of_homes' },
  );
  const topic = rows[0];
  return topic === undefined
    ? (key) => ({ log: EMBEDDED_LOG, partition: partitionOf(key) })
    : (key) => ({ log: topic.log, partition: kafkaPartitionOf(key, topic.partitions) });
}

export const homeName = ({ log, partition }: Home): string => `${log}/${partition}`;

/** The homes of these keys, each once. */
export const homesAmong = (keys: Iterable<string>, homeOf: (key: string) => Home): readonly Home[] => [
  ...new Map(Array.from(keys, (key) => [homeName(homeOf(key)), homeOf(key)])).values(),
];

const LOCKS = `
  select log, partition from troupe.positions
  where projection = case when log = ${EMBEDDED_LOG} then '${FACTS}' else '${ARCHIVE}' end`;
const AMONG = 'and (log, partition) in (select * from unnest($1::smallint[], $2::smallint[]))';
const paramsOf = (homes: readonly Home[]): unknown[] => [
  homes.map(({ log }) => log),
  homes.map(({ partition }) => partition),
];

/** Takes the locks of these homes, in the one order in which everybody takes them. */
export async function lockHomes(tx: Session, homes: readonly Home[]): Promise<void> {
  if (homes.length === 0) return;
  await tx.query(`${LOCKS} ${AMONG} order by log, partition for update`, paramsOf(homes), { name: 'homes_lock' });
}

/** Takes those of these locks that nobody holds. Returns the names of what it has. */
export async function tryHomes(tx: Session, homes: readonly Home[]): Promise<ReadonlySet<string>> {
  if (homes.length === 0) return new Set();
  const { rows } = await tx.query<Home>(
    `${LOCKS} ${AMONG} order by log, partition for update skip locked`,
    paramsOf(homes),
    { name: 'homes_try' },
  );
  return new Set(rows.map(homeName));
}

/** Takes all of them: nobody else projects or archives until the transaction ends. */
export async function lockAllHomes(tx: Session): Promise<void> {
  await tx.query(`${LOCKS} order by log, partition for update`, [], { name: 'homes_lock_all' });
}
