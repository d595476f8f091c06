/**
 * Proof that checkpoints survive a bucket of a real S3 server: what comes back is what went in, a transfer that is killed
 * shows nothing and goes on where it ended, of two who move `latest` one wins, and what is damaged there stays there.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TroupeError } from '../errors.ts';
import { bucketStore, openCheckpointStore } from '../trainer/model/checkpoints/bucket-store.ts';
import { loadCheckpoint, type SavedCheckpoint, saveCheckpoint } from '../trainer/model/checkpoints/checkpoint.ts';
import { type CheckpointContents, emptyMeta } from '../trainer/model/checkpoints/checkpoint-format.ts';
import type { CheckpointStore } from '../trainer/model/checkpoints/checkpoint-store.ts';
import { openObjects } from '../trainer/model/checkpoints/object-store.ts';
import { readModelConfig } from '../trainer/model/model-config.ts';
import { randomStream } from '../trainer/tensor/random.ts';
import { checklist, type Outcome, type Proof, type Setting } from './proof.ts';
import { type S3Server, withS3 } from './s3.ts';

const BUCKET = 'checkpoints';

export const proof: Proof = {
  name: 'checkpoints-in-s3',
  needs: ['s3'],
  run: (setting) => withS3(setting.scratch, BUCKET, (server) => checks(setting, server)),
};

async function checks({ short, scratch, say }: Setting, server: S3Server): Promise<Outcome> {
  const { lines, check, passed } = checklist(say);
  const local = join(scratch, 'local');
  const address = `s3://${BUCKET}/team/coder`;
  const open = (access: Partial<S3Server> = {}): Promise<CheckpointStore> =>
    openCheckpointStore(address, () => ({ ...server, ...access }));
  const store = await open();
  const small = await saveCheckpoint(local, contents(1, 1000));
  // Two files of more than a part of 16 MiB, the larger one in several.
  const large = await saveCheckpoint(local, contents(2, 5_000_000));

  const first = await store.put(small.dir);
  const all = readdirSync(small.dir).length;
  check(
    `${all} files are sent, none a second time`,
    first.sent.length === all && (await store.put(small.dir)).sent.length === 0,
  );
  check(
    'what comes back is what went in, bit for bit',
    await same(small, await store.get(small.id, join(scratch, 'back'))),
  );
  await store.put(large.dir);
  check(
    `so are ${(large.bytes / 1e6).toFixed(0)} MB in parts`,
    await same(large, await store.get(large.id, join(scratch, 'back'))),
  );
  check('both are listed', String(await store.list()) === String([small.id, large.id].sort()));

  await killed(check, { address, server, store, dir: local, kills: short ? 3 : 20 });
  await pointing(check, store, await open(), small, large);
  await damaged(check, scratch, server);
  check(
    'the latest checkpoint is not removed',
    (await codeOf(store.remove((await store.latest())!.id))) === 'conflict',
  );
  const other = (await store.latest())!.id === small.id ? large : small;
  await store.remove(other.id);
  check(
    'another one is, and is not found any more',
    (await codeOf(store.get(other.id, join(scratch, 'gone')))) === 'not_found',
  );

  await refusals(check, server, open, small);
  return { ok: passed(), lines };
}

type Check = (what: string, fine: boolean) => void;

/** Kills a program that puts a checkpoint, at moments spread over the time that putting takes. */
async function killed(
  check: Check,
  {
    address,
    server,
    store,
    dir,
    kills,
  }: { address: string; server: S3Server; store: CheckpointStore; dir: string; kills: number },
): Promise<void> {
  const { endpoint, region, accessKeyId, secretAccessKey } = server;
  const access = { endpoint, region, accessKeyId, secretAccessKey };
  let [shown, kept, hit] = [0, 0, 0];
  const measured = await saveCheckpoint(dir, contents(99, 2_000_000));
  const began = performance.now();
  await store.put(measured.dir);
  const usual = performance.now() - began;
  await store.remove(measured.id);
  for (let kill = 0; kill < kills; kill++) {
    const saved = await saveCheckpoint(dir, contents(100 + kill, 2_000_000));
    const question = JSON.stringify({ address, access, dir: saved.dir });
    const program = join(import.meta.dirname, 's3-put.ts');
    const child = spawn(process.execPath, ['--import', 'tsx', program, question], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const exit = once(child, 'exit');
    let done = false;
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      if (text.includes('begins')) setTimeout(() => child.kill('SIGKILL'), (usual * (kill + 0.5)) / kills);
      done ||= text.includes('done');
    });
    await exit;
    if (!done) {
      hit++;
      if ((await store.list()).includes(saved.id)) shown++;
    }
    const again = await store.put(saved.dir);
    kept += again.kept.length;
    if (!(await store.list()).includes(saved.id)) shown++;
    await store.remove(saved.id);
  }
  check(`${hit} of ${kills} kills hit a transfer, and none showed a half`, hit > 0 && shown === 0);
  check(`what had arrived was not sent again (${kept} files)`, kept > 0);
}

async function pointing(
  check: Check,
  store: CheckpointStore,
  other: CheckpointStore,
  small: SavedCheckpoint,
  large: SavedCheckpoint,
): Promise<void> {
  check('latest is nothing at first', (await store.latest()) === null);
  const both = await Promise.all([
    codeOf(store.pointLatest(small.id, null)),
    codeOf(other.pointLatest(large.id, null)),
  ]);
  check('of two who point latest for the first time, one wins', String(both.sort()) === 'conflict,done');
  let won = 0;
  for (let round = 0; round < 10; round++) {
    const { version, id } = (await store.latest())!;
    // The other checkpoint, so that the version changes with every round.
    const next = id === small.id ? large.id : small.id;
    const results = await Promise.all([store, other].map((one) => codeOf(one.pointLatest(next, version))));
    // Servers that compare and write in two steps let both through: they wrote the same. Both refused would be wrong.
    if (results.includes('done') && (await store.latest())!.id === next) won++;
    if ((await codeOf(store.pointLatest(id, version))) !== 'conflict') won--;
  }
  check('10 times latest moved on, and never back by who had read it before', won === 10);
  check('latest cannot name what is not there', (await codeOf(store.pointLatest('0'.repeat(16)))) === 'not_found');
}

async function damaged(check: Check, scratch: string, server: S3Server): Promise<void> {
  const objects = await openObjects(BUCKET, server);
  const store = bucketStore(objects, 'damaged');
  const saved = await saveCheckpoint(join(scratch, 'local'), contents(3, 1000));
  await store.put(saved.dir);
  const refused: string[] = [];
  const names = readdirSync(saved.dir);
  for (const name of names) {
    const content = readFileSync(join(saved.dir, name));
    const key = `damaged/${saved.id}/${name}`;
    const turned = Uint8Array.from(content);
    turned[turned.length >> 1]! ^= 1;
    for (const wrong of [turned, content.subarray(0, content.length - 1)]) {
      await objects.put(key, wrong, '0'.repeat(64));
      refused.push(await codeOf(store.get(saved.id, join(scratch, 'refused'))));
    }
    // Its hash is not that of the file any more, so it is sent again.
    await store.put(saved.dir);
  }
  const seen = readdirSync(join(scratch, 'refused')).length;
  check(
    `${refused.length} damaged files are refused`,
    refused.every((code) => code === 'checkpoint_damaged'),
  );
  check('and nothing of them is left on this side', seen === 0);
  check('putting it again heals it', await same(saved, await store.get(saved.id, join(scratch, 'healed'))));
}

async function refusals(
  check: Check,
  server: S3Server,
  open: (access: Partial<S3Server>) => Promise<CheckpointStore>,
  { dir }: SavedCheckpoint,
): Promise<void> {
  const errors: string[] = [];
  const refusal = async (work: () => Promise<unknown>): Promise<string> => {
    try {
      await work();
      return 'done';
    } catch (error) {
      errors.push(
        `${(error as Error).stack} ${JSON.stringify((error as TroupeError).detail)} ${(error as TroupeError).cause}`,
      );
      return (error as TroupeError).code;
    }
  };
  const wrong = await open({ secretAccessKey: 'another-secret-that-no-error-may-show' });
  check('a wrong key is refused by name', (await refusal(() => wrong.put(dir))) === 'config_invalid');
  const nowhere = await openCheckpointStore('s3://no-such-bucket/x', () => server);
  check('a bucket that is not there is not found', (await refusal(() => nowhere.put(dir))) === 'not_found');
  await server.stop();
  const gone = await open({});
  check('a server that is gone is unreachable', (await refusal(() => gone.put(dir))) === 'unreachable');
  const leaked = errors.some((text) => text.includes(server.accessKeyId) || /secret-that-no-error/.test(text));
  check('no error shows a key', errors.length === 3 && !leaked);
}

const codeOf = (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => 'done',
    (error) => (error as TroupeError).code ?? String(error),
  );

async function same(a: SavedCheckpoint, b: SavedCheckpoint): Promise<boolean> {
  const equal = readdirSync(a.dir).every((name) =>
    readFileSync(join(a.dir, name)).equals(readFileSync(join(b.dir, name))),
  );
  return equal && (await loadCheckpoint(b.dir)).id === a.id;
}

/** A checkpoint with so many values drawn from the seed, and as many moments twice. */
function contents(seed: number, values: number): CheckpointContents {
  const { uniform } = randomStream(seed);
  const tensor = () => ({ shape: [values], data: Float32Array.from({ length: values }, () => uniform() - 0.5) });
  return {
    config: readModelConfig({
      model_type: 'llama',
      hidden_size: 8,
      intermediate_size: 8,
      num_hidden_layers: 1,
      num_attention_heads: 1,
      vocab_size: 8,
      max_position_embeddings: 8,
      rms_norm_eps: 1e-5,
      hidden_act: 'silu',
    }),
    weights: new Map([['w', tensor()]]),
    sideFiles: { 'tokenizer.json': '{}\n' },
    optimizer: { step: seed, m: new Map([['w', tensor()]]), v: new Map([['w', tensor()]]) },
    state: { row: seed },
    meta: { ...emptyMeta, step: seed, seed },
  };
}
