/** P48 at all ingestion endpoints: whatever a file of any format holds a secret in, neither log, dead letters nor artifacts hold it afterwards. */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, extname, join } from 'node:path';
import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import { createRedactor } from '../../ingest/events/redact.ts';
import { importFiles } from '../../ingest/files/import.ts';
import { postgresBook, postgresLog } from '../../ingest/log/postgres.ts';
import { redacting } from '../../ingest/log/redact-ports.ts';
import { testApp } from '../api/support/app.ts';
import { CANARIES } from './support/canaries.ts';
import { memoryLog } from './support/memory-log.ts';
import { completion, FAILURE_LOG, SERVICE_RUN } from './support/native-samples.ts';
import { aTrace, request } from './support/spans.ts';

const folder = mkdtempSync(join(tmpdir(), 'troupe-canaries-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const redactor = createRedactor();

/** Paths to all texts of a value. */
function textsOf(value: unknown, path: readonly (string | number)[] = []): (readonly (string | number)[])[] {
  if (typeof value === 'string') return [path];
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, member]) => textsOf(member, [...path, key]));
}

function planted(value: unknown, [head, ...rest]: readonly (string | number)[], secret: string): unknown {
  if (head === undefined) return typeof value === 'string' && value.length > 3 ? `${value} ${secret}` : secret;
  const copy = Array.isArray(value) ? [...value] : { ...(value as object) };
  const record = copy as Record<string | number, unknown>;
  record[head] = planted(record[head], rest, secret);
  return copy;
}

/** Everything that an import of this text keeps, as one text. */
async function kept(name: string, text: string): Promise<string> {
  const file = join(folder, name);
  writeFileSync(file, text);
  const memory = memoryLog();
  await importFiles([file], redacting(memory, redactor));
  const { events, reports, bodies } = memory;
  const letters = memory
    .letters()
    .map(({ raw, refusal }) => `${Buffer.from(raw).toString('latin1')} ${JSON.stringify(refusal)}`);
  return [
    ...events.map(({ id, source, key, json }) => `${id} ${source} ${key} ${json}`),
    ...[...bodies.values()].map((body) => body.toString('utf8')),
    ...letters,
    JSON.stringify(reports.map(({ endpoint }) => endpoint)),
  ].join('\n');
}

const OWN: readonly (readonly [name: string, value: unknown])[] = [
  ['who-when.json', FAILURE_LOG],
  ['tau.json', [SERVICE_RUN]],
  ['completions.jsonl', completion('run', 0, 'hello')],
  ['spans.json', request(aTrace())],
  [
    'events.jsonl',
    { id: 'i', source: '/s', type: 'troupe.task.defined.v1', data: { task_id: 't', query: 'q', tags: { a: 'b' } } },
  ],
];

const root = process.env.TROUPE_DATA ?? '';
/** The published-shape samples: a file, and one record of it where it has lines. */
function samples(): (readonly [name: string, value: unknown])[] {
  if (root === '') return [];
  return readdirSync(join(root, 'samples'), { recursive: true, encoding: 'utf8' })
    .filter((file) => /\/[^/]+\.jsonl?$/.test(file) && !basename(file).startsWith('bad') && extname(file) !== '.pb')
    .map((file) => {
      const text = readFileSync(join(root, 'samples', file), 'utf8');
      const value = file.endsWith('l') ? JSON.parse(text.split('\n')[0]!) : JSON.parse(text);
      return [file.replaceAll('/', '-'), value] as const;
    });
}

describe('P48: secrets never reach the log', () => {
  const all = [...OWN, ...samples()];
  const secrets = Object.values(CANARIES).filter((secret) => !secret.includes('\n'));

  it.each(all)('in %s, whichever text holds one', async (name, value) => {
    const paths = textsOf(value);
    const chosen = fc.sample(
      fc.tuple(fc.constantFrom(...paths), fc.constantFrom(...secrets)),
      Math.min(6, paths.length),
    );
    for (const [path, secret] of chosen) {
      const text = `${JSON.stringify(planted(value, path, secret))}\n`;
      const found = await kept(name, text);
      expect(found.includes(secret.slice(8, 24)), `${path.join('.')} ${secret.slice(0, 5)}`).toBe(false);
    }
  });

  it('over HTTP: in the event, in what is refused and in an id; sent again it is a duplicate', async () => {
    const server = await testApp();
    const { db } = server;
    const { log, book } = redacting(
      { log: postgresLog(db), book: postgresBook(db), artifacts: memoryLog().artifacts },
      redactor,
    );
    const guarded = await testApp({ log, book, redactor });
    const secret = CANARIES.github_token!;
    const line = (id: string, data: object) => ({
      specversion: '1.0',
      id,
      source: '/s',
      type: 'troupe.tool.returned.v1',
      data,
    });
    const fine = line('a', { episode_id: 'e', tool_call_id: 't', status: 'ok', output: { env: `TOKEN=${secret}` } });
    const post = (events: object[]) =>
      guarded.app.inject({
        method: 'POST',
        url: '/v1/events',
        headers: { 'content-type': 'application/json' },
        payload: JSON.stringify(events),
      });
    const bad = [
      line('b', { episode_id: 'e', tool_call_id: 't', status: secret }),
      line(secret, { episode_id: 'e', tool_call_id: 't', status: 'ok' }),
    ];
    expect((await post([fine, ...bad])).json()).toMatchObject({ accepted: 1, rejected: 2 });
    expect((await post([fine])).json()).toMatchObject({ accepted: 0, duplicates: 1 });
    const { rows } = await db.query<{ text: string }>(
      `select (e.*)::text as text from troupe.events e union all select encode(raw, 'escape') || code || field || expected || got from troupe.dead_letters`,
    );
    expect(rows).toHaveLength(3);
    expect(rows.filter(({ text }) => text.includes(secret.slice(8, 24)))).toEqual([]);
    const { rows: found } = await db.query('select episode_id, event, rule, count from traj.redactions');
    expect(found).toEqual([{ episode_id: 'e', event: 'tool.returned', rule: 'github_token', count: 1 }]);
    expect((await guarded.app.inject('/metrics')).body).toMatch(/troupe_redactions_total\{rule="github_token"\} [1-9]/);
    await Promise.all([server.close(), guarded.close()]);
  });

  it.skipIf(root === '')(
    'the samples themselves hold nothing that looks like one (TROUPE_DATA names their folder)',
    () => {
      for (const [name, value] of samples()) expect(redactor.value(value), name).toBe(value);
    },
  );
});
