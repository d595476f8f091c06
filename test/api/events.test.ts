import { brotliCompressSync, gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { serve } from '../../api/http/serve.ts';
import { TroupeError } from '../../errors.ts';
import { createRecorder } from '../../ingest/recorder/recorder.ts';
import { expectBelow } from '../support/measured.ts';
import { anEvent, post, type TestApp, testApp } from './support/app.ts';

let at: TestApp;
beforeAll(async () => {
  at = await testApp();
});
afterAll(() => at.close());

describe('POST /v1/events', () => {
  it('takes one event, and knows it when it comes again', async () => {
    const first = await post(at.app, anEvent('one'), { 'content-type': 'application/cloudevents+json' });
    expect(first.statusCode).toBe(200);
    expect(first.json()).toEqual({ received: 1, accepted: 1, duplicates: 0, rejected: 0, items: [], errors: [] });
    const again = await post(at.app, anEvent('one'));
    expect(again.json()).toMatchObject({ received: 1, accepted: 0, duplicates: 1, rejected: 0 });
    const { rows } = await at.db.query("select id from troupe.events where id = 'one'");
    expect(rows).toHaveLength(1);
  });

  it('P7: a partly bad batch answers per item, keeps the good part, and keeps the bad ones as dead letters with their raw text', async () => {
    const batch = [
      JSON.stringify(anEvent('good-1', 'p7')),
      '{"id":"broken",',
      `{"id":"deep","data":${'['.repeat(200)}${']'.repeat(200)}}`,
      '{"specversion":"1.0","id":"exact","source":"/test","type":"troupe.message.sent.v1","data":{"seq":9007199254740993}}',
      JSON.stringify({ ...anEvent('unknown', 'p7'), type: 'troupe.nothing.v1' }),
      JSON.stringify(anEvent('good-1', 'p7', { content: 'something else' })),
      '17',
      JSON.stringify(anEvent('good-2', 'p7')),
    ];
    // The unfinished object swallows no neighbour when records come as lines.
    const answer = await post(at.app, batch.join('\n'), { 'content-type': 'application/x-ndjson' });
    expect(answer.statusCode).toBe(207);
    const body = answer.json();
    expect(body).toMatchObject({ received: 8, accepted: 2, duplicates: 0, rejected: 6 });
    expect(body.items.map(({ index, id, code }: Record<string, unknown>) => [index, id, code])).toEqual([
      [1, null, 'bad_json'],
      [2, null, 'too_deep'],
      [3, null, 'bad_number'],
      [4, 'unknown', 'unknown_event'],
      [5, 'good-1', 'id_conflict'],
      [6, null, 'bad_shape'],
    ]);
    for (const item of body.items)
      expect(item).toMatchObject({ status: 'rejected', expected: expect.any(String), got: expect.any(String) });
    const { rows } = await at.db.query<{ place: string; raw: Buffer }>(
      "select place, raw from troupe.dead_letters where endpoint = 'http' order by dead_letter_id",
    );
    expect(rows.map(({ place, raw }) => [place, raw.toString()])).toEqual(
      [1, 2, 3, 4, 5, 6].map((i) => [`line ${i + 1}`, batch[i]]),
    );
  });

  it('lists every item when asked to', async () => {
    const answer = await post(
      at.app,
      [anEvent('v1', 'verbose'), anEvent('v1', 'verbose'), 5],
      {},
      '/v1/events?verbose=1',
    );
    expect(answer.json()).toMatchObject({
      items: [
        { index: 0, id: 'v1', status: 'accepted' },
        { index: 1, id: 'v1', status: 'duplicate' },
        { index: 2, id: null, status: 'rejected', code: 'bad_shape' },
      ],
      errors: [{ index: 2 }],
    });
  });

  it('cuts an array into its elements, whatever is in their strings', async () => {
    const texts = ['],[', '"\\"', '}{', '\\', 'a\u2028b', '[['];
    const body = ` [ ${texts.map((content, i) => JSON.stringify(anEvent(`cut-${i}`, 'cut', { content }))).join(' ,\n ')} ] \n`;
    expect((await post(at.app, body, { 'content-type': 'application/cloudevents-batch+json' })).json()).toMatchObject({
      accepted: texts.length,
    });
    const { rows } = await at.db.query<{ text: string }>(
      "select data ->> 'content' as text from troupe.events where key = 'e/cut' order by id",
    );
    expect(rows.map(({ text }) => text)).toEqual(texts);
  });

  it('skips empty lines, and refuses a line that is not UTF-8 alone', async () => {
    const lines = [
      Buffer.from(`${JSON.stringify(anEvent('l1', 'lines'))}\r\n\n`),
      Buffer.from([0xff, 0xfe, 10]),
      Buffer.from(JSON.stringify(anEvent('l2', 'lines'))),
    ];
    const answer = await post(at.app, Buffer.concat(lines), { 'content-type': 'application/x-ndjson' });
    expect(answer.json()).toMatchObject({
      received: 3,
      accepted: 2,
      rejected: 1,
      items: [{ index: 1, code: 'bad_json', expected: 'UTF-8' }],
    });
  });

  const json = 'application/json';
  it.each([
    ['nothing', '', json, 400, 'bad_shape'],
    ['words', 'hello', json, 400, 'bad_json'],
    ['a number', '42', json, 400, 'bad_shape'],
    ['null', 'null', json, 400, 'bad_shape'],
    ['half an object', '{"id":', json, 400, 'bad_json'],
    ['half an array', '[{"id":1}', json, 400, 'bad_json'],
    ['an array with a hole', '[1,,2]', json, 400, 'bad_json'],
    ['an array with a trailing comma', '[1,]', json, 400, 'bad_json'],
    ['an array with more behind it', '[] []', json, 400, 'bad_json'],
    ['a string that does not end', '["abc', json, 400, 'bad_json'],
    ['brackets that do not match', '[}]', json, 400, 'bad_json'],
    ['bytes that are not UTF-8', Buffer.from([0x7b, 0xff, 0x7d]), json, 400, 'bad_json'],
    ['an object as a batch', '{}', 'application/cloudevents-batch+json', 400, 'bad_shape'],
    ['text', 'hello', 'text/plain', 415, 'unsupported_media'],
    ['a form', 'a=b', 'application/x-www-form-urlencoded', 415, 'unsupported_media'],
    ['another charset', '{}', 'application/json; charset=utf-16', 415, 'unsupported_media'],
  ])('answers %s with a problem that says what was expected', async (_what, body, type, status, code) => {
    const answer = await post(at.app, body, { 'content-type': type });
    expect(answer.statusCode).toBe(status);
    expect(answer.headers['content-type']).toContain('application/problem+json');
    expect(answer.json()).toMatchObject({
      type: `urn:troupe:error:${code}`,
      title: expect.any(String),
      status,
      code,
      detail: expect.any(String),
      expected: expect.any(String),
      got: expect.any(String),
      request_id: answer.headers['x-request-id'],
    });
  });

  it.each(['[]', ' [ \n ] '])('takes an empty batch %j', async (body) => {
    const answer = await post(at.app, body);
    expect([answer.statusCode, answer.json().received]).toEqual([200, 0]);
  });

  it('refuses query parameters that it does not know', async () => {
    const answer = await post(at.app, anEvent('q'), {}, '/v1/events?verbos=1');
    expect([answer.statusCode, answer.json().field, answer.json().expected]).toEqual([400, 'verbos', 'one of verbose']);
  });

  it('reads gzip, deflate and br, and answers zstd with 415', async () => {
    const body = Buffer.from(JSON.stringify([anEvent('z1', 'zip'), anEvent('z2', 'zip')]));
    expect((await post(at.app, gzipSync(body), { 'content-encoding': 'gzip' })).json()).toMatchObject({ accepted: 2 });
    expect((await post(at.app, brotliCompressSync(body), { 'content-encoding': 'br' })).json()).toMatchObject({
      duplicates: 2,
    });
    for (const encoding of ['zstd', 'gzip, gzip']) {
      const answer = await post(at.app, body, { 'content-encoding': encoding });
      expect([answer.statusCode, answer.json().field]).toEqual([415, 'Content-Encoding']);
    }
    const cut = await post(at.app, gzipSync(body).subarray(0, 30), { 'content-encoding': 'gzip' });
    expect([cut.statusCode, cut.json().code]).toEqual([400, 'bad_shape']);
  });

  it('P42: a small body that inflates to gigabytes is refused before it is', async () => {
    const bomb = gzipSync(Buffer.alloc(64 * 1024 * 1024, 32));
    const before = process.memoryUsage().rss;
    const answer = await post(at.app, bomb, { 'content-encoding': 'gzip' });
    expect([answer.statusCode, answer.json().code]).toEqual([413, 'too_large']);
    expectBelow(process.memoryUsage().rss - before, 200 * 1024 * 1024);
  });

  it('P44: the body limit holds at one byte less, the limit, and one more, equal for identity, gzip and br', async () => {
    const limit = 4096;
    const small = await testApp({ bodyLimit: limit });
    const bodyOf = (bytes: number, id: string) => {
      const text = JSON.stringify(anEvent(id, 'limit'));
      return Buffer.from(text + ' '.repeat(bytes - text.length));
    };
    const codings = {
      identity: (b: Buffer) => b,
      gzip: (b: Buffer) => gzipSync(b),
      br: (b: Buffer) => brotliCompressSync(b),
    };
    for (const [encoding, code] of Object.entries(codings)) {
      const statuses: number[] = [];
      for (const size of [limit - 1, limit, limit + 1]) {
        statuses.push(
          (await post(small.app, code(bodyOf(size, `${encoding}-${size}`)), { 'content-encoding': encoding }))
            .statusCode,
        );
      }
      expect([encoding, ...statuses]).toEqual([encoding, 200, 200, 413]);
    }
    await small.close();
  });

  it('P44: the number of records in one request is limited', async () => {
    const many = await post(at.app, `[${'0,'.repeat(10_000)}0]`);
    expect([many.statusCode, many.json().code]).toEqual([413, 'too_large']);
  });

  it('P6: answers 503 with Retry-After when the log is away, and acknowledges nothing', async () => {
    const away = await testApp({
      log: {
        name: 'away',
        append: () => Promise.reject(new TroupeError('unreachable', 'The log is away.')),
        close: async () => {},
      },
    });
    const answer = await post(away.app, anEvent('lost'));
    expect([answer.statusCode, answer.json().code, answer.headers['retry-after']]).toEqual([503, 'unreachable', '1']);
    await away.close();
  });

  it('writes an outage to its log, once for all of its requests', async () => {
    const away = await testApp({
      log: {
        name: 'full',
        append: () => Promise.reject(new TroupeError('disk_full', 'The disk of the log is full.')),
        close: async () => {},
      },
    });
    const written: string[] = [];
    const write = process.stderr.write;
    process.stderr.write = ((line: string) => written.push(line) > 0) as never;
    try {
      for (const id of ['first', 'second']) expect((await post(away.app, anEvent(id))).statusCode).toBe(503);
    } finally {
      process.stderr.write = write;
    }
    const lines = written.map((line) => JSON.parse(line)).filter(({ msg }) => msg.includes('503'));
    expect(lines).toEqual([
      expect.objectContaining({
        level: 'warn',
        route: '/v1/events',
        msg: 'Requests are answered with 503 disk_full: The disk of the log is full.',
        request_id: expect.any(String),
      }),
    ]);
    await away.close();
  });

  it('works with the recorder: what it refuses is reported by item', async () => {
    const { url } = await serve(at.app, { host: '127.0.0.1', port: 0 });
    const recorder = createRecorder({ baseUrl: url, source: '/team', tries: 1 });
    recorder.episode({ episode_id: 'rec' });
    recorder.finish({ episode_id: 'rec', outcome: 'success' });
    expect(await recorder.flush()).toEqual({ sent: 2, accepted: 2, duplicates: 0 });
    recorder.finish({ episode_id: 'rec', outcome: 'perhaps' as 'success' });
    await expect(recorder.flush()).rejects.toMatchObject({ rejected: [{ field: 'data.outcome' }] });
  });

  it('keeps the books: received = acknowledged + duplicates + rejected', async () => {
    const metrics = (await at.app.inject('/metrics')).body;
    const count = (kind: string) =>
      Number(new RegExp(`troupe_ingest_events_total\\{endpoint="http",kind="${kind}"\\} (\\d+)`).exec(metrics)?.[1]);
    expect(count('received')).toBe(count('acknowledged') + count('duplicates') + count('rejected'));
    expect(count('rejected')).toBeGreaterThan(6);
  });
});
