/** Traces of Troupe itself: which spans it makes, where they go, and how a trace goes on through it. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { readUpstreams } from '../../api/gateway/upstream/settings.ts';
import { openUpstreams } from '../../api/gateway/upstream/upstreams.ts';
import { observe } from '../../api/health/prometheus.ts';
import { openExporter } from '../../api/health/tracing/exporter.ts';
import { duringJob, recordSpans, type Span } from '../../api/health/tracing/spans.ts';
import { headersOf, placeIn } from '../../api/health/tracing/traceparent.ts';
import { postJson } from '../../api/http/post.ts';
import { tracing } from '../../cli/processes/tracing.ts';
import { expectBelow } from '../support/measured.ts';
import { anEvent, post, type TestApp, testApp } from './support/app.ts';
import { type OpenaiServer, openaiServer } from './support/openai-server.ts';

/** The example of the standard, W3C Trace Context, section 3.2. */
const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const ABOVE = '00f067aa0ba902b7';
const SAMPLED = `00-${TRACE}-${ABOVE}-01`;

let model: OpenaiServer;
let at: TestApp;
beforeAll(async () => {
  model = await openaiServer();
  const server = { base_url: model.baseUrl, private: true, models: ['gpt-*'] };
  at = await testApp({ upstreams: openUpstreams(readUpstreams({ paper: server }, {})) });
});
afterAll(async () => {
  await at.close();
  await model.close();
});
afterEach(() => recordSpans(null));

const collected = (): Span[] => {
  const spans: Span[] = [];
  recordSpans((span) => spans.push(span));
  return spans;
};
const chat = (headers: Record<string, string> = {}) =>
  post(
    at.app,
    { model: 'gpt-4', messages: [{ role: 'user', content: 'a private question' }] },
    { 'troupe-episode': 'talk', ...headers },
    '/v1/chat/completions',
  );

describe('The header traceparent', () => {
  it('is read as the standard says, and written as it was read', () => {
    const place = placeIn({ traceparent: SAMPLED, tracestate: 'vendor=1' })!;
    expect(place).toEqual({ traceId: TRACE, spanId: ABOVE, sampled: true, state: 'vendor=1' });
    expect(headersOf(place)).toEqual({ traceparent: SAMPLED, tracestate: 'vendor=1' });
    expect(placeIn({ traceparent: `00-${TRACE}-${ABOVE}-02` })).toMatchObject({ sampled: false });
    expect(placeIn({ traceparent: `cc-${TRACE}-${ABOVE}-01-what-comes-later` })).toMatchObject({ traceId: TRACE });
  });

  it.each([
    ['another version that is none', `ff-${TRACE}-${ABOVE}-01`],
    ['more than version 00 has', `${SAMPLED}-x`],
    ['a trace of zeros', `00-${'0'.repeat(32)}-${ABOVE}-01`],
    ['a span of zeros', `00-${TRACE}-${'0'.repeat(16)}-01`],
    ['capital letters', SAMPLED.toUpperCase()],
    ['no header at all', ''],
  ])('is none where it has %s', (_, traceparent) => {
    expect(placeIn({ traceparent })).toBeNull();
  });

  it('goes on to a model server unchanged where no traces are made', async () => {
    await chat({ traceparent: SAMPLED, tracestate: 'vendor=1' });
    expect(model.asked.at(-1)!.headers).toMatchObject({ traceparent: SAMPLED, tracestate: 'vendor=1' });
    await chat();
    expect(model.asked.at(-1)!.headers.traceparent).toBeUndefined();
  });
});

describe('A span', () => {
  it('of an append has the request, the episodes and counts, below the span of its sender', async () => {
    const spans = collected();
    const answer = await post(at.app, [anEvent('a', 'e1'), anEvent('b', 'e2'), { id: 'none' }], {
      traceparent: SAMPLED,
    });
    expect(answer.statusCode).toBe(207);
    expect(spans).toMatchObject([
      {
        name: 'append',
        traceId: TRACE,
        parentId: ABOVE,
        isServer: true,
        error: null,
        attributes: {
          'troupe.request_id': answer.headers['x-request-id'],
          'troupe.endpoint': 'http',
          'troupe.episodes': ['e1', 'e2'],
          'troupe.received': 3,
          'troupe.acknowledged': 2,
          'troupe.rejected': 1,
        },
      },
    ]);
  });

  it('of a call through the gateway is above its append, and its place goes on to the model server', async () => {
    const spans = collected();
    const answer = await chat({ traceparent: SAMPLED });
    const [append, gateway] = spans;
    expect(gateway).toMatchObject({ name: 'gateway', traceId: TRACE, parentId: ABOVE });
    expect(gateway!.attributes).toMatchObject({
      'troupe.request_id': answer.headers['x-request-id'],
      'troupe.episode': 'talk',
      'troupe.call_id': answer.headers['troupe-call-id'],
      'troupe.upstream': 'paper',
      'gen_ai.request.model': 'gpt-4',
    });
    expect(append).toMatchObject({ name: 'append', traceId: TRACE, parentId: gateway!.spanId });
    expect(model.asked.at(-1)!.headers.traceparent).toBe(`00-${TRACE}-${gateway!.spanId}-01`);
    expect(JSON.stringify(spans)).not.toContain('private question');
  });

  it('of a policy that answers has the episode too, and of one that nobody serves the code of the error', async () => {
    const spans = collected();
    const ask = (name: string) =>
      post(at.app, { model: name, messages: [{ role: 'user', content: 'hi' }] }, {}, '/v1/chat/completions');
    const answer = await ask('policy:solver');
    expect(spans.at(-1)).toMatchObject({
      name: 'gateway',
      parentId: null,
      attributes: { 'troupe.episode': answer.headers['troupe-episode-id'] },
    });
    await ask('policy:nobody');
    expect(spans.at(-1)).toMatchObject({ name: 'gateway', error: 'not_found' });
  });

  it('is not made below a span that is not recorded', async () => {
    const spans = collected();
    await chat({ traceparent: `00-${TRACE}-${ABOVE}-00` });
    expect(spans).toEqual([]);
    expect(model.asked.at(-1)!.headers.traceparent).toBe(`00-${TRACE}-${ABOVE}-00`);
  });

  it('of what no request waits for is there too; those of a job are one trace', () => {
    const spans = collected();
    observe.batch({ events: 7, keys: ['t/task', ...Array.from({ length: 20 }, (_, i) => `e/e${i}`)], delay: 0.3 }, 0.5);
    observe.judged(['e1'], 0.25);
    observe.step(2, 'job-1');
    observe.job({ job_id: 'job-1', kind: 'sft' }, 'done', 4);
    observe.job({ job_id: 'job-2', kind: 'freeze' }, 'failed', 1);
    expect(spans.map(({ name }) => name)).toEqual(['project', 'judge', 'train step', 'sft', 'freeze']);
    expect(spans.map(({ began, ended }) => Math.round(ended - began))).toEqual([500, 250, 2000, 4000, 1000]);
    expect(new Set(spans.map(({ traceId }) => traceId)).size).toBe(4);
    expect(spans[0]!.attributes).toMatchObject({
      'troupe.events': 7,
      'troupe.episodes': Array.from({ length: 16 }, (_, i) => `e${i}`),
    });
    expect([spans[2]!.traceId, spans[2]!.parentId]).toEqual([spans[3]!.traceId, spans[3]!.spanId]);
    expect(spans[3]!.attributes).toMatchObject({ 'troupe.job_id': 'job-1', 'troupe.outcome': 'done' });
  });
});

describe('A POST to a webhook', () => {
  const posted = async (work: (post: () => Promise<unknown>) => Promise<unknown>) => {
    const hook = await receiver();
    const sent = { key: undefined, isPrivate: true, timeoutS: 5, signal: new AbortController().signal };
    await work(() => postJson()(hook.url, {}, sent));
    hook.close();
    return hook.got[0]!.headers.traceparent;
  };

  it('of a job is below the span of the job, whichever attempt it is, and outside of a trace there is none', async () => {
    const spans = collected();
    const parent = await posted((post) => duringJob('rollout-1', post));
    observe.job({ job_id: 'rollout-1', kind: 'rollout' }, 'done', 1);
    expect(parent).toBe(`00-${spans[0]!.traceId}-${spans[0]!.spanId}-01`);
    expect(await posted((post) => post())).toBeUndefined();
    recordSpans(null);
    expect(await posted((post) => duringJob('rollout-1', post))).toBeUndefined();
  });
});

/** A receiver of traces that answers with these statuses, then with 200. */
async function receiver(...statuses: number[]) {
  const got: { readonly headers: Record<string, unknown>; readonly text: string }[] = [];
  const server = createServer(async (request, response) => {
    got.push({ headers: request.headers, text: await text(request) });
    response.writeHead(statuses.shift() ?? 200, { 'content-type': 'application/json' }).end('{}');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return { got, url: `http://127.0.0.1:${port}/v1/traces`, close: () => server.close() };
}

const spansIn = (request: string) => JSON.parse(request).resourceSpans[0].scopeSpans[0].spans;

describe('A receiver', () => {
  it('gets the spans of a role while it works and when it ends, with its key', async () => {
    const { got, url, close } = await receiver();
    await tracing({ traces: url, traces_key: 'secret' }, { role: 'serve', project: 'test' }, async () => {
      await post(at.app, anEvent('sent', 'e3'), { traceparent: SAMPLED });
    });
    await post(at.app, anEvent('later', 'e3'));
    close();
    expect(got).toHaveLength(1);
    expect(got[0]!.headers).toMatchObject({ authorization: 'Bearer secret', 'content-type': 'application/json' });
    const { resource, scopeSpans } = JSON.parse(got[0]!.text).resourceSpans[0];
    expect(resource.attributes).toContainEqual({ key: 'service.name', value: { stringValue: 'troupe' } });
    expect(resource.attributes).toContainEqual({ key: 'troupe.role', value: { stringValue: 'serve' } });
    const [span] = scopeSpans[0].spans;
    expect(span).toMatchObject({ traceId: TRACE, parentSpanId: ABOVE, name: 'append', kind: 2 });
    expect(span.startTimeUnixNano).toMatch(/^\d{19}$/);
    expect(BigInt(span.endTimeUnixNano)).toBeGreaterThanOrEqual(BigInt(span.startTimeUnixNano));
    expect(span.attributes).toContainEqual({
      key: 'troupe.episodes',
      value: { arrayValue: { values: [{ stringValue: 'e3' }] } },
    });
  });

  it('that is another project of ours takes them, and makes no spans of taking them', async () => {
    const { got, url, close } = await receiver();
    await tracing({ traces: url, traces_key: null }, { role: 'serve', project: 'test' }, async () => {
      await chat();
    });
    close();
    const other = await testApp();
    const spans = collected();
    const headers = { traceparent: String(got[0]!.headers.traceparent) };
    const answer = await post(other.app, got[0]!.text, headers, '/v1/traces');
    expect([answer.statusCode, answer.json()]).toEqual([200, {}]);
    expect(spans).toEqual([]);
    await other.project();
    const { rows } = await other.db.query('select count(*)::integer as n from traj.episodes');
    expect(rows).toEqual([{ n: 1 }]);
    await other.close();
  });

  it('that cannot take them yet gets them later; that is reported once, and once more when they arrive', async () => {
    const { got, url, close } = await receiver(503, 429);
    const warnings: string[] = [];
    const exporter = openExporter(
      { url, key: null },
      { resource: {}, version: '1', say: (one) => warnings.push(one), everyMs: 20 },
    );
    recordSpans(exporter.take);
    observe.batch({ events: 1, keys: [], delay: 0.3 }, 0.1);
    await expect.poll(() => got.length).toBe(3);
    await exporter.close();
    close();
    expect(spansIn(got[2]!.text)).toEqual(spansIn(got[0]!.text));
    expect(warnings).toEqual([
      'Traces do not arrive: the receiver answered 503. Look at the settings traces and traces_key; work goes on.',
      'Traces arrive again; 0 spans were dropped meanwhile.',
    ]);
  });

  it('that is away holds nobody up, and the oldest spans are dropped in the end', async () => {
    const { got, url, close } = await receiver(503);
    const gone = await receiver();
    gone.close();
    const warnings: string[] = [];
    const options = { resource: {}, version: '1', say: (one: string) => warnings.push(one), everyMs: 3_600_000 };
    const away = openExporter({ url: gone.url, key: null }, options);
    recordSpans(away.take);
    observe.batch({ events: 1, keys: [], delay: 0.3 }, 0.1);
    const began = performance.now();
    await away.close();
    expectBelow(performance.now() - began, 5000);
    expect(warnings[0]).toBe(
      'Traces do not arrive: the receiver could not be reached (ECONNREFUSED). Look at the settings traces and traces_key; work goes on.',
    );
    const exporter = openExporter({ url, key: null }, options);
    recordSpans(exporter.take);
    for (let n = 0; n < 5000; n++) observe.batch({ events: n, keys: [], delay: 0.3 }, 0.1);
    await exporter.close();
    await exporter.close();
    close();
    const sent = got.slice(1).flatMap((one) => spansIn(one.text));
    expect(sent).toHaveLength(4096);
    expect(sent[0].attributes).toContainEqual({ key: 'troupe.events', value: { intValue: '904' } });
    expect(warnings.at(-1)).toBe('Traces arrive again; 904 spans were dropped meanwhile.');
  });

  it('whose address is none is refused in one sentence that does not show it', async () => {
    const start = (traces: string) =>
      tracing({ traces, traces_key: null }, { role: 'serve', project: 'p' }, async () => 1);
    for (const traces of ['nowhere', 'ftp://x/', 'http://me:secret@x/v1/traces'])
      await expect(start(traces)).rejects.toThrow(/^The setting traces \(TROUPE_TRACES\) should be the address/);
    await expect(start('http://me:secret@x/')).rejects.not.toThrow(/secret/);
  });
});
