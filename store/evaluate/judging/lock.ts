/**
 * Who writes judgements when. Judges of one method that touch the same groups take turns, since both replace the same rows; judges of
 * other groups need not. And a rebuild swaps the tables only while no judge is writing into the old ones.
 */
import type { Session } from '../../db/pool.ts';
import { scalarOf, sql } from '../../db/query.ts';

const SWAP = sql`hashtext('troupe judge')`;

/** Groups are divided into so many shares; a share is what one process judges at a time. */
const SHARES = 16;
export const ALL_SHARES: readonly number[] = Array.from({ length: SHARES }, (_, share) => share);

/** What an episode is compared with: its announced group, else its task, else itself; over the row `e` of facts.episodes. */
export const GROUP = sql<string>`coalesce(e.group_id, e.task_id, e.episode_id)`;

/** The share of the group of the episode `e`. */
export const SHARE = sql<number>`(hashtext(${GROUP}) & ${sql.lit(SHARES - 1)})`;

/** Held until the transaction ends: the tables it writes to stay in place, and no other judge runs the same methods over these shares. */
export async function takeTurn(tx: Session, methodKeys: readonly string[], shares: readonly number[]): Promise<void> {
  await scalarOf(tx, sql`pg_advisory_xact_lock_shared(${SWAP})`);
  const turns = [...new Set(methodKeys)].flatMap((key) => [...new Set(shares)].map((share) => `${key} ${share}`));
  for (const turn of turns.sort()) {
    await scalarOf(tx, sql`pg_advisory_xact_lock(hashtextextended(${turn}, 0))`, { name: 'judge_turn' });
  }
}

/** Waits for the judges that are writing; until the transaction ends others wait. */
export async function waitForJudges(tx: Session): Promise<void> {
  await scalarOf(tx, sql`pg_advisory_xact_lock(${SWAP})`);
}
