import { cp, mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { listFiles, readFiles, saveCheckpointAt } from '../../trainer/model/checkpoints/checkpoint.ts';
import { emptyMeta, identityOf } from '../../trainer/model/checkpoints/checkpoint-format.ts';
import { encodeSafetensors } from '../../trainer/model/files/safetensors.ts';
import { INDEX, readModelFiles } from '../../trainer/model/model-files.ts';
import type { Tensor, Weights } from '../../trainer/model/weights.ts';
import { tinyContents } from './tiny-checkpoint.ts';
import { identify } from './whole-checkpoint.ts';

let root: string;
let count = 0;
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'troupe-model-files-'));
});
afterAll(() => rm(root, { recursive: true, force: true }));

const { weights } = tinyContents(1);

/** A model in one file, without what makes it a checkpoint. */
async function plain(): Promise<string> {
  const dir = join(root, `model-${count++}`);
  await saveCheckpointAt(dir, tinyContents(1), { durable: false });
  for (const name of ['troupe.json', 'optimizer.moments', 'state.json']) await rm(join(dir, name));
  return dir;
}

type Index = { metadata?: object; weight_map: Record<string, unknown> };

/** The same in two shards, whose index can be changed. */
async function sharded(change: (index: Index) => unknown = (index) => index): Promise<string> {
  const dir = await plain();
  await rm(join(dir, 'model.safetensors'));
  const entries = [...weights];
  const weight_map: Record<string, string> = {};
  for (const [i, part] of [entries.slice(0, 7), entries.slice(7)].entries()) {
    const name = `model-0000${i + 1}-of-00002.safetensors`;
    await writeFile(join(dir, name), encodeSafetensors(new Map(part)));
    for (const [tensor] of part) weight_map[tensor] = name;
  }
  await writeFile(join(dir, INDEX), JSON.stringify(change({ metadata: { total_size: 1 }, weight_map })));
  return dir;
}

const sorted = (tensors: Weights): [string, Tensor][] => [...tensors].sort(([a], [b]) => (a < b ? -1 : 1));

describe('the files of a model', () => {
  it('are read in one piece or in shards as the same weights, with the identity of their bytes', async () => {
    for (const dir of [await plain(), await sharded()]) {
      const { weights: read, facts, texts } = await readModelFiles(dir);
      expect(sorted(read)).toEqual(sorted(weights));
      expect([...texts.keys()]).toEqual((await listFiles(dir)).filter((name) => !name.includes('safetensors')));
      const all = await readFiles(dir, await listFiles(dir));
      expect(identityOf(facts, emptyMeta)).toEqual(identify(all, emptyMeta));
    }
  });

  it.each<[string, (index: Index) => unknown, RegExp]>([
    [
      'names a shard outside',
      (index) => ({ weight_map: { ...index.weight_map, x: '../model.safetensors' } }),
      /which is not there/,
    ],
    ['names an absolute path', () => ({ weight_map: { x: '/etc/passwd' } }), /which is not there/],
    ['names a file that is no safetensors', () => ({ weight_map: { x: 'config.json' } }), /which is not there/],
    [
      'names a tensor that is in no shard',
      (index) => ({ weight_map: { ...index.weight_map, x: 'model-00001-of-00002.safetensors' } }),
      /do not hold "x"/,
    ],
    [
      'leaves a tensor out',
      ({ weight_map: { 'model.norm.weight': _, ...rest } }) => ({ weight_map: rest }),
      /which is not in its index/,
    ],
    [
      'names the other shard',
      (index) => ({ weight_map: { ...index.weight_map, 'model.norm.weight': 'model-00001-of-00002.safetensors' } }),
      /which is not in its index/,
    ],
    ['maps to a number', () => ({ weight_map: { x: 1 } }), /maps/],
    ['maps nothing', () => ({ weight_map: {} }), /maps/],
    ['is null', () => null, /maps/],
  ])('P52: are refused where the index %s', async (_, change, why) => {
    await expect(readModelFiles(await sharded(change))).rejects.toMatchObject({
      code: 'checkpoint_damaged',
      message: expect.stringMatching(why),
    });
  });

  it('P52: are called by what they hold where they are no safetensors, whatever their name', async () => {
    const dir = await plain();
    await rename(join(dir, 'model.safetensors'), join(dir, 'pytorch_model.bin'));
    await writeFile(join(dir, 'pytorch_model.bin'), Buffer.from('\x80\x02cposix\nsystem\n', 'latin1'));
    await expect(readModelFiles(dir)).rejects.toMatchObject({
      code: 'model_unsupported',
      message: expect.stringMatching(/no model.safetensors; pytorch_model.bin is a pickle of Python/),
    });
    await cp(join(dir, 'pytorch_model.bin'), join(dir, 'model.safetensors'));
    await expect(readModelFiles(dir)).rejects.toMatchObject({
      code: 'model_unsupported',
      message: expect.stringMatching(/it is a pickle of Python/),
    });
  });

  it('are not found where there is no model', async () => {
    await expect(readModelFiles(join(root, 'nowhere'))).rejects.toMatchObject({ code: 'not_found' });
    await expect(readModelFiles(root)).rejects.toMatchObject({ code: 'not_found' });
  });
});
