/** A database with episodes in it that a test judges, and what an analyst reads of it. */
import { expect } from 'vitest';
import type { Event } from '../../../../ingest/events/events.ts';
import { postgresLog } from '../../../../ingest/log/postgres.ts';
import { judge, judgeAgain, type MethodRequest } from '../../../../store/evaluate/judging/judge.ts';
import { projectAll } from '../../../../store/projecting/projector.ts';
import { checksum } from '../../../../store/projecting/rebuilding/checksum.ts';
import { rebuild } from '../../../../store/projecting/rebuilding/rebuild.ts';
import { freshDatabase } from '../../../support/database.ts';

/** Value and reason by `episode step`. */
export type Expected = Record<string, readonly [number | null, string | null]>;

export async function judgedDatabase() {
  const fresh = await freshDatabase();
  const log = postgresLog(fresh.db);
  let clock = 0;
  const now = () => new Date(Date.UTC(2026, 9, 1) + clock++);
  const rows = async <T>(sql: string): Promise<T[]> => (await fresh.db.query<T & object>(sql)).rows;
  const load = async (...events: readonly (readonly Event[])[]) => {
    await log.append(events.flat());
    await projectAll(fresh.db);
  };
  const run = async (methods: readonly (string | MethodRequest)[], episodes?: readonly string[]) => {
    const ids =
      episodes ?? (await rows<{ episode_id: string }>('select episode_id from traj.episodes')).map((r) => r.episode_id);
    const asked = methods.map((method) => (typeof method === 'string' ? { method } : method));
    await judge(fresh.db, log, { methods: asked, episodes: ids, now });
    await projectAll(fresh.db);
  };

  /** Rows that the method wrote about steps are these and no others; numbers agree to 1e-12. */
  const expectRows = async (table: 'rewards' | 'credits', method: string, expected: Expected) => {
    const found = await rows<{ place: string; value: number | null; reason: string | null }>(
      `select episode_id || ' ' || step_id as place, value, reason from traj.${table} where method = '${method}'`,
    );
    expect(found.map((row) => row.place).sort(), method).toEqual(Object.keys(expected).sort());
    for (const { place, value, reason } of found) {
      const [wanted, why] = expected[place]!;
      expect(reason, `${method} of ${place}`).toBe(why);
      expectNumber(value, wanted, `${method} of ${place}`);
    }
  };

  return {
    ...fresh,
    load,
    run,
    rows,
    expectRows,
    checksum: () => checksum(fresh.db),
    rebuild: () => rebuild(fresh.db, { judge: judgeAgain }),
  };
}

export type JudgedDatabase = Awaited<ReturnType<typeof judgedDatabase>>;

export function expectNumber(found: number | null, wanted: number | null, about: string): void {
  if (found === null || wanted === null) expect(found, about).toBe(wanted);
  else
    expect(Math.abs(found - wanted), `${about}: ${found} and ${wanted}`).toBeLessThanOrEqual(
      1e-12 * Math.max(1, Math.abs(wanted)),
    );
}
