/**
 * Proof that old episodes go to a bucket of a real S3 server and come back: `troupe prune --to s3://…` killed while it sends, its archives read
 * by DuckDB beside the views, the tables rebuilt without what is in the bucket, from what is in it, and with it back, and equal to those of
 * before in the end.
 */
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { openObjects } from '../trainer/model/checkpoints/object-store.ts';
import { checklist, type Outcome, type Proof, type Setting } from './proof.ts';
import { type S3Server, s3Env, withS3 } from './s3.ts';
import { findTools } from './tools.ts';

const ROOT = join(import.meta.dirname, '..');
const BUCKET = 'cold';
const PLACE = `s3://${BUCKET}/troupe`;
/** Of each, one in three failed. */
const [OLD, NEW] = [300, 30];

export const proof: Proof = {
  name: 'archives-in-s3',
  needs: ['s3'],
  run: (setting) => withS3(setting.scratch, BUCKET, (server) => checks(setting, server)),
};

async function checks({ short, scratch, say }: Setting, server: S3Server): Promise<Outcome> {
  const { lines, check, passed } = checklist(say);
  const env = s3Env(server);
  const begin = (...args: string[]) =>
    spawn(process.execPath, ['--import', 'tsx', join(ROOT, 'cli.ts'), '--home', join(scratch, 'home'), ...args], {
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
  const troupe = async (...args: string[]): Promise<string> => {
    const child = begin(...args);
    const [out, err, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')]);
    if (code !== 0) throw new Error(`troupe ${args.join(' ')} ended with ${code}: ${err}`);
    return out;
  };
  const live = async (): Promise<number> =>
    JSON.parse(await troupe('sql', 'select count(*)::integer as n from traj.episodes', '--json')).rows[0][0];
  const objects = await openObjects(BUCKET, server);
  const manifests = async () => (await objects.list('troupe/')).filter((key) => key.endsWith('/manifest.json'));

  const file = join(scratch, 'events.jsonl');
  const written = [...episodes('old', OLD, '2025-01-15'), ...episodes('new', NEW, '2026-01-15')];
  writeFileSync(file, written.map((event) => JSON.stringify(event)).join('\n'));
  await troupe('import', file, '--quiet');
  const before = await troupe('checksum', '--json');
  const tables = async (): Promise<string> => {
    const { events: _, ...sums } = JSON.parse(await troupe('checksum', '--json')).tables;
    return JSON.stringify(sums);
  };
  const tablesBefore = await tables();
  const prune = ['prune', '--older-than', '2025-06-01', '--to', PLACE, '--yes'];

  let halves = 0;
  const kills = short ? 1 : 8;
  for (let kill = 0; kill < kills; kill++) {
    const child = begin(...prune, '--quiet');
    const exit = once(child, 'exit');
    const sent = (await objects.list('troupe/')).length;
    while (child.exitCode === null && (await objects.list('troupe/')).length <= sent)
      await new Promise((resolve) => setTimeout(resolve, 2));
    await new Promise((resolve) => setTimeout(resolve, 10 * kill));
    child.kill('SIGKILL');
    await exit;
    const [there, sound] = [await live(), await reconciled(troupe)];
    if (![NEW, OLD + NEW].includes(there) || !sound) halves++;
    if (there === NEW) await troupe('prune', 'restore', PLACE);
  }
  check(
    `killed ${kills} times while it sent: all of the old episodes in the database or none, nothing lost or doubled`,
    halves === 0,
  );

  await troupe(...prune);
  const found = await manifests();
  check(
    `${OLD} old episodes are in the bucket, ${NEW} in the database`,
    (await live()) === NEW && (await reconciled(troupe)),
  );
  const left = (await objects.list('troupe/')).filter((key) => !found.some((one) => key.startsWith(one.slice(0, -13))));
  check(`nothing of the killed ones is left (${left.length} objects)`, short ? left.length === 0 : found.length > 0);
  const without = await troupe('checksum', '--json');
  await troupe('rebuild');
  check(
    'a rebuild counts what is in the bucket and gives the same tables',
    (await troupe('checksum', '--json')) === without,
  );

  const skipped = await inDuckdb({ server, scratch, check });

  const shown = JSON.parse(await troupe('rebuild', '--archived', '--json'));
  check(
    `a rebuild reads ${shown.archived} events in the bucket: the tables of before the prune, and the log without them`,
    shown.left_out === 0 &&
      (await tables()) === tablesBefore &&
      (await live()) === OLD + NEW &&
      (await reconciled(troupe)),
  );
  const killed = short ? 1 : 8;
  let torn = 0;
  for (let kill = 0; kill < killed; kill++) {
    const child = begin('rebuild', '--quiet');
    const exit = once(child, 'exit');
    await new Promise((resolve) => setTimeout(resolve, 1000 + 400 * kill));
    child.kill('SIGKILL');
    await exit;
    if ((await tables()) !== tablesBefore || !(await reconciled(troupe))) torn++;
  }
  check(`${killed} rebuilds killed: the same tables`, torn === 0);
  await troupe(...prune);
  check('a prune takes them out again', (await troupe('checksum', '--json')) === without && (await reconciled(troupe)));
  const lost = (await objects.list('troupe/')).find((key) => key.endsWith('.parquet'))!;
  const { bytes } = (await objects.facts(lost))!;
  const content = Buffer.from(await objects.read(lost, 0, bytes));
  await objects.remove(lost);
  const refusal = await troupe('rebuild', '--archived').catch((error: Error) => error.message);
  check(
    'one without a file of an archive names it, and changes nothing',
    refusal.includes(lost) && (await troupe('checksum', '--json')) === without && (await reconciled(troupe)),
  );
  await objects.put(lost, content, createHash('sha256').update(content).digest('hex'));

  await troupe('rebuild', '--archived');
  await troupe('prune', 'restore', PLACE);
  check('all of it comes back: the same tables as before', (await troupe('checksum', '--json')) === before);
  await troupe('rebuild');
  check(
    'a rebuild reads it again at its positions: the same tables',
    (await troupe('checksum', '--json')) === before && (await reconciled(troupe)),
  );
  return { ok: passed(), lines, skipped };
}

type Troupe = (...args: string[]) => Promise<string>;

const reconciled = async (troupe: Troupe): Promise<boolean> => JSON.parse(await troupe('reconcile', '--json')).ok;

/** The statements of the page, with what a reader fills in. */
async function inDuckdb({
  server,
  scratch,
  check,
}: {
  readonly server: S3Server;
  readonly scratch: string;
  readonly check: (what: string, fine: boolean) => void;
}): Promise<string[]> {
  const tools = findTools(process.env);
  if ('missing' in tools) return [tools.missing];
  const page = readFileSync(join(ROOT, 'docs', 'keeping.md'), 'utf8');
  const statements = /```sql\n(install httpfs[\s\S]*?)```/.exec(page)![1]!;
  // The address is that of a socket, where the server runs as long as this does.
  const serve = spawn(
    process.execPath,
    ['--import', 'tsx', join(ROOT, 'cli.ts'), '--home', join(scratch, 'home'), 'sql', 'listen', '0', '--json'],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  );
  try {
    const [line] = (await once(serve.stdout.setEncoding('utf8'), 'data')) as [string];
    const sql = join(scratch, 'archived.sql');
    const filled = statements
      .replace('postgresql://…', JSON.parse(line).url)
      .replace('KEY_ID', server.accessKeyId)
      .replace('SECRET_KEY', server.secretAccessKey)
      .replace('HOST:PORT', new URL(server.endpoint).host)
      .replaceAll('s3://archive/troupe', PLACE);
    writeFileSync(sql, filled);
    const child = spawn(tools.python, [join(ROOT, 'proofs', 'archives_in_duckdb.py'), sql], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const [out] = await Promise.all([text(child.stdout), once(child, 'exit')]);
    const rows = JSON.parse(out || '[[]]').at(-1);
    const expected = [
      ['failure', NEW / 3, OLD / 3],
      ['success', (NEW * 2) / 3, (OLD * 2) / 3],
    ];
    check(
      `DuckDB counts outcomes of the views and of the bucket in one query: ${JSON.stringify(rows)}`,
      JSON.stringify(rows) === JSON.stringify(expected),
    );
  } finally {
    serve.kill('SIGTERM');
    await once(serve, 'exit');
  }
  return [];
}

function* episodes(name: string, count: number, day: string) {
  for (let i = 0; i < count; i++) {
    const id = `${name}-${i}`;
    const about: readonly (readonly [type: string, data: object])[] = [
      ['episode.started', { task_id: `task of ${id}` }],
      ['message.sent', { message_id: 'm', from: 'user', content: `question ${i} ${'x'.repeat(900)}` }],
      ['episode.finished', { outcome: i % 3 === 0 ? 'failure' : 'success' }],
    ];
    for (const [n, [type, data]] of about.entries())
      yield {
        ...{ specversion: '1.0', id: `${id}/${n}`, source: '/proof', type: `troupe.${type}.v1` },
        ...{ time: `${day}T12:00:0${n}Z`, data: { episode_id: id, ...data } },
      };
  }
}
