/** The vectors of tasks that an embedding model gave, read back from the feedback that recorded them. */
import type { Session } from '../../db/pool.ts';
import { anyOf, facts, type NotNull, rowsOf, sql } from '../../db/query.ts';

/** Name of the feedback on a task that carries its vector. Its annotator is the model. */
export const TASK_EMBEDDING = 'embedding';

/** By model, then by task: vectors of two models are never compared. */
export type TaskVectors = ReadonlyMap<string, ReadonlyMap<string, readonly number[]>>;

/**
 * The vectors of these tasks. Of several by one model the last by (time, id) counts, for the text of a task may have changed. A list that
 * holds anything but numbers is no vector. The transaction's search_path names the schema of the facts.
 */
export async function taskVectors(tx: Session, tasks: readonly string[]): Promise<TaskVectors> {
  const rows = await rowsOf(
    tx,
    facts
      .selectFrom('feedback as f')
      .distinctOn(['f.annotator', 'f.key'])
      .select(['f.annotator as model', sql<string>`substr(f.key, 3)`.as('task')])
      .select(sql<readonly unknown[]>`f.value_json`.as('vector'))
      .where('f.key', '=', anyOf(tasks.map((id) => `t/${id}`)))
      .where('f.target_kind', '=', 'task')
      .where('f.kind', '=', 'score')
      .where('f.name', '=', TASK_EMBEDDING)
      .where('f.annotator', 'is not', null)
      .where(sql`json_typeof(f.value_json)`, '=', 'array')
      .orderBy('f.annotator')
      .orderBy('f.key')
      .orderBy('f.version', 'desc')
      .$narrowType<{ model: NotNull }>(),
  );
  const vectors = new Map<string, Map<string, readonly number[]>>();
  for (const { model, task, vector } of rows) {
    if (!isVector(vector)) continue;
    const known = vectors.get(model);
    if (known) known.set(task, vector);
    else vectors.set(model, new Map([[task, vector]]));
  }
  return vectors;
}

const isVector = (list: readonly unknown[]): list is readonly number[] => list.every((x) => typeof x === 'number');
