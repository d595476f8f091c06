import { afterAll, beforeAll, expect, it } from 'vitest';
import { hostedWeights } from '../../../store/loop/play/weights.ts';
import { registerProcess } from '../../../store/queue/jobs/processes.ts';
import { weightsWanted } from '../../../trainer/loop/play/serving.ts';
import { freshDatabase, type TestDatabase } from '../../support/database.ts';

let database: TestDatabase;
beforeAll(async () => {
  database = await freshDatabase();
});
afterAll(() => database.close());

it('wants a process for each policy whose own weights a rollout waits for or a canary has, and for none that another server answers', async () => {
  const { db } = database;
  const awaits = { policies: ['solver', 'desk'], within_s: 1 };
  const solver = { checkpoint_id: 'c-1', directory: '/models/c-1' };
  const asked = async (job_id: string, spec: object, kind = 'rollout') =>
    db.query('insert into troupe.job_queue (job_id, kind, spec) values ($1, $2, $3)', [job_id, kind, spec]);
  await asked('g/incumbent', { weights: { solver, desk: hostedWeights('hosted/gpt') }, awaits });
  await asked('unawaited', { weights: { other: solver } });
  await asked('plain', {});
  expect(await weightsWanted(db)).toEqual({ solver: '/models/c-1' });
  const later = { checkpoint_id: 'c-2', directory: '/models/c-2' };
  await asked('g/candidate', { weights: { solver: later, desk: later }, awaits });
  expect(await weightsWanted(db)).toEqual({ solver: '/models/c-1', desk: '/models/c-2' });

  const models = () => [];
  const leave = await registerProcess(db, { processId: 'p', role: 'infer', policy: 'solver', address: 'x', models });
  expect(await weightsWanted(db)).toEqual({ desk: '/models/c-2' });
  await asked('live', { weights: { live: later } }, 'canary');
  expect(await weightsWanted(db)).toEqual({ desk: '/models/c-2', live: '/models/c-2' });
  await leave();
});
