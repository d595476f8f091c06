/** How far the tables are behind the log, and waiting until they have caught up. */
import { TroupeError } from '../../errors.ts';
import type { EventLog, LogPartition } from '../../ingest/log/log.ts';
import { EMBEDDED_LOG, LOG_CHANNEL } from '../../ingest/log/postgres.ts';
import { AT_ONCE, notify } from '../db/notifications.ts';
import type { Db, Session } from '../db/pool.ts';
import { query, rowsOf, sql } from '../db/query.ts';
import { ARCHIVE, FACTS } from './partitions.ts';
import type { Positions } from './read-batch.ts';

/** Next position to be written to each partition of the log. */
async function logPositions(db: Session): Promise<Record<string, number>> {
  const { rows } = await db.query<{ partition: number; next_position: number }>(
    'select partition, next_position from troupe.log_partitions order by partition',
    [],
    { name: 'log_positions' },
  );
  return Object.fromEntries(rows.map((row) => [row.partition, Number(row.next_position)]));
}

/** As the driver gives them, which has texts for large numbers. */
export const placesOf = (rows: Positions): Positions => rows.map((row) => ({ ...row, position: Number(row.position) }));

/** How far the projection has come with each partition of each log. */
export async function positionsOf(tx: Session, projection: string): Promise<Positions> {
  const { rows } = await tx.query<{ log: number; partition: number; position: number }>(
    'select log, partition, position from troupe.positions where projection = $1 order by log, partition',
    [projection],
    { name: 'positions_of' },
  );
  return placesOf(rows);
}

/** Where each partition of each log ends, as far as it is archived: what lies before can be seen, for positions commit in order. */
export async function logEnds(db: Session): Promise<Positions> {
  const { rows } = await db.query<{ log: number; partition: number; position: number }>(
    `select ${EMBEDDED_LOG}::smallint as log, partition, next_position as position from troupe.log_partitions
     union all select log, partition, position from troupe.positions where projection = '${ARCHIVE}' order by 1, 2`,
  );
  return placesOf(rows);
}

/** Events that are in the log and not in the tables yet. */
export async function lag(db: Session, positions?: Readonly<Record<string, number>>): Promise<number> {
  const wanted = positions ?? (await logPositions(db));
  const { rows } = await db.query<{ partition: number; position: number }>(
    'select partition, position from troupe.positions where projection = $1 and log = $2',
    [FACTS, EMBEDDED_LOG],
    { name: 'table_positions' },
  );
  const read = new Map(rows.map((row) => [row.partition, Number(row.position)]));
  return Object.entries(wanted).reduce(
    (sum, [partition, next]) => sum + Math.max(0, next - (read.get(Number(partition)) ?? 0)),
    0,
  );
}

/** Seconds since the oldest event was recorded that is in the database and not in the tables yet; 0 if there is none. */
export async function oldestWaiting(db: Db): Promise<number> {
  const [oldest] = await rowsOf(
    db,
    query
      .selectFrom(
        query
          .selectFrom('troupe.log_partitions')
          .select([sql<number>`0::smallint`.as('log'), 'partition'])
          .union(query.selectFrom('troupe.positions').select(['log', 'partition']).where('projection', '=', 'facts'))
          .as('place'),
      )
      .leftJoin('troupe.positions as p', (on) =>
        on
          .onRef('p.log', '=', 'place.log')
          .onRef('p.partition', '=', 'place.partition')
          .on('p.projection', '=', 'facts'),
      )
      .innerJoinLateral(
        (of) =>
          of
            .selectFrom('troupe.events')
            .select('recorded_at')
            .whereRef('log', '=', 'place.log')
            .whereRef('partition', '=', 'place.partition')
            .where('position', '>=', sql<number>`coalesce(p.position, 0)`)
            .orderBy('position')
            .limit(1)
            .as('e'),
        (on) => on.onTrue(),
      )
      .select(
        sql<number>`coalesce(extract(epoch from clock_timestamp() - min(e.recorded_at)), 0)::float8`.as('seconds'),
      ),
  );
  return oldest!.seconds;
}

/** An event that waits for so many seconds was not merely recorded a moment ago: nothing projects it, or too slowly. */
export const LONG_WAIT_S = 60;

/** How far each partition of a log outside the database is from being archived. */
export type PartitionLag = LogPartition & { readonly position: number; readonly lag: number };

export async function partitionLags(
  db: Session,
  log: string,
  partitions: readonly LogPartition[],
): Promise<readonly PartitionLag[]> {
  const { rows } = await db.query<{ partition: number; position: number }>(
    `select partition, position from troupe.positions
     where projection = $1 and log = (select log from troupe.logs where name = $2 order by generation desc limit 1)`,
    [ARCHIVE, log],
    { name: 'archived_positions' },
  );
  const read = new Map(rows.map((row) => [row.partition, Number(row.position)]));
  return partitions.map((one) => {
    const position = read.get(one.partition) ?? one.begin;
    return { ...one, position, lag: Math.max(0, one.end - position) };
  });
}

/**
 * Waits until everything that is in the log now is in the tables; a projector that gathers more then goes on at once.
 * @throws TroupeError `busy` when nothing was applied for `timeoutMs`.
 */
export async function waitProjected(
  db: Session,
  { timeoutMs = 60_000, log }: { readonly timeoutMs?: number; readonly log?: EventLog } = {},
): Promise<Record<string, number>> {
  const outer = (await log?.partitions?.()) ?? [];
  await untilNone(timeoutMs, async () =>
    outer.length === 0 ? 0 : (await partitionLags(db, log!.name, outer)).reduce((sum, one) => sum + one.lag, 0),
  );
  const wanted = await logPositions(db);
  let asked = false;
  await untilNone(timeoutMs, async () => {
    const behind = await lag(db, wanted);
    if (behind > 0 && !asked) await notify(db, LOG_CHANNEL, AT_ONCE);
    asked = true;
    return behind;
  });
  const left = await pendingNow(db);
  await untilNone(timeoutMs, async () => (await pendingNow(db)).filter((one) => left.includes(one)).length);
  return wanted;
}

/** What batches left to be applied after them, by where it lies. */
async function pendingNow(db: Session): Promise<readonly string[]> {
  const { rows } = await db.query<{ one: string }>('select ctid::text as one from troupe.pending_changes', [], {
    name: 'pending_now',
  });
  return rows.map(({ one }) => one);
}

async function untilNone(timeoutMs: number, behindNow: () => Promise<number>): Promise<void> {
  let least = Number.POSITIVE_INFINITY;
  let deadline = 0;
  for (let pause = 2; ; pause = Math.min(50, pause * 1.5)) {
    const behind = await behindNow();
    if (behind === 0) return;
    if (behind < least) deadline = performance.now() + timeoutMs;
    least = Math.min(least, behind);
    if (performance.now() > deadline) {
      throw new TroupeError(
        'busy',
        `The tables are ${behind} events behind the log, and none was applied for ${timeoutMs / 1000} s; is \`troupe run project\` running?`,
      );
    }
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
}
