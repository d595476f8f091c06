/** Long operations over HTTP: jobs that are safe to ask for twice. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { connect } from '../../api/client/client.ts';
import { operationContext } from '../../api/http/routes/operations.ts';
import { operationHandler } from '../../api/operations/job.ts';
import { runJobs } from '../../store/queue/jobs/worker.ts';
import { type TestApp, testApp } from './support/app.ts';

let at: TestApp;
beforeAll(async () => {
  at = await testApp();
});
afterAll(() => at.close());

const ask = (payload: object, key?: string) =>
  at.app.inject({
    method: 'POST',
    url: '/v1/rebuild',
    payload: JSON.stringify(payload),
    headers: { 'content-type': 'application/json', ...(key === undefined ? {} : { 'idempotency-key': key }) },
  });

it('a request with the same Idempotency-Key is answered with the job of the first', async () => {
  const [first, second] = [await ask({}, 'mine'), await ask({}, 'mine')];
  expect([first.statusCode, second.statusCode]).toEqual([202, 202]);
  expect(second.json()).toEqual(first.json());
  expect((await ask({}, 'other')).json()).not.toEqual(first.json());
  expect((await ask({})).json()).not.toEqual((await ask({})).json());
});

it('the same key with another input is refused', async () => {
  const { statusCode, body } = await ask({ archived: true }, 'mine');
  expect([statusCode, JSON.parse(body).code]).toEqual([409, 'conflict']);
});

it('an input that does not fit is refused before there is a job', async () => {
  const { statusCode, body } = await ask({ archived: 'yes' });
  expect([statusCode, JSON.parse(body).field]).toEqual([400, 'archived']);
});

it('a job says its state, and the client waits for its result', async () => {
  const { headers } = await ask({}, 'looked at');
  const waiting = (await at.app.inject(String(headers.location))).json();
  expect(waiting).toMatchObject({ state: 'requested', outcome: null, kind: 'operation' });
  expect((await at.app.inject('/v1/jobs/nobody')).statusCode).toBe(404);
  const stop = new AbortController();
  const jobs = { ...at.parts, now: () => new Date() };
  const working = runJobs(jobs, {
    worker: 'test',
    handlers: operationHandler(operationContext({ ...jobs, signal: stop.signal })),
    signal: stop.signal,
    pollMs: 20,
  });
  try {
    const url = await at.app.listen({ host: '127.0.0.1', port: 0 });
    expect(await connect({ url }).rebuild()).toMatchObject({ left_out: 0, not_judged: [] });
  } finally {
    stop.abort();
    await working;
  }
  expect((await at.app.inject(String(headers.location))).json()).toMatchObject({ state: 'finished', outcome: 'done' });
});
