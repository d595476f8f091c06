/** OTLP over HTTP, as exporters send it and answered as the protocol says; and the endpoints that other clients know. */
import { deflateSync, gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { traceBytes } from '../ingest/support/otlp-bytes.ts';
import { agent, aTrace, chat, logRequest, message, request, span, TRACE, text } from '../ingest/support/spans.ts';
import { type TestApp, testApp } from './support/app.ts';

let at: TestApp;
beforeAll(async () => {
  at = await testApp();
});
afterAll(() => at.close());

const PROTOBUF = 'application/x-protobuf';
const post = (url: string, payload: Buffer | string | object, headers: Record<string, string> = {}, app = at) =>
  app.app.inject({
    method: 'POST',
    url,
    headers: { 'content-type': 'application/json', ...headers },
    payload: Buffer.isBuffer(payload) || typeof payload === 'string' ? payload : JSON.stringify(payload),
  });
const steps = async (trace: string) => {
  await at.project();
  const { rows } = await at.db.query<{ agent: string; text: string }>(
    'select agent, text from traj.steps where episode_id = $1 order by step_id',
    [trace],
  );
  return rows;
};
const renamed = (body: unknown, trace: string) => JSON.parse(JSON.stringify(body).replaceAll(TRACE, trace));
const trace = (n: number) => n.toString(16).padStart(32, 'e');

describe('POST /v1/traces', () => {
  it('keeps the spans of a request, and answers in its media type', async () => {
    const json = await post('/v1/traces', request(aTrace()));
    expect([json.statusCode, json.headers['content-type'], json.body]).toEqual([200, 'application/json', '{}']);
    // One of the nine has a lone surrogate, which UTF-8 cannot say.
    const bytes = traceBytes(aTrace().filter((_, i) => i !== 6));
    for (const [payload, headers] of [
      [bytes, {}],
      [gzipSync(bytes), { 'content-encoding': 'gzip' }],
      [deflateSync(bytes), { 'content-encoding': 'deflate' }],
    ] as const) {
      const answer = await post('/v1/traces', payload, { 'content-type': PROTOBUF, ...headers });
      expect([answer.statusCode, answer.headers['content-type'], answer.body]).toEqual([200, PROTOBUF, '']);
    }
    expect((await steps(TRACE)).map((row) => row.agent)).toEqual(['planner', 'solver', 'solver']);
    const { rows } = await at.db.query<{ n: string }>(
      "select count(*) as n from troupe.events where name = 'span.recorded'",
    );
    // The same spans in either form are the same items of the log.
    expect(Number(rows[0]!.n)).toBe(9);
  });

  it('P9: names the agent of a call whose agent comes in a later request', async () => {
    const spans = [
      chat({ id: 3, parent: 2 }, [message('assistant', text('Hi.'))]),
      agent({ id: 2, parent: 1 }, 'planner'),
      span({ id: 1 }),
    ];
    const seen: (string | null)[] = [];
    for (const one of spans) {
      await post('/v1/traces', renamed(request([one]), trace(2)));
      seen.push((await steps(trace(2)))[0]?.agent ?? null);
    }
    expect(seen).toEqual([null, 'planner', 'planner']);
    const { rows } = await at.db.query('select closed from traj.episodes where episode_id = $1', [trace(2)]);
    expect(rows).toEqual([{ closed: true }]);
  });

  it('P7: keeps the good spans of a partly bad request and says how many it refused, and why', async () => {
    const bad = { ...chat({ id: 4 }, []), spanId: 'xyz' };
    const good = chat({ id: 5 }, [message('assistant', text('good'))]);
    const answer = await post('/v1/traces', renamed(request([bad, good]), trace(3)));
    expect(answer.statusCode).toBe(200);
    const { partialSuccess } = answer.json();
    expect(partialSuccess.rejectedSpans).toBe('1');
    expect(partialSuccess.errorMessage).toContain('spans[0].spanId should be 16 hex digits');
    expect(await steps(trace(3))).toHaveLength(1);
    const { rows } = await at.db.query(
      "select 1 from troupe.dead_letters where endpoint = 'otlp' and field like '%spanId'",
    );
    expect(rows).toHaveLength(1);
    const bytes = await post(
      '/v1/traces',
      traceBytes([
        { ...good, traceId: trace(3) },
        { ...good, traceId: '00' },
      ]),
      {
        'content-type': PROTOBUF,
      },
    );
    // partial_success { rejected_spans: 1, error_message: … }
    expect([...bytes.rawPayload.subarray(2, 5)]).toEqual([0x08, 1, 0x12]);
    expect(bytes.rawPayload[0]).toBe(0x0a);
  });

  it('answers what cannot be read at all with a Status in the media type of the request', async () => {
    for (const [payload, headers, status, expected] of [
      ['{', {}, 400, 'bad_json'],
      ['[]', {}, 400, 'bad_shape'],
      ['{"resourceSpans":7}', {}, 400, 'bad_shape'],
      [Buffer.from([0x0a, 0xff, 0xff, 0x03]), { 'content-type': PROTOBUF }, 400, 'bad_shape'],
      ['{}', { 'content-encoding': 'zstd' }, 415, 'gzip, deflate, br or identity'],
      ['{}', { 'content-type': 'text/plain' }, 415, PROTOBUF],
      ['{}', { 'content-type': 'application/grpc' }, 415, 'http/protobuf'],
      [gzipSync('{}').subarray(0, 12), { 'content-encoding': 'gzip' }, 400, 'bad_shape'],
    ] as const) {
      const answer = await post('/v1/traces', payload as Buffer, headers as Record<string, string>);
      expect([String(payload).slice(0, 20), answer.statusCode]).toEqual([String(payload).slice(0, 20), status]);
      expect(answer.body).toContain(expected);
      expect(answer.headers['retry-after']).toBeUndefined();
      if (answer.headers['content-type'] !== PROTOBUF) expect(answer.json()).toMatchObject({ code: 3 });
      else expect(answer.rawPayload.subarray(0, 2)).toEqual(Buffer.from([8, 3]));
    }
    expect((await post('/v1/traces', '{}')).statusCode).toBe(200);
    expect((await post('/v1/traces', Buffer.alloc(0), { 'content-type': PROTOBUF })).statusCode).toBe(200);
  });

  it('P6: never answers 2xx for a span that the log has not taken', async () => {
    const own = await testApp({
      log: {
        name: 'away',
        append: () => Promise.reject(Object.assign(new Error('x'), { code: '57P01' })),
        close: async () => {},
      },
    });
    for (const type of ['application/json', PROTOBUF]) {
      const payload = type === PROTOBUF ? traceBytes(aTrace()) : JSON.stringify(request(aTrace()));
      const answer = await post('/v1/traces', payload, { 'content-type': type }, own);
      expect([answer.statusCode, answer.headers['retry-after'], answer.headers['content-type']]).toEqual([
        503,
        '1',
        type,
      ]);
    }
    await own.close();
  });
});

describe('POST /v1/logs and /v1/metrics', () => {
  it('takes what logs say of models, and warns of what it does not keep', async () => {
    const attributes = [
      { key: 'gen_ai.evaluation.name', value: { stringValue: 'reward' } },
      { key: 'gen_ai.evaluation.score.value', value: { doubleValue: 0.5 } },
    ];
    const records = [
      { traceId: TRACE, timeUnixNano: '1789000100000000000', eventName: 'gen_ai.evaluation.result', attributes },
      { body: { stringValue: 'listening on port 80' } },
    ];
    const answer = await post('/v1/logs', logRequest(records));
    expect(answer.json()).toEqual({
      partialSuccess: { errorMessage: '1 log records that concern neither models nor agents were not stored' },
    });
    await post('/v1/traces', request(aTrace()));
    await at.project();
    const { rows } = await at.db.query('select reward from traj.episodes where episode_id = $1', [TRACE]);
    expect(rows).toEqual([{ reward: 0.5 }]);
  });

  it('rejects every data point of metrics with one answer that exporters do not repeat, and says what to set', async () => {
    const points = (n: number) => ({ dataPoints: Array.from({ length: n }, () => ({ asInt: '1' })) });
    const metrics = [
      { name: 'a', sum: points(2) },
      { name: 'b', histogram: points(1) },
      { name: 'c', gauge: points(3) },
    ];
    const json = await post('/v1/metrics', { resourceMetrics: [{ scopeMetrics: [{ metrics }] }] });
    expect([json.statusCode, json.headers['retry-after']]).toEqual([200, undefined]);
    expect(json.json().partialSuccess).toMatchObject({
      rejectedDataPoints: '6',
      errorMessage: expect.stringContaining('OTEL_METRICS_EXPORTER=none'),
    });
    // resource_metrics { scope_metrics { metrics { sum { data_points {} data_points {} } } } }, written by hand.
    const bytes = Buffer.from([0x0a, 10, 0x12, 8, 0x12, 6, 0x3a, 4, 0x0a, 0, 0x0a, 0]);
    const protobuf = await post('/v1/metrics', bytes, { 'content-type': PROTOBUF });
    expect([protobuf.statusCode, protobuf.headers['content-type']]).toEqual([200, PROTOBUF]);
    // partial_success, its first field rejected_data_points: 2.
    expect([protobuf.rawPayload[0], ...protobuf.rawPayload.subarray(3, 5)]).toEqual([0x0a, 0x08, 2]);
    expect(protobuf.body).toContain('OTEL_METRICS_EXPORTER=none');
    const odd = await post('/v1/metrics', Buffer.from([1]), { 'content-type': PROTOBUF });
    expect([odd.statusCode, odd.headers['retry-after']]).toEqual([400, undefined]);
  });
});

describe('endpoints of other clients', () => {
  it('take Langfuse batches item by item', async () => {
    const event = (id: string, type: string, body: object) => ({
      id,
      type,
      timestamp: '2026-09-10T10:00:00.000Z',
      body,
    });
    const batch = [
      event('1', 'generation-create', {
        id: 'g',
        traceId: 'lf',
        parentObservationId: 'a',
        model: 'm',
        input: 'Q?',
        output: 'A.',
        startTime: '2026-09-10T10:00:00.000Z',
      }),
      event('2', 'span-create', { id: 7 }),
      event('3', 'agent-create', { id: 'a', traceId: 'lf', name: 'planner' }),
    ];
    const answer = await post('/api/public/ingestion', { batch });
    expect(answer.statusCode).toBe(207);
    expect(answer.json()).toMatchObject({
      successes: [
        { id: '1', status: 201 },
        { id: '3', status: 201 },
      ],
      errors: [{ id: '2', status: 400 }],
    });
    expect(await steps('lf')).toEqual([{ agent: 'planner', text: 'A.' }]);
  });

  it('take scores of Langfuse, in a list or one, once however often they come, and name those that are none', async () => {
    const [id, observation] = [trace(77), span({ id: 1 }).spanId];
    const attributes = { 'langfuse.observation.type': 'generation', 'langfuse.observation.output': 'A.' };
    await post('/v1/traces', renamed(request([span({ id: 1, attributes })]), id));
    const timestamp = '2026-09-10T10:00:01.000Z';
    const scores = [
      { id: 'sc1', traceId: id, observationId: observation, name: 'reward', value: 1, timestamp },
      { id: 'sc2', traceId: id, name: 'success', value: 0.5, timestamp, dataType: 'NUMERIC' },
    ];
    const taken = [await post('/api/public/scores', scores), await post('/api/public/scores', scores)];
    expect(taken.map((one) => [one.statusCode, one.json()])).toEqual(taken.map(() => [202, { message: 'Accepted' }]));
    const one = await post('/api/public/scores', { traceId: id, name: 'late', value: 'good', dataType: 'CATEGORICAL' });
    expect([one.statusCode, one.json()]).toEqual([200, { id: null }]);
    const mixed = await post('/api/public/scores', [
      { traceId: id, name: 'x', value: 2 },
      { traceId: id, value: 2 },
      7,
    ]);
    expect([mixed.statusCode, mixed.json()]).toMatchObject([
      207,
      { accepted: 1, rejected: 2, errors: [{ message: expect.stringContaining('name') }, {}] },
    ]);
    expect((await post('/api/public/scores', { traceId: id, name: 'x' })).statusCode).toBe(400);
    await at.project();
    const { rows } = await at.db.query(
      `select name, target_kind, coalesce(label, value::text) as value from traj.feedback where episode_id = $1 order by name`,
      [id],
    );
    expect(rows).toEqual([
      { name: 'late', target_kind: 'episode', value: 'good' },
      { name: 'reward', target_kind: 'call', value: '1' },
      { name: 'success', target_kind: 'episode', value: '0.5' },
      { name: 'x', target_kind: 'episode', value: '2' },
    ]);
  });

  it('take LangSmith runs and their updates in any order, and feedback', async () => {
    expect((await at.app.inject('/info')).json()).toMatchObject({
      batch_ingest_config: {
        use_multipart_endpoint: false,
        scale_up_nthreads_limit: expect.any(Number),
        scale_up_qsize_trigger: expect.any(Number),
        scale_down_nempty_trigger: expect.any(Number),
      },
    });
    const run = {
      id: 'r1',
      trace_id: 'r1',
      name: 'chat',
      run_type: 'llm',
      inputs: { messages: [{ role: 'user', content: 'Q' }] },
      start_time: '2026-09-10T10:00:00Z',
      extra: { metadata: { langgraph_node: 'coder' } },
    };
    await post('/runs/batch', {
      patch: [{ id: 'r1', trace_id: 'r1', outputs: { role: 'assistant', content: 'A' }, end_time: 1789034401000 }],
    });
    await post('/runs/batch', { post: [run] });
    expect(
      (await post('/feedback', { id: 'f', run_id: 'r1', trace_id: 'r1', key: 'reward', score: 1 })).statusCode,
    ).toBe(200);
    expect(await steps('r1')).toEqual([{ agent: 'coder', text: 'A' }]);
    const bad = await post('/runs/batch', { post: [{ id: null }, run] });
    expect([bad.statusCode, bad.json().errors[0].index]).toEqual([207, 0]);
  });

  it('take traces of the OpenAI Agents SDK', async () => {
    const data = [
      { object: 'trace', id: 'trace_1', workflow_name: 'team' },
      {
        object: 'trace.span',
        id: 'span_1',
        trace_id: 'trace_1',
        parent_id: null,
        started_at: '2026-09-10T10:00:00Z',
        ended_at: '2026-09-10T10:00:01Z',
        span_data: { type: 'agent', name: 'coder' },
      },
      {
        object: 'trace.span',
        id: 'span_2',
        trace_id: 'trace_1',
        parent_id: 'span_1',
        started_at: '2026-09-10T10:00:00Z',
        ended_at: '2026-09-10T10:00:01Z',
        span_data: {
          type: 'generation',
          input: [{ role: 'user', content: 'Q' }],
          output: [{ role: 'assistant', content: 'A' }],
          model: 'm',
        },
      },
    ];
    for (const item of data.toReversed())
      expect((await post('/v1/traces/ingest', { data: [item] })).statusCode).toBe(200);
    expect(await steps('trace_1')).toEqual([{ agent: 'coder', text: 'A' }]);
    expect((await post('/v1/traces/ingest', { x: 1 })).statusCode).toBe(400);
  });

  it('takes items whose members have the names of what every object inherits, and all beside them', async () => {
    const span = (trace: string, n: number, input: unknown) => ({
      object: 'trace.span',
      id: `span_${trace}_${n}`,
      trace_id: trace,
      parent_id: null,
      started_at: '2026-09-10T10:00:00Z',
      ended_at: '2026-09-10T10:00:01Z',
      span_data: {
        type: 'response',
        response_id: `resp_${trace}_${n}`,
        input,
        response: {
          id: `resp_${trace}_${n}`,
          model: 'm',
          output: [{ type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'A' }] }],
        },
      },
    });
    const odd = [
      [{ type: { toString: false } }],
      [{ type: { valueOf: 1, toString: null }, role: { toString: 'x' } }],
      [{ type: 'function_call', call_id: { toString: 1 }, name: { toString: 2 }, arguments: { toString: {} } }],
      [{ role: 'user', content: [{ type: { toString: false } }] }],
      { toString: false },
    ];
    const data = [
      { object: 'trace', id: 'trace_odd', workflow_name: { toString: false } },
      ...odd.map((input, n) => span('trace_odd', n, input)),
      { object: 'trace.span', id: 'span_x', trace_id: 'trace_odd', span_data: { type: { toString: false } } },
      span('trace_plain', 0, [{ role: 'user', content: 'Q' }]),
    ];
    const answer = await post('/v1/traces/ingest', { data });
    expect(answer.statusCode).toBe(207);
    expect(answer.json().errors).toMatchObject([{ index: odd.length + 1, field: 'data[0].span_data' }]);
    expect(await steps('trace_plain')).toEqual([{ agent: null, text: 'A' }]);
  });
});
