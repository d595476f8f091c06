import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type TestApp, testApp } from './support/app.ts';

const NIGHTLY = {
  cron: '0 3 * * *',
  zone: 'Europe/Berlin',
  job: { kind: 'evaluate', spec: { sets: { all: {} } } },
  overlap: 'skip',
  catch_up_seconds: 86_400,
  jitter_seconds: 0,
};

const PLAN = {
  name: 'nightly',
  policies: {
    solver: {
      base: '/srv/model',
      recipe: { unit: 'step' },
      train: { method: 'sft', steps: 1, batch: 1, learning_rate: 1e-3 },
    },
  },
  gate: { kind: 'manual' },
};

describe('/v1/schedules', () => {
  let at: TestApp;
  beforeAll(async () => {
    at = await testApp();
  });
  afterAll(() => at.close());
  const ask = async (method: 'GET' | 'POST' | 'DELETE', url: string, body?: unknown) => {
    const headers = body === undefined ? {} : { 'content-type': 'application/json' };
    const payload = body === undefined ? {} : { payload: JSON.stringify(body) };
    const { statusCode, body: text } = await at.app.inject({ method, url, headers, ...payload });
    return { status: statusCode, answer: text === '' ? null : JSON.parse(text) };
  };

  it('adds, lists, pauses, resumes, runs and removes a schedule', async () => {
    const added = await ask('POST', '/v1/schedules', { name: 'nightly', ...NIGHTLY });
    expect(added).toMatchObject({ status: 200, answer: { name: 'nightly', definition: NIGHTLY, paused: null } });
    expect(added.answer.next).toHaveLength(5);
    expect((await ask('GET', '/v1/schedules')).answer.items).toMatchObject([{ name: 'nightly' }]);
    const paused = await ask('POST', '/v1/schedules/nightly/pause', { reason: 'labels are checked' });
    expect(paused.answer).toMatchObject({ paused: { by: 'http', reason: 'labels are checked' }, next: [] });
    expect((await ask('POST', '/v1/schedules/nightly/resume')).answer).toMatchObject({ paused: null });
    const run = await ask('POST', '/v1/schedules/nightly/run');
    expect(run).toMatchObject({ status: 200, answer: { job_id: expect.stringMatching(/^schedule\/nightly\//) } });
    expect((await ask('POST', '/v1/schedules/nightly/run')).status).toBe(409);
    expect((await ask('GET', '/v1/schedules/nightly')).answer.runs).toMatchObject([
      { job_id: run.answer.job_id, state: 'requested' },
    ]);
    // The job reads nothing that is recorded at a time.
    const backfill = await ask('POST', '/v1/schedules/nightly/backfill', { from: '2026-01-01' });
    expect([backfill.status, JSON.stringify(backfill.answer)]).toEqual([400, expect.stringContaining('A backfill')]);
    expect(await ask('DELETE', '/v1/schedules/nightly?reason=replaced')).toMatchObject({
      status: 200,
      answer: { name: 'nightly', removed: true },
    });
    expect((await ask('GET', '/v1/schedules/nightly')).status).toBe(404);
  });

  it.each([
    [{ name: 'nightly' }, /should have job/],
    [{ name: 'nightly', ...NIGHTLY, cron: '0 3 * *' }, /five fields/],
    [{ name: 'nightly', ...NIGHTLY, job: { kind: 'dream', spec: {} } }, /the kinds are/],
    [{ name: 'a b', ...NIGHTLY }, /letters, digits/],
    [
      {
        name: 'nightly',
        ...NIGHTLY,
        job: { kind: 'pass', spec: { pass: 'ifd', as: 'small', model: '/srv/m', where: null } },
      },
      /job\.spec\.model names a folder/,
    ],
  ])('refuses %j', async (body, why) => {
    const { status, answer } = await ask('POST', '/v1/schedules', body);
    expect(status).toBe(400);
    expect(answer.detail).toMatch(why);
  });

  it('refuses a plan that names a folder of the server', async () => {
    const job = { kind: 'plan', spec: { plan: PLAN } };
    const { status, answer } = await ask('POST', '/v1/schedules', { name: 'nightly', ...NIGHTLY, job });
    expect([status, answer.code]).toEqual([422, 'plan_invalid']);
    expect(answer.detail).toBe('The plan names "/srv/model", and no folder to look for it in is given.');
  });
});
