/** Which tasks are alike, as clusters: by what they ask, or by what an embedding model makes of it. */
import type { Placement } from './clusters.ts';
import { similarTasks, type TaskText } from './similar-tasks.ts';
import { similarByVectors } from './similar-vectors.ts';
import type { TaskVectors } from './task-embeddings.ts';

/** By character n-grams where `vectors` is null, else by the vectors of `model`; a task without such a vector is alone, with that reason. */
export function taskClusters(
  tasks: readonly TaskText[],
  by: { readonly vectors: TaskVectors; readonly model: string } | null,
): Map<string, Placement> {
  if (by === null) return similarTasks(tasks);
  const known = by.vectors.get(by.model);
  return similarByVectors(tasks.map(({ id }) => ({ id, vector: known?.get(id) ?? null })));
}
