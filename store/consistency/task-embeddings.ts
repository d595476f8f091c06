/** The vectors of tasks that an embedding model gave, read back from the feedback that recorded them. */
import type { Session } from '../db/pool.ts';

/** Name of the feedback on a task that carries its vector. Its annotator is the model. */
export const TASK_EMBEDDING = 'embedding';

/** By model, then by task: vectors of two models are never compared. */
export type TaskVectors = ReadonlyMap<string, ReadonlyMap<string, readonly number[]>>;

/**
 * The vectors of these tasks. Of several by one model the last by (time, id) counts, for the text of a task may have changed. A list that
 * holds anything but numbers is no vector. The transaction's search_path names the schema of the facts.
 */
export async function taskVectors(tx: Session, tasks: readonly string[]): Promise<TaskVectors> {
  const { rows } = await tx.query<{ model: string; task: string; vector: readonly unknown[] }>(
    `select distinct on (f.annotator, f.key) f.annotator as model, substr(f.key, 3) as task, f.value_json as vector from feedback f
     where f.key = any($1::text[]) and f.target_kind = 'task' and f.kind = 'score' and f.name = $2 and f.annotator is not null
       and json_typeof(f.value_json) = 'array'
     order by f.annotator, f.key, f.version desc`,
    [tasks.map((id) => `t/${id}`), TASK_EMBEDDING],
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
