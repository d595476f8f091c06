/** Files in and out of a project over HTTP: import and backup. */
import { gunzipSync, gzipSync } from 'node:zlib';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { connect } from '../../api/client/client.ts';
import { createKey } from '../../store/keys/api-keys.ts';
import { chats, lines } from '../cli/support/chats.ts';
import { type TestApp, testApp } from './support/app.ts';

let at: TestApp;
let url: string;
let stopped = false;
let projecting: Promise<void>;
const keys = new Map<string, string>();
beforeAll(async () => {
  at = await testApp();
  for (const scope of ['ingest', 'admin'] as const)
    keys.set(scope, (await createKey(at.db, { name: scope, scopes: [scope], expiresAt: null })).text);
  url = await at.app.listen({ host: '127.0.0.1', port: 0 });
  projecting = (async () => {
    while (!stopped) {
      await at.project();
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  })();
});
afterAll(async () => {
  stopped = true;
  await projecting;
  await at.close();
});

const as = (scope: string) => connect({ url, key: keys.get(scope)! });

it('imports the content of a body, which is streamed in and may be compressed, and closes its episodes', async () => {
  const content = Buffer.from(lines(chats(16)));
  async function* pieces() {
    for (let from = 0; from < content.length; from += 100) yield content.subarray(from, from + 100);
  }
  const report = await as('ingest').import({}, { content: pieces() });
  expect(report).toMatchObject({ episodes: 8, steps: 16, errors: [], stays_open: [] });
  const { rows } = await at.db.query('select bool_and(closed) as closed, count(*)::int as n from facts.episodes');
  expect(rows).toEqual([{ closed: true, n: 8 }]);
  const again = await as('ingest').import({}, { content: gzipSync(content) });
  expect(again.events).toMatchObject({ accepted: 0, duplicates: report.events.accepted });
});

it('names what it refused by its line, and no folder of the server', async () => {
  const report = await as('ingest').import({ format: 'openai-chat' }, { content: Buffer.from('{"a":\n{}\n') });
  expect(report.errors[0]).toMatchObject({ file: 'content', line: 1, code: 'bad_json' });
  expect(JSON.stringify(report)).not.toContain('/tmp');
  await expect(as('ingest').import({ format: './mine.ts' }, {})).rejects.toMatchObject({ code: 'usage' });
  await expect(as('ingest').import({ format: 'mine.ts' }, {})).rejects.toMatchObject({ code: 'usage' });
});

it('takes events about training only from a key that may train', async () => {
  const saved = {
    ...{
      specversion: '1.0',
      type: 'troupe.checkpoint.saved.v1',
      source: '/test',
      id: 'c',
      time: '2026-01-01T00:00:00Z',
    },
    data: { checkpoint_id: 'c', policy: 'p', uri: 'file:///c', kept: true },
  };
  const content = Buffer.from(lines([saved]));
  await expect(as('ingest').import({}, { content })).rejects.toMatchObject({ code: 'scope_missing' });
  expect((await as('admin').import({}, { content })).events.accepted).toBe(1);
});

it('answers with a whole backup', async () => {
  const parts: Uint8Array[] = [];
  const report = await as('admin').backup({}, { onResult: (bytes) => parts.push(bytes) });
  expect(report).toMatchObject({ file: 'result', bytes: Buffer.concat(parts).length });
  const tar = gunzipSync(Buffer.concat(parts)).toString('latin1');
  expect([tar.startsWith('backup.json'), tar.includes('complete.json')]).toEqual([true, true]);
});
