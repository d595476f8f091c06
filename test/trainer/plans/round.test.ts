import { afterAll, beforeAll, expect, it } from 'vitest';
import { postgresLog } from '../../../ingest/log/postgres.ts';
import { recordRelease, releasesOf } from '../../../store/loop/release/releases.ts';
import { projectAll } from '../../../store/projecting/projector.ts';
import type { GateReport } from '../../../trainer/loop/comparison/report.ts';
import { parsePlan } from '../../../trainer/loop/plan/plan.ts';
import { endRound } from '../../../trainer/loop/plan/round.ts';
import { freshDatabase, type TestDatabase } from '../../support/database.ts';

let database: TestDatabase;
beforeAll(async () => {
  database = await freshDatabase();
});
afterAll(() => database.close());

const plan = await parsePlan({
  name: 'nightly',
  policies: {
    solver: {
      base: 'model',
      recipe: { unit: 'step', split: { held_out: 0.2 } },
      train: { method: 'sft', steps: 1, batch: 1, learning_rate: 1e-3 },
    },
  },
  gate: { kind: 'offline' },
});

it('A candidate is released over what its gate compared it with, and not over what was released meanwhile', async () => {
  const { db } = database;
  const log = postgresLog(db);
  const released = async (id: string, solver: string): Promise<void> => {
    const of = { release_id: id, policies: { solver }, reason: null, by: 'somebody', source: '/cli' };
    await recordRelease(log, { ...of, time: new Date().toISOString() });
    await projectAll(db);
  };
  const appending = {
    ...log,
    append: async (...given: Parameters<typeof log.append>) => {
      const answers = await log.append(...given);
      await projectAll(db);
      return answers;
    },
  };
  const end = (round: number, incumbent: string, candidate: string) => {
    const gate = {
      kind: 'offline',
      passed: true,
      reason: 'It is better.',
      models: { solver: { incumbent, candidate } },
      main: { incumbent: null, candidate: null },
      guardrails: [],
    } as unknown as GateReport;
    const of = { run: 'nightly-1', round, plan, policies: { solver: candidate }, gate, hosted: {} };
    return endRound({ db, log: appending, now: () => new Date() }, of);
  };
  await released('first', 'old');
  expect(await end(1, 'old', 'new')).toEqual({ passed: true, reason: 'It is better.', release_id: 'nightly-1/1' });
  await released('by-hand', 'other');
  const refused = await end(2, 'new', 'newer');
  expect(refused).toMatchObject({ passed: false, release_id: null });
  expect(refused.reason).toContain('release by-hand gave other to solver meanwhile');
  expect((await releasesOf(db)).at(-1)).toMatchObject({ release_id: 'by-hand', policies: { solver: 'other' } });
  // A run that was killed behind its release finds it.
  expect(await end(1, 'old', 'new')).toMatchObject({ release_id: 'nightly-1/1' });
});
