/**
 * Recounts from the log and the tables what the ingestion endpoints and the projector claim: received = acknowledged + duplicates + rejected at
 * every endpoint, consumed = applied + dead, and one identity under two keys is named.
 */

import type { LogPartition } from '../../ingest/log/log.ts';
import { EMBEDDED_LOG } from '../../ingest/log/postgres.ts';
import { EMPTY_CONTEXT } from '../../ingest/log/split.ts';
import type { Db, Session } from '../db/pool.ts';
import { firstOf, query, sql } from '../db/query.ts';
import { ARCHIVE } from '../projecting/partitions.ts';
import { lag } from '../projecting/positions.ts';

export type Reconciliation = {
  readonly ok: boolean;
  readonly endpoints: readonly {
    readonly endpoint: string;
    readonly received: number;
    readonly acknowledged: number;
    readonly duplicates: number;
    readonly rejected: number;
    readonly balanced: boolean;
  }[];
  /** `pruned`: positions whose events lie in archives. A partition with a gap lacks others too, or holds events marked as pruned. */
  readonly log: { readonly events: number; readonly positions: number; readonly pruned: number; readonly gaps: number };
  readonly tables: { readonly applied: number; readonly dead: number; readonly lag: number };
  /** Each partition of a log outside the database: what was read of it, and what it holds. */
  readonly topics: readonly {
    readonly log: string;
    readonly partition: number;
    readonly began: number;
    readonly position: number;
    readonly accepted: number;
    readonly duplicates: number;
    readonly dead: number;
    /** Offsets that no event has: marks of transactions, and what compaction took. */
    readonly gaps: number;
    /** Null where the topic was not asked. */
    readonly begin: number | null;
    readonly end: number | null;
    readonly lag: number | null;
    readonly balanced: boolean;
  }[];
  readonly dead_letters: number;
  /** Times that a record became a dead letter; as many as the endpoints rejected. */
  readonly laid_aside: number;
  /** Rows that no event stands behind, by table; none where everything is well. */
  readonly orphans: Readonly<Record<string, number>>;
  /** Feedback on steps that do not exist, as in `traj.feedback.no_such_step`: legal, but usually a producer's mistake. */
  readonly feedback_without_step: number;
  /** The same (source, id) under several keys: legal, but usually a producer's mistake. */
  readonly split_identities: readonly {
    readonly source: string;
    readonly id: string;
    readonly keys: readonly string[];
  }[];
};

/**
 * Counts everything in one snapshot, so that it adds up while events come in. `topic` is what the log outside the database, if there is
 * one, records of itself at that time.
 */
export const reconcile = (db: Db, topic?: Topic): Promise<Reconciliation> =>
  db.transaction((tx) => reconcileIn(tx, topic), { isolation: 'repeatable read', readOnly: true });

export type Topic = { readonly name: string; readonly partitions: readonly LogPartition[] };

async function reconcileIn(db: Session, topic?: Topic): Promise<Reconciliation> {
  const endpoints = await db.query<{
    endpoint: string;
    received: number;
    acknowledged: number;
    duplicates: number;
    rejected: number;
  }>(
    'select endpoint, received::float8 as received, acknowledged::float8 as acknowledged, duplicates::float8 as duplicates, rejected::float8 as rejected from troupe.ingest_counters order by endpoint',
  );
  const log = await db.query<Reconciliation['log']>(
    `select coalesce(sum(e.events), 0)::float8 as events, coalesce(sum(l.given), 0)::float8 as positions, coalesce(sum(p.events), 0)::float8 as pruned,
            count(*) filter (where coalesce(e.next, 0) > coalesce(l.next, 0)
              or coalesce(l.given, 0) <> coalesce(e.events, 0) + coalesce(p.events, 0))::float8 as gaps
     from (select log, partition, count(*) as events, max(position) + 1 as next from troupe.events group by 1, 2) e
     full join (
       select ${EMBEDDED_LOG}::smallint as log, partition, next_position as next, next_position as given from troupe.log_partitions
       union all select log, partition, position, applied + dead from troupe.positions where projection = 'facts' and log <> ${EMBEDDED_LOG}
     ) l using (log, partition)
     full join troupe.pruned_positions p using (log, partition)`,
  );
  const applied = await db.query<{ applied: number; dead: number }>(
    `select coalesce(sum(applied), 0)::float8 as applied, coalesce(sum(dead), 0)::float8 as dead from troupe.positions where projection = 'facts'`,
  );
  const letters = await db.query<{ n: number; times: number }>(
    `select count(*)::float8 as n, coalesce(sum(attempts) filter (where endpoint not in ('projector', 'kafka')), 0)::float8 as times from troupe.dead_letters`,
  );
  const orphans = await orphanRows(db);
  const split = await db.query<{ source: string; id: string; keys: string[] }>(
    `select source, id, array_agg(key order by key) as keys from troupe.events group by source, id having count(*) > 1 order by 1, 2 limit 100`,
  );
  const without = await firstOf(
    db,
    query.selectFrom('traj.feedback').select(sql<number>`count(*)::float8`.as('n')).where('no_such_step', '=', true),
  );
  const behind = await lag(db);
  const topics = await topicsIn(db, topic);
  const checked = endpoints.rows.map((endpoint) => ({
    ...endpoint,
    balanced: endpoint.received === endpoint.acknowledged + endpoint.duplicates + endpoint.rejected,
  }));
  const facts = log.rows[0] ?? { events: 0, positions: 0, pruned: 0, gaps: 0 };
  const tables = { applied: applied.rows[0]?.applied ?? 0, dead: applied.rows[0]?.dead ?? 0, lag: behind };
  const rejected = checked.reduce((sum, endpoint) => sum + endpoint.rejected, 0);
  return {
    ok:
      Object.keys(orphans).length === 0 &&
      rejected === (letters.rows[0]?.times ?? 0) &&
      checked.every((endpoint) => endpoint.balanced) &&
      topics.every((one) => one.balanced) &&
      facts.gaps === 0 &&
      facts.events + facts.pruned === facts.positions &&
      tables.applied + tables.dead + tables.lag === facts.events + facts.pruned,
    endpoints: checked,
    log: facts,
    tables,
    topics,
    dead_letters: letters.rows[0]?.n ?? 0,
    laid_aside: letters.rows[0]?.times ?? 0,
    orphans,
    feedback_without_step: without?.n ?? 0,
    split_identities: split.rows,
  };
}

/** Rows about an episode whose key holds no event, neither in the log nor in an archive that the tables show, steps without their call, and what names a body that is not there: nothing that is written is any of it. */
async function orphanRows(db: Session): Promise<Record<string, number>> {
  const about = ['episodes', 'agents', 'calls', 'steps', 'messages', 'tool_calls', 'decisions', 'observations'];
  const counts = about.map(
    (table) =>
      `select '${table}' as name, count(*)::float8 as rows from (select distinct episode_id from facts.${table}) t
       where not exists (select from troupe.events where key = 'e/' || t.episode_id)
         and not exists (select from troupe.pruned where key = 'e/' || t.episode_id and in_tables)`,
  );
  const { rows } = await db.query<{ name: string; rows: number }>(
    `${counts.join(' union all ')} union all
     select 'steps without a call', count(*)::float8 from facts.steps s
     where not exists (select from facts.calls c where c.episode_id = s.episode_id and c.call_id = s.call_id)
     union all
     select 'bodies', count(*)::float8 from (select distinct key from troupe.bodies) b
     where not exists (select from troupe.stored_events e where e.key = b.key)
       and not exists (select from troupe.pruned p where p.key = b.key and (p.in_tables or to_regnamespace('facts_next') is not null))
     union all
     select 'bodies without the one before', count(*)::float8 from troupe.bodies b
     where b.previous is not null and not exists (select from troupe.bodies p where p.key = b.key and p.hash = b.previous)
     union all
     select 'bodies without their bytes', count(*)::float8 from troupe.bodies b
     where b.blob is not null and not exists (select from troupe.blobs o where o.sha256 = b.blob)
     union all
     select 'bytes that no body names', count(*)::float8 from troupe.blobs o
     where not exists (select from troupe.bodies b where b.blob = o.sha256)
     union all
     select 'calls without their context', count(*)::float8 from facts.calls c
     where c.context <> '${EMPTY_CONTEXT}' and not exists (select from troupe.bodies b where b.key = 'e/' || c.episode_id and b.hash = c.context)`,
  );
  return Object.fromEntries(rows.filter((row) => row.rows > 0).map((row) => [row.name, row.rows]));
}

/** Offsets read = accepted + duplicates + dead + gaps, and the log holds no less than was read. */
async function topicsIn(db: Session, topic: Topic | undefined): Promise<Reconciliation['topics']> {
  const { rows } = await db.query<{
    log: string;
    name: string;
    current: boolean;
    partition: number;
    began: number;
    position: number;
    accepted: number;
    duplicates: number;
    dead: number;
  }>(
    `select l.label as log, l.replaced_at is null as current, l.name, partition, began::float8 as began, position::float8 as position, applied::float8 as accepted, duplicates::float8 as duplicates, dead::float8 as dead
     from troupe.positions join troupe.logs l using (log) where projection = $1 order by log, partition`,
    [ARCHIVE],
  );
  return rows.map(({ name, current, ...row }) => {
    const now =
      current && name === topic?.name
        ? topic.partitions.find(({ partition }) => partition === row.partition)
        : undefined;
    const gaps = row.position - row.began - row.accepted - row.duplicates - row.dead;
    const held = now === undefined || (now.begin <= row.position && row.position <= now.end);
    const [begin, end] = [now?.begin ?? null, now?.end ?? null];
    return {
      ...row,
      gaps,
      begin,
      end,
      lag: end === null ? null : Math.max(0, end - row.position),
      balanced: gaps >= 0 && held,
    };
  });
}
