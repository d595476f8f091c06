/**
 * What may be pruned: whole groups, closed and silent since before a bound, which nobody waits for. An episode takes along what was
 * recorded about it: its own key, that of its announced group, and feedback that was attached to it by a foreign id. Tasks stay: another
 * episode may play them.
 */
import type { Session } from '../db/pool.ts';
import { anyOf, query, rowsOf, type SqlBool, sql, typed } from '../db/query.ts';
import { GROUP } from '../evaluate/judging/lock.ts';
import { type Filter, lowerFilter } from '../filter/select.ts';

export type PruneWhat = {
  /** Nothing of a group happened at or after it: by the times that events name, and by arrival where no event of a key names one. */
  readonly before: Date;
  readonly now: Date;
  /** Every episode of a group must meet it. */
  readonly where?: Filter | null;
  /** Seconds of silence after which members that were announced and never came are no longer waited for. */
  readonly closeAfter: number;
};

export type PrunableGroup = {
  readonly group_id: string;
  readonly episodes: readonly string[];
  readonly keys: readonly string[];
  /** Keys whose events lie in an archive already. */
  readonly archived: readonly string[];
  readonly events: number;
  /** Of the events' data, as JSON text. */
  readonly bytes: number;
};

/** The groups, that which was silent longest first; of these names only, where some are given. `held`: episodes that must stay. */
export function prunableGroups(
  tx: Session,
  { before, now, where = null, closeAfter }: PruneWhat,
  { held, groups = null }: { readonly held: readonly string[]; readonly groups?: readonly string[] | null },
): Promise<PrunableGroup[]> {
  const silentSince = sql`${now.toISOString()}::timestamptz - make_interval(secs => ${closeAfter})`;
  const bound = sql`${before.toISOString()}::timestamptz`;
  // What happened is asked of the log only where the summaries of a group do not rule it out already.
  const keys = query
    .with('members', (q) =>
      q
        .selectFrom('facts.episodes as e')
        .leftJoin('facts.tasks as t', 't.task_id', 'e.task_id')
        .select([GROUP.as('grp'), 'e.episode_id', 'e.group_id', 'e.group_size', 'e.closed', 'e.last_at'])
        .select(sql`(${lowerFilter(where)}) is true and e.episode_id <> all(${typed(held, 'text[]')})`.as('fits'))
        .$if(groups !== null, (all) => all.where(GROUP, '=', anyOf(groups!))),
    )
    .with('old', (q) =>
      q
        .selectFrom('members')
        .select('grp')
        .groupBy('grp')
        .having(sql<SqlBool>`bool_and(closed is true and fits)`)
        .having(sql<SqlBool>`coalesce(max(last_at) < ${bound}, true)`)
        .having(
          sql<SqlBool>`(count(*) >= coalesce(max(group_size), 0) or coalesce(max(last_at), '-infinity') <= ${silentSince})`,
        ),
    )
    .with('keys', (q) => {
      const leaving = q.selectFrom('members as m').innerJoin('old', 'old.grp', 'm.grp').select('m.grp');
      return leaving
        .select(sql<string>`'e/' || m.episode_id`.as('key'))
        .union(leaving.select(sql<string>`'g/' || m.group_id`.as('key')).where('m.group_id', 'is not', null))
        .union(
          leaving
            .innerJoin('facts.feedback as f', 'f.resolved_episode_id', 'm.episode_id')
            .where('f.target_kind', '=', 'foreign')
            .select('f.key'),
        );
    });
  return rowsOf(
    tx,
    keys
      .with('totals', (q) =>
        q
          .selectFrom('keys as k')
          .leftJoin('troupe.pruned as p', 'p.key', 'k.key')
          .leftJoin('troupe.events as e', 'e.key', 'k.key')
          .leftJoin(
            (letters) =>
              letters
                .selectFrom('troupe.dead_letters')
                .select('place')
                .distinct()
                .where('endpoint', '=', 'projector')
                .where('place', 'is not', null)
                .as('d'),
            (on) =>
              on.on(
                'd.place',
                '=',
                sql<string>`(select l.label from troupe.logs l where l.log = e.log) || '/' || e.partition || '/' || e.position`,
              ),
          )
          .select(['k.grp', 'k.key', sql<number>`count(e.key)::integer`.as('events')])
          .select([
            sql<number>`coalesce(sum(octet_length(e.data::text)), 0)::float8`.as('bytes'),
            sql<string | null>`coalesce(max(e.time), max(e.recorded_at), max(p.last_at))`.as('last'),
            sql<boolean>`bool_or(p.key is not null)`.as('archived'),
            // A key with another meaning beside the feedback, and an event that waits as a dead letter of the projector, stay.
            sql<boolean>`coalesce(bool_and(k.key not like 'x/%' or e.name in ('feedback.recorded', 'record.amended'))
              filter (where e.key is not null), true) and not coalesce(bool_or(d.place is not null), false)`.as('ours'),
          ])
          .groupBy(['k.grp', 'k.key']),
      )
      .selectFrom('totals')
      .select([
        'grp as group_id',
        sql<string[]>`array_agg(substr(key, 3) order by key) filter (where key like 'e/%')`.as('episodes'),
        sql<string[]>`array_agg(key order by key)`.as('keys'),
        sql<string[]>`coalesce(array_agg(key order by key) filter (where archived), '{}')`.as('archived'),
        sql<number>`sum(events)::integer`.as('events'),
        sql<number>`sum(bytes)::float8`.as('bytes'),
      ])
      .groupBy('grp')
      .having(sql<SqlBool>`bool_and(ours and coalesce(last < ${bound}, true))`)
      .orderBy(sql`max(last)`)
      .orderBy('grp'),
  );
}
