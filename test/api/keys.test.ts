import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { AppOptions } from '../../api/http/app.ts';
import { openKeyRing } from '../../api/http/key-ring.ts';
import { serve } from '../../api/http/serve.ts';
import { createRecorder } from '../../ingest/recorder/recorder.ts';
import { digestOf, lookupOf, newKey, SCOPES, type Scope } from '../../store/keys/api-key.ts';
import { createKey, listKeys, revokeKey } from '../../store/keys/api-keys.ts';
import { sealedKeys } from '../../store/keys/sealed-keys.ts';
import { expectBelow } from '../support/measured.ts';
import { anEvent, post, type TestApp, testApp } from './support/app.ts';

const DAY = 86_400_000;
const bearer = (key: string) => ({ authorization: `Bearer ${key}` });

let at: TestApp;
const keys = {} as Record<Scope | 'revoked' | 'expired', string>;
beforeAll(async () => {
  at = await testApp();
  const make = (name: string, scopes: readonly Scope[], expiresAt: Date | null = null) =>
    createKey(at.db, { name, scopes, expiresAt });
  for (const scope of SCOPES) keys[scope] = (await make(scope, [scope])).text;
  keys.revoked = (await make('gone', ['admin'])).text;
  await revokeKey(at.db, 'gone');
  keys.expired = (await make('old', ['admin'], new Date(Date.now() - DAY))).text;
});
afterAll(() => at.close());

const get = (url: string, headers: Record<string, string> = {}, app = at.app) => app.inject({ url, headers });
const MALFORMED = 'troupe_short';

describe('the text of a key', () => {
  it('holds 256 random bits, finds its row, and shows when it was mistyped', () => {
    fc.assert(
      fc.property(fc.nat({ max: 66 }), fc.constantFrom(...'0aZ_-'), (place, character) => {
        const { text: key, lookup } = newKey();
        expect(key).toMatch(/^troupe_[0-9A-Za-z]{11}_[0-9A-Za-z]{49}$/);
        expect(lookupOf(key)).toBe(lookup);
        const mistyped = key.slice(0, place) + character + key.slice(place + 1);
        expect(lookupOf(mistyped)).toBe(mistyped === key ? lookup : null);
        expect(lookupOf(key.slice(0, -1))).toBe(null);
      }),
    );
    const secrets = Array.from({ length: 200 }, () => newKey().text);
    expect(new Set(secrets).size).toBe(200);
    expect(newKey((n) => Buffer.alloc(n, 255)).text).toMatch(/^troupe_[0-9A-Za-z]{11}_[0-9A-Za-z]{49}$/);
  });
});

describe('once there are keys', () => {
  it('every route but /healthz needs one', async () => {
    const { paths } = (await get('/openapi.json', bearer(keys.read))).json() as {
      paths: Record<string, Record<string, { tags: string[] }>>;
    };
    for (const [path, methods] of Object.entries(paths)) {
      for (const [method, { tags }] of Object.entries(methods)) {
        const url = path.replace(/\{[a-z]+\}/g, 'x');
        const answer = await at.app.inject({ method: method.toUpperCase() as 'GET', url });
        expect([url, answer.statusCode]).toEqual([url, url === '/healthz' ? 200 : 401]);
        // What is asked of the gateway has a name, whatever becomes of it.
        const callId = tags.includes('gateway') ? expect.stringMatching(/^[0-9a-z]{8,16}$/) : undefined;
        expect([url, answer.headers['troupe-call-id']]).toEqual([url, callId]);
      }
    }
    expect((await get('/no/such/route')).statusCode).toBe(401);
    expect((await get('/no/such/route', bearer(keys.sql))).statusCode).toBe(404);
  });

  it('every route says the scope it needs, and OpenAPI shows it', async () => {
    const { paths } = (await get('/openapi.json', bearer(keys.admin))).json() as {
      paths: Record<string, Record<string, { security: readonly Record<string, readonly string[]>[] }>>;
    };
    const routes = Object.entries(paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, { security }]) => [`${method} ${path}`, security] as const),
    );
    expect(routes.length).toBeGreaterThan(15);
    for (const [route, security] of routes) {
      if (route === 'get /healthz') expect(security).toEqual([]);
      else expect([route, SCOPES]).toEqual([route, expect.arrayContaining([security[0]!.bearer![0]])]);
    }
  });

  it('a key of another scope is answered 403 with the scope that is needed, admin is enough for all', async () => {
    const events = await post(at.app, anEvent('scoped'), bearer(keys.read));
    expect([events.statusCode, events.json().code, events.json().expected]).toEqual([403, 'scope_missing', 'ingest']);
    const reads = await get('/v1/episodes', bearer(keys.ingest));
    expect([reads.statusCode, reads.json().expected]).toEqual([403, 'read']);
    expect((await post(at.app, anEvent('scoped'), bearer(keys.ingest))).statusCode).toBe(200);
    expect((await get('/v1/episodes', bearer(keys.read))).statusCode).toBe(200);
    expect((await get('/v1/episodes', bearer(keys.admin))).statusCode).toBe(200);
  });

  it('each route takes a key of its scope and refuses one of every other', async () => {
    const { paths } = (await get('/openapi.json', bearer(keys.admin))).json() as {
      paths: Record<string, Record<string, { security: readonly Record<string, readonly string[]>[] }>>;
    };
    const wrong: string[] = [];
    for (const [path, methods] of Object.entries(paths)) {
      for (const [method, { security }] of Object.entries(methods)) {
        const url = path.replace(/\{[a-z]+\}/g, 'x');
        const needed = security[0]?.bearer?.[0];
        for (const scope of SCOPES) {
          const { statusCode } = await at.app.inject({
            method: method.toUpperCase() as 'GET',
            url,
            headers: bearer(keys[scope]),
          });
          const allowed = needed === undefined || scope === needed || scope === 'admin';
          if ((statusCode === 403) === allowed || statusCode === 401)
            wrong.push(`${scope} ${method} ${url}: ${statusCode}`);
        }
      }
    }
    expect(wrong).toEqual([]);
  });

  it('a key that may send events neither releases weights nor asks for jobs by one, nor by changing one', async () => {
    const named = (type: string, id: string, data: object) => ({ ...anEvent(id), type: `troupe.${type}.v1`, data });
    const target = { source: '/s', id: 'any' };
    const amends = (key: string) => ({ key, target, op: 'reject' });
    const events = [
      [named('policy.released', 'r1', { release_id: 'r1', policies: { solver: 'c1' } }), 'release'],
      [named('record.amended', 'a1', amends('x/releases')), 'release'],
      [named('checkpoint.saved', 's1', { checkpoint_id: 'c1', uri: '/tmp/elsewhere' }), 'train'],
      [named('job.requested', 'j1', { job_id: 'j1', kind: 'sft' }), 'train'],
      [named('record.amended', 'a2', amends('j/j1')), 'train'],
      [named('record.amended', 'a3', amends('x/schedule/nightly')), 'train'],
    ] as const;
    for (const [event, scope] of events) {
      const answer = await post(at.app, [anEvent(`beside-${event.id}`), event], bearer(keys.ingest));
      expect([event.id, answer.statusCode, answer.json().expected]).toEqual([event.id, 403, `ingest, ${scope}`]);
      const both = await createKey(at.db, { name: `${event.id}`, scopes: ['ingest', scope], expiresAt: null });
      expect((await post(at.app, event, bearer(both.text))).statusCode).toBe(200);
      expect((await post(at.app, event, bearer(keys.admin))).statusCode).toBe(200);
    }
    const { rows } = await at.db.query("select count(*)::int as n from troupe.events where id like 'beside-%'");
    expect(rows).toEqual([{ n: 0 }]);
    expect((await post(at.app, named('record.amended', 'a4', amends('e/any')), bearer(keys.ingest))).statusCode).toBe(
      200,
    );
  });

  it('a key may stand in Authorization, in Troupe-Key beside a key of somebody else, or be the password of a browser', async () => {
    const password = Buffer.from(`me:${keys.read}`).toString('base64');
    for (const headers of [
      bearer(keys.read),
      { authorization: `bearer  ${keys.read}` },
      { 'troupe-key': keys.read },
      { 'troupe-key': keys.read, authorization: 'Bearer sk-of-a-model-server' },
      { authorization: `Basic ${password}` },
    ]) {
      expect((await get('/v1/episodes', headers as Record<string, string>)).statusCode).toBe(200);
    }
    const page = await get('/', { accept: 'text/html' });
    expect([page.statusCode, page.headers['www-authenticate']]).toEqual([401, 'Basic realm="Troupe", charset="UTF-8"']);
  });

  it('no way of writing a path gets around it', async () => {
    const own = await testAppOn(at);
    const { port } = await serve(own.app, { host: '127.0.0.1', port: 0 });
    const ask = async (path: string, key?: string) => {
      const socket = connect(port, '127.0.0.1');
      const header = key === undefined ? '' : `Authorization: Bearer ${key}\r\n`;
      socket.write(`GET ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n${header}\r\n`);
      return Number(/^HTTP\/1\.1 (\d+)/.exec(await text(socket))?.[1]);
    };
    const written = [
      '//v1/episodes',
      '/v1//episodes',
      '/%761/episodes',
      '/v1/episodes/',
      '/v1/episodes%2f',
      '/V1/EPISODES',
    ];
    written.push(
      '/./v1/episodes',
      '/healthz/../v1/episodes',
      '/v1/episodes?/healthz',
      'http://x/v1/episodes',
      '/healthz;/',
    );
    for (const path of written) {
      expect([path, await ask(path)]).toEqual([
        path,
        expect.toSatisfy((status) => [400, 401, 403, 404].includes(status)),
      ]);
      // Whoever may only bring events in is not given the list by any of them.
      expect([path, await ask(path, keys.ingest)]).not.toEqual([path, 200]);
    }
    expect(await ask('/v1/episodes', keys.read)).toBe(200);
    await own.close();
  });

  it('the recorder sends its key', async () => {
    const own = await testAppOn(at);
    const { url } = await serve(own.app, { host: '127.0.0.1', port: 0 });
    const flushed = (apiKey: string) => {
      const recorder = createRecorder({ baseUrl: url, source: '/recorder', apiKey, tries: 1 });
      recorder.episode({ episode_id: 'keyed' });
      return recorder.flush();
    };
    expect(await flushed(keys.ingest)).toMatchObject({ sent: 1, accepted: 1 });
    await expect(flushed(keys.read)).rejects.toThrow(/403/);
    await own.close();
  });

  it('P46: unknown, revoked, expired and malformed keys get the same answer', async () => {
    const answers = await Promise.all(
      [newKey().text, keys.revoked, keys.expired, MALFORMED, 'sk-other', 'ü', 'x'.repeat(9000), undefined].map(
        async (key) => {
          const { statusCode, body, headers } = await get('/v1/episodes', key === undefined ? {} : bearer(key));
          const { date: _, 'x-request-id': id, ...rest } = headers;
          return JSON.stringify([statusCode, body.replaceAll(String(id), 'ID'), rest]);
        },
      ),
    );
    expect(JSON.parse(answers[0]!)[0]).toBe(401);
    expect(new Set(answers).size).toBe(1);
  });

  it('programs on this machine need one too, unless they are declared trusted; what a proxy passed on is not from here', async () => {
    const open = await testAppOn(at, { openLoopback: true });
    expect((await get('/v1/episodes', {}, open.app)).statusCode).toBe(200);
    expect((await get('/v1/episodes', { 'x-forwarded-for': '10.0.0.1' }, open.app)).statusCode).toBe(401);
    expect((await get('/v1/episodes', bearer(keys.revoked), open.app)).statusCode).toBe(401);
    await open.close();
  });

  it('the environment may give the first one, as its hash', async () => {
    const first = randomBytes(32).toString('hex');
    const own = await testApp();
    const app = await testAppOn(own, { keys: openKeyRing(own.db, { firstKey: digestOf(first) }) });
    expect((await get('/v1/episodes', {}, app.app)).statusCode).toBe(401);
    expect((await get('/v1/episodes', bearer(first), app.app)).statusCode).toBe(200);
    await app.close();
    await own.close();
  });
});

describe('a ring of keys', () => {
  it('P47: a revoked key ends within 30 s, also where the database went away right after; then nobody gets in', async () => {
    const own = await testApp();
    let [away, seconds] = [false, 0];
    const ring = openKeyRing(
      {
        query: (...asked: Parameters<typeof own.db.query>) =>
          away ? Promise.reject(new Error('connect ECONNREFUSED')) : own.db.query(...asked),
      } as typeof own.db,
      { clock: () => seconds * 1000 },
    );
    expect(await ring.required()).toBe(false);
    const { text: key, lookup } = await createKey(own.db, { name: 'agent', scopes: ['ingest'], expiresAt: null });
    // A key works at once: a refusal is never given from what was read before.
    expect(await ring.identify(key)).toEqual({ key: lookup, scopes: ['ingest'] });
    expect(await ring.required()).toBe(true);
    await revokeKey(own.db, lookup);
    away = true;
    seconds = 24;
    expect(await ring.identify(key)).toMatchObject({ key: lookup });
    await expect(ring.identify(newKey().text)).rejects.toMatchObject({ code: 'unreachable' });
    for (seconds of [26, 30, 3600]) {
      await expect(ring.identify(key)).rejects.toMatchObject({ code: 'unreachable' });
      await expect(ring.required()).rejects.toMatchObject({ code: 'unreachable' });
    }
    away = false;
    expect(await ring.identify(key)).toBe(null);
    await own.close();
  });

  it('with keys that are sealed on disk it goes on while the database is away, also from its start, and asks again when it is back', async () => {
    const own = await testApp();
    const folder = mkdtempSync(join(tmpdir(), 'troupe-keys-'));
    const seal = sealedKeys(join(folder, 'keys'), () => 'secret');
    let [away, seconds] = [false, 0];
    const open = () =>
      openKeyRing(
        {
          query: (...asked: Parameters<typeof own.db.query>) =>
            away ? Promise.reject(new Error('connect ECONNREFUSED')) : own.db.query(...asked),
        } as typeof own.db,
        { clock: () => seconds * 1000, seal },
      );
    const made = await createKey(own.db, { name: 'agent', scopes: ['ingest'], expiresAt: null });
    const gone = await createKey(own.db, { name: 'gone', scopes: ['ingest'], expiresAt: null });
    await revokeKey(own.db, gone.lookup);
    const first = open();
    expect(await first.identify(made.text)).toMatchObject({ key: made.lookup });
    away = true;
    const second = open();
    for (seconds of [1, 30, 3600]) {
      for (const ring of [first, second]) {
        expect(await ring.required()).toBe(true);
        expect(await ring.identify(made.text)).toEqual({ key: made.lookup, scopes: ['ingest'] });
        for (const other of [gone.text, newKey().text])
          await expect(ring.identify(other)).rejects.toMatchObject({ code: 'unreachable' });
      }
    }
    away = false;
    await revokeKey(own.db, made.lookup);
    seconds = 4000;
    expect(await second.identify(made.text)).toBe(null);
    rmSync(folder, { recursive: true });
    await own.close();
  });

  it('with nothing sealed yet nobody is let in while the database is away, and everybody on this machine once it says that there is no key', async () => {
    const own = await testApp();
    const folder = mkdtempSync(join(tmpdir(), 'troupe-keys-'));
    const seal = sealedKeys(join(folder, 'keys'), () => 'secret');
    let away = true;
    const open = () =>
      openKeyRing(
        {
          query: (...asked: Parameters<typeof own.db.query>) =>
            away ? Promise.reject(new Error('connect ECONNREFUSED')) : own.db.query(...asked),
        } as typeof own.db,
        { seal },
      );
    const ring = open();
    await expect(ring.required()).rejects.toMatchObject({ code: 'unreachable' });
    away = false;
    expect(await ring.required()).toBe(false);
    away = true;
    expect(await open().required()).toBe(false);
    rmSync(folder, { recursive: true });
    await own.close();
  });

  it('P47: with the database there, a revoked key ends with the next reading', async () => {
    let seconds = 0;
    const ring = openKeyRing(at.db, { clock: () => seconds * 1000 });
    const { text: key, lookup } = await createKey(at.db, { name: 'short', scopes: ['read'], expiresAt: null });
    expect(await ring.identify(key)).toMatchObject({ key: lookup });
    await revokeKey(at.db, lookup);
    seconds = 6;
    await ring.identify(key);
    await expect.poll(() => ring.identify(key)).toBe(null);
  });

  it('lets nobody in before it has read anything, and nobody hangs with a database that does', async () => {
    const hangs = openKeyRing({ query: () => new Promise(() => {}) } as never);
    const began = performance.now();
    await expect(hangs.required()).rejects.toMatchObject({ code: 'unreachable' });
    expectBelow(performance.now() - began, 2000);
  });

  it('P56: a process that never knew a key goes on for this machine while the database is away', async () => {
    let [away, seconds] = [false, 0];
    const ring = openKeyRing(
      { query: async () => (away ? Promise.reject(new Error('gone')) : { rows: [] }) } as never,
      { clock: () => seconds * 1000 },
    );
    expect(await ring.required()).toBe(false);
    [away, seconds] = [true, 3600];
    expect(await ring.required()).toBe(false);
  });

  it('reads the keys once, however many are refused at a time', async () => {
    let reads = 0;
    const ring = openKeyRing({
      query: async () => {
        reads++;
        await new Promise((resolve) => setTimeout(resolve, 20));
        return { rows: [] };
      },
    } as never);
    await Promise.all(Array.from({ length: 500 }, () => ring.identify(newKey().text)));
    expect(reads).toBeLessThanOrEqual(6);
  });
});

it('P45: a key that was used is in no table, no error and no output', async () => {
  const outputs: string[] = [];
  const write = process.stderr.write;
  process.stderr.write = ((chunk: string) => outputs.push(String(chunk)) > 0) as never;
  try {
    for (const key of [keys.admin, keys.read, keys.revoked]) {
      for (const headers of [bearer(key), { 'troupe-key': key }, { authorization: key }, bearer(`${key}x`)] as Record<
        string,
        string
      >[]) {
        const bodies = [
          anEvent('canary'),
          '[',
          { model: 'policy:solver', messages: [{ role: 'user', content: 'hi' }] },
        ];
        for (const url of ['/v1/events', '/v1/chat/completions', '/v1/completions', '/no/such'])
          for (const body of bodies) outputs.push((await post(at.app, body, headers, url)).body);
        for (const url of ['/v1/episodes', '/v1/episodes/none', '/metrics', '/', '/openapi.json'])
          outputs.push((await get(url, headers)).body);
      }
    }
  } finally {
    process.stderr.write = write;
  }
  await at.project();
  const { rows: tables } = await at.db.query<{ name: string }>(
    `select format('%I.%I', n.nspname, c.relname) as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where c.relkind in ('r', 'm') and n.nspname not in ('pg_catalog', 'information_schema', 'pg_toast')`,
  );
  expect(tables.length).toBeGreaterThan(20);
  for (const { name } of tables) {
    const { rows } = await at.db.query<{ line: string }>(`select t::text as line from ${name} t`);
    outputs.push(...rows.map(({ line }) => line));
  }
  const secrets = [keys.admin, keys.read, keys.revoked].map((key) => key.slice(20, 60));
  expect(outputs.join('\n')).toContain('canary');
  for (const secret of secrets) expect(outputs.some((text) => text.includes(secret))).toBe(false);
  expect((await listKeys(at.db)).map((key) => Object.keys(key))).not.toContain('sha256');
});

/** Another app on the same database. */
async function testAppOn({ db }: TestApp, options: Partial<AppOptions> = {}): Promise<TestApp> {
  return testApp({ db, keys: openKeyRing(db), ...options });
}
