/** The vectors of tasks that an embedding model gave, read back from the feedback that recorded them. */
import type { Session } from '../db/pool.ts';
import type { TaskVector } from './similar-vectors.ts';

/** Name of the feedback on a task that carries its vector. Its annotator is the model. */
export const TASK_EMBEDDING = 'embedding';

/**
 * A row for each task, null for one without a vector of that model: vectors of two models are never compared. Of several by one model the
 * last by (time, id) counts, for the text of a task may have changed. The transaction's search_path names the schema of the facts.
 */
export async function taskVectors(tx: Session, tasks: readonly string[], model: string): Promise<TaskVector[]> {
  const { rows } = await tx.query<{ key: string; vector: unknown }>(
    `select distinct on (f.key) f.key, f.value_json as vector from feedback f
     where f.key = any($1::text[]) and f.target_kind = 'task' and f.kind = 'score' and f.name = $2 and f.annotator = $3
       and json_typeof(f.value_json) = 'array'
     order by f.key, f.version desc`,
    [tasks.map((id) => `t/${id}`), TASK_EMBEDDING, model],
  );
  const vectors = new Map(rows.map(({ key, vector }) => [key, vector as number[]]));
  const isVector = (one: unknown[] | undefined): one is number[] => one?.every((x) => typeof x === 'number') === true;
  return tasks.map((id) => {
    const vector = vectors.get(`t/${id}`);
    return { id, vector: isVector(vector) ? vector : null };
  });
}
