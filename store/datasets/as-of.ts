/** A dataset of what had been recorded at an earlier time: by the positions of the log then, never by times that events name. */
import { type Static, Type } from 'typebox';
import type { Session } from '../db/pool.ts';
import { anyOf, query, rowsOf, type SqlBool, sql } from '../db/query.ts';
import type { FunnelStage, Positions } from './manifest.ts';

/** Where each partition of each log ended at a time; a partition that is left out held nothing. */
export const AsOf = Type.Object({
  at: Type.String({ description: 'ISO 8601, in UTC' }),
  positions: Type.Array(
    Type.Object({
      log: Type.Integer({ minimum: 0 }),
      partition: Type.Integer({ minimum: 0 }),
      position: Type.Integer({ minimum: 0 }),
    }),
  ),
});
export type AsOf = Static<typeof AsOf>;

/** Where the logs ended at a time by the clock of the database, which wrote it beside each event. */
export async function snapshotAt(db: Session, at: string): Promise<AsOf> {
  const rows = await rowsOf(
    db,
    query
      .selectFrom('troupe.stored_events')
      .select(['log', 'partition'])
      .select(
        sql<number>`coalesce(min(position) filter (where recorded_at > ${at}::timestamptz), max(position) + 1)::float8`.as(
          'position',
        ),
      )
      .groupBy(['log', 'partition'])
      .orderBy('log')
      .orderBy('partition'),
  );
  return { at, positions: rows };
}

/** Events of the log before a snapshot, those that were pruned since included. */
export const eventsBefore = ({ positions }: AsOf): number => positions.reduce((sum, { position }) => sum + position, 0);

const EXAMPLES = 3;

/**
 * Those of these episodes to which nothing was added since, nor to another episode of their group: their rows are what they were then. An
 * episode that got more since, such as a late reward, is left out, because what it was is not in the tables any more.
 */
export async function unchangedSince(
  tx: Session,
  ids: readonly string[],
  { at, positions }: AsOf,
): Promise<{ readonly ids: readonly string[]; readonly stage: FunnelStage }> {
  const then = sql<{
    log: number;
    partition: number;
    position: number;
  }>`json_to_recordset(${JSON.stringify(positions)})`;
  const rows = await rowsOf(
    tx,
    query
      .with('late', (q) =>
        q
          .selectFrom('troupe.stored_events as v')
          .leftJoin(then.as<'u'>(sql`u (log smallint, partition smallint, position bigint)`), (on) =>
            on.onRef('u.log', '=', 'v.log').onRef('u.partition', '=', 'v.partition'),
          )
          .select('v.key')
          .distinct()
          .where(sql<SqlBool>`v.position >= coalesce(u.position, 0)`)
          // Of what lies in an archive the log does not say when it came, but that it was before it was archived.
          .union(
            q
              .selectFrom('troupe.pruned as p')
              .select('p.key')
              .where('p.in_tables', '=', true)
              .where(sql<SqlBool>`p.pruned_at > ${at}::timestamptz`),
          ),
      )
      .with('touched', (q) =>
        q
          .selectFrom('late')
          .select(sql<string>`substr(key, 3)`.as('episode_id'))
          .where('key', 'like', 'e/%')
          .union(
            q
              .selectFrom('facts.feedback as f')
              .innerJoin('late', 'late.key', 'f.key')
              .select(sql<string>`f.resolved_episode_id`.as('episode_id'))
              .where('f.resolved_episode_id', 'is not', null),
          ),
      )
      .with('groups', (q) =>
        q
          .selectFrom('facts.episodes as g')
          .innerJoin('touched', 'touched.episode_id', 'g.episode_id')
          .select('g.group_id')
          .where('g.group_id', 'is not', null),
      )
      .selectFrom('facts.episodes as e')
      .select('e.episode_id')
      .where('e.episode_id', '=', anyOf(ids))
      .where('e.episode_id', 'not in', (q) => q.selectFrom('touched').select('episode_id'))
      .where((one) =>
        one.or([
          one('e.group_id', 'is', null),
          one('e.group_id', 'not in', (q) => q.selectFrom('groups').select('groups.group_id')),
        ]),
      ),
  );
  const kept = new Set(rows.map(({ episode_id }) => episode_id));
  const dropped = ids.filter((id) => !kept.has(id)).sort();
  return {
    ids: ids.filter((id) => kept.has(id)),
    stage: {
      name: `recorded whole by ${at}`,
      of: 'episodes',
      before: ids.length,
      after: kept.size,
      dropped: dropped.slice(0, EXAMPLES),
    },
  };
}

/** Positions as a manifest names them. */
export async function labelled(tx: Session, { positions }: AsOf): Promise<Positions> {
  const logs = await rowsOf(tx, query.selectFrom('troupe.logs').select(['log', 'label']));
  const labels = new Map(logs.map(({ log, label }) => [log, `facts/${label}`]));
  const named: Record<string, Record<string, number>> = {};
  for (const { log, partition, position } of positions) {
    const label = labels.get(log) ?? String(log);
    named[label] ??= {};
    named[label][partition] = position;
  }
  return named;
}
