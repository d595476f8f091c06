/** Which processes of a project run now: they register, beat, and are forgotten when they stop beating. */
import type { Db } from '../db/pool.ts';
import { countOf, query, sql } from '../db/query.ts';

export type ProcessFacts = {
  readonly processId: string;
  readonly role: string;
  readonly policy?: string;
  /** Where it listens: a socket path or a URL. */
  readonly address?: string;
};

const BEAT_MS = 3000;

/** Registers this process and keeps its heartbeat; the returned function takes it off the list. */
export async function registerProcess(db: Db, facts: ProcessFacts): Promise<() => Promise<void>> {
  await countOf(
    db,
    query
      .deleteFrom('troupe.processes')
      .where('heartbeat_at', '<', sql<string>`clock_timestamp() - interval '1 minute'`),
  );
  const reported = { policy: facts.policy ?? null, address: facts.address ?? null };
  const beat = () =>
    countOf(
      db,
      query
        .insertInto('troupe.processes')
        .values({ process_id: facts.processId, role: facts.role, pid: process.pid, ...reported })
        .onConflict((known) =>
          known.column('process_id').doUpdateSet({ heartbeat_at: sql<string>`clock_timestamp()`, ...reported }),
        ),
    );
  await beat();
  // A missed beat is made up by the next one; a database that is away is noticed by whoever works with it.
  const timer = setInterval(() => void beat().catch(() => {}), BEAT_MS);
  timer.unref();
  return async () => {
    clearInterval(timer);
    // Where the database is away the row goes with the next process that registers.
    await countOf(db, query.deleteFrom('troupe.processes').where('process_id', '=', facts.processId)).catch(() => {});
  };
}
