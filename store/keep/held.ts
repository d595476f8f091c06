/** Episodes that work under way will read: they stay until it is done. */
import { isRecord } from '../../ingest/events/json.ts';
import { episodeCondition } from '../datasets/query.ts';
import { parseRecipe } from '../datasets/recipe.ts';
import type { Session } from '../db/pool.ts';
import { type Expression, query, rowsOf, type SqlBool } from '../db/query.ts';
import { episodesTagged } from '../evaluate/judging/evaluate.ts';
import { isAttempt } from '../loop/play/attempts.ts';

/** Ids of the episodes that jobs of the queue name, by id, by tag or by their recipe, or play, and have not finished with. */
export async function heldEpisodes(tx: Session): Promise<string[]> {
  const rows = await rowsOf(
    tx,
    query
      .selectFrom('troupe.job_queue')
      .select(['job_id', 'kind', 'spec'])
      .where('state', '<>', 'finished')
      .orderBy('job_id'),
  );
  const held = new Set<string>();
  for (const { job_id, kind, spec } of rows) {
    if (isAttempt(kind)) held.add(job_id);
    else for (const id of await episodesOf(tx, kind, spec)) held.add(id);
  }
  return [...held].sort();
}

async function episodesOf(tx: Session, kind: string, spec: unknown): Promise<readonly string[]> {
  if (!isRecord(spec)) return [];
  if (kind === 'freeze') return ofRecipe(tx, spec.recipe);
  const scopes = kind === 'evaluate' && isRecord(spec.sets) ? Object.values(spec.sets) : [spec];
  const found: string[] = [];
  for (const scope of scopes) {
    if (!isRecord(scope)) continue;
    if (Array.isArray(scope.episodes)) found.push(...scope.episodes.map(String));
    // Without any scope these two mean all episodes.
    else if (kind === 'judge' || kind === 'evaluate')
      found.push(...(await episodesTagged(tx, (scope.tags ?? {}) as Readonly<Record<string, string | number>>)));
  }
  return found;
}

/** A recipe that cannot be read will freeze nothing. */
async function ofRecipe(tx: Session, written: unknown): Promise<string[]> {
  let condition: Expression<SqlBool>;
  try {
    condition = episodeCondition(parseRecipe(written)).sql;
  } catch {
    return [];
  }
  const rows = await rowsOf(
    tx,
    query
      .selectFrom('facts.episodes as e')
      .leftJoin('facts.tasks as t', 't.task_id', 'e.task_id')
      .select('e.episode_id')
      .where(condition),
  );
  return rows.map((row) => row.episode_id);
}
