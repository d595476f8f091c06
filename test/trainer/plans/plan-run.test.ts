import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { postgresLog } from '../../../ingest/log/postgres.ts';
import { WaitsFor } from '../../../store/jobs/jobs.ts';
import { runProjector } from '../../../store/projecting/projector.ts';
import { planHandler } from '../../../trainer/plans/plan-run.ts';
import { freshDatabase, type TestDatabase } from '../../support/database.ts';

let database: TestDatabase;
const folder = mkdtempSync(join(tmpdir(), 'troupe-plan-run-'));
const stop = new AbortController();
let projecting: Promise<unknown>;
const plan = {
  name: 'nightly',
  policies: {
    solver: {
      base: 'no-such-model',
      recipe: { unit: 'step' },
      train: { method: 'sft', steps: 1, batch: 1, learning_rate: 1e-3 },
    },
  },
  gate: { kind: 'manual' },
};
const run = (spec: object) =>
  planHandler(
    { db: database.db, log: postgresLog(database.db), now: () => new Date() },
    { checking: { folder, codeVersion: '0', runners: [], env: {} } },
  )({ job_id: 'nightly-1', kind: 'plan', spec: { plan, ...spec }, token: 1 }, async () => {}, stop.signal);

beforeAll(async () => {
  database = await freshDatabase();
  projecting = runProjector(database.db, { signal: stop.signal, onTrouble: () => {} });
});
afterAll(async () => {
  stop.abort();
  await projecting;
  rmSync(folder, { recursive: true });
  await database.close();
});

it('A run is checked before its first stage, once: not again where whoever requested it has just done so', async () => {
  await expect(run({})).rejects.toMatchObject({
    code: 'plan_blocked',
    message: expect.stringContaining('no-such-model'),
  });
  await expect(run({ checked: true })).rejects.toEqual(new WaitsFor('nightly-1/1/freeze-solver'));
});
