/**
 * The clock outside the sessions of tools: they may change their own settings, the time limit among them. It limits their memory too. And
 * outside the queries of our own processes, which end what is late themselves as long as nobody kills them.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Db } from '../db/pool.ts';
import { endBackend } from './end-backend.ts';
import { isBackendOf, limitMemory } from './memory.ts';

/** How often it is looked, while there is no such session and while there is one. */
const EVERY_MS = 500;
const EVERY_MS_IN_USE = 100;
/** From the request to cancel to the end of the session. */
const MERCY_MS = 1000;
/** Share of the server's 8 GB for notifications. Where they are used up, no transaction that notifies can commit, Troupe's neither. */
const MOST_NOTIFICATIONS = 0.01;

type Watching = {
  /** How long a transaction may last. */
  readonly ms: number;
  /** Memory of its own that the process of a session may have, from the first look at it on. */
  readonly bytes: number;
  /** The login of our own queries, whose sessions say in their name how long they may last. */
  readonly own?: string;
  readonly signal: AbortSignal;
  readonly onTrouble?: (error: unknown) => void;
};

/** What a session of our own calls itself while a query runs that may last so long. */
export const limitName = (ms: number): string => `troupe sql, at most ${ms} ms`;

/**
 * Until the signal aborts: a transaction of `role` that lasts longer than `ms`, and one of `own` past its own limit, is cancelled, and 1 s
 * later its session is ended. Both happen up to half a second late. Sessions in a transaction are also ended while notifications pile up, which only such a session keeps.
 * The user of `db` must be allowed to end sessions of others, as on the embedded server.
 */
export async function watchTools(db: Db, role: string, { ms, bytes, own, signal, onTrouble }: Watching): Promise<void> {
  const ending = new Map<number, Promise<void>>();
  let limited = new Set<number>();
  while (!signal.aborted) {
    try {
      const all = await look(db, { role, own, ms });
      for (const { pid, who } of all.filter((one) => one.late && !ending.has(one.pid))) {
        const ended = endBackend(db, pid, who)
          .catch((error: unknown) => onTrouble?.(error))
          .finally(() => ending.delete(pid));
        ending.set(pid, ended);
      }
      const sessions = all.filter(({ who }) => who === role);
      const fresh = sessions.filter(({ pid }) => !limited.has(pid));
      await Promise.all(
        fresh.map(({ pid }) =>
          limitMemory(pid, role, bytes).catch(async (error: unknown) => {
            // One that has just ended cannot be limited, and need not be.
            if (await isBackendOf(pid, role)) onTrouble?.(error);
          }),
        ),
      );
      limited = new Set(sessions.map(({ pid }) => pid));
    } catch (error) {
      onTrouble?.(error);
    }
    await sleep(limited.size > 0 ? EVERY_MS_IN_USE : EVERY_MS, undefined, { signal, ref: false }).catch(() => {});
  }
  await Promise.all(ending.values());
}

/** The sessions, of which those that are late but compute are asked to cancel. One that waits in its transaction has nothing to cancel. */
async function look(
  db: Db,
  { role, own = role, ms }: { readonly role: string; readonly own: string | undefined; readonly ms: number },
): Promise<readonly { pid: number; who: string; late: boolean }[]> {
  const { rows } = await db.query<{ pid: number; who: string; late: boolean }>(
    `select pid, who, coalesce(lasts > most + $4 or lasts > most and state <> 'active' or lasts > 0 and pg_notification_queue_usage() > $5, false) as late,
            case when lasts > most then pg_cancel_backend(pid) end
     from (select pid, usename::text as who, state, extract(epoch from clock_timestamp() - xact_start) * 1000 as lasts,
                  case usename when $1 then $3 else substring(application_name from 'at most ([0-9]+) ms')::float8 end as most
           from pg_stat_activity where usename in ($1, $2)) s`,
    [role, own, ms, MERCY_MS, MOST_NOTIFICATIONS],
  );
  return rows;
}
