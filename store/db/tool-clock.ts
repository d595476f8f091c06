/** The clock outside the sessions of tools: they may change their own settings, the time limit among them. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Db } from './pool.ts';

/** How often it is looked. */
const EVERY_MS = 500;
/** From the request to cancel to the end of the session. */
const MERCY_MS = 1000;

/**
 * Until the signal aborts: a transaction of `role` that lasts longer than `ms` is cancelled, and 1 s later its session is ended. Both
 * happen up to half a second late. The user of `db` must be allowed to end sessions of others, as on the embedded server.
 */
export async function watchTools(
  db: Db,
  role: string,
  { ms, signal, onTrouble }: { ms: number; signal: AbortSignal; onTrouble?: (error: unknown) => void },
): Promise<void> {
  while (!signal.aborted) {
    await endLate(db, role, ms).catch((error: unknown) => onTrouble?.(error));
    await sleep(EVERY_MS, undefined, { signal, ref: false }).catch(() => {});
  }
}

/** A session that waits in its transaction has nothing to cancel, and is ended at once. */
const endLate = (db: Db, role: string, ms: number) =>
  db.query(
    `select case when lasts > $3 or state <> 'active' then pg_terminate_backend(pid) else pg_cancel_backend(pid) end
     from (select pid, state, extract(epoch from clock_timestamp() - xact_start) * 1000 as lasts
           from pg_stat_activity where usename = $1) s
     where lasts > $2`,
    [role, ms, ms + MERCY_MS],
  );
