import { connect, createServer } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readHosts } from '../../api/http/origin.ts';
import { serve } from '../../api/http/serve.ts';
import { anEvent, post, type TestApp, testApp } from './support/app.ts';

let at: TestApp;
beforeAll(async () => {
  at = await testApp();
});
afterAll(() => at.close());

describe('who may connect', () => {
  it.each([
    ['127.0.0.1:7717', undefined, 200],
    ['localhost', undefined, 200],
    ['LOCALHOST:80', undefined, 200],
    ['[::1]:7717', undefined, 200],
    ['127.8.9.1:7717', undefined, 200],
    ['localhost:7717', 'http://localhost:7717', 200],
    ['127.0.0.1:7717', 'http://127.0.0.1:7717', 200],
    ['evil.example:7717', undefined, 403],
    ['127.0.0.1.evil.example', undefined, 403],
    ['localhost.evil.example', undefined, 403],
    ['192.168.1.4:7717', undefined, 403],
    ['0.0.0.0:7717', undefined, 403],
    ['[::2]', undefined, 403],
    ['127.0.0.1:7717', 'http://evil.example', 403],
    ['127.0.0.1:7717', 'http://localhost:7717', 403],
    ['localhost:7717', 'http://localhost:3000', 403],
    ['localhost:7717', 'null', 403],
    ['localhost:7717', '', 403],
    ['evil.example', 'http://evil.example', 403],
  ])('Host %j with Origin %j is answered %i', async (host, origin, status) => {
    for (const url of ['/healthz', '/', '/v1/episodes', '/no/such/route']) {
      const answer = await at.app.inject({ url, headers: { host, ...(origin === undefined ? {} : { origin }) } });
      if (status === 403) {
        expect([url, answer.statusCode, answer.json().code]).toEqual([url, 403, 'forbidden_origin']);
        expect(answer.headers['content-type']).toContain('application/problem+json');
      } else expect(answer.statusCode).toBe(url === '/no/such/route' ? 404 : 200);
    }
  });

  it('refuses a request that names no host', async () => {
    const own = await testApp();
    const { port, close } = await serve(own.app, { host: '127.0.0.1', port: 0 });
    const socket = connect(port, '127.0.0.1');
    socket.end('GET /healthz HTTP/1.0\r\n\r\n');
    expect(await text(socket)).toMatch(/^HTTP\/1\.1 403 /);
    await close();
    await own.close();
  });

  it('takes nothing from a foreign page', async () => {
    const answer = await post(at.app, anEvent('foreign'), { origin: 'http://evil.example' });
    expect(answer.statusCode).toBe(403);
    const { rows } = await at.db.query("select 1 from troupe.events where id = 'foreign'");
    expect(rows).toEqual([]);
  });

  it('takes literal addresses and named hosts where it is exposed on purpose, and still no other name', async () => {
    const open = await testApp({ exposed: true, hosts: ['troupe.internal'] });
    const statuses = await Promise.all(
      ['10.0.0.5:7717', 'troupe.internal', 'evil.example'].map(
        async (host) => (await open.app.inject({ url: '/healthz', headers: { host } })).statusCode,
      ),
    );
    expect(statuses).toEqual([200, 200, 403]);
    await open.close();
  });

  it('P54: reads names of its own from the setting, and refuses what no Host header can have', () => {
    expect(readHosts(null)).toEqual([]);
    expect(readHosts('ingest, Troupe.Internal')).toEqual(['ingest', 'troupe.internal']);
    for (const wrong of ['', 'a,,b', 'http://a', 'a:7717', 'a b'])
      expect(() => readHosts(wrong)).toThrow(/TROUPE_HOSTS/);
  });
});

describe('serving', () => {
  it('P54: a port that is taken is reported in one clear line', async () => {
    const other = createServer().listen(0, '127.0.0.1');
    await new Promise((resolve) => other.once('listening', resolve));
    const { port } = other.address() as { port: number };
    const own = await testApp();
    const failure = await serve(own.app, { host: '127.0.0.1', port }).catch((error) => error);
    expect(failure).toMatchObject({ code: 'port_taken', exit: 1 });
    expect(failure.message).toBe(
      `Another program listens on 127.0.0.1 port ${port}; stop it, or choose another port with --port.`,
    );
    other.close();
    await own.close();
  });

  it('P54: listens beyond loopback only when that is asked for', async () => {
    const own = await testApp();
    for (const host of ['0.0.0.0', '::', '192.168.1.4', 'example.org']) {
      await expect(serve(own.app, { host, port: 0 })).rejects.toMatchObject({
        code: 'usage',
        detail: { field: 'host' },
      });
    }
    const { url, close } = await serve(own.app, { host: '0.0.0.0', port: 0, exposed: true });
    expect((await fetch(`${url.replace('0.0.0.0', '127.0.0.1')}/healthz`)).status).toBe(200);
    await close();
    await own.close();
  });

  it('says that it is ready, and how far the tables are behind', async () => {
    await post(at.app, [anEvent('ready-1'), anEvent('ready-2')]);
    expect((await at.app.inject('/readyz')).json()).toMatchObject({
      status: 'ready',
      database: 'ok',
      schema: 'current',
      log: 'ok',
      lag_events: 2,
      reasons: [],
    });
    await at.project();
    expect((await at.app.inject('/readyz')).json()).toMatchObject({ lag_events: 0 });
  });

  it('P24: shows refused records until they are replayed, and is ready all the same', async () => {
    const own = await testApp();
    const state = async () => (await own.app.inject('/readyz')).json();
    expect(await state()).toMatchObject({ status: 'ready', reasons: [], dead_letters: [] });
    await post(own.app, [{ ...anEvent('refused'), type: 'troupe.unheard.v1' }]);
    expect(await state()).toMatchObject({
      status: 'ready',
      reasons: [],
      dead_letters: [expect.stringContaining('1 dead letter of the last hour at http: unknown_event')],
    });
    expect((await own.app.inject('/readyz')).statusCode).toBe(200);
    await own.db.query('update troupe.dead_letters set replayed_at = now()');
    expect(await state()).toMatchObject({ status: 'ready', reasons: [], dead_letters: [] });
    await own.close();
  });

  it('is not ready, but alive, without the database or with a schema that is not its own', async () => {
    const own = await testApp();
    await own.db.query("insert into troupe.migrations (number, name, sha256) values (9999, 'of tomorrow', 'x')");
    const newer = await own.app.inject('/readyz');
    expect([newer.statusCode, newer.json().schema]).toEqual([503, 'newer']);
    expect(newer.json().reasons).toEqual([expect.stringContaining('migration 9999 (of tomorrow)')]);
    await own.db.query('update troupe.migrations set works_with = 2 where number = 9999');
    const together = await own.app.inject('/readyz');
    expect([together.statusCode, together.json()]).toMatchObject([
      200,
      { status: 'ready', schema: 'compatible', reasons: [expect.stringContaining('they work together')] },
    ]);
    await own.db.query(
      'delete from troupe.migrations where number = (select max(number) from troupe.migrations where number < 9999) or number = 9999',
    );
    expect((await own.app.inject('/readyz')).json()).toMatchObject({ status: 'not_ready', schema: 'behind' });
    await own.db.close();
    const away = await own.app.inject('/readyz');
    expect([away.statusCode, away.json().database]).toEqual([503, 'unreachable']);
    expect((await own.app.inject('/healthz')).json()).toEqual({ status: 'ok', version: '0.0.0', project: 'test' });
    await own.close();
  });

  it('shows counts of endpoints, log, tables and requests in the Prometheus format', async () => {
    await post(at.app, '[1]');
    const answer = await at.app.inject('/metrics');
    expect(answer.headers['content-type']).toContain('version=0.0.4');
    for (const line of answer.body.split('\n').filter((one) => one !== '')) {
      expect(line).toMatch(
        /^(?:# (?:HELP|TYPE) (?:troupe|process|nodejs)_\w+ .+|(?:troupe|process|nodejs)_\w+(?:\{\w+="[^"]*"(?:,\w+="[^"]*")*\})? -?[\d.e+-]+)$/,
      );
    }
    expect(answer.body).toContain('troupe_dead_letters{endpoint="http",code="bad_shape"} 1\n');
    expect(answer.body).toMatch(
      /troupe_http_requests_total\{method="POST",route="\/v1\/events",status="207"\} [1-9]\d*\n/,
    );
    expect(answer.body).toContain('troupe_projection_lag_events 0\n');
  });

  it('serves only the events endpoint with `ingestOnly`', async () => {
    const endpoint = await testApp({ ingestOnly: true });
    expect((await post(endpoint.app, anEvent('i'))).statusCode).toBe(200);
    for (const url of ['/', '/v1/episodes', '/v1/models'])
      expect((await endpoint.app.inject(url)).statusCode).toBe(404);
    await endpoint.close();
  });
});

describe('the OpenAPI document', () => {
  it('lists every route and nothing else', async () => {
    const { openapi, paths } = (await at.app.inject('/openapi.json')).json();
    expect(openapi).toBe('3.1.0');
    const listed = Object.entries(paths as Record<string, object>).flatMap(([path, methods]) =>
      Object.keys(methods).map((m) => `${m.toUpperCase()} ${path}`),
    );
    // The router prints its own tree, whoever documented what.
    const there = at.app
      .printRoutes({ commonPrefix: false })
      .split('\n')
      .reduce<{ stack: string[]; routes: string[] }>(
        ({ stack, routes }, line) => {
          const match = /^([│ ]*)[├└]── (.*?)(?: \(([A-Z, ]+)\))?$/u.exec(line);
          if (!match) return { stack, routes };
          const path = [...stack.slice(0, match[1]!.length / 4), match[2]!];
          const methods = (match[3] ?? '').split(', ').filter((m) => m !== '' && m !== 'HEAD');
          return {
            stack: path,
            routes: [...routes, ...methods.map((m) => `${m} ${path.join('').replace(/:([a-z]+)/g, '{$1}')}`)],
          };
        },
        { stack: [], routes: [] },
      ).routes;
    expect(there.length).toBeGreaterThan(15);
    expect(listed.sort()).toEqual(there.sort());
  });

  it('names what a route takes and answers', async () => {
    const { paths, components } = (await at.app.inject('/openapi.json')).json();
    const events = paths['/v1/events'].post;
    expect(Object.keys(events.requestBody.content)).toContain('application/x-ndjson');
    expect(Object.keys(events.responses)).toEqual(['200', '207', '4XX', 'default']);
    expect(paths['/v1/episodes'].get.parameters.map(({ name }: { name: string }) => name)).toContain('tag.KEY');
    expect(paths['/e/{episode}/a/{agent}/v1/chat/completions'].post.parameters).toContainEqual({
      in: 'path',
      name: 'episode',
      required: true,
      schema: { type: 'string' },
    });
    expect(components.schemas.Problem.required).toContain('request_id');
  });
});
