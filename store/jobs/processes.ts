/** Which processes of a project run now: they register, beat, and are forgotten when they stop beating. */
import type { Db } from '../db/pool.ts';

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
  await db.query(`delete from troupe.processes where heartbeat_at < clock_timestamp() - interval '1 minute'`);
  const beat = () =>
    db.query(
      `insert into troupe.processes as p (process_id, role, policy, address, pid) values ($1, $2, $3, $4, $5)
       on conflict (process_id) do update set heartbeat_at = clock_timestamp(), policy = excluded.policy, address = excluded.address`,
      [facts.processId, facts.role, facts.policy ?? null, facts.address ?? null, process.pid],
    );
  await beat();
  // A missed beat is made up by the next one; a database that is away is noticed by whoever works with it.
  const timer = setInterval(() => void beat().catch(() => {}), BEAT_MS);
  timer.unref();
  return async () => {
    clearInterval(timer);
    await db.query('delete from troupe.processes where process_id = $1', [facts.processId]);
  };
}
