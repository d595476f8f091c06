import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { readUpstreams } from '../../api/gateway/upstream/settings.ts';
import { openUpstreams } from '../../api/gateway/upstream/upstreams.ts';
import { type Offload, openOffload } from '../../api/http/offload.ts';
import * as serving from '../../cli/processes/serving.ts';
import { loadConfig } from '../../config.ts';
import { postgresLog } from '../../ingest/log/postgres.ts';
import { freeze } from '../../store/datasets/freeze.ts';
import { projectAll } from '../../store/projecting/projector.ts';
import { entriesOf } from '../../store/server/backup/tar.ts';
import { openHome } from '../../store/server/home.ts';
import { anEvent, post, type TestApp, testApp } from '../api/support/app.ts';
import { type OpenaiServer, openaiServer } from '../api/support/openai-server.ts';
import { anEpisode } from '../store/support/events.ts';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { builtProgram } from './support/built.ts';

/** From its sources a thread takes 3 s of processor time to start, so most are started as shipped. */
const shipped: typeof serving = await import(join(dirname(builtProgram), 'cli/processes/serving.js'));

let folder: string;
let database: TestDatabase;
let threads: ReturnType<typeof serving.startThread>[];
let offload: Offload;
let reads: Offload;
let at: TestApp;
let here: TestApp;
let models: OpenaiServer;
/** With the model server, and what it had recorded on the thread: the place in the trace, and how long the response was. */
let served: TestApp;
let endAfterKeep = false;
const RECORDED = 'select name, data::text as data from troupe.events where key = $1 order by position';
const kept: [string | undefined, number][] = [];

beforeAll(async () => {
  models = await openaiServer();
  folder = mkdtempSync(join(tmpdir(), 'troupe-offload-'));
  database = await freshDatabase();
  const upstreams = {
    main: { base_url: models.baseUrl, models: ['echo', 'silent', 'long'], private: true },
    vllm: { base_url: models.baseUrl, private: true, token_ids: 'vllm' },
  };
  const config = loadConfig(
    { home: join(folder, 'home'), databaseUrl: database.url, upstreams },
    {},
    join(folder, 'none.yaml'),
  );
  threads = [];
  const startWith = ({ startThread }: typeof serving) => {
    const thread = startThread({
      config,
      project: 'test',
      url: database.url,
      embedded: false,
      role: 'serve',
      firstKey: null,
      exposed: false,
    });
    threads.push(thread);
    return thread;
  };
  offload = openOffload(() => startWith(shipped));
  reads = openOffload(() => startWith(serving));
  at = await testApp({ offload, reads });
  here = await testApp();
  const keep: Offload['keep'] = (call) => {
    if (call.answer.stream === null)
      kept.push([call.trace.traceparent, JSON.parse(Buffer.from(call.answer.bytes!).toString()).padding.length]);
    const recording = offload.keep(call);
    if (endAfterKeep) void threads.at(-1)!.terminate();
    return recording;
  };
  served = await testApp({ offload: { ...offload, keep }, upstreams: openUpstreams(readUpstreams(upstreams, {})) });
});
afterAll(async () => {
  await at.close();
  await served.close();
  await offload.close();
  await reads.close();
  await here.close();
  await models.close();
  await database.close();
  rmSync(folder, { recursive: true, force: true });
});

const events = (prefix: string, count: number) => Array.from({ length: count }, (_, i) => anEvent(`${prefix}${i}`));
const ndjson = { 'content-type': 'application/x-ndjson' };

describe('large requests', () => {
  it('small ones are handled where they came in', async () => {
    expect((await post(at.app, events('small', 20))).statusCode).toBe(200);
    expect(threads).toHaveLength(0);
  });

  it('are handled on another thread, with the answer that they have without it', async () => {
    const shapes: [unknown, Record<string, string>][] = [
      [[...events('many', 600), { id: 'bad' }], {}],
      [[...events('many', 600), { id: 'bad' }], {}],
      [anEvent('large', 'e2', { content: 'x'.repeat(400_000) }), {}],
      [`[${'0,'.repeat(9_000)}0]`, {}],
      [gzipSync(Buffer.alloc(32_000_000, '\n')), { ...ndjson, 'content-encoding': 'gzip' }],
      [gzipSync(JSON.stringify(events('zipped', 900))), { 'content-encoding': 'gzip' }],
      [gzipSync(Buffer.alloc(40_000_000)), { 'content-encoding': 'gzip' }],
      ['{'.repeat(300_000), {}],
    ];
    for (const [body, headers] of shapes) {
      const [there, own] = [await post(at.app, body, headers), await post(here.app, body, headers)];
      const { request_id: _, ...answer } = there.json();
      const { request_id: __, ...expected } = own.json();
      expect([there.statusCode, answer]).toEqual([own.statusCode, expected]);
      expect(there.headers['content-type']).toBe(own.headers['content-type']);
    }
    expect(threads).toHaveLength(1);
    const { rows } = await database.db.query<{ count: number }>(
      'select count(*)::int as count from troupe.events where id ~ $1',
      ['^(many|large|zipped)'],
    );
    expect(rows[0]!.count).toBe(1501);
  });

  it('of the gateway are streamed as they come, and given up when the client goes away', async () => {
    const url = await at.app.listen({ port: 0, host: '127.0.0.1' });
    const ask = (model: string, signal?: AbortSignal) =>
      fetch(`${url}/v1/chat/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ model, stream: true, messages: [{ role: 'user', content: 'long '.repeat(80_000) }] }),
        ...(signal ? { signal } : {}),
      });
    const streamed = await ask('echo');
    expect(streamed.headers.get('content-type')).toMatch('text/event-stream');
    expect(await streamed.text()).toMatch(/You.* said.*data: \[DONE\]\n\n$/s);
    const gone = new AbortController();
    const asked = ask('silent', gone.signal).catch((error: Error) => error.name);
    while (!models.asked.at(-1)?.text.includes('"silent"')) await new Promise((resolve) => setTimeout(resolve, 20));
    gone.abort();
    expect(await asked).toBe('AbortError');
    while (!models.asked.at(-1)?.gone()) await new Promise((resolve) => setTimeout(resolve, 20));
  });

  it('long responses of model servers are recorded there, without the key, and in the trace of their request', async () => {
    const [trace, span] = ['0af7651916cd43dd8448eb211c80319c', 'b7ad6b7169203331'];
    const secret = 'sk-secret-of-a-client';
    const answer = await served.app.inject({
      method: 'POST',
      url: '/v1/chat/completions',
      headers: {
        'content-type': 'application/json',
        'troupe-episode': 'long',
        authorization: `Bearer ${secret}`,
        traceparent: `00-${trace}-${span}-01`,
      },
      payload: { model: 'long', max_tokens: 900_000, messages: [{ role: 'user', content: `mine is ${secret}` }] },
    });
    expect([answer.statusCode, answer.headers['troupe-recorded'], answer.json().padding.length]).toEqual([
      200,
      'true',
      900_000,
    ]);
    expect(kept).toEqual([[`00-${trace}-${span}-01`, 900_000]]);
    const { rows } = await database.db.query<{ name: string; data: string }>(RECORDED, ['e/long']);
    expect(rows.map(({ name }) => name)).toEqual(['generation.requested', 'generation.completed', 'artifact.attached']);
    expect(rows[0]!.data).toContain('mine is ***');
    expect(rows[1]!.data).toContain('"choices"');
  });

  it('long responses of model servers are recorded here where the thread ends before it has done it', async () => {
    const ask = () =>
      post(
        served.app,
        { model: 'long', max_tokens: 500_000, messages: [{ role: 'user', content: 'hi' }] },
        { 'troupe-episode': 'ended' },
        '/v1/chat/completions',
      );
    endAfterKeep = true;
    const answer = await ask().finally(() => {
      endAfterKeep = false;
    });
    expect([answer.statusCode, answer.headers['troupe-recorded']]).toEqual([200, 'true']);
    const { rows } = await served.db.query<{ name: string }>(RECORDED, ['e/ended']);
    expect(rows.map(({ name }) => name)).toEqual(['generation.requested', 'generation.completed', 'artifact.attached']);
  });

  it.each(['long', 'vllm/long'])('large events of streams of model servers are read there (%s)', async (model) => {
    const episode = `stream-${model.replace('/', '-')}`;
    const parsed = vi.spyOn(JSON, 'parse');
    const longest = () => Math.max(...parsed.mock.calls.map(([text]) => String(text).length));
    const answer = await post(
      served.app,
      { model, stream: true, max_tokens: 900_000, messages: [{ role: 'user', content: 'hi' }] },
      { 'troupe-episode': episode },
      '/v1/chat/completions',
    );
    const here = longest();
    parsed.mockRestore();
    const data = answer.body.match(/^data: \{.*$/gm)!.map((line) => JSON.parse(line.slice(6)).choices[0]);
    expect(data).toEqual(['a', 'x'.repeat(900_000), 'z'].map((content) => ({ index: 0, delta: { content } })));
    expect(answer.body).toMatch(/data: \[DONE\]\n\n$/);
    const { rows } = await database.db.query<{ data: string }>(RECORDED, [`e/${episode}`]);
    const { choices } = JSON.parse(rows[1]!.data);
    expect([choices[0].content.length, choices[0].token_ids]).toEqual([
      900_002,
      model === 'long' ? undefined : [7, 7, 7],
    ]);
    expect(here).toBeLessThan(256 * 1024);
  });

  it('of a thread that died are answered 503, and the next one has another thread', async () => {
    const [asked] = [post(at.app, events('lost', 2_000))];
    await new Promise((resolve) => setImmediate(resolve));
    await threads.at(-1)!.terminate();
    expect([200, 503]).toContain((await asked).statusCode);
    expect((await post(at.app, events('again', 1_000))).json()).toMatchObject({ received: 1_000, rejected: 0 });
    expect(threads.length).toBeGreaterThan(1);
  });

  it('reads of one episode are answered by a thread of their own, as they are without it', async () => {
    const content = 'ü'.repeat(400_000);
    for (const one of [at.app, here.app])
      expect((await post(one, [anEvent('read-1', 'read', { content }), anEvent('read-2', 'read')])).statusCode).toBe(
        200,
      );
    await projectAll(database.db);
    await projectAll(here.db);
    const before = threads.length;
    const ask = (method: 'GET' | 'HEAD', url: string) =>
      Promise.all([at.app, here.app].map((app) => app.inject({ method, url })));
    const [there, own] = await ask('GET', '/v1/episodes/read');
    expect(threads.length).toBe(before + 1);
    expect([there!.statusCode, there!.headers['content-length']]).toEqual([200, own!.headers['content-length']]);
    expect(there!.json().conversation).toEqual(own!.json().conversation);
    const [head, ownHead] = await ask('HEAD', '/v1/episodes/read');
    expect([head!.statusCode, head!.body, head!.headers['content-length']]).toEqual([
      200,
      '',
      ownHead!.headers['content-length'],
    ]);
    for (const url of ['/v1/episodes/none', '/v1/episodes/read?tokens=7']) {
      const [{ request_id: _, ...answer }, { request_id: __, ...expected }] = (await ask('GET', url)).map((one) =>
        one.json(),
      );
      expect(answer).toEqual(expected);
    }
    expect((await at.app.inject('/v1/episodes')).statusCode).toBe(200);
    expect(threads.length).toBe(before + 1);
  });

  it('an operation whose result is files gets its body there, and answers with a tar of them', async () => {
    await postgresLog(database.db).append(anEpisode('frozen'));
    await projectAll(database.db);
    const { directory } = await freeze(
      database.db,
      { name: 'shown' },
      {
        ...{ directory: openHome(join(folder, 'home')).datasets, codeVersion: 'test' },
      },
    );
    const url = `/v1/datasets/${basename(directory)}/export`;
    const answer = await at.app.inject({ method: 'POST', url, payload: { layout: 'trl-sft' } });
    expect([answer.statusCode, answer.headers['content-type']]).toEqual([200, 'application/x-tar']);
    expect(JSON.parse(String(answer.headers['troupe-output']))).toMatchObject({ name: 'shown', layout: 'trl-sft' });
    const files: Record<string, string> = {};
    for await (const { name, content } of entriesOf(Readable.from([answer.rawPayload])))
      files[name] = await text(content);
    expect(Object.keys(files).sort()).toEqual(['README.md', 'manifest.json', 'train.parquet']);
    expect(JSON.parse(files['manifest.json']!)).toMatchObject({ layout: 'trl-sft' });
    const { statusCode, body } = await at.app.inject({ method: 'POST', url, payload: { layout: 'trl' } });
    expect([statusCode, JSON.parse(body).field]).toEqual([400, 'layout']);
  });

  it('refused records of a request are kept once, with the number of attempts', async () => {
    await post(here.app, `[${'7,'.repeat(1_999)}7]`);
    const { rows } = await here.db.query('select attempts from troupe.dead_letters where raw = $1', [Buffer.from('7')]);
    expect(rows).toEqual([{ attempts: 2_000 }]);
  });
});
