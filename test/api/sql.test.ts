/** SQL over HTTP: the same answers as `ask` in three forms, its caps, and what ends a query. */
import { request as httpRequest, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { tableFromIPC } from 'apache-arrow';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { postgresLog } from '../../ingest/log/postgres.ts';
import { ask } from '../../store/explore/sql/sql.ts';
import { anEpisode } from '../store/support/events.ts';
import { expectBelow } from '../support/measured.ts';
import { post, type TestApp, testApp } from './support/app.ts';

/** Without temporary files, whose limit would end it on a fast machine. */
const ENDLESS =
  'select count(*) from generate_series(1, 10000) a, generate_series(1, 10000) b, generate_series(1, 10000) c';

let at: TestApp;
let port: number;
beforeAll(async () => {
  at = await testApp();
  await postgresLog(at.db).append([...anEpisode('e1'), ...anEpisode('e2', { reward: null })]);
  await at.project();
  await at.app.listen({ host: '127.0.0.1', port: 0 });
  port = (at.app.server.address() as AddressInfo).port;
});
afterAll(() => at.close());

const sql = (query: string, rest: object = {}, headers: Record<string, string> = {}) =>
  post(at.app, { sql: query, ...rest }, headers, '/v1/sql');

/** Over a socket, where the answer can be read in part. */
const asked = (body: object, headers: Record<string, string> = {}) =>
  new Promise<IncomingMessage>((resolve, reject) => {
    const options = { method: 'POST', headers: { 'content-type': 'application/json', ...headers } };
    const request = httpRequest(`http://127.0.0.1:${port}/v1/sql`, options, resolve);
    request.on('error', reject).end(JSON.stringify(body));
  });

const running = async (): Promise<number> => {
  const { rows } = await at.db.query<{ n: number }>(
    `select count(*)::integer as n from pg_stat_activity where usename = current_database() || '_reader' and state <> 'idle'`,
  );
  return rows[0]!.n;
};

describe('POST /v1/sql', () => {
  it('answers JSON as the command line prints it', async () => {
    const query = 'select episode_id, reward, closed, tags from episodes order by 1';
    const answer = await sql(query);
    expect(answer.statusCode).toBe(200);
    expect(answer.headers['content-type']).toBe('application/json; charset=utf-8');
    expect(answer.json()).toEqual(await ask(at.db, query));
    expect(answer.json().rows.map((row: unknown[]) => row[0])).toEqual(['e1', 'e2']);
    expect(answer.headers).toMatchObject({
      'troupe-rows': '2',
      'troupe-truncated': 'false',
      'troupe-caps': 'rows=10000, bytes=67108864, ms=30000',
    });
  });

  it('answers CSV: null is nothing, an empty text two quotes, lists are JSON', async () => {
    const query = `select null::text as n, '' as e, 'a "b", c' as "x,y", array[1,2] as l, true as t, 1.50::numeric as d
      union all select 'é', E'two\\nlines', 'plain', null, false, null`;
    const answer = await sql(query, {}, { accept: 'text/csv' });
    expect(answer.body).toBe(
      'n,e,"x,y",l,t,d\r\n,"","a ""b"", c","[1,2]",true,1.50\r\né,"two\nlines",plain,,false,\r\n',
    );
  });

  it('answers an Arrow stream with the types of SQL', async () => {
    const accept = { accept: 'application/vnd.apache.arrow.stream' };
    const { rawPayload, headers } = await sql(
      'select episode_id, reward from episodes order by 1',
      { limit: 1 },
      accept,
    );
    const table = tableFromIPC(rawPayload);
    expect(table.schema.fields.map(({ name, type }) => [name, String(type)])).toEqual([
      ['episode_id', 'Utf8'],
      ['reward', 'Float64'],
    ]);
    expect(table.toArray().map((row) => row?.toJSON())).toEqual([{ episode_id: 'e1', reward: 1 }]);
    expect([headers['troupe-rows'], headers['troupe-truncated']]).toEqual(['1', 'true']);
    const whole = await sql('select episode_id from episodes', { limit: 2 }, accept);
    expect([whole.headers['troupe-rows'], whole.headers['troupe-truncated']]).toEqual(['2', 'false']);
  });

  it('chooses the form by the weights of Accept, and refuses what it has not', async () => {
    for (const [accept, type] of [
      ['application/json;q=0.5, text/csv', 'text/csv'],
      ['text/html, */*;q=0.1', 'application/json'],
      ['text/*', 'text/csv'],
    ] as const) {
      expect((await sql('select 1', {}, { accept })).headers['content-type']).toContain(type);
    }
    const refused = await sql('select 1', {}, { accept: 'text/html' });
    expect([refused.statusCode, refused.json().code, refused.json().field]).toEqual([400, 'usage', 'Accept']);
  });

  it('cuts at the caps for rows and bytes, and says so', async () => {
    const rows = await sql('select g from generate_series(1, 11) g', { limit: 10 });
    expect([rows.json().rows.length, rows.json().truncated]).toEqual([10, true]);
    const all = await sql('select g from generate_series(1, 10) g', { limit: 10 });
    expect([all.json().rows.length, all.json().truncated]).toEqual([10, false]);
    const bytes = await sql(`select repeat('x', 10000) from generate_series(1, 5000)`, { max_bytes: 100_000 });
    expect(bytes.json().truncated).toBe(true);
    expect(bytes.body.length).toBeGreaterThan(100_000);
    expect(bytes.body.length).toBeLessThan(1_000_000);
  });

  it('says in trailers how a long answer ended', async () => {
    const answer = await asked({ sql: `select g, repeat('x', 1000) from generate_series(1, 5001) g`, limit: 5000 });
    const document = JSON.parse(await text(answer));
    expect([document.rows.length, document.truncated]).toEqual([5000, true]);
    expect(answer.headers['troupe-truncated']).toBeUndefined();
    expect(answer.trailers).toEqual({ 'troupe-rows': '5000', 'troupe-truncated': 'true' });
  });

  it('gives the reason of the guard, of PostgreSQL and of the limits as problem+json', async () => {
    for (const [query, status, code] of [
      ['delete from traj.episodes', 400, 'sql_refused'],
      ['select pg_read_file($$postgresql.conf$$)', 400, 'sql_refused'],
      ['select * from troupe.events', 400, 'sql_refused'],
      ['select 1; select 2', 400, 'sql_refused'],
      ['select * from nowhere', 400, 'sql_failed'],
      ['select 1 / n from generate_series(300, 0, -1) n', 400, 'sql_failed'],
      [`select repeat('x', 33 * 1024 * 1024)`, 413, 'too_large'],
      [
        `select repeat('x', 22 * 1024 * 1024) as a, repeat('x', 22 * 1024 * 1024) as b, repeat('x', 22 * 1024 * 1024) as c`,
        413,
        'too_large',
      ],
      ['select array_fill(0::bigint, array[100000000])', 400, 'sql_failed'],
    ] as const) {
      for (const accept of ['application/json', 'application/vnd.apache.arrow.stream']) {
        const answer = await sql(query, {}, { accept });
        expect([query, accept, answer.statusCode, answer.json().code]).toEqual([query, accept, status, code]);
        expect(answer.headers['content-type']).toContain('application/problem+json');
      }
    }
    const slow = await sql(ENDLESS, { timeout_ms: 200 });
    expect([slow.statusCode, slow.json().code]).toEqual([504, 'sql_timeout']);
    const odd = await sql(
      `select 'NaN'::float8 as a, '-Infinity'::float4 as b, null::float8 as c, array['NaN', null]::float8[] as d`,
    );
    expect(odd.json().rows).toEqual([['NaN', '-Infinity', null, ['NaN', null]]]);
    const twice = await sql('select 1 as a, 2 as a', {}, { accept: 'application/vnd.apache.arrow.stream' });
    expect([twice.statusCode, twice.json().code]).toEqual([400, 'sql_refused']);
    const unknown = await sql('select 1', { limits: 3 });
    expect([unknown.statusCode, unknown.json().code]).toEqual([400, 'usage']);
  });

  it('an answer that fails after its beginning has no end, and its connection is closed', async () => {
    const answer = await asked({
      sql: `select repeat('x', 100000), 1 / (300 - g) from generate_series(1, 2000) g`,
      limit: 5000,
    });
    expect(answer.statusCode).toBe(200);
    await expect(text(answer)).rejects.toThrow(/aborted|closed/);
  });

  it('ends the query when the client goes away, within two seconds', async () => {
    const body = JSON.stringify({ sql: ENDLESS });
    const request = httpRequest(`http://127.0.0.1:${port}/v1/sql`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
    }).on('error', () => {});
    request.end(body);
    await expect.poll(running, { timeout: 5000 }).toBe(1);
    request.destroy();
    await expect.poll(running, { timeout: 2000 }).toBe(0);
  });

  it('ends the query of a client that does not read, at its deadline', async () => {
    const answer = await asked({
      sql: `select repeat('x', 10000) from generate_series(1, 1000000)`,
      limit: 1_000_000,
      max_bytes: 1024 ** 3,
      timeout_ms: 1500,
    });
    expect(await running()).toBe(1);
    await expect.poll(running, { timeout: 3000 }).toBe(0);
    await expect(text(answer)).rejects.toThrow(/aborted|closed/);
  });

  it('runs four queries at once, refuses the fifth at once, and goes on afterwards', async () => {
    const long = { sql: ENDLESS, timeout_ms: 3000 };
    const four = Array.from({ length: 4 }, () => sql(long.sql, { timeout_ms: long.timeout_ms }));
    await expect.poll(running, { timeout: 2900 }).toBe(4);
    const fifth = await sql('select 1');
    expect([fifth.statusCode, fifth.json().code, fifth.headers['retry-after']]).toEqual([503, 'busy', '1']);
    expect((await Promise.all(four)).map(({ statusCode }) => statusCode)).toEqual([504, 504, 504, 504]);
    expect((await sql('select 1')).statusCode).toBe(200);
  });

  it('leaves the event loop to others while it sends many rows', async () => {
    const answer = await asked({
      sql: 'select g, g::text as words, now() from generate_series(1, 200000) g',
      limit: 200_000,
    });
    const began = performance.now();
    let longest = 0;
    let last = began;
    const watch = setInterval(() => {
      longest = Math.max(longest, performance.now() - last);
      last = performance.now();
    }, 5);
    const document = await text(answer);
    clearInterval(watch);
    expectBelow(longest, (performance.now() - began) / 3);
    expect(JSON.parse(document).rows).toHaveLength(200_000);
  });

  it('says its caps and forms in the OpenAPI document', async () => {
    const { paths } = (await at.app.inject('/openapi.json')).json();
    const route = paths['/v1/sql'].post;
    expect(route.requestBody.content['application/json'].schema.properties).toMatchObject({
      limit: { maximum: 1_000_000 },
      max_bytes: { maximum: 1_073_741_824 },
      timeout_ms: { maximum: 300_000 },
    });
    expect(Object.keys(route.responses[200].content)).toEqual([
      'application/json',
      'text/csv',
      'application/vnd.apache.arrow.stream',
    ]);
    expect(route.security[0]).toEqual({ bearer: ['sql'] });
  });
});

describe('SQL over HTTP without a login of its own', () => {
  it('is refused, because the login of the server may do everything', async () => {
    const other = await testApp({ reader: async () => null });
    try {
      const answer = await post(other.app, { sql: 'select 1' }, {}, '/v1/sql');
      expect([answer.statusCode, answer.json().code]).toEqual([400, 'sql_refused']);
      expect(answer.json().hint).toContain('CREATEROLE');
    } finally {
      await other.close();
    }
  });
});
