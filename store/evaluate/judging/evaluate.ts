/**
 * What a set of episodes shows about the team that played them: the scores over execution reports, recomputed from the tables. Nothing
 * here knows what a program or a test is.
 */

import { KEYED } from '../../../ingest/log/keyed.ts';
import type { Db, Session } from '../../db/pool.ts';
import { query, rowsOf } from '../../db/query.ts';
import { tagReads } from '../../filter/select.ts';
import { loadMethod } from '../methods/catalogue.ts';
import { runMethod } from '../methods/run.ts';
import { executionReports } from './facts.ts';
import { readSteps } from './step-facts.ts';

export type Evaluation = {
  readonly episodes: number;
  readonly pass_at_1: number | null;
  readonly best_of_n: number | null;
  readonly majority: number | null;
  readonly verifier_precision: number | null;
  readonly rejection_rate: number | null;
};

const METHODS = {
  pass_at_1: 'pass_at_1',
  best_of_n: 'best_of_n',
  majority: 'majority_of_n',
  verifier_precision: 'verifier_precision',
  rejection_rate: 'rejection_rate',
} as const;

/** Scores of these episodes together. A score that cannot be computed from them is null. */
export async function evaluateEpisodes(db: Db, episodes: readonly string[]): Promise<Evaluation> {
  const reports = await db.transaction(
    async (tx) => {
      await tx.query(`set local search_path = facts, pg_catalog; ${KEYED}`);
      return executionReports(tx, episodes, (await readSteps(tx, episodes, { contents: true })).contents);
    },
    { readOnly: true },
  );
  const input = { reports: [...reports.values()] };
  const scores = await Promise.all(
    Object.entries(METHODS).map(async ([field, name]) => [
      field,
      input.reports.length === 0 ? null : runMethod(await loadMethod(name), input),
    ]),
  );
  return { episodes: reports.size, ...Object.fromEntries(scores) } as Evaluation;
}

/** Episodes whose tags have these values. */
export async function episodesTagged(db: Session, tags: Readonly<Record<string, string | number>>): Promise<string[]> {
  let episodes = query.selectFrom('facts.episodes').select('episode_id').orderBy('episode_id');
  for (const [name, value] of Object.entries(tags)) episodes = episodes.where(tagReads('tags', name, String(value)));
  const rows = await rowsOf(db, episodes);
  return rows.map((row) => row.episode_id);
}
