/** One at a time rebuilds the tables, prunes, restores, or rewrites an archive: a rebuild has read what another would take out of the log. */
import { TroupeError } from '../../../errors.ts';
import type { Session } from '../../db/pool.ts';
import { scalarOf, sql } from '../../db/query.ts';

/** Held until the transaction ends. @throws TroupeError `conflict` where another holds it. */
export async function takeLock(tx: Session): Promise<void> {
  if (!(await tryLock(tx))) {
    throw new TroupeError(
      'conflict',
      'Another rebuild, prune or restore of this project is running; wait for it to end, or stop it, and try again.',
    );
  }
}

export async function tryLock(tx: Session): Promise<boolean> {
  return scalarOf(tx, sql<boolean>`pg_try_advisory_xact_lock(hashtext('troupe rebuild'))`);
}
