/** `troupe`, `troupe/recorder` and `troupe/client` as another program imports them. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import * as client from '../api/client/client.ts';
import * as clientWrapper from '../bin/client.js';
import * as wrapper from '../bin/index.js';
import * as recorderWrapper from '../bin/recorder.js';
import { openProject, type Project } from '../cli/open-project.ts';
import { roleSettings } from '../cli/processes/children.ts';
import { loadConfig } from '../config.ts';
import * as index from '../index.ts';
import * as recorder from '../ingest/recorder/recorder.ts';
import { chats, lines } from './cli/support/chats.ts';
import { freshDatabase, type TestDatabase } from './support/database.ts';

let database: TestDatabase;
let folder: string;
let project: Project;
beforeAll(async () => {
  database = await freshDatabase();
  folder = mkdtempSync(join(tmpdir(), 'troupe-library-'));
  project = await openProject({ home: join(folder, 'home'), databaseUrl: database.url });
});
afterAll(async () => {
  await project.close();
  await database.close();
  rmSync(folder, { recursive: true });
});

it('the package gives out every name of index.ts, of the recorder and of the client', () => {
  const names = (module: object) => Object.keys(module).sort();
  expect(names(wrapper)).toEqual(names(index));
  expect(names(recorderWrapper)).toEqual(names(recorder));
  expect(names(clientWrapper)).toEqual(names(client));
});

it('imports, judges, freezes, asks and rebuilds', async () => {
  writeFileSync(join(folder, 'chats.jsonl'), lines(chats(16)));
  const report = await project.import({ paths: [join(folder, 'chats.jsonl')] });
  expect(report).toMatchObject({ episodes: 8, steps: 16, errors: [] });
  const methods = [{ method: 'agreement_score' }];
  expect((await project.unjudged({ methods })).episodes).toHaveLength(8);
  expect(await project.judge({ methods })).toMatchObject({ episodes: 8 });
  expect(await project.unjudged({ methods })).toEqual({ episodes: [] });
  const frozen = await project.dataset.freeze({ recipe: { name: 'all', unit: 'step' } });
  expect(frozen.rows).toEqual({ train: 16 });
  const { events } = await project.rebuild();
  expect(events).toBeGreaterThan(report.events.accepted);
  expect((await project.sql({ sql: 'select count(*)::integer from traj.steps' })).rows).toEqual([[16]]);
});

it('calls onProgress while long work goes on, and ends it where the signal fires', async () => {
  const seen: number[][] = [];
  await project.rebuild({}, { onProgress: (done, total) => void seen.push([done, total]) });
  expect(seen.length).toBeGreaterThan(0);
  expect(seen.at(-1)![0]).toBe(seen.at(-1)![1]);
  await expect(project.rebuild({}, { signal: AbortSignal.abort() })).rejects.toMatchObject({ code: 'interrupted' });
  expect((await project.checksum()).tables.episodes!.rows).toBe(8);
});

it('names the episodes that an import could not close, with the reason', async () => {
  const file = join(folder, 'more.jsonl');
  writeFileSync(file, lines(chats(4)));
  expect((await project.import({ paths: [file] })).stays_open).toEqual([]);
  await database.db.query(
    `update facts.episodes set closed = false, totals = '"many"' where episode_id = (select min(episode_id) from facts.episodes)`,
  );
  expect((await project.import({ paths: [file] })).stays_open).toMatchObject([
    { episode_id: expect.any(String), field: 'data.totals', got: '"many"' },
  ]);
  await project.rebuild();
});

it('asks SQL as the login that can read the views and nothing else', async () => {
  const [[user]] = (await project.sql({ sql: 'select current_user::text' })).rows as [[string]];
  expect(user).toMatch(/_reader$/);
  const refused = [
    'select * from troupe.events',
    `select pg_read_file('postgresql.conf')`,
    'select rolpassword from pg_authid',
    'delete from traj.episodes',
  ];
  for (const sql of refused) await expect(project.sql({ sql }), sql).rejects.toMatchObject({ code: 'sql_refused' });
});

it('refuses SQL where the server gives no such login', async () => {
  const url = new URL(database.url);
  const [user, password] = ['asks_without', 'for-this-test'];
  await database.db.query(
    `drop role if exists ${user}; create role ${user} login password '${password}';
     grant usage on schema troupe, traj to ${user}; grant select on all tables in schema troupe to ${user};`,
  );
  url.username = user;
  url.password = password;
  const other = await openProject({ home: join(folder, 'other'), databaseUrl: url.href });
  try {
    await expect(other.sql({ sql: 'select 1' })).rejects.toMatchObject({ code: 'sql_refused' });
  } finally {
    await other.close();
    await database.db.query(`drop owned by ${user}; drop role ${user}`);
  }
});

it('the process that trains works on the project that was opened', () => {
  const argsOf = (flags: object) => roleSettings(loadConfig({ home: 'h', ...flags }, {})).args.slice(2);
  expect(argsOf({ project: 'named' })).toEqual(['--project', 'named']);
  expect(argsOf({})).toEqual([]);
});

it('a failure of a training process arrives with its code', async () => {
  const training = project.train.sft({
    model: join(folder, 'none'),
    data: 'all',
    out: join(folder, 'out'),
    steps: 1,
  });
  await expect(training).rejects.toMatchObject({ code: 'not_found' });
});

it('trains in a process of its own, says how far it is, and saves and ends where it is told to', async () => {
  const at = (name: string) => join(folder, name);
  writeFileSync(at('words.txt'), 'a b c d');
  await project.model.new({ dir: at('model'), words: at('words.txt'), hidden: 16, layers: 1, heads: 2, context: 16 });
  writeFileSync(at('rows.jsonl'), '{"input_ids":[2,3,4]}\n');
  const rows = { model: at('model'), data: at('rows.jsonl'), lora: { r: 2, alpha: 4 }, shuffle: false };
  const seen: number[] = [];
  const onProgress = (done: number) => seen.push(done);
  const trained = await project.train.sft({ ...rows, out: at('whole'), steps: 3 }, { onProgress });
  expect(trained).toMatchObject({
    losses: [expect.any(Number), expect.any(Number), expect.any(Number)],
    rows: { used: 1 },
  });
  expect(seen).toEqual([1, 2, 3]);
  const stop = new AbortController();
  const cut = project.train.sft(
    { ...rows, out: at('cut'), steps: 1_000_000, curves: false },
    { signal: stop.signal, onProgress: () => stop.abort() },
  );
  await expect(cut).rejects.toMatchObject({
    code: 'interrupted',
    message: expect.stringContaining('progress is saved'),
  });
}, 60_000);

it('a project that does not exist is refused', async () => {
  await expect(openProject({ databaseUrl: database.url, project: 'absent-one' })).rejects.toMatchObject({
    code: 'not_found',
  });
});
