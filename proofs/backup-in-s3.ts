/**
 * Proof that a backup in a bucket of a real S3 server is the backup: written by `troupe backup` from a running home, restored by
 * `troupe restore` elsewhere with equal tables and files; killed before its end nothing is seen of it, and half of one is refused.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { openObjects } from '../trainer/model/checkpoints/object-store.ts';
import { randomStream } from '../trainer/tensor/random.ts';
import { checklist, type Outcome, type Proof, type Setting } from './proof.ts';
import { type S3Server, s3Env, withS3 } from './s3.ts';

const ROOT = join(import.meta.dirname, '..');
const BUCKET = 'backups';
/** More than two parts of an upload. */
const LARGE = 40_000_000;

export const proof: Proof = {
  name: 'backup-in-s3',
  needs: ['s3'],
  run: (setting) => withS3(setting.scratch, BUCKET, (server) => checks(setting, server)),
};

async function checks({ short, scratch, say }: Setting, server: S3Server): Promise<Outcome> {
  const { lines, check, passed } = checklist(say);
  const env = s3Env(server);
  const begin = (...args: string[]) =>
    spawn(process.execPath, ['--import', 'tsx', join(ROOT, 'cli.ts'), ...args], {
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
  const troupe = async (...args: string[]) => {
    const child = begin(...args);
    const [out, err, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')]);
    return { code: code as number | null, out, err };
  };
  const [home, copy] = [join(scratch, 'home'), join(scratch, 'copy')];
  const events = join(scratch, 'events.jsonl');
  writeFileSync(events, Array.from({ length: 200 }, (_, i) => envelope(i)).join('\n'));
  const imported = await troupe('import', events, '--home', home);
  if (imported.code !== 0) throw new Error(`troupe import ended with ${imported.code}: ${imported.err}`);
  const { uniform } = randomStream(1);
  const large = Buffer.from(Float64Array.from({ length: LARGE / 8 }, uniform).buffer);
  mkdirSync(join(home, 'artifacts'), { recursive: true });
  writeFileSync(join(home, 'artifacts', 'large'), large);

  const objects = await openObjects(BUCKET, server);
  const place = (key: string) => `s3://${BUCKET}/${key}`;
  let [hit, seen] = [0, 0];
  const kills = short ? 1 : 10;
  for (let kill = 0; kill < kills; kill++) {
    const left = unfinished(server);
    const child = begin('backup', place(`killed-${kill}`), '--home', home, '--quiet');
    const exit = once(child, 'exit');
    while (child.exitCode === null && unfinished(server) === left)
      await new Promise((resolve) => setTimeout(resolve, 5));
    await new Promise((resolve) => setTimeout(resolve, 20 * kill));
    if (child.kill('SIGKILL')) hit++;
    await exit;
    if (child.exitCode !== 0 && (await objects.facts(`killed-${kill}`)) !== null) seen++;
  }
  check(
    `${hit} of ${kills} backups were killed while they were sent, and nothing is seen of them`,
    hit > 0 && seen === 0,
  );

  const made = await troupe('backup', place('a/b.tar.gz'), '--home', home, '--json');
  const bytes = (await objects.facts('a/b.tar.gz'))?.bytes;
  check(`a backup of ${bytes} bytes is in the bucket`, made.code === 0 && JSON.parse(made.out).bytes === bytes);
  const again = await troupe('backup', place('a/b.tar.gz'), '--home', home);
  check('none is replaced', again.code === 1 && /is there already/.test(again.err));

  const half = await objects.read('a/b.tar.gz', 0, bytes! >> 1);
  await objects.put('half.tar.gz', half, '0'.repeat(64));
  const refused = await troupe('restore', place('half.tar.gz'), '--home', copy);
  check('half of one is refused', refused.code === 1 && /cannot be read/.test(refused.err));
  const restored = await troupe('restore', place('a/b.tar.gz'), '--home', copy);
  check('the whole one is restored', restored.code === 0);
  const sums = await Promise.all([home, copy].map((one) => troupe('checksum', '--home', one, '--json')));
  check('with the same tables', sums[0]!.code === 0 && sums[0]!.out === sums[1]!.out);
  check('and the same files', readFileSync(join(copy, 'artifacts', 'large')).equals(large));
  const missing = await troupe('restore', place('none'), '--home', join(scratch, 'none'));
  check('one that is not there is not found', missing.code === 1 && /There is no backup/.test(missing.err));
  return { ok: passed(), lines };
}

/** Objects of which the server has parts and which are not whole; those that a killed backup left stay. */
const unfinished = ({ parts }: S3Server): number => (existsSync(parts) ? readdirSync(parts).length : 0);

const envelope = (i: number): string =>
  JSON.stringify({
    ...{ specversion: '1.0', id: `event-${i}`, source: '/proof', type: 'troupe.episode.started.v1' },
    data: { episode_id: `episode-${i}`, task_id: 'proof' },
  });
