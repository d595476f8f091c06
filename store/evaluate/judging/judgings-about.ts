/** Which recorded judgings must be computed again, in their order, when the facts about some episodes changed. */
import type { Session } from '../../db/pool.ts';
import { facts, rowsOf } from '../../db/query.ts';

/**
 * Judgings that judged one of the episodes, and those that judged what these judged: computing one again replaces rows that a later
 * one had replaced. The transaction's search_path names the schema.
 */
export async function judgingsAbout(tx: Session, episodes: readonly string[]): Promise<string[]> {
  const rows = await rowsOf(tx, facts.selectFrom('judgings').select(['judge_id', 'episodes']).orderBy('version'));
  const about = new Set(episodes);
  const found = new Set<string>();
  for (let before = -1; before !== found.size; ) {
    before = found.size;
    for (const judging of rows) {
      if (found.has(judging.judge_id) || !judging.episodes.some((id) => about.has(id))) continue;
      found.add(judging.judge_id);
      for (const id of judging.episodes) about.add(id);
    }
  }
  return rows.map((row) => row.judge_id).filter((id) => found.has(id));
}
