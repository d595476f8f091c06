/**
 * Who writes judgements when. Judges of one method take turns, since both replace the same rows; and a rebuild swaps the tables only
 * while no judge is writing into the old ones.
 */
import type { Session } from '../db/pool.ts';

const SWAP = `hashtext('troupe judge')`;

/** Held until the transaction ends: the tables it writes to stay in place, and no other judge runs the same methods. */
export async function takeTurn(tx: Session, methodKeys: readonly string[]): Promise<void> {
  await tx.query(`select pg_advisory_xact_lock_shared(${SWAP})`);
  for (const key of [...new Set(methodKeys)].sort()) {
    await tx.query('select pg_advisory_xact_lock(hashtextextended($1, 0))', [key]);
  }
}

/** Waits for the judges that are writing; until the transaction ends others wait. */
export async function waitForJudges(tx: Session): Promise<void> {
  await tx.query(`select pg_advisory_xact_lock(${SWAP})`);
}
