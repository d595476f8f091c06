/** What a judging could not compare, or not as was meant: groups of one member, groups with members missing, and episodes that are not judged yet, each with the reason. */
import type { Db } from '../../db/pool.ts';
import { anyOf, firstOf, query, type SqlBool, sql } from '../../db/query.ts';
import { GROUP } from './lock.ts';
import { awaitedGroups, CLOSE_AFTER, type UnjudgedOptions } from './unjudged.ts';

export type ComparedEpisodes = {
  readonly groups: number;
  /** Groups with one member: `alone` is the only episode of its task or group, `unplaced` names neither. */
  readonly of_one: { readonly alone: number; readonly unplaced: number };
  /** Groups with fewer closed members than were announced; they are judged once nobody adds to them any more. */
  readonly partial: number;
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
): Promise<ComparedEpisodes> {
  const asked = query
    .selectFrom('facts.episodes as e')
    .distinct()
    .select([
      GROUP.as('grp'),
      sql<boolean>`e.group_id is not null`.as('by_group'),
      sql<boolean>`coalesce(e.group_id, e.task_id) is not null`.as('placed'),
    ])
    .where('e.episode_id', '=', anyOf(episodes));
  const count = sql<number>`count(*)`.as('n');
  const grouped = query
    .selectFrom('facts.episodes as e')
    .select(count)
    .where('e.group_id', '=', sql.ref<string>('a.grp'));
  const announced = query
    .selectFrom('facts.episodes as e')
    .select(sql<boolean>`count(*) filter (where closed) < coalesce(max(group_size), 0)`.as('partial'))
    .where('e.group_id', '=', sql.ref<string>('a.grp'));
  const tasked = query
    .selectFrom('facts.episodes as e')
    .select(count)
    .where('e.task_id', '=', sql.ref<string>('a.grp'))
    .where('e.group_id', 'is', null);
  const members = query
    .selectFrom(asked.as('a'))
    .select([
      'a.placed',
      sql<number>`case when not a.placed then 1 when a.by_group then (${grouped}) else (${tasked}) end`.as('members'),
      sql<boolean>`a.by_group and (${announced})`.as('partial'),
    ]);
  const groups = await firstOf(
    db,
    query
      .selectFrom(members.as('m'))
      .select([
        sql<number>`count(*)::integer`.as('groups'),
        sql<number>`count(*) filter (where members = 1 and placed)::integer`.as('alone'),
        sql<number>`count(*) filter (where members = 1 and not placed)::integer`.as('unplaced'),
        sql<number>`count(*) filter (where partial)::integer`.as('partial'),
      ]),
  );
  const open = await firstOf(
    db,
    query
      .selectFrom('facts.episodes')
      .select([
        sql<number>`count(*) filter (where finished_version is null)::integer`.as('unfinished'),
        sql<number>`count(*) filter (where finished_version is not null)::integer`.as('reopened'),
      ])
      .where(sql<SqlBool>`closed is not true`)
      .where(sql<SqlBool>`(started_version is not null or calls + messages + tool_calls > 0)`),
  );
  const waiting = await firstOf(
    db,
    query
      .selectFrom('facts.episodes')
      .select(sql<number>`count(*)::integer`.as('waiting'))
      .where('closed', '=', true)
      .where('group_id', 'in', awaitedGroups(now, closeAfter)),
  );
  const { alone, unplaced, partial } = groups!;
  return { groups: groups!.groups, of_one: { alone, unplaced }, partial, open: open!, waiting: waiting!.waiting };
}
