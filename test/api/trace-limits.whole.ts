/** What the endpoints for traces take at most, and that what they take comes back as it was sent. */
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { MAX_REPEATED } from '../../api/http/routes/otlp.ts';
import { canonicalJson } from '../../ingest/events/json.ts';
import { spanId, TRACE } from '../ingest/support/spans.ts';
import '../support/replay.ts';
import { type TestApp, testApp } from './support/app.ts';

const BODY_LIMIT = 4 * 1024 * 1024;
let at: TestApp;
beforeAll(async () => {
  at = await testApp({ bodyLimit: BODY_LIMIT });
});
afterAll(() => at.close());

const CODECS = {
  identity: (bytes: Buffer) => bytes,
  gzip: (bytes: Buffer) => gzipSync(bytes, { level: 1 }),
  br: (bytes: Buffer) => brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } }),
} as const;
type Codec = keyof typeof CODECS;

const post = (payload: Buffer | object, encoding: Codec | 'x' = 'identity', type = 'application/json') =>
  at.app.inject({
    method: 'POST',
    url: '/v1/traces',
    headers: { 'content-type': type, 'content-encoding': encoding },
    payload: Buffer.isBuffer(payload) ? payload : Buffer.from(JSON.stringify(payload)),
  });

describe('the limits of a request of traces', () => {
  it('P44: of what spans repeat of their resource holds at the limit and one more', async () => {
    const room = 3 * 1024 * 1024;
    const most = Math.floor(MAX_REPEATED / room);
    // With its member, its key and its value around it the resource takes the room.
    const around = canonicalJson({ attributes: [{ key: 'a', value: { stringValue: '' } }] }).length;
    const resource = { attributes: [{ key: 'a', value: { stringValue: 'x'.repeat(room - around) } }] };
    const spans = (n: number) => Array.from({ length: n }, (_, i) => ({ traceId: TRACE, spanId: spanId(i + 1) }));
    const rejected: string[] = [];
    for (const n of [most, most + 1]) {
      const answer = await post({ resourceSpans: [{ resource, scopeSpans: [{ spans: spans(n) }] }] });
      rejected.push(answer.json().partialSuccess?.rejectedSpans ?? '0');
    }
    expect(rejected).toEqual(['0', '1']);
  });
});
