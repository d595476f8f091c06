/** What follows from rows that changed: tasks that several tell, summaries, and feedback from elsewhere that finds or loses its target. */
import type { EventData } from '../../ingest/events.ts';
import type { Session } from '../db/pool.ts';
import { anyOf, facts, type NotNull, prepare, query, rowsOf, rowsOfPrepared, sql } from '../db/query.ts';
import type { Stored } from './amend.ts';
import { resolveForeign } from './resolver.ts';
import { summarise } from './summaries.ts';
import { keepTasks } from './tasks-of-traces.ts';

export type Changed = {
  /** What spans tell now, by key. */
  readonly told: ReadonlyMap<string, readonly Stored[]>;
  /** Episodes with the position of their last event. */
  readonly touched: ReadonlyMap<string, number>;
  readonly tasks: readonly string[];
  readonly toldBefore: ReadonlyMap<string, string>;
  readonly foreign: ReadonlySet<string>;
  /** Episodes that feedback from elsewhere was attached to before. */
  readonly orphaned: readonly string[];
};

/** The transaction's search_path names the schema. */
export async function settle(
  tx: Session,
  { told, touched, tasks, toldBefore, foreign, orphaned }: Changed,
): Promise<void> {
  await keepTasks(tx, told);
  await summarise(tx, touched);
  await touchPlayed(tx, toldBefore, tasks);
  const summarised = await resolveForeign(tx, foreign);
  await summarise(tx, new Map(orphaned.filter((id) => !summarised.includes(id)).map((id) => [id, 0])));
}

/** Ids of the tasks among these keys. */
export const tasksOf = (keys: Iterable<string>): string[] => [
  ...new Set([...keys].filter((key) => key.startsWith('t/')).map((key) => key.slice(2))),
];

const TOLD = prepare<{ tasks: readonly string[] }>('tasks_told')((value) =>
  facts
    .selectFrom('tasks')
    .select('task_id as id')
    .select(
      sql<string>`md5((query, content, ground_truth, reference, tests, constraints, domain, tags)::text)`.as('told'),
    )
    .where('task_id', '=', anyOf(value('tasks'))),
);

/** What is told of each task that a method may read, without when and by which event. */
export async function toldOf(tx: Session, tasks: readonly string[]): Promise<ReadonlyMap<string, string>> {
  if (tasks.length === 0) return new Map();
  const rows = await rowsOfPrepared(tx, TOLD, { tasks });
  return new Map(rows.map((row) => [row.id, row.told]));
}

const TOUCH_PLAYED = prepare<{ tasks: readonly string[] }>('touch_played')((value) =>
  facts
    .updateTable('episodes as e')
    .set((episode) => ({ touched_position: episode('e.touched_position', '+', 1) }))
    .where('e.task_id', '=', anyOf(value('tasks')))
    .where(({ exists }) =>
      exists(
        query
          .selectFrom('troupe.judged_positions as j')
          .select('j.position')
          .where('j.episode_id', '=', sql.ref<string>('e.episode_id'))
          .offset(sql.lit(0)),
      ),
    ),
);

/** Whoever has judged an episode must see that its task is told otherwise now: another ground truth is another verdict. */
async function touchPlayed(tx: Session, before: ReadonlyMap<string, string>, tasks: readonly string[]): Promise<void> {
  const now = await toldOf(tx, tasks);
  const changed = tasks.filter((id) => now.get(id) !== before.get(id));
  if (changed.length === 0) return;
  await rowsOfPrepared(tx, TOUCH_PLAYED, { tasks: changed });
}

/** Notes the ids by which feedback from elsewhere may find, or now lose, its target. */
export function noteForeign(ids: Set<string>, event: Stored): void {
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
