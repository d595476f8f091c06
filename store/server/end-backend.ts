/** Ends processes of the embedded server that heed no request: PostgreSQL looks for one between rows, and not within every function. */
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import type { Db } from '../db/pool.ts';
import { serverIdentity } from './binaries.ts';
import { isBackendOf } from './memory.ts';

const run = promisify(execFile);

/** How long a backend has to end by itself, in milliseconds; a statement that can be ended at all took some 10. */
const HEED_MS = 1000;
const TRIES = 10;

/**
 * Ends the backend of `role`, and resolves when it is gone or has outlived ten tries. `db` is of a superuser. `translate`, `btrim`,
 * `strpos`, `&&` and `<@` of arrays among others compare long values for minutes or days without looking at requests. SIGFPE is what a
 * division by zero sends: PostgreSQL raises an error wherever it is, and then heeds the request. It is sent only to a process that was
 * asked to end a second ago and still computes.
 */
export async function endBackend(db: Pick<Db, 'query'>, pid: number, role: string): Promise<void> {
  for (let tries = 0; tries < TRIES; tries++) {
    // It waits here and not in the server: each would hold a connection of `db`.
    const terminated = await db.query(
      'select pg_terminate_backend(pid) from pg_stat_activity where pid = $1 and usename = $2',
      [pid, role],
    );
    if (terminated.rows.length === 0) return;
    await sleep(HEED_MS);
    // A number from another container would be another process here.
    if ((await isBackendOf(pid, role)) && (await computes(pid)))
      await run('/bin/sh', ['-c', 'kill -FPE "$0"', String(pid)], { ...serverIdentity(), cwd: '/' });
  }
}

/** False for a process that waits for the disk, a lock or a client. */
const computes = (pid: number): Promise<boolean> =>
  readFile(`/proc/${pid}/stat`, 'latin1').then(
    (stat) => stat.slice(stat.lastIndexOf(')') + 2).startsWith('R'),
    () => false,
  );
