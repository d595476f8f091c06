/** What follows from rows that changed: tasks that several traces define, summaries, and feedback from elsewhere that finds or loses its target. */
import type { EventData } from '../../ingest/events/events.ts';
import type { Session } from '../db/pool.ts';
import { anyOf, facts, type NotNull, prepare, rowsOf, rowsOfPrepared, sql } from '../db/query.ts';
import type { LoggedEvent } from './amend.ts';
import { attachForeign } from './resolver.ts';
import { summarise } from './summaries.ts';
import { keepTasks, mendTasks } from './tasks-of-traces.ts';

type BatchChanges = {
  /** The events derived from spans now, by key. */
  readonly derived: ReadonlyMap<string, readonly LoggedEvent[]>;
  /** Episodes that changed, each with the least that its revision is now. */
  readonly touched: ReadonlyMap<string, number>;
  /** What those of them that somebody has judged were compared with. */
  readonly groupsBefore: ReadonlyMap<string, string>;
  readonly tasks: readonly string[];
  readonly digestsBefore: ReadonlyMap<string, string>;
  readonly foreign: ReadonlySet<string>;
  /** Episodes that feedback from elsewhere was attached to before. */
  readonly orphaned: readonly string[];
};

/** What a batch means for keys that are not its own: sets of ids. */
export type PendingChanges = {
  /** Ids by which feedback from elsewhere may find, or now lose, its target. */
  readonly foreign: readonly string[];
  /** Tasks whose definition by traces changed. */
  readonly tasks: readonly string[];
  /** Tasks that changed, whose episodes were judged. */
  readonly played: readonly string[];
  /** Episodes whose summary may be another one. */
  readonly episodes: readonly string[];
};

/** How what follows from a batch is done. The transaction's search_path names the schema. */
export type UpdateDerived = (tx: Session, changed: BatchChanges) => Promise<void>;

/** At once: the transaction holds the locks of all keys. */
export const updateDerived: UpdateDerived = async (tx, changed) => {
  const { foreign, tasks, played, episodes } = await updateOwn(tx, changed);
  const digestsBefore = await taskDigests(tx, tasks);
  await mendTasks(tx, tasks);
  await touchPlayed(tx, [...played, ...(await changedTasks(tx, digestsBefore, tasks))]);
  const attached = await attachForeign(tx, foreign);
  await summarise(tx, new Map([...new Set([...attached, ...episodes])].map((id) => [id, 0])));
};

/** After the commit, under the locks of the keys that it matters to (`applyPending`). */
export const updateDerivedLater: UpdateDerived = async (tx, changed) => {
  const rest = await updateOwn(tx, changed);
  if (Object.values(rest).every((ids) => ids.length === 0)) return;
  await tx.query('insert into troupe.pending_changes (what) values ($1)', [JSON.stringify(rest)], {
    name: 'derived_later',
  });
};

/** What matters to the keys of the batch alone. Returns the rest. */
async function updateOwn(
  tx: Session,
  { derived, touched, groupsBefore, tasks, digestsBefore, foreign, orphaned }: BatchChanges,
): Promise<PendingChanges> {
  const changed = await keepTasks(tx, derived);
  await summarise(tx, touched);
  const played = await changedTasks(tx, digestsBefore, tasks);
  const left = await leftBehind(tx, groupsBefore);
  return { foreign: [...foreign], tasks: changed, played, episodes: [...new Set([...orphaned, ...left])] };
}

/** What each of these episodes is compared with, of those that somebody has judged. */
export async function judgedGroups(tx: Session, episodes: readonly string[]): Promise<ReadonlyMap<string, string>> {
  if (episodes.length === 0) return new Map();
  const { rows } = await tx.query<{ id: string; grp: string }>(
    `select e.episode_id as id, coalesce(e.group_id, e.task_id, e.episode_id) as grp from episodes e
     where e.episode_id = any($1::text[]) and exists (select from troupe.judged_revisions j where j.episode_id = e.episode_id offset 0)`,
    [episodes],
    { name: 'judged_groups' },
  );
  return new Map(rows.map(({ id, grp }) => [id, grp]));
}

/** Judged episodes of the groups that one of these left: what they were compared with is another set now. */
async function leftBehind(tx: Session, groupsBefore: ReadonlyMap<string, string>): Promise<readonly string[]> {
  if (groupsBefore.size === 0) return [];
  const { rows } = await tx.query<{ id: string }>(
    `select distinct o.id
     from (select b.grp from unnest($1::text[], $2::text[]) as b (id, grp)
           left join episodes e on e.episode_id = b.id
           where coalesce(e.group_id, e.task_id, e.episode_id) is distinct from b.grp offset 0) g
     cross join lateral (select episode_id as id from episodes where group_id = g.grp
                         union all select episode_id from episodes where task_id = g.grp and group_id is null) o
     where exists (select from troupe.judged_revisions j where j.episode_id = o.id offset 0)`,
    [[...groupsBefore.keys()], [...groupsBefore.values()]],
    { name: 'left_behind' },
  );
  return rows.map(({ id }) => id);
}

/** Ids of the tasks among these keys. */
export const tasksOf = (keys: Iterable<string>): string[] => [
  ...new Set([...keys].filter((key) => key.startsWith('t/')).map((key) => key.slice(2))),
];

const TASK_DIGESTS = prepare<{ tasks: readonly string[] }>('task_digests')((value) =>
  facts
    .selectFrom('tasks')
    .select('task_id as id')
    .select(
      sql<string>`md5((query, content, ground_truth, reference, tests, constraints, domain, tags)::text)`.as('digest'),
    )
    .where('task_id', '=', anyOf(value('tasks'))),
);

/** A digest of the columns of each task that a method may read, without time and event. */
export async function taskDigests(tx: Session, tasks: readonly string[]): Promise<ReadonlyMap<string, string>> {
  if (tasks.length === 0) return new Map();
  const rows = await rowsOfPrepared(tx, TASK_DIGESTS, { tasks });
  return new Map(rows.map((row) => [row.id, row.digest]));
}

/** Those of these tasks whose definition changed. */
export async function changedTasks(
  tx: Session,
  before: ReadonlyMap<string, string>,
  tasks: readonly string[],
): Promise<readonly string[]> {
  const now = await taskDigests(tx, tasks);
  return tasks.filter((id) => now.get(id) !== before.get(id));
}

/** Episodes are judged again when their task changes: another ground truth is another verdict. */
async function touchPlayed(tx: Session, tasks: readonly string[]): Promise<void> {
  await touch(tx, await judgedEpisodesOf(tx, tasks));
}

/** Episodes of these tasks that somebody has judged. */
export async function judgedEpisodesOf(tx: Session, tasks: readonly string[]): Promise<readonly string[]> {
  if (tasks.length === 0) return [];
  const { rows } = await tx.query<{ id: string }>(
    `select e.episode_id as id from episodes e
     where e.task_id = any($1::text[]) and exists (select from troupe.judged_revisions j where j.episode_id = e.episode_id offset 0)`,
    [tasks],
    { name: 'judged_of_tasks' },
  );
  return rows.map(({ id }) => id);
}

async function touch(tx: Session, episodes: readonly string[]): Promise<void> {
  if (episodes.length === 0) return;
  await tx.query('update episodes set revision = revision + 1 where episode_id = any($1::text[])', [episodes], {
    name: 'touch_played',
  });
}

/** Notes the ids by which feedback from elsewhere may find, or now lose, its target. */
export function noteForeign(ids: Set<string>, event: LoggedEvent): void {
  if (event.name === 'generation.completed') {
    const { response_id } = event.data as EventData<'generation.completed'>;
    if (response_id) ids.add(response_id);
  } else if (event.name === 'feedback.recorded') {
    const { target } = event.data as EventData<'feedback.recorded'>;
    if (target.kind === 'foreign' && target.id) ids.add(target.id);
  }
}

/** Episodes that foreign feedback of these keys is attached to now: an amendment may take it away. */
export async function episodesWithForeign(tx: Session, keys: ReadonlySet<string>): Promise<string[]> {
  if (keys.size === 0) return [];
  const rows = await rowsOf(
    tx,
    facts
      .selectFrom('feedback')
      .select('resolved_episode_id as id')
      .distinct()
      .where('key', '=', anyOf([...keys]))
      .where('target_kind', '=', 'foreign')
      .where('resolved_episode_id', 'is not', null)
      .$narrowType<{ id: NotNull }>(),
  );
  return rows.map((row) => row.id);
}
