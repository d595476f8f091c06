import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { rename } from 'node:fs/promises';
import { join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { decodeDraft } from '../../ingest/events/decode.ts';
import { postgresLog } from '../../ingest/log/postgres.ts';
import { requestJob, waitForJob } from '../../store/queue/jobs/jobs.ts';
import { connectInfer } from '../../trainer/sample/infer-client.ts';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { lines } from './support/chats.ts';
import { plays, WORDS } from './support/plays.ts';
import { document, type Running, type Shell, warmShell } from './support/troupe.ts';

const SLOW = 240_000;

const startOf = (episode_id: string) => {
  const { event, refusal } = decodeDraft({
    name: 'episode.started',
    source: '/load',
    id: episode_id,
    time: '2026-01-01T00:00:00Z',
    data: { episode_id },
  } as never);
  if (refusal) throw new Error(JSON.stringify(refusal));
  return event;
};

const facts = async (running: Running) =>
  JSON.parse((await running.waitForOutput(/^\{"role".*\n/m)).split('\n').find((line) => line.startsWith('{"role"'))!);

describe('a backup that was made while events came in, restored in a home of another path', () => {
  let origin: TestDatabase;
  let copy: TestDatabase;
  let at: Shell;
  let there: Shell;
  let file: string;
  let released: string;
  let dataset: string;
  let report: { rows: number; files: number; missing: string[]; links: string[] };
  const before: string[] = [];
  const done = async (shell: Shell, ...args: string[]) => {
    const ended = await shell.run([...args, '--json']);
    if (ended.code !== 0) throw new Error(`troupe ${args.join(' ')}: ${ended.out} ${ended.err}`);
    return document(ended);
  };

  beforeAll(async () => {
    origin = await freshDatabase();
    copy = await freshDatabase();
    at = warmShell({ DATABASE_URL: origin.url });
    there = warmShell({ DATABASE_URL: copy.url });
    const path = (name: string) => join(at.folder, name);
    writeFileSync(path('plays.jsonl'), lines(plays(8)));
    await done(at, 'import', path('plays.jsonl'));
    await done(at, 'judge', '--methods', 'grpo_advantage');
    writeFileSync(path('all.json'), JSON.stringify({ name: 'all', unit: 'step', roles: ['solver'] }));
    ({ dataset_id: dataset } = await done(at, 'dataset', 'freeze', path('all.json')));
    const config = { hidden_size: 16, intermediate_size: 32, num_hidden_layers: 1, num_attention_heads: 2 };
    writeFileSync(
      path('model.json'),
      JSON.stringify({ words: WORDS, ...config, num_key_value_heads: 2, max_position_embeddings: 32 }),
    );
    await done(at, 'model', 'new', '--dir', path('model'), '--config', path('model.json'), '--seed', '3');
    const trained = await done(
      ...([at, 'train', 'sft', '--model', path('model'), '--data', 'all', '--steps', '2'] as const),
      ...['--out', path('home/checkpoints'), '--policy', 'solver'],
    );
    released = trained.checkpoint_id;
    await done(at, 'release', `solver=${released}`);
    const context = { db: origin.db, log: postgresLog(origin.db), now: () => new Date() };
    const spec = {
      base: trained.directory,
      dataset: path(`home/datasets/${dataset}`),
      ...{ policy: 'solver', seed: 1, steps: { solver: 3 }, batch: 8, learning_rate: 1e-3, warmup: 0, entropy: 0 },
    };
    await requestJob(context, { job_id: 'waits', kind: 'sft', spec });
    mkdirSync(path('home/artifacts/ab'), { recursive: true });
    writeFileSync(path('home/artifacts/ab/unfinished.part'), 'half');

    mkdirSync(path('home/benchmarks'));
    writeFileSync(path('home/benchmarks/held-out.jsonl'), '{"question": "that a recipe pins"}\n');

    // A long name, and a file in pieces.
    mkdirSync(path(`home/datasets/${'d'.repeat(120)}`));
    writeFileSync(path(`home/datasets/${'d'.repeat(120)}/large`), Buffer.alloc(17 * 1024 * 1024, 'x'));

    let stop = false;
    let n = 0;
    const append = async () => {
      const name = `load-${n++}`;
      await context.log.append([startOf(name)]);
      return name;
    };
    for (let i = 0; i < 20; i++) before.push(await append());
    const load = (async () => {
      while (!stop) await append();
    })();
    file = path('copy.tar.gz');
    report = await done(at, 'backup', file);
    stop = true;
    await load;
    expect(n).toBeGreaterThan(21);
    await rename(path('home'), path('away'));
  }, SLOW);
  afterAll(async () => {
    await at.remove();
    await there.remove();
    await origin.close();
    await copy.close();
  });

  it('is a file that only its owner can read, that tar lists, and that names nothing as missing', () => {
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(report).toMatchObject({ missing: [], links: [] });
    const listed = execFileSync('tar', ['-tzf', file], { encoding: 'utf8' }).trim().split('\n');
    expect(listed[0]).toBe('backup.json');
    expect(listed.at(-1)).toBe('complete.json');
    expect(listed).toContain(`home/datasets/${'d'.repeat(120)}/large`);
    expect(listed).toContain('home/benchmarks/held-out.jsonl');
    expect(listed.filter((name) => name.endsWith('.part'))).toEqual([]);
    expect(listed.filter((name) => name.startsWith('home/'))).toHaveLength(report.files);
    expect(readdirSync(at.folder).filter((name) => name.includes('partial'))).toEqual([]);
  });

  it(
    'is refused where a byte is wrong or the end is missing, and nothing of it is there',
    async () => {
      const bytes = gunzipSync(readFileSync(file));
      const home = join(there.folder, 'home');
      const at = bytes.indexOf('what is');
      bytes[at] = 'W'.charCodeAt(0);
      const bad = join(there.folder, 'bad.tar.gz');
      writeFileSync(bad, gzipSync(bytes, { level: 1 }));
      const changed = await there.run(['restore', bad, '--json']);
      expect([changed.code, document(changed).error]).toEqual([
        1,
        expect.objectContaining({ code: 'dataset_damaged', message: expect.stringContaining('SHA-256') }),
      ]);
      writeFileSync(bad, readFileSync(file));
      truncateSync(bad, statSync(file).size - 1000);
      const short = await there.run(['restore', bad, '--json']);
      expect([short.code, document(short).error.code]).toEqual([1, 'dataset_damaged']);
      expect((await copy.db.query('select from troupe.events')).count).toBe(0);
      expect(readdirSync(home).filter((name) => name.startsWith('.'))).toEqual([]);
      expect(readdirSync(join(home, 'datasets'))).toEqual([]);
    },
    SLOW,
  );

  it(
    'has the facts of one moment: all that was acknowledged before, rows that a rebuild makes again, the same checksum',
    async () => {
      const restored = await done(there, 'restore', file);
      expect(restored).toMatchObject({ rows: report.rows, files: report.files });
      const { rows } = await copy.db.query<{ id: string }>(`select id from troupe.events where source = '/load'`);
      const held = new Set(rows.map(({ id }) => id));
      expect(before.filter((id) => !held.has(id))).toEqual([]);
      // What came after the first one that is missing is missing too: they were sent one after the other.
      expect([...held].map((id) => Number(id.slice(5))).sort((a, b) => a - b)).toEqual(
        [...held.keys()].map((_, i) => i),
      );
      expect((await there.run(['reconcile'])).code).toBe(0);
      const copied = await done(there, 'checksum');
      await done(there, 'rebuild');
      expect(await done(there, 'checksum')).toEqual(copied);
      // Without what came during and after the backup both hold the same.
      for (const { db } of [origin, copy]) {
        await db.query(`delete from troupe.events where source = '/load'`);
        await db.query(`delete from facts.episodes where episode_id like 'load-%'`);
      }
      const originNow = warmShell({ DATABASE_URL: origin.url });
      const sums = await done(originNow, 'checksum').finally(originNow.remove);
      expect(await done(there, 'checksum')).toEqual(sums);
    },
    SLOW,
  );

  it(
    'into a folder that is not there is refused, with the folder',
    async () => {
      const refused = await there.run(['backup', 'nowhere/backup.tar.gz']);
      expect([refused.code, refused.err]).toEqual([
        1,
        expect.stringMatching(/The backup \S*nowhere\/backup.tar.gz cannot be written: the folder does not exist\.\n/),
      ]);
    },
    SLOW,
  );

  it(
    'is refused by a project that holds something',
    async () => {
      const again = await there.run(['restore', file, '--json']);
      expect([again.code, document(again).error.code]).toEqual([1, 'conflict']);
    },
    SLOW,
  );

  it(
    'serves its policies from its own files, and names them where they are',
    async () => {
      const infer = there.start(['run', 'infer', '--policy', 'solver', '--json']);
      const client = connectInfer((await facts(infer)).address);
      const { models } = await client.status();
      expect(models).toMatchObject([{ name: 'solver', dir: join(there.folder, 'home/checkpoints', released) }]);
      client.close();
      infer.child.kill('SIGTERM');
      expect((await infer.ended).code).toBe(0);
      const { rows } = await copy.db.query<{ uri: string }>('select uri from traj.datasets');
      expect(rows).toEqual([{ uri: join(there.folder, 'home/datasets', dataset) }]);
      expect(existsSync(rows[0]!.uri)).toBe(true);
    },
    SLOW,
  );

  it(
    'goes on with its jobs',
    async () => {
      const worker = there.start(['run', 'work', '--json']);
      const result = (await waitForJob(copy.db, 'waits', { timeoutMs: 120_000 })) as { directory: string };
      expect(result.directory.startsWith(join(there.folder, 'home/checkpoints'))).toBe(true);
      worker.child.kill('SIGTERM');
      expect((await worker.ended).code).toBe(0);
      expect(existsSync(join(at.folder, 'home'))).toBe(false);
    },
    SLOW,
  );
});
