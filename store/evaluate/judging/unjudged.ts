/** What is to be judged: closed episodes of complete groups that changed since the same methods last looked at them. */
import { hashId } from '../../../ingest/events/json.ts';
import type { Db, Session } from '../../db/pool.ts';
import { anyOf, countOf, query, rowsOf, type SqlBool, sql, typed } from '../../db/query.ts';
import { type Filter, lowerFilter } from '../../filter/select.ts';
import { GROUP, SHARE } from './lock.ts';

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
 * Groups that are waited for. A group is complete when as many of its episodes as were announced are closed and none is open; one that
 * stays silent for `closeAfter` seconds is not waited for. Without an announced size, none may be open.
 */
export const awaitedGroups = (now: Date, closeAfter: number) =>
  query
    .selectFrom('facts.episodes')
    .select('group_id')
    .where('group_id', 'is not', null)
    .groupBy('group_id')
    .having(
      sql<SqlBool>`(count(*) filter (where closed is not true) > 0 or count(*) filter (where closed) < coalesce(max(group_size), 0))`,
    )
    .having(
      sql<SqlBool>`coalesce(max(last_at), 'infinity') > ${now.toISOString()}::timestamptz - make_interval(secs => ${closeAfter})`,
    );

/** Closed episodes `e` that meet the filter, of groups in these shares. */
const closed = ({ where = null, shares }: Pick<UnjudgedOptions, 'where' | 'shares'>) =>
  query
    .selectFrom('facts.episodes as e')
    .leftJoin('facts.tasks as t', 't.task_id', 'e.task_id')
    .select('e.episode_id')
    .where('e.closed', '=', true)
    .where(lowerFilter(where))
    .$if(shares !== undefined, (episodes) => episodes.where(SHARE, '=', anyOf(shares!, 'integer')));

/** Ids of the episodes, the members of one group side by side. */
export async function unjudgedEpisodes(
  db: Db,
  methodKeys: readonly string[],
  { now, limit = ALL, closeAfter = CLOSE_AFTER, ...which }: UnjudgedOptions,
): Promise<string[]> {
  // Of a few episodes no other groups are looked at, however many there are.
  const awaited = awaitedGroups(now, closeAfter).$if(which.where != null, (groups) =>
    groups.where('group_id', 'in', closed(which).clearSelect().select('e.group_id')),
  );
  const rows = await rowsOf(
    db,
    closed(which)
      .leftJoin('troupe.judged_revisions as j', (on) =>
        on.onRef('j.episode_id', '=', 'e.episode_id').on('j.judge_set', '=', judgeSet(methodKeys)),
      )
      .leftJoin(awaited.as('awaited'), 'awaited.group_id', 'e.group_id')
      .where((row) => row.or([row('j.revision', 'is', null), row('j.revision', '<', row.ref('e.revision'))]))
      .where('awaited.group_id', 'is', null)
      .orderBy(GROUP)
      .orderBy('e.episode_id')
      .limit(limit),
  );
  return rows.map((row) => row.episode_id);
}

/** Ids of all closed episodes, judged or not. */
export async function closedEpisodes(db: Db, which: Pick<UnjudgedOptions, 'where' | 'shares'>): Promise<string[]> {
  return (await rowsOf(db, closed(which).orderBy('e.episode_id'))).map((row) => row.episode_id);
}

/** Notes what the episodes looked like when they were read, not what they look like now. */
export async function markJudged(
  tx: Session,
  methodKeys: readonly string[],
  revisions: ReadonlyMap<string, number>,
): Promise<void> {
  const judge_set = judgeSet(methodKeys);
  await countOf(
    tx,
    query
      .insertInto('troupe.judged_revisions')
      .columns(['episode_id', 'judge_set', 'revision'])
      .expression((row) =>
        row
          .selectFrom(
            sql<{
              episode_id: string;
              revision: number;
            }>`unnest(${[...revisions.keys()]}::text[], ${[...revisions.values()]}::bigint[])`.as(
              sql`r (episode_id, revision)`,
            ),
          )
          .select(['r.episode_id', typed(judge_set, 'text').as('judge_set'), 'r.revision']),
      )
      .onConflict((known) =>
        known.columns(['episode_id', 'judge_set']).doUpdateSet((row) => ({ revision: row.ref('excluded.revision') })),
      ),
  );
}
