import { spawn } from 'node:child_process';
import { cp, mkdir, mkdtemp, readdir, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  latestCheckpoint,
  listCheckpoints,
  loadCheckpoint,
  pointLatest,
  saveCheckpoint,
  saveCheckpointAt,
} from '../../trainer/model/checkpoints/checkpoint.ts';
import { manifestBytes } from '../../trainer/model/checkpoints/checkpoint-format.ts';
import { publishFile, removeWhole, sweepTemporary } from '../../trainer/model/files/atomic.ts';
import { type Disk, disk } from '../../trainer/model/files/disk.ts';
import { exportOnnx } from '../../trainer/model/onnx-export.ts';
import { tinyContents } from './tiny-checkpoint.ts';
import { encodeCheckpoint, identify } from './whole-checkpoint.ts';

let root: string;
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'troupe-checkpoint-'));
});
afterAll(() => rm(root, { recursive: true, force: true }));

let count = 0;
const newFolder = async (): Promise<string> => {
  const folder = join(root, String(count++));
  await mkdir(folder);
  return folder;
};
const codeOf = (promise: Promise<unknown>): Promise<string> =>
  promise.then(
    () => 'done',
    (error) => error.code,
  );

describe('a checkpoint', () => {
  it('P28, P29: gives back weights, optimizer, state and lineage as they were', async () => {
    const contents = tinyContents(3);
    const saved = await saveCheckpoint(await newFolder(), contents);
    const loaded = await loadCheckpoint(saved.dir);
    expect(loaded).toEqual({ ...contents, ...saved });
    expect([...loaded.weights.keys()]).toEqual([...contents.weights.keys()]);
  });

  it('has an id that follows from its contents alone, in any folder', async () => {
    const [one, again, other] = await Promise.all([
      saveCheckpoint(await newFolder(), tinyContents(1)),
      saveCheckpoint(await newFolder(), tinyContents(1), { durable: false }),
      saveCheckpoint(await newFolder(), { ...tinyContents(1), meta: { ...tinyContents(1).meta, seed: 4 } }),
    ]);
    expect(one.id).toMatch(/^[0-9a-f]{16}$/);
    expect({ ...again, dir: '' }).toEqual({ ...one, dir: '' });
    expect(other.id).not.toBe(one.id);
  });

  it('has one file of safetensors, the model: servers take each for weights of it', async () => {
    const saved = await saveCheckpoint(await newFolder(), tinyContents(1));
    expect((await readdir(saved.dir)).filter((name) => name.endsWith('.safetensors'))).toEqual(['model.safetensors']);
  });

  it('is read with its optimizer where that has its earlier name', async () => {
    const contents = tinyContents(4);
    const files = new Map(encodeCheckpoint(contents).bytes);
    files.set('optimizer.safetensors', files.get('optimizer.moments')!);
    files.delete('optimizer.moments');
    files.delete('troupe.json');
    const identity = identify(files, contents.meta);
    const dir = join(await newFolder(), identity.id);
    await mkdir(dir);
    for (const [name, bytes] of files.set('troupe.json', manifestBytes(identity, contents.meta)))
      await writeFile(join(dir, name), bytes);
    expect((await loadCheckpoint(dir)).optimizer).toEqual(contents.optimizer);
  });

  it('counts all of its bytes and lists its files with their hashes', async () => {
    const saved = await saveCheckpoint(await newFolder(), tinyContents(1));
    const names = await readdir(saved.dir);
    expect(names.sort()).toEqual([...Object.keys(saved.files), 'troupe.json'].sort());
    const sizes = await Promise.all(names.map(async (name) => (await readFile(join(saved.dir, name))).length));
    expect(saved.bytes).toBe(sizes.reduce((a, b) => a + b));
  });

  it('can be saved twice, also at the same time, and heals a damaged one of its name', async () => {
    const folder = await newFolder();
    const [a, b] = await Promise.all([
      saveCheckpoint(folder, tinyContents(1)),
      saveCheckpoint(folder, tinyContents(1)),
    ]);
    expect(a).toEqual(b);
    await truncate(join(a.dir, 'model.safetensors'), 10);
    expect(await codeOf(loadCheckpoint(a.dir))).toBe('checkpoint_damaged');
    await saveCheckpoint(folder, tinyContents(1));
    expect((await loadCheckpoint(a.dir)).id).toBe(a.id);
    expect(await readdir(folder)).toEqual([a.id]);
  });

  it('never takes the place of something else', async () => {
    const folder = await newFolder();
    await saveCheckpointAt(join(folder, 'mine'), tinyContents(1));
    expect(await codeOf(saveCheckpointAt(join(folder, 'mine'), tinyContents(1)))).toBe('done');
    expect(await codeOf(saveCheckpointAt(join(folder, 'mine'), tinyContents(2)))).toBe('conflict');
    await mkdir(join(folder, 'notes'));
    await writeFile(join(folder, 'notes', 'todo.txt'), 'x');
    expect(await codeOf(saveCheckpointAt(join(folder, 'notes'), tinyContents(2)))).toBe('conflict');
  });

  it('is not saved with a weight that is not finite', async () => {
    const folder = await newFolder();
    const contents = tinyContents(1);
    contents.weights.get('model.norm.weight')!.data[3] = NaN;
    await expect(saveCheckpoint(folder, contents)).rejects.toThrow(/"model.norm.weight" is NaN at 3/);
    expect(await readdir(folder)).toEqual([]);
  });

  it('is pointed to by latest, once it is there', async () => {
    const folder = await newFolder();
    expect(await latestCheckpoint(folder)).toBeNull();
    for (const step of [1, 2]) await pointLatest(folder, (await saveCheckpoint(folder, tinyContents(step))).id);
    expect((await loadCheckpoint((await latestCheckpoint(folder))!)).meta.step).toBe(2);
    expect(await listCheckpoints(folder)).toHaveLength(2);
  });

  it('is written in pieces exactly as it is encoded in one', async () => {
    const contents = tinyContents(5);
    const saved = await saveCheckpoint(await newFolder(), contents);
    const { identity, bytes } = encodeCheckpoint(contents);
    expect(saved).toMatchObject(identity);
    for (const [name, content] of bytes) {
      expect(Buffer.from(content).equals(await readFile(join(saved.dir, name))), name).toBe(true);
    }
    expect(await loadCheckpoint(saved.dir)).toEqual({ ...contents, ...saved });
  });

  it('holds the model as one ONNX file where that is asked for, verified as every other file', async () => {
    const folder = await newFolder();
    const contents = { ...tinyContents(4), onnx: true };
    const saved = await saveCheckpoint(folder, contents);
    const file = join(saved.dir, 'model.onnx');
    expect(Buffer.from(exportOnnx(contents.config, contents.weights)).equals(await readFile(file))).toBe(true);
    const loaded = await loadCheckpoint(saved.dir);
    expect(loaded).toEqual({ ...contents, ...saved });
    expect((await saveCheckpoint(await newFolder(), loaded)).id).toBe(saved.id);
    expect((await saveCheckpoint(folder, { ...contents, onnx: false })).id).not.toBe(saved.id);
    const damaged = await readFile(file);
    damaged[200]! ^= 1;
    await writeFile(file, damaged);
    await expect(loadCheckpoint(saved.dir)).rejects.toThrow(/model.onnx does not have the SHA-256/);
  });

  it('gives back the state of a run as it was, whatever plain JSON it is', async () => {
    const folder = await newFolder();
    const number = fc.double({ noNaN: true, noDefaultInfinity: true }).map((x) => (Object.is(x, -0) ? 0 : x));
    const value = fc.letrec((tie) => ({
      any: fc.oneof(number, fc.string({ unit: 'grapheme' }), fc.boolean(), fc.array(tie('any'), { maxLength: 3 })),
    })).any;
    await fc.assert(
      fc.asyncProperty(fc.dictionary(fc.string(), value, { noNullPrototype: true }), async (state) => {
        const { dir } = await saveCheckpoint(folder, { ...tinyContents(1), state }, { durable: false });
        expect((await loadCheckpoint(dir)).state).toEqual(JSON.parse(JSON.stringify(state)));
        await rm(dir, { recursive: true });
      }),
      { numRuns: 20 },
    );
  });

  it('is not found, and not called damaged, where it is taken away while it is read', async () => {
    const { dir } = await saveCheckpoint(await newFolder(), tinyContents(1));
    const reading = Array.from({ length: 20 }, () =>
      loadCheckpoint(dir).then(
        ({ id }) => id,
        (error) => error.code,
      ),
    );
    await removeWhole(dir);
    const found = new Set(await Promise.all(reading));
    expect(found.has('checkpoint_damaged')).toBe(false);
    expect(await codeOf(loadCheckpoint(dir))).toBe('not_found');
  });

  it('P52: is refused where troupe.json names a file outside its directory', async () => {
    const { dir } = await saveCheckpoint(await newFolder(), tinyContents(1));
    const manifest = join(dir, 'troupe.json');
    for (const name of ['../../x', '/etc/passwd', 'a/b', '..', '.hidden', 'troupe.json', 'x\\u0000']) {
      const text = (await readFile(manifest, 'utf8')).replace(
        /"(config\.json|[^"]*)": \{\s*"bytes"/,
        `"${name}": {\n      "bytes"`,
      );
      await writeFile(manifest, text);
      await expect(loadCheckpoint(dir), name).rejects.toThrow(/an impossible entry for/);
    }
  });

  it('is not found where none is', async () => {
    expect(await codeOf(loadCheckpoint(join(root, 'nowhere')))).toBe('not_found');
  });
});

describe('a damaged checkpoint', () => {
  let sound: string;
  let names: string[];
  beforeAll(async () => {
    sound = (await saveCheckpoint(await newFolder(), tinyContents(1))).dir;
    names = await readdir(sound);
  });
  const copied = async (): Promise<string> => {
    const dir = join(await newFolder(), 'copy');
    await cp(sound, dir, { recursive: true });
    return dir;
  };

  it('P27: is refused where any file is cut, at any length', async () => {
    for (const name of names) {
      const { length } = await readFile(join(sound, name));
      for (const cut of new Set([0, 1, 7, 8, length >> 1, length - 1])) {
        const dir = await copied();
        await truncate(join(dir, name), cut);
        await expect(loadCheckpoint(dir), `${name} cut to ${cut}`).rejects.toMatchObject({
          code: 'checkpoint_damaged',
        });
        await rm(dir, { recursive: true });
      }
    }
  });

  it('P27: is refused where any one bit is turned, before anything is parsed', async () => {
    const dir = await copied();
    for (let i = 0; i < 256; i++) {
      const name = names[i % names.length]!;
      const bytes = await readFile(join(sound, name));
      const turned = Buffer.from(bytes);
      turned[(i * 7919) % bytes.length]! ^= 1 << (i % 8);
      await writeFile(join(dir, name), turned);
      const why =
        name === 'troupe.json' ? /damaged/ : new RegExp(`${name.replaceAll('.', '\\.')} does not have the SHA-256`);
      await expect(loadCheckpoint(dir), `${name} bit ${i}`).rejects.toThrow(why);
      await writeFile(join(dir, name), bytes);
    }
    expect((await loadCheckpoint(dir)).meta.step).toBe(1);
  });

  it('P27: is refused where a file is missing, or was put beside the others', async () => {
    for (const name of names) {
      const dir = await copied();
      await rm(join(dir, name));
      await expect(loadCheckpoint(dir)).rejects.toThrow(`${name} is missing`);
    }
    const dir = await copied();
    await writeFile(join(dir, 'pytorch_model.bin'), 'x');
    await expect(loadCheckpoint(dir)).rejects.toThrow(/"pytorch_model.bin" was not saved with it/);
  });
});

describe('publishing', () => {
  it('P25, P30: leaves what was there when any one call to the disk fails, and flushes nothing a second time', async () => {
    let failing = 0;
    for (let failed = true; failed; failing++) {
      const folder = await newFolder();
      const before = await saveCheckpoint(folder, tinyContents(1));
      await pointLatest(folder, before.id);
      const log: string[] = [];
      const wrap =
        <K extends keyof Disk>(name: K): Disk[K] =>
        async (...args: never[]) => {
          log.push(name);
          if (log.length - 1 === failing) throw Object.assign(new Error('EIO: i/o error'), { code: 'EIO' });
          await (disk[name] as (...a: never[]) => Promise<void>)(...args);
        };
      const broken: Disk = {
        makeFolder: wrap('makeFolder'),
        writeFile: wrap('writeFile'),
        flushFolder: wrap('flushFolder'),
        rename: wrap('rename'),
        remove: disk.remove,
      };
      const error = await saveCheckpoint(folder, tinyContents(2), { disk: broken })
        .then(({ id }) => pointLatest(folder, id, { disk: broken }))
        .catch((reason) => reason);
      failed = error !== undefined;
      if (failed) expect(error).toMatchObject({ code: 'training_failed', message: expect.stringMatching(/EIO/) });
      // All files are begun together, so what runs after a failed write is the rest of that round and nothing else.
      const after = log.slice(failing + 1);
      expect(log[failing] === 'writeFile' ? after.filter((name) => name !== 'writeFile') : after).toEqual([]);
      expect((await readdir(folder)).filter((name) => name.startsWith('.'))).toEqual([]);
      for (const id of await listCheckpoints(folder)) await loadCheckpoint(join(folder, id));
      const latest = await loadCheckpoint((await latestCheckpoint(folder))!);
      expect(failed ? [1, 2] : [2]).toContain(latest.meta.step);
    }
    expect(failing).toBeGreaterThan(15);
  });

  it('replaces a file in one step', async () => {
    const path = join(await newFolder(), 'file');
    await publishFile(path, Buffer.from('one'));
    await publishFile(path, Buffer.from('two'));
    expect(await readFile(path, 'utf8')).toBe('two');
  });

  it('sweeps what dead processes left and nothing else', async () => {
    const folder = await newFolder();
    const dead = spawn(process.execPath, ['-e', '']);
    await new Promise((resolve) => dead.once('exit', resolve));
    const names = [
      `.tmp-${dead.pid}-00000000-x`,
      `.tmp-${process.pid}-00000000-x`,
      `.tmp-${process.ppid}-00000000-x`,
      'mine',
    ];
    for (const name of names) await mkdir(join(folder, name));
    expect((await sweepTemporary(folder)).sort()).toEqual(names.slice(0, 2).sort());
    expect((await readdir(folder)).sort()).toEqual(names.slice(2).sort());
  });
});
