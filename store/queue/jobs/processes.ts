/** Which processes of a project run now: they register, beat, and are forgotten when they stop beating. */
import type { Db } from '../../db/pool.ts';
import { countOf, query, sql, typed } from '../../db/query.ts';

export type ProcessFacts = {
  readonly processId: string;
  readonly role: string;
  readonly policy?: string;
  /** Where it listens: a socket path or a URL. */
  readonly address?: string;
  /** The models that it has loaded now. */
  readonly models?: () => readonly ServedModel[];
};

/** A model as requests name it: that of its policy by the policy's name, one that is played with by its checkpoint. */
export type ServedModel = { readonly name: string; readonly checkpoint: string };

const BEAT_MS = 3000;

/** Registers this process and keeps its heartbeat; the returned function takes it off the list. */
export async function registerProcess(db: Db, facts: ProcessFacts): Promise<() => Promise<void>> {
  await countOf(
    db,
    query.deleteFrom('troupe.processes').where((row) =>
      row.or([
        row('heartbeat_at', '<', sql<string>`clock_timestamp() - interval '1 minute'`),
        // Whoever listened there before is gone.
        row('address', '=', facts.address ?? null),
      ]),
    ),
  );
  const known = { policy: facts.policy ?? null, address: facts.address ?? null };
  const beat = () => {
    const reported = { ...known, models: facts.models ? modelsOf(facts.models()) : null };
    return countOf(
      db,
      query
        .insertInto('troupe.processes')
        .values({ process_id: facts.processId, role: facts.role, pid: process.pid, ...reported })
        .onConflict((there) =>
          there.column('process_id').doUpdateSet({ heartbeat_at: sql<string>`clock_timestamp()`, ...reported }),
        ),
    );
  };
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

/** Reports what a process has loaded, without waiting for its next heartbeat. */
export const reportModels = (db: Db, processId: string, models: readonly ServedModel[]): Promise<number> =>
  countOf(
    db,
    query
      .updateTable('troupe.processes')
      .set({ models: modelsOf(models) })
      .where('process_id', '=', processId),
  );

const modelsOf = (models: readonly ServedModel[]) =>
  typed(JSON.stringify(models.map(({ name, checkpoint }) => ({ name, checkpoint }))), 'jsonb');
