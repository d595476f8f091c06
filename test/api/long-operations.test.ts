/** Long operations over HTTP: jobs that are safe to ask for twice. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { connect } from '../../api/client/client.ts';
import { operationContext } from '../../api/http/routes/operations.ts';
import { operationHandler } from '../../api/operations/job.ts';
import { appendOwn } from '../../ingest/log/own-event.ts';
import { runJobs } from '../../store/queue/jobs/worker.ts';
import { type TestApp, testApp } from './support/app.ts';

let at: TestApp;
let url: string;
beforeAll(async () => {
  at = await testApp();
  url = await at.app.listen({ host: '127.0.0.1', port: 0 });
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

it('the client calls onProgress with what the job reports', async () => {
  const seen: unknown[][] = [];
  const gone = new AbortController();
  const asked = connect({ url }).rebuild({}, { onProgress: (...at) => seen.push(at), signal: gone.signal });
  const newest = `select job_id from troupe.job_queue where kind = 'operation' order by requested_at desc limit 1`;
  const before = (await at.db.query<{ job_id: string }>(newest)).rows[0]?.job_id;
  await expect.poll(async () => (await at.db.query<{ job_id: string }>(newest)).rows[0]?.job_id).not.toBe(before);
  const { job_id } = (await at.db.query<{ job_id: string }>(newest)).rows[0]!;
  const data = { job_id, step: 0, metrics: { done: 3, total: 7 } };
  await appendOwn(at.parts.log, [{ name: 'job.progressed', source: '/test', id: 'p', time: null, data }]);
  await at.project();
  await expect.poll(() => seen).toContainEqual([3, 7]);
  gone.abort();
  await expect(asked).rejects.toMatchObject({ code: 'unreachable' });
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
    expect(await connect({ url }).rebuild()).toMatchObject({ left_out: 0, not_judged: [] });
  } finally {
    stop.abort();
    await working;
  }
  expect((await at.app.inject(String(headers.location))).json()).toMatchObject({ state: 'finished', outcome: 'done' });
});

it('a result that is larger than a job keeps fails the job with its reason', async () => {
  const { signal } = new AbortController();
  const reader = async () => at.db;
  const context = operationContext({ ...at.parts, reader, now: () => new Date(), signal });
  const handler = operationHandler(context).operation!;
  const of = (sql: string) =>
    handler({ spec: { operation: 'sql', input: { sql }, by: 'test' } } as never, async () => {}, signal);
  expect(await of("select 'short' as a")).toMatchObject({ rows: [['short']] });
  await expect(of("select repeat('x', 9000000) as a")).rejects.toMatchObject({ code: 'too_large' });
});
