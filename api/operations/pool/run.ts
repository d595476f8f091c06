/** What the operation pool does. */
import { writeFile } from 'node:fs/promises';
import { storedPool } from '../../../store/evaluate/consistency/stored-pool.ts';
import type { ReadContext } from '../operation.ts';

export async function pool(
  { db, catchUp }: ReadContext,
  {
    embedding_model = null,
    min_score,
    triplets: file,
  }: { readonly embedding_model?: string | null; readonly min_score: number | null; readonly triplets?: string },
) {
  await catchUp();
  const { pool, refinements, triplets } = await storedPool(db, {
    embeddingModel: embedding_model,
    minScore: min_score,
  });
  if (file !== undefined) await writeFile(file, triplets.map((triplet) => `${JSON.stringify(triplet)}\n`).join(''));
  const clusters = Object.entries(pool.clusters).map(([cluster, choice]) => ({ cluster, ...choice }));
  return { teams: pool.teams, clusters, refinements, triplets, left_out: pool.left_out };
}
