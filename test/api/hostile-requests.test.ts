import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { anyCharacter } from '../support/character.ts';
import { type TestApp, testApp } from './support/app.ts';
import { encoded, NAUGHTY, routesOf } from './support/naughty.ts';

let at: TestApp;
let port: number;
beforeAll(async () => {
  at = await testApp();
  port = Number(new URL(await at.app.listen({ port: 0, host: '127.0.0.1' })).port);
});
afterAll(() => at.close());

/** The status of what is sent as it is, and the rest of the answer; what the server does not answer has status 0. */
async function raw(bytes: string | Buffer): Promise<{ status: number; head: string; body: string }> {
  const socket = connect(port, '127.0.0.1').on('error', () => {});
  socket.end(bytes);
  const answer = await text(socket).catch(() => '');
  const [head = '', body = ''] = answer.split('\r\n\r\n', 2);
  return { status: Number(/^HTTP\/1\.1 (\d{3})/.exec(head)?.[1] ?? 0), head, body };
}

describe('what is asked in bad faith', () => {
  it('a name with U+0000 is refused by name', async () => {
    const answer = await at.app.inject('/v1/episodes?tag.a%00=1');
    expect([answer.statusCode, answer.json().code]).toEqual([400, 'usage']);
  });

  it('any names and values, and members of objects that JavaScript has by itself, are answered with less than 500', async () => {
    const all = await routesOf(at.app);
    const word = fc.oneof(fc.string({ unit: anyCharacter }), fc.constantFrom(...NAUGHTY));
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...all),
        fc.array(fc.tuple(word, word), { maxLength: 4 }),
        word,
        async (route, pairs, id) => {
          const query = pairs.map(([name, value]) => `${encoded(name)}=${encoded(value)}`).join('&');
          const url = `${route.path.replaceAll(/\{\w+\}/g, encoded(id) || 'x')}?${query}`;
          const payload = JSON.stringify(
            Object.fromEntries(pairs.map(([name, value]) => [name, { [value]: [value] }])),
          );
          const headers = { 'content-type': 'application/json' };
          const asked = route.method === 'POST' ? { headers, payload } : {};
          const { statusCode } = await at.app.inject({ method: route.method, url, ...asked });
          expect(statusCode).toBeLessThan(500);
        },
      ),
      { numRuns: 250 },
    );
  });

  it('what is no HTTP gets problem+json, and its connection is closed', async () => {
    const lines = (...all: string[]): string => `${all.join('\r\n')}\r\n\r\n`;
    const malformed: [string, string | Buffer, number][] = [
      ['no HTTP at all', 'hello\r\n\r\n', 400],
      ['TLS', Buffer.from([22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3]), 400],
      ['a version of tomorrow', lines('GET / HTTP/9.9', 'Host: localhost'), 400],
      [
        'two lengths',
        lines('POST /v1/events HTTP/1.1', 'Host: localhost', 'Content-Length: 1', 'Content-Length: 2'),
        400,
      ],
      [
        'length and chunks',
        lines('POST /v1/events HTTP/1.1', 'Host: localhost', 'Content-Length: 3', 'Transfer-Encoding: chunked'),
        400,
      ],
      ['a length that is none', lines('POST /v1/events HTTP/1.1', 'Host: localhost', 'Content-Length: -1'), 400],
      ['a header without a name', lines('GET / HTTP/1.1', 'Host: localhost', ': x'), 400],
      ['a header with U+0000', lines('GET / HTTP/1.1', 'Host: localhost', 'X: a\u0000b'), 400],
      [
        'a chunk size that is none',
        `${lines('POST /v1/events HTTP/1.1', 'Host: localhost', 'Transfer-Encoding: chunked')}zz\r\n`,
        400,
      ],
      ['too many bytes of headers', lines('GET / HTTP/1.1', 'Host: localhost', `X: ${'x'.repeat(20_000)}`), 431],
    ];
    for (const [what, bytes, status] of malformed) {
      const answer = await raw(bytes);
      expect([what, answer.status]).toEqual([what, status]);
      expect(answer.head).toMatch(/^connection: close\r?$/im);
      expect(answer.head).toMatch(/^content-type: application\/problem\+json; charset=utf-8\r?$/im);
      expect(JSON.parse(answer.body)).toMatchObject({ status, code: 'usage', request_id: expect.any(String) });
    }
  });

  it('odd HTTP is answered with less than 500, and the server goes on', async () => {
    const request = (line: string, ...headers: string[]) =>
      `${[line, 'Host: localhost', 'Connection: close', ...headers].join('\r\n')}\r\n\r\n`;
    const odd = [
      ...['GET', 'HEAD', 'OPTIONS', 'TRACE', 'PROPFIND', 'DELETE', 'PATCH', 'QUERY'].map((m) =>
        request(`${m} /v1/episodes HTTP/1.1`),
      ),
      ...[
        '*',
        '//',
        '/%',
        '/%zz',
        '/%00',
        '/v1/episodes/%ff',
        '/v1//episodes',
        'http://localhost/v1/episodes',
        '/?',
        '/#',
        `/${'a'.repeat(9000)}`,
      ].map((path) => request(`GET ${path} HTTP/1.1`)),
      ...[
        'application/json garbage',
        'application/json;',
        ';',
        'a/b/c',
        'x'.repeat(5000),
        'application/json; charset=utf-7',
        '\t',
      ].map((type) => `${request('POST /v1/events HTTP/1.1', `Content-Type: ${type}`, 'Content-Length: 2')}{}`),
      ...['gzip', 'gzip, gzip', 'deflate', 'zstd', 'GZIP', '__proto__', 'constructor', ''].map(
        (coding) =>
          `${request('POST /v1/events HTTP/1.1', 'Content-Type: application/json', `Content-Encoding: ${coding}`, 'Content-Length: 2')}{}`,
      ),
      request('GET / HTTP/1.1', 'Expect: 200-ok'),
      request('GET / HTTP/1.1', 'Upgrade: websocket', 'Connection: upgrade'),
      request('CONNECT localhost:80 HTTP/1.1'),
    ];
    for (const bytes of odd) {
      const { status } = await raw(bytes);
      if (status >= 500) expect.fail(`${bytes.slice(0, 200)}: ${status}`);
    }
    expect((await raw(request('GET /healthz HTTP/1.1'))).status).toBe(200);
  });

  it('a request that names two hosts is refused, whichever comes first', async () => {
    for (const second of ['127.0.0.1', 'evil.example'])
      expect(
        (await raw(`GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nhOST: ${second}\r\n\r\n`)).status,
      ).toBe(400);
  });
});
