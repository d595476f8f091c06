/**
 * Tasks that a team wrote: the answers of the episodes of a rollout that a filter accepts, each a JSON object as a line of a file of tasks is.
 * What is played of them says who wrote it: the tag `written_by` is the episode.
 */
import { Type } from 'typebox';
import { hashId, isRecord, parseRecord } from '../../../ingest/events/json.ts';
import type { Session } from '../../db/pool.ts';
import { query, rowsOf, type SqlBool, sql } from '../../db/query.ts';
import { lowerFilter, parseFilter } from '../../filter/select.ts';
import type { RolloutTask } from './rollout.ts';

/** Kind of the job that takes them. */
export const TASKS = 'tasks';

/** What the job needs; the filter may be a text or a tree. */
export const WrittenSpec = Type.Object({
  rollout_id: Type.String(),
  accept: Type.Unknown(),
  at_most: Type.Optional(Type.Integer({ minimum: 1 })),
});

export type WrittenTasks = {
  readonly tasks: readonly RolloutTask[];
  /** Episodes that were played to write them. */
  readonly episodes: number;
  /** Episodes without a task of their own, by the reason. */
  readonly left_out: Readonly<Record<string, number>>;
};

/** The tasks in the order of their episodes' ids. Nothing is refused: what is no task is counted under its reason. */
export async function writtenTasks(
  db: Pick<Session, 'query'>,
  { rollout_id, accept, at_most = Number.POSITIVE_INFINITY }: { rollout_id: string; accept: unknown; at_most?: number },
): Promise<WrittenTasks> {
  const rows = await rowsOf(
    db,
    query
      .selectFrom('facts.episodes as e')
      .leftJoin('facts.tasks as t', 't.task_id', 'e.task_id')
      .select(['e.episode_id', 'e.answer'])
      .select(sql<boolean | null>`${lowerFilter(parseFilter(accept, 'accept'))}`.as('accepted'))
      .where(sql<SqlBool>`e.tags ->> 'rollout' = ${rollout_id}`)
      .where('e.group_id', 'is not', null)
      .orderBy(sql`e.episode_id collate "C"`),
  );
  const tasks = new Map<string, RolloutTask>();
  const left_out: Record<string, number> = {};
  for (const { episode_id, answer, accepted } of rows) {
    const task = accepted === true ? taskIn(answer, episode_id) : 'not accepted';
    const why =
      typeof task === 'string'
        ? task
        : tasks.has(task.task_id)
          ? 'written before'
          : tasks.size >= at_most
            ? 'above at_most'
            : null;
    if (why !== null) left_out[why] = (left_out[why] ?? 0) + 1;
    else tasks.set((task as RolloutTask).task_id, task as RolloutTask);
  }
  return { tasks: [...tasks.values()], episodes: rows.length, left_out };
}

/** The task that an answer is; a text is the reason why it is none. */
function taskIn(answer: unknown, episode: string): RolloutTask | string {
  if (answer === null || answer === undefined) return 'no answer';
  const parsed = typeof answer === 'string' ? parseRecord(answer) : { value: answer };
  const value = 'refusal' in parsed ? undefined : parsed.value;
  if (!isRecord(value)) return 'the answer is no JSON object';
  if (value.prompt === undefined && value.input === undefined) return 'the answer has no prompt';
  const { task_id = `task-${hashId(value)}`, tags } = value;
  if (typeof task_id !== 'string' || task_id === '') return 'task_id is no text';
  const named = { ...(isRecord(tags) ? tags : {}), written_by: episode };
  return { ...value, task_id, ...{ tags: named } };
}

/** What was left out, as a sentence ends: how many for each reason. */
export const countsText = (counts: WrittenTasks['left_out']): string =>
  Object.entries(counts)
    .map(([why, count]) => `${count} ${why}`)
    .join(', ');
