/** Whether an episode failed, as far as recorded. */
import { type SqlBool, sql } from '../../db/query.ts';

const FAILED: readonly string[] = ['failure', 'error', 'timeout', 'aborted'];

/** The same as a condition on rows of `episodes`. */
export const HAS_FAILED = sql<SqlBool>`(outcome in (${sql.join(FAILED.map((outcome) => sql.lit(outcome)))})
  or coalesce(outcome, 'unknown') = 'unknown' and reward <= 0)`;

/**
 * Null for an episode that failed; else why nobody is to blame for it: `not_failed`, `partial_reward` (between 0 and 1, so neither)
 * or `unknown_outcome`. The outcome decides first; where it is unknown a reward does, 0 and less being failure, 1 and more success.
 */
export function whyNotFailed({
  outcome,
  reward,
}: {
  readonly outcome: string | null;
  readonly reward: number | null;
}): 'not_failed' | 'partial_reward' | 'unknown_outcome' | null {
  if (outcome !== null && FAILED.includes(outcome)) return null;
  if (outcome === 'success') return 'not_failed';
  if (reward === null) return 'unknown_outcome';
  if (reward <= 0) return null;
  return reward >= 1 ? 'not_failed' : 'partial_reward';
}
