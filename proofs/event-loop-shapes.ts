/** Requests that cost a server much for what they cost their sender: shapes made by hand, and generated ones. */
import { brotliCompressSync, gzipSync } from 'node:zlib';
import type { Draw } from './draw.ts';
import { MODELS, NAMES } from './event-loop-home.ts';

export type Shape = {
  readonly name: string;
  readonly method: 'GET' | 'POST';
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Buffer;
};

const KIB = 1024;
/** Just below the size that goes to another thread. */
const LIGHT = 255 * KIB;
/** Just below the number of separators that does. */
const SEPARATORS = 2_990;

const json = { 'content-type': 'application/json' };
const lines = { 'content-type': 'application/x-ndjson' };
const protobuf = { 'content-type': 'application/x-protobuf' };

const sql = (text: string, limit: number): string =>
  JSON.stringify({ sql: text, limit, max_bytes: 64 * KIB * KIB, timeout_ms: 60_000 });

const asked = (path: string, stream: boolean): string => {
  const model = 'policy:tiny';
  if (path === '/v1/responses') return JSON.stringify({ model, stream, input: 'word1', max_output_tokens: 900 });
  const messages = [{ role: 'user', content: 'word1' }];
  if (path === '/v1/messages') return JSON.stringify({ model, stream, messages, max_tokens: 900 });
  const many = { n: 32, max_tokens: 400, logprobs: true, top_logprobs: 20, raw_logprobs: true };
  return JSON.stringify({ model, stream, messages, ...many });
};

const eventOf = (data: string, id = 'x'): string =>
  `{"specversion":"1.0","type":"troupe.message.sent.v1","source":"/s","id":"${id}","data":${data}}`;
const messageOf = (content: string): string =>
  eventOf(`{"episode_id":"shapes","message_id":"m","from":"a","content":${JSON.stringify(content)}}`);
const filled = (piece: string, bytes = LIGHT): string => piece.repeat(Math.floor(bytes / Buffer.byteLength(piece)));

/** Texts that patterns for secrets, escapes and Markdown stumble over. */
const TEXTS: Readonly<Record<string, string>> = {
  'of one letter': 'a',
  'of escapes': '\u0000',
  'of quotes': '"',
  'of beginnings of tokens': 'eyJ',
  'of beginnings of tokens with dots': 'eyJhbGciOi.',
  'of beginnings of access keys': 'AKIA',
  'of PEM headers': '-----BEGIN PRIVATE KEY-----',
  'of addresses with passwords': 'postgres://a:b@',
  'of addresses without an end': 'https://u:',
  'of words before an equals sign': 'password = ',
  'of bearers': 'Bearer ',
  'of prefixes of keys': 'sk-',
  'of half keys of ours': 'troupe_0123456789A_',
  'of characters outside the first plane': '\u{1f600}',
};

export function shapesByHand(): readonly Shape[] {
  const events = (name: string, body: string | Buffer, headers: Shape['headers'] = json): Shape => ({
    name,
    method: 'POST',
    path: '/v1/events',
    headers,
    body,
  });
  const get = (path: string, name = path): Shape => ({ name: `GET ${name}`, method: 'GET', path });
  const post = (path: string, name: string, body: string | Buffer, headers: Shape['headers'] = json): Shape => ({
    name: `POST ${path}: ${name}`,
    method: 'POST',
    path,
    headers,
    body,
  });
  return [
    ...Object.entries(TEXTS).map(([name, piece]) => events(`a message ${name}`, messageOf(filled(piece, LIGHT / 7)))),
    ...Object.entries(TEXTS).map(([name, piece]) =>
      events(
        `255 KiB as sent, a message ${name}`,
        messageOf(piece.repeat(Math.max(1, Math.floor((LIGHT - 300) / JSON.stringify(piece).length)))),
      ),
    ),
    events('2,990 empty lines', filled('\n', SEPARATORS), lines),
    events('2,990 lines of one number', filled('1\n', SEPARATORS * 2), lines),
    events(
      '1,000 small events',
      Array.from({ length: 900 }, (_, i) =>
        eventOf('{"episode_id":"e"}', `i${i}`).replace('message.sent', 'episode.started'),
      )
        .join('\n')
        .slice(0, LIGHT),
      lines,
    ),
    events('a list of 2,990 numbers', `[${filled('1,', SEPARATORS * 2)}1]`),
    events('a list of 2,990 lists', `[${filled('[],', SEPARATORS * 3)}[]]`),
    events('an object of 2,990 names', `{${Array.from({ length: SEPARATORS }, (_, i) => `"n${i}":${i}`).join(',')}}`),
    events(
      'data of 1,400 names that are alike',
      eventOf(
        `{"episode_id":"e","message_id":"m","x":{${Array.from({ length: 1400 }, (_, i) => `"${'k'.repeat(160)}${i}":1`).join(',')}}}`,
      ),
    ),
    events('brackets 100,000 deep', '['.repeat(100_000)),
    events('255 KiB of open braces', filled('{"a":')),
    events('a number of 255 KiB digits', filled('9')),
    events('a string without an end', `"${filled('\\u0041', LIGHT - 10)}`),
    events('255 KiB of bytes that are no UTF-8', Buffer.alloc(LIGHT, 0xff)),
    events('255 KiB of spaces', filled(' ')),
    events('32 MiB of spaces', filled(' ', 32 * KIB * KIB)),
    events('100,000 lines', filled('{}\n', 300_000), lines),
    events('16 MiB in one message', messageOf(filled('a', 16 * KIB * KIB))),
    events('gzip of 255 KiB of zeros', gzipSync(Buffer.alloc(LIGHT)), { ...json, 'content-encoding': 'gzip' }),
    events('gzip of 256 MiB of zeros', gzipSync(Buffer.alloc(256 * KIB * KIB)), {
      ...json,
      'content-encoding': 'gzip',
    }),
    events('brotli of 255 KiB of spaces', brotliCompressSync(Buffer.alloc(LIGHT, 32)), {
      ...json,
      'content-encoding': 'br',
    }),
    post('/v1/traces', '255 KiB of empty fields', Buffer.alloc(LIGHT, Buffer.from([0x1a, 0x00])), protobuf),
    post('/v1/traces', '255 KiB of nested fields', nested(LIGHT), protobuf),
    post(
      '/v1/traces',
      '255 KiB of resource spans without content',
      Buffer.alloc(LIGHT, Buffer.from([0x0a, 0x00])),
      protobuf,
    ),
    post('/v1/traces', 'resource spans nested in JSON', `{"resourceSpans":[${filled('{},', SEPARATORS * 3)}{}]}`),
    post(
      '/v1/chat/completions',
      '900 messages',
      JSON.stringify({
        model: 'none',
        messages: Array.from({ length: 900 }, () => ({ role: 'user', content: 'x'.repeat(200) })),
      }),
    ),
    post(
      '/v1/chat/completions',
      'one message of 250 KiB',
      JSON.stringify({ model: 'none', messages: [{ role: 'user', content: filled('y', LIGHT - 200) }] }),
    ),
    get('/v1/episodes?task_id=small&limit=500', 'a page of 500 episodes'),
    get('/v1/episodes?task_id=wide&limit=500', 'a page of episodes with 200 KB of tags each'),
    ...MODELS.map((model) =>
      post(
        model === 'many-vectors' ? '/v1/embeddings' : '/v1/chat/completions',
        `a model server that answers with ${model.replaceAll('-', ' ')}`,
        JSON.stringify({
          model,
          input: 'x',
          messages: [{ role: 'user', content: 'x' }],
          stream: model.endsWith('stream'),
        }),
      ),
    ),
    ...[false, true].flatMap((stream) =>
      ['/v1/chat/completions', '/v1/responses', '/v1/messages'].map((path) =>
        post(
          path,
          `a policy that answers with ${path === '/v1/chat/completions' ? '32 long texts and their log-probabilities' : 'a long text'}${stream ? ', streamed' : ''}`,
          asked(path, stream),
        ),
      ),
    ),
    ...['application/json', 'text/csv', 'application/vnd.apache.arrow.stream'].flatMap((accept) => [
      post('/v1/sql', `5,000 rows as ${accept}`, sql('select * from traj.episodes limit 5000', 50_000), {
        ...json,
        accept,
      }),
      post(
        '/v1/sql',
        `rows of 1 MB as ${accept}`,
        sql("select repeat('x', 1000000) from generate_series(1, 60)", 100),
        {
          ...json,
          accept,
        },
      ),
      post(
        '/v1/sql',
        `1,000,000 small rows as ${accept}`,
        sql('select n, n::text from generate_series(1, 1000000) n', 1_000_000),
        {
          ...json,
          accept,
        },
      ),
    ]),
    get(`/v1/plans/${NAMES.run}`, 'a run of a plan with long results'),
    get('/v1/jobs?limit=500', 'jobs'),
    get(`/v1/jobs/${NAMES.run}`, 'a job with a long result'),
    get(`/v1/compare?first=${NAMES.teams[0]}&second=${NAMES.teams[1]}`, 'two teams compared over 3,000 tasks'),
    get(`/v1/lineage/${NAMES.episode}?depth=10`, 'the lineage of a long episode'),
    get('/v1/rounds'),
    get(`/v1/episodes/${NAMES.episode}`, 'a long episode'),
    get(`/v1/episodes/${NAMES.episode}?tokens=true`, 'a long episode with its tokens'),
    get(`/v1/episodes?${Array.from({ length: 300 }, (_, i) => `tag.t${i}=1`).join('&')}`, 'episodes by 300 tags'),
    get(`/v1/episodes/${'%F0%9F%98%80'.repeat(150)}`, 'an id of 150 characters in percent'),
    get('/metrics'),
    get('/openapi.json'),
    get('/readyz'),
    get('/ui/page.js'),
  ];
}

/** Lengths of nested messages, from the innermost, in at most so many bytes. */
function nested(bytes: number): Buffer {
  let whole = Buffer.alloc(0);
  const heads: Buffer[] = [];
  let size = 0;
  while (size < bytes - 8) {
    const length: number[] = [];
    for (let left = size; ; left >>>= 7) {
      length.push(left > 127 ? (left & 127) | 128 : left);
      if (left <= 127) break;
    }
    const head = Buffer.from([0x0a, ...length]);
    heads.push(head);
    size += head.length;
  }
  whole = Buffer.concat(heads.reverse());
  return whole;
}

const PIECES = [
  '{',
  '}',
  '[',
  ']',
  '"',
  '\\',
  ',',
  ':',
  '1',
  '-',
  '1e9',
  'null',
  '\n',
  ' ',
  'a',
  '\u0000',
  '\ufffe',
  '\u{1f600}',
  'eyJ',
  'sk-',
  '@',
  '/',
  'https://',
  '"type":"troupe.message.sent.v1"',
  eventOf('{}'),
  messageOf('x'),
];
const POSTS = [
  '/v1/events',
  '/v1/traces',
  '/v1/logs',
  '/v1/chat/completions',
  '/v1/completions',
  '/v1/responses',
  '/v1/embeddings',
  '/api/public/ingestion',
  '/runs/batch',
  '/runs/multipart',
  '/v1/traces/ingest',
];
const TYPES = [
  'application/json',
  'application/x-ndjson',
  'application/cloudevents+json',
  'application/cloudevents-batch+json',
  'application/x-protobuf',
  'multipart/form-data; boundary=x',
  'text/plain',
];
const GETS = [
  '/v1/episodes',
  '/v1/episodes/x',
  '/v1/jobs',
  '/v1/checkpoints',
  '/v1/releases',
  '/v1/datasets',
  '/v1/compare',
  '/v1/models',
  '/',
];

/** Any request: up to 255 KiB of pieces that parsers stumble over, repeated and mixed, or a list asked in an odd way. */
export function generated({ uniform, integer, chance, one, list }: Draw, i: number): Shape {
  if (chance(0.15)) {
    const query = Array.from(
      { length: integer(0, 40) },
      () => `${one(['limit', 'after', 'tag.a', 'outcome', 'x'])}=${encodeURIComponent(one(PIECES).slice(0, 20))}`,
    );
    const path = `${one(GETS)}?${query.join('&')}`;
    return { name: `generated ${i}: GET ${path.slice(0, 40)}`, method: 'GET', path };
  }
  const bytes = Math.floor(2 ** uniform(0, 18));
  const few = list(integer(1, 6), () => one(PIECES));
  let body = '';
  while (body.length < bytes) body += chance(0.8) ? few.join('') : one(few).repeat(integer(1, 200));
  body = body.slice(0, bytes);
  if (chance(0.3)) body = messageOf(body.slice(0, bytes / 3));
  const [path, type] = [one(POSTS), one(TYPES)];
  const packed = chance(0.1);
  return {
    name: `generated ${i}: POST ${path}, ${type}, ${body.length} characters of ${JSON.stringify(few.join('').slice(0, 30))}`,
    method: 'POST',
    path,
    headers: { 'content-type': type, ...(packed ? { 'content-encoding': 'gzip' } : {}) },
    body: packed ? gzipSync(body) : body,
  };
}
