/**
 * What may be pruned: whole groups, closed and silent since before a bound, which nobody waits for. An episode takes along what was
 * said about it: its own key, that of its announced group, and feedback that was attached to it by a foreign id. Tasks stay: another
 * episode may play them.
 */
import type { Session } from '../db/pool.ts';
import { type Filter, lowerFilter } from '../select.ts';

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
  readonly events: number;
  /** Of the events' data, as JSON text. */
  readonly bytes: number;
};

/** The groups, that which was silent longest first; of these names only, where some are given. `held`: episodes that must stay. */
export async function prunableGroups(
  tx: Session,
  { before, now, where = null, closeAfter }: PruneWhat,
  { held, groups = null }: { readonly held: readonly string[]; readonly groups?: readonly string[] | null },
): Promise<PrunableGroup[]> {
  const filter = where === null ? { sql: 'true', params: [] } : lowerFilter(where, { first: 6 });
  // What happened is asked of the log only where the summaries of a group do not rule it out already.
  const { rows } = await tx.query<PrunableGroup>(
    `with members as (
       select coalesce(e.group_id, e.task_id, e.episode_id) as grp, e.episode_id, e.group_id, e.group_size, e.closed, e.last_at,
              (${filter.sql}) is true and e.episode_id <> all($4::text[]) as fits
       from facts.episodes e left join facts.tasks t on t.task_id = e.task_id
       where $5::text[] is null or coalesce(e.group_id, e.task_id, e.episode_id) = any($5)
     ), old as (
       select grp from members group by grp
       having bool_and(closed is true and fits) and coalesce(max(last_at) < $1::timestamptz, true)
          and (count(*) >= coalesce(max(group_size), 0) or coalesce(max(last_at), '-infinity') <= $2::timestamptz - make_interval(secs => $3))
     ), keys as (
       select grp, 'e/' || episode_id as key from members join old using (grp)
       union select grp, 'g/' || group_id from members join old using (grp) where group_id is not null
       union select m.grp, f.key from members m join old using (grp)
       join facts.feedback f on f.resolved_episode_id = m.episode_id and f.target_kind = 'foreign'
     ), said as (
       select k.grp, k.key, count(e.key)::integer as events, coalesce(sum(octet_length(e.data::text)), 0)::float8 as bytes,
              coalesce(max(e.time), max(e.recorded_at)) as last,
              -- A key with another meaning beside the feedback, and an event that waits as a dead letter of the projector, stay.
              coalesce(bool_and(k.key not like 'x/%' or e.name in ('feedback.recorded', 'record.amended'))
                filter (where e.key is not null), true) and not coalesce(bool_or(d.place is not null), false) as ours
       from keys k left join troupe.events e using (key)
       left join (select distinct place from troupe.dead_letters where door = 'projector' and place is not null) d
         on d.place = 'embedded/' || e.partition || '/' || e.position
       group by 1, 2
     )
     select grp as group_id, array_agg(substr(key, 3) order by key) filter (where key like 'e/%') as episodes,
            array_agg(key order by key) as keys, sum(events)::integer as events, sum(bytes)::float8 as bytes
     from said group by grp having bool_and(ours and coalesce(last < $1::timestamptz, true)) order by max(last), grp`,
    [before.toISOString(), now.toISOString(), closeAfter, held, groups, ...filter.params],
  );
  return rows;
}
