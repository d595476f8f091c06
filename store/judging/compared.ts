/** What a judging could not compare: groups of one member, and episodes that are not judged yet, each with the reason. */
import type { Db } from '../db/pool.ts';
import { CLOSE_AFTER, type UnjudgedOptions } from './unjudged.ts';

export type Compared = {
  readonly groups: number;
  /** Groups with one member: `alone` is the only episode of its task or group, `unplaced` names neither. */
  readonly of_one: { readonly alone: number; readonly unplaced: number };
  /** Episodes that are open: `unfinished` without episode.finished, `reopened` by an event after it. */
  readonly open: { readonly unfinished: number; readonly reopened: number };
  /** Closed episodes whose group is waited for: members of it are open, or fewer than announced are closed. */
  readonly waiting: number;
};

/** Counts over the groups of these episodes, and over all episodes that are not judged. */
export async function comparedBy(
  db: Db,
  episodes: readonly string[],
  { now, closeAfter = CLOSE_AFTER }: Pick<UnjudgedOptions, 'now' | 'closeAfter'>,
): Promise<Compared> {
  const { rows } = await db.query<
    Record<'groups' | 'alone' | 'unplaced' | 'unfinished' | 'reopened' | 'waiting', number>
  >(
    `select g.*, o.*, w.* from (
       select count(*)::integer as groups,
              count(*) filter (where members = 1 and placed)::integer as alone,
              count(*) filter (where members = 1 and not placed)::integer as unplaced
       from (
         select a.grp, a.placed,
                case when not a.placed then 1
                     when a.by_group then (select count(*) from facts.episodes e where e.group_id = a.grp)
                     else (select count(*) from facts.episodes e where e.task_id = a.grp and e.group_id is null) end as members
         from (
           select distinct coalesce(group_id, task_id, episode_id) as grp, group_id is not null as by_group,
                  coalesce(group_id, task_id) is not null as placed
           from facts.episodes where episode_id = any($1::text[])
         ) a
       ) m
     ) g,
     (select count(*) filter (where finished_version is null)::integer as unfinished,
             count(*) filter (where finished_version is not null)::integer as reopened
      from facts.episodes where closed is not true and (started_version is not null or calls + messages + tool_calls > 0)) o,
     (select count(*)::integer as waiting from facts.episodes e
      where e.closed and e.group_id in (
        select group_id from facts.episodes where group_id is not null group by group_id
        having (count(*) filter (where closed is not true) > 0 or count(*) filter (where closed) < coalesce(max(group_size), 0))
           and coalesce(max(last_at), 'infinity') > $2::timestamptz - make_interval(secs => $3))) w`,
    [episodes, now.toISOString(), closeAfter],
  );
  const { groups, alone, unplaced, unfinished, reopened, waiting } = rows[0]!;
  return { groups, of_one: { alone, unplaced }, open: { unfinished, reopened }, waiting };
}
