/** The rows of logs outside the database: each incarnation of a topic has a number, and a position for each of its partitions. */
import { TroupeError } from '../../errors.ts';
import type { LogPartition } from '../../ingest/log/log.ts';
import { EMBEDDED_LOG } from '../../ingest/log/postgres.ts';
import type { TopicNow } from '../../ingest/log/replaced.ts';
import type { LogSource } from '../../ingest/log/source.ts';
import type { Session } from '../db/pool.ts';
import { countOf, query, rowsOf, type SqlBool, sql } from '../db/query.ts';
import { ARCHIVE, FACTS, lockAllPartitions } from '../projecting/partitions.ts';

/** The topic and its cluster as they are now; without partitions where there is no topic. @throws TroupeError `unreachable` */
export async function topicNow(source: LogSource): Promise<TopicNow> {
  try {
    return await source.facts();
  } catch (error) {
    if (error instanceof TroupeError && error.code === 'not_found') return { cluster: null, partitions: [] };
    throw error;
  }
}

/** The partitions of keys change: whoever applies something ends first, and nobody else adds a log. */
export async function lockLogs(tx: Session): Promise<void> {
  await tx.query('lock table troupe.logs in share row exclusive mode');
  await lockAllPartitions(tx);
}

/** Adds the next incarnation of this name and returns its number. The transaction has `lockLogs`. */
export async function addLog(tx: Session, name: string, { cluster, partitions }: TopicNow): Promise<number> {
  const [added] = await rowsOf(
    tx,
    query
      .insertInto('troupe.logs')
      .columns(['log', 'name', 'generation', 'cluster_id', 'partitions'])
      .expression((one) =>
        one
          .selectFrom('troupe.logs')
          .select([
            sql<number>`max(log) + 1`.as('log'),
            sql<string>`${name}`.as('name'),
            sql<number>`coalesce(max(generation) filter (where name = ${name}) + 1, 0)`.as('generation'),
            sql<string | null>`${cluster}`.as('cluster_id'),
            sql<number>`${partitions.length}::integer`.as('partitions'),
          ]),
      )
      .returning('log'),
  );
  return added!.log;
}

/** A position at the beginning of each partition that has none. */
export async function placePartitions(tx: Session, log: number, partitions: readonly LogPartition[]): Promise<void> {
  const rows = partitions.flatMap(({ partition, begin }) => [
    { projection: ARCHIVE, log, partition, position: begin, began: begin },
    { projection: FACTS, log, partition, position: begin, began: null },
  ]);
  await countOf(
    tx,
    query
      .insertInto('troupe.positions')
      .values(rows)
      .onConflict((one) => one.doNothing()),
  );
}

/** One log of the project. `read`: records up to which its partitions were read, all together; null for the embedded one. */
export type ListedLog = {
  readonly log: string;
  readonly cluster: string | null;
  readonly partitions: number;
  readonly read: number | null;
  readonly first_read: string;
  readonly replaced_at: string | null;
};

/** Every log that events of the project lie in, the embedded one first; that one is left out where there is another and it was never used. */
export const listLogs = (db: Pick<Session, 'query'>): Promise<ListedLog[]> =>
  rowsOf(
    db,
    query
      .selectFrom('troupe.logs as l')
      .leftJoin('troupe.positions as p', (on) => on.onRef('p.log', '=', 'l.log').on('p.projection', '=', ARCHIVE))
      .select(['l.label as log', 'l.cluster_id as cluster', 'l.partitions', 'l.first_read', 'l.replaced_at'])
      .select(
        sql<
          number | null
        >`case when l.log <> ${sql.lit(EMBEDDED_LOG)} then coalesce(sum(p.position), 0)::float8 end`.as('read'),
      )
      .where(
        sql<SqlBool>`l.log <> ${sql.lit(EMBEDDED_LOG)} or (select count(*) from troupe.logs) = 1
          or exists (select from troupe.log_partitions where next_position > 0)`,
      )
      .groupBy('l.log')
      .orderBy('l.log'),
  );
