/**
 * Records the embeddings of the texts of tasks: one event a task, so that whoever compares tasks by meaning reads the
 * log, and a rebuild repeats it without the model.
 */
import type { Draft } from '../../../ingest/events/events.ts';
import { hashId } from '../../../ingest/events/json.ts';
import type { EventLog } from '../../../ingest/log/log.ts';
import { appendOwn } from '../../../ingest/log/own-event.ts';
import type { Db } from '../../../store/db/pool.ts';
import { anyOf, type Expression, query, rowsOf, type SqlBool, sql } from '../../../store/db/query.ts';
import { TASK_EMBEDDING } from '../../../store/evaluate/consistency/task-embeddings.ts';
import { SOURCE } from '../passes.ts';

export type TextTask = { readonly task_id: string; readonly text: string };

/** A condition over tasks `t` and episodes `e`, as `lowerFilter` of a typed filter makes it. */
export type EpisodeCondition = Expression<SqlBool>;

/** The tasks `t` of which some episode meets the condition. */
const tasks = (where: EpisodeCondition | null) =>
  query
    .selectFrom('facts.tasks as t')
    .$if(where !== null, (all) =>
      all.where((task) =>
        task.exists(
          task
            .selectFrom('facts.episodes as e')
            .select('e.episode_id')
            .whereRef('e.task_id', '=', 't.task_id')
            .where(where!),
        ),
      ),
    );

/** Tasks in all, or those of which some episode meets the condition. */
export async function countTasks(db: Pick<Db, 'query'>, where: EpisodeCondition | null): Promise<number> {
  const [row] = await rowsOf(db, tasks(where).select(sql<number>`count(*)::integer`.as('count')));
  return row!.count;
}

/** Up to `limit` of them after that id, in the order of ids. */
export const storedTasks = (
  db: Pick<Db, 'query'>,
  where: EpisodeCondition | null,
  after: string | null,
  limit: number,
): Promise<{ readonly task_id: string; readonly text: string | null }[]> =>
  rowsOf(
    db,
    tasks(where)
      .select(['t.task_id', 't.query as text'])
      .where('t.task_id', '>', after ?? '')
      .orderBy('t.task_id')
      .limit(limit),
  );

/** The same model over the same text of the same task is the same event, whenever it is asked. */
export const embeddingId = ({ task_id, text }: TextTask, model: string): string =>
  hashId(TASK_EMBEDDING, model, task_id, text);

/** The tasks of whose text the log has no vector by this model. */
export async function unembedded(
  db: Pick<Db, 'query'>,
  tasks: readonly TextTask[],
  model: string,
): Promise<TextTask[]> {
  const ids = tasks.map((task) => embeddingId(task, model));
  const rows = await rowsOf(
    db,
    query
      .selectFrom('troupe.events')
      .select('id')
      .where('key', '=', anyOf(tasks.map(({ task_id }) => `t/${task_id}`)))
      .where('source', '=', SOURCE)
      .where('id', '=', anyOf(ids)),
  );
  const there = new Set(rows.map(({ id }) => id));
  return tasks.filter((_, i) => !there.has(ids[i]!));
}

/** Feedback about the task. Nine digits name a 32-bit float exactly. */
export function embeddingDraft(
  task: TextTask,
  vector: Float32Array,
  model: string,
  time: string,
): Draft<'feedback.recorded'> {
  const id = embeddingId(task, model);
  return {
    name: 'feedback.recorded',
    source: SOURCE,
    id,
    time,
    data: {
      feedback_id: id,
      target: { kind: 'task', id: task.task_id },
      kind: 'score',
      name: TASK_EMBEDDING,
      value: Array.from(vector, (x) => Number(x.toPrecision(9))),
      by: 'model',
      annotator: model,
    },
  };
}

/** Appends vectors. If another process recorded the same meanwhile, it was first; both used the same model. Returns how many were new. */
export async function recordEmbeddings(
  log: Pick<EventLog, 'append'>,
  drafts: readonly Draft<'feedback.recorded'>[],
): Promise<number> {
  return appendOwn(log, drafts);
}
