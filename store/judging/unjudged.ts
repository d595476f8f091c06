/** What is to be judged: closed episodes of complete groups that changed since the same methods last looked at them. */
import { hashId } from '../../ingest/json.ts';
import type { Db, Session } from '../db/pool.ts';
import { type Filter, lowerFilter } from '../select.ts';
import { shareSql } from './lock.ts';

export type UnjudgedOptions = {
  readonly now: Date;
  /** Only these episodes. */
  readonly where?: Filter | null;
  /** Only groups of these shares. */
  readonly shares?: readonly number[];
  readonly limit?: number;
  /** Seconds without an event after which a group is no longer waited for. */
  readonly closeAfter?: number;
};

export const CLOSE_AFTER = 1800;
const ALL = 10_000_000;

/** Whatever the order in which the methods are asked. */
const judgeSet = (methodKeys: readonly string[]): string => hashId([...methodKeys].sort());

/**
 * A group is complete when as many of its episodes as were announced are closed and none is open; one that stays silent for
 * `closeAfter` seconds is not waited for. Without an announced size, none may be open.
 */
const AWAITED = `
  select group_id from facts.episodes where group_id is not null group by group_id
  having (count(*) filter (where closed is not true) > 0 or count(*) filter (where closed) < coalesce(max(group_size), 0))
     and coalesce(max(last_at), 'infinity') > $3::timestamptz - make_interval(secs => $4)`;

/** Ids of the episodes, the members of one group side by side. */
export async function unjudgedEpisodes(
  db: Db,
  methodKeys: readonly string[],
  { now, where = null, shares, limit = ALL, closeAfter = CLOSE_AFTER }: UnjudgedOptions,
): Promise<string[]> {
  const filter = where === null ? { sql: 'true', params: [] } : lowerFilter(where, { first: 6 });
  const { rows } = await db.query<{ episode_id: string }>(
    `select e.episode_id from facts.episodes e
     left join facts.tasks t on t.task_id = e.task_id
     left join troupe.judged_positions j on j.episode_id = e.episode_id and j.judge_set = $1
     left join (${AWAITED}) awaited on awaited.group_id = e.group_id
     where e.closed and (j.position is null or j.position < e.touched_position) and awaited.group_id is null
       and ($5::integer[] is null or ${shareSql('e')} = any($5)) and ${filter.sql}
     order by coalesce(e.group_id, e.task_id, e.episode_id), e.episode_id limit $2`,
    [judgeSet(methodKeys), limit, now.toISOString(), closeAfter, shares ?? null, ...filter.params],
  );
  return rows.map((row) => row.episode_id);
}

/** Ids of all closed episodes, whatever was said of them before. */
export async function closedEpisodes(
  db: Db,
  { where = null, shares }: Pick<UnjudgedOptions, 'where' | 'shares'>,
): Promise<string[]> {
  const filter = where === null ? { sql: 'true', params: [] } : lowerFilter(where, { first: 2 });
  const { rows } = await db.query<{ episode_id: string }>(
    `select e.episode_id from facts.episodes e left join facts.tasks t on t.task_id = e.task_id
     where e.closed and ($1::integer[] is null or ${shareSql('e')} = any($1)) and ${filter.sql} order by 1`,
    [shares ?? null, ...filter.params],
  );
  return rows.map((row) => row.episode_id);
}

/** Notes what the episodes looked like when they were read, not what they look like now. */
export async function markJudged(
  tx: Session,
  methodKeys: readonly string[],
  touched: ReadonlyMap<string, number>,
): Promise<void> {
  await tx.query(
    `insert into troupe.judged_positions as j (episode_id, judge_set, position)
     select episode_id, $3, position from unnest($1::text[], $2::bigint[]) as r (episode_id, position)
     on conflict (episode_id, judge_set) do update set position = excluded.position`,
    [[...touched.keys()], [...touched.values()], judgeSet(methodKeys)],
  );
}
