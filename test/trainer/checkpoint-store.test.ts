import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { TroupeError } from '../../errors.ts';
import { bucketStore, openCheckpointStore } from '../../trainer/model/checkpoints/bucket-store.ts';
import { loadCheckpoint, type SavedCheckpoint, saveCheckpoint } from '../../trainer/model/checkpoints/checkpoint.ts';
import { type CheckpointStore, localStore } from '../../trainer/model/checkpoints/checkpoint-store.ts';
import { type Objects, objectAccess, openObjects } from '../../trainer/model/checkpoints/object-store.ts';
import { tinyContents } from './tiny-checkpoint.ts';

let root: string;
let one: SavedCheckpoint;
let two: SavedCheckpoint;
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'troupe-store-'));
  [one, two] = [
    await saveCheckpoint(join(root, 'own'), tinyContents(1)),
    await saveCheckpoint(join(root, 'own'), tinyContents(2)),
  ];
});
afterAll(() => rm(root, { recursive: true, force: true }));
const fresh = (): Promise<string> => mkdtemp(join(root, 'store-'));

/** Objects in memory, as a bucket keeps them; the proof `checkpoints-in-s3` uses those of a server. Fails at the call `failAt`. */
function memoryObjects(
  failAt = Number.POSITIVE_INFINITY,
): Objects & { readonly held: Map<string, Held>; calls: number } {
  const held = new Map<string, Held>();
  const call = (): void => {
    if (objects.calls++ === failAt) throw new TroupeError('unreachable', 'The server is gone.');
  };
  const put = (key: string, content: Uint8Array, sha256: string): void => {
    held.set(key, { content: Uint8Array.from(content), sha256, version: `"${objects.calls}"` });
  };
  const objects: Objects & { readonly held: Map<string, Held>; calls: number } = {
    address: 's3://memory',
    held,
    calls: 0,
    async facts(key) {
      call();
      const found = held.get(key);
      return found ? { bytes: found.content.length, version: found.version, sha256: found.sha256 } : null;
    },
    async read(key, begin, end) {
      call();
      const found = held.get(key)?.content.subarray(begin, end);
      if (found?.length !== end - begin) throw new TroupeError('checkpoint_damaged', `${key} ends early.`);
      return found;
    },
    async small(key) {
      call();
      const found = held.get(key);
      return found ? { content: found.content, version: found.version } : null;
    },
    async put(key, content, sha256, { ifVersion } = {}) {
      call();
      if (ifVersion !== undefined && (held.get(key)?.version ?? null) !== ifVersion)
        throw new TroupeError('conflict', 'It moved.');
      put(key, content, sha256);
    },
    async putParts(key, parts, sha256) {
      const all: Uint8Array[] = [];
      for await (const part of parts) {
        call();
        all.push(part);
      }
      put(key, Buffer.concat(all), sha256 ?? '');
    },
    async list(prefix) {
      call();
      return [...held.keys()].filter((key) => key.startsWith(prefix)).sort();
    },
    async remove(key) {
      call();
      held.delete(key);
    },
  };
  return objects;
}
type Held = { readonly content: Uint8Array; readonly sha256: string; readonly version: string };

const codeOf = (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => 'done',
    (error) => error.code,
  );

describe.each<[string, () => Promise<CheckpointStore>]>([
  ['a folder', async () => localStore(await fresh())],
  ['a bucket', async () => bucketStore(memoryObjects(), 'team/coder')],
  ['a whole bucket', async () => bucketStore(memoryObjects(), '')],
])('%s of checkpoints', (_, open) => {
  it('gives back what was put, and takes nothing a second time', async () => {
    const store = await open();
    const names = (await readdir(one.dir)).sort();
    expect(await store.put(one.dir)).toEqual({ id: one.id, sent: expect.any(Array), kept: [], bytes: one.bytes });
    const again = await store.put(one.dir);
    expect([again.sent, [...again.kept].sort(), again.bytes]).toEqual([[], names, 0]);
    const back = await store.get(one.id, await fresh());
    expect(await loadCheckpoint(back.dir)).toEqual({ ...(await loadCheckpoint(one.dir)), dir: back.dir });
    expect(await store.list()).toEqual([one.id]);
  });

  it('lets latest move from what it was known to be, and not otherwise', async () => {
    const store = await open();
    for (const { dir } of [one, two]) await store.put(dir);
    expect(await store.latest()).toBeNull();
    await store.pointLatest(one.id, null);
    expect(await codeOf(store.pointLatest(two.id, null))).toBe('conflict');
    const first = (await store.latest())!;
    expect(first.id).toBe(one.id);
    await store.pointLatest(two.id, first.version);
    expect(await codeOf(store.pointLatest(one.id, first.version))).toBe('conflict');
    expect((await store.latest())!.id).toBe(two.id);
    await store.pointLatest(one.id);
    expect(await codeOf(store.pointLatest('0'.repeat(16)))).toBe('not_found');
    expect((await store.latest())!.id).toBe(one.id);
  });

  it('removes what is not the latest, and then does not find it', async () => {
    const store = await open();
    for (const { dir } of [one, two]) await store.put(dir);
    await store.pointLatest(two.id);
    expect(await codeOf(store.remove(two.id))).toBe('conflict');
    await store.remove(one.id);
    expect(await store.list()).toEqual([two.id]);
    expect(await codeOf(store.remove(one.id))).toBe('not_found');
    expect(await codeOf(store.get(one.id, await fresh()))).toBe('not_found');
    for (const wrong of ['', '../x', 'latest', `${one.id}/..`]) {
      expect(await codeOf(store.remove(wrong))).toBe('usage');
      expect(await codeOf(store.get(wrong, await fresh()))).toBe('usage');
      expect(await codeOf(store.pointLatest(wrong))).toBe('usage');
    }
  });

  it('does not take a checkpoint that is damaged', async () => {
    const store = await open();
    const { dir } = await saveCheckpoint(await fresh(), tinyContents(3));
    await writeFile(join(dir, 'state.json'), '{}\n');
    expect(await codeOf(store.put(dir))).toBe('checkpoint_damaged');
    expect(await store.list()).toEqual([]);
  });
});

describe('a bucket of checkpoints', () => {
  it('shows nothing of a transfer that ended at any of its calls, and the next one goes on from there', async () => {
    let failing = 0;
    for (let failed = true; failed; failing++) {
      const objects = memoryObjects(failing);
      const store = bucketStore(objects, 'p');
      failed = (await codeOf(store.put(one.dir))) === 'unreachable';
      objects.calls = Number.NEGATIVE_INFINITY;
      const there = objects.held.size;
      expect(await store.list()).toEqual(failed ? [] : [one.id]);
      if (failed) expect(await codeOf(store.get(one.id, await fresh()))).toBe('not_found');
      expect((await store.put(one.dir)).kept).toHaveLength(there);
      expect((await store.get(one.id, await fresh())).id).toBe(one.id);
    }
    expect(failing).toBeGreaterThan(10);
  });

  it('P27: refuses what was damaged there, leaves nothing of it, and is healed by putting it again', async () => {
    const objects = memoryObjects();
    const store = bucketStore(objects, 'p');
    await store.put(one.dir);
    for (const name of await readdir(one.dir)) {
      const key = `p/${one.id}/${name}`;
      const sound = objects.held.get(key)!;
      const turned = Uint8Array.from(sound.content);
      turned[turned.length >> 1]! ^= 1;
      for (const content of [turned, sound.content.subarray(1), new Uint8Array(0)]) {
        objects.held.set(key, { ...sound, content, sha256: '0'.repeat(64) });
        const folder = await fresh();
        expect(await codeOf(store.get(one.id, folder)), name).toBe('checkpoint_damaged');
        expect(await readdir(folder)).toEqual([]);
      }
      expect((await store.put(one.dir)).sent).toEqual([name]);
    }
  });

  it('P52: does not follow a troupe.json that names files outside', async () => {
    const objects = memoryObjects();
    const store = bucketStore(objects, 'p');
    await store.put(one.dir);
    const key = `p/${one.id}/troupe.json`;
    const text = (await readFile(join(one.dir, 'troupe.json'), 'utf8')).replace('"config.json"', '"../../config.json"');
    objects.held.set(key, { ...objects.held.get(key)!, content: Buffer.from(text) });
    await expect(store.get(one.id, await fresh())).rejects.toThrow(/an impossible entry for/);
  });

  it('removes troupe.json first, so that half a removal shows nothing', async () => {
    for (let failing = 0; failing < 8; failing++) {
      const objects = memoryObjects();
      const store = bucketStore(objects, 'p');
      await store.put(one.dir);
      const broken = memoryObjects(failing);
      for (const [key, value] of objects.held) broken.held.set(key, value);
      const half = bucketStore(broken, 'p');
      if ((await codeOf(half.remove(one.id))) === 'done') break;
      const shown = (await half.list()).length === 1;
      expect(shown).toBe(broken.held.size === objects.held.size);
    }
  });
});

describe('the address of a store', () => {
  const access = (): never => {
    throw new Error('nobody may ask');
  };

  it('is a folder where it is no URL, and then nobody is asked for a key', async () => {
    const folder = await fresh();
    await (await openCheckpointStore(folder, access)).put(one.dir);
    expect(await readdir(folder)).toEqual([one.id]);
  });

  it.each(['http://x/y', 's3://', 's3:///x', 's3://b/../x', 's3://b/a//b', 's3://b/./c'])(
    'is not %s',
    async (address) => {
      await expect(openCheckpointStore(address, access)).rejects.toMatchObject({ code: 'usage' });
    },
  );

  it('names the setting that is missing, and no value of any', () => {
    const env = { AWS_ACCESS_KEY_ID: 'AKIAKEY', AWS_SECRET_ACCESS_KEY: 'hush', AWS_REGION: 'eu-central-1' };
    expect(objectAccess(env)).toEqual({
      endpoint: 'https://s3.eu-central-1.amazonaws.com',
      region: 'eu-central-1',
      accessKeyId: 'AKIAKEY',
      secretAccessKey: 'hush',
    });
    expect(objectAccess({ ...env, AWS_ENDPOINT_URL: 'http://a', AWS_ENDPOINT_URL_S3: 'http://b' }).endpoint).toBe(
      'http://b',
    );
    expect(() => objectAccess({ ...env, AWS_SECRET_ACCESS_KEY: '' })).toThrow(/AWS_SECRET_ACCESS_KEY is not set/);
    expect(() => objectAccess({ ...env, AWS_SESSION_TOKEN: 'hush' })).toThrow(/temporary credentials/);
  });

  it.each(['ftp://x', 'x', 'https://key:hush@x', 'https://x/?a=hush'])(
    'the endpoint %s is refused without repeating it',
    async (endpoint) => {
      const asked = openObjects('bucket', { endpoint, region: 'r', accessKeyId: 'k', secretAccessKey: 'hush' });
      const error = await asked.catch((reason) => reason);
      expect(error).toBeInstanceOf(TroupeError);
      expect(String(error.stack)).not.toContain('hush');
      expect(['usage', 'platform_unsupported']).toContain(error.code);
    },
  );
});
