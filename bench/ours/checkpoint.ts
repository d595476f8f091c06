/** Both sides of the checkpoint benchmark: saving weights and optimizer, and writing as many bytes to one file. */
import { open, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { loadCheckpoint, saveCheckpoint } from '../../trainer/model/checkpoints/checkpoint.ts';
import type { CheckpointContents } from '../../trainer/model/checkpoints/checkpoint-format.ts';
import { openModel } from '../../trainer/model/model-directory.ts';
import type { Tensor, Weights } from '../../trainer/model/weights.ts';
import { memory, serve, timed } from './lines.ts';

const baseline = memory('VmRSS');
let contents: CheckpointContents | null = null;
let bytes: Uint8Array = new Uint8Array();

await serve({
  /** A model, and moments that are as large as its weights. */
  async open({ dir }: { dir: string }) {
    const { config, weights, sideFiles, meta } = await openModel(dir);
    const [m, v] = [scaled(weights, 0.1), scaled(weights, 0.01)];
    contents = { config, weights, sideFiles, optimizer: { step: 1, m, v }, state: null, meta };
  },

  /** Saves it as of a step; what can be read back is then compared with it, and removed. */
  async save({ folder, step }: { folder: string; step: number }) {
    const { meta, optimizer, ...rest } = contents!;
    const now = { ...rest, optimizer: { ...optimizer!, step }, meta: { ...meta, step } };
    const before = process.cpuUsage();
    const [saved, spent] = await timed(() => saveCheckpoint(folder, now));
    const loaded = await loadCheckpoint(saved.dir);
    const same =
      loaded.id === saved.id &&
      loaded.optimizer?.step === step &&
      sameWeights(loaded.weights, now.weights) &&
      sameWeights(loaded.optimizer.m, now.optimizer.m) &&
      sameWeights(loaded.optimizer.v, now.optimizer.v);
    await rm(saved.dir, { recursive: true });
    return { bytes: saved.bytes, same, ...spent, checking_cpu_seconds: cpuSince(before) - spent.cpu_seconds };
  },

  /** Writes so many bytes, all at once, to one new file and flushes it to the device. */
  async write({ folder, size }: { folder: string; size: number }) {
    if (bytes.length !== size) bytes = Uint8Array.from({ length: size }, (_, i) => (i * 31 + (i >> 8)) & 255);
    const path = join(folder, 'ceiling');
    const before = process.cpuUsage();
    const [, spent] = await timed(async () => {
      const file = await open(path, 'wx');
      await file.writeFile(bytes);
      await file.sync();
      await file.close();
    });
    const same = Buffer.from(bytes.buffer).equals(await readFile(path));
    await rm(path);
    return { bytes: size, same, ...spent, checking_cpu_seconds: cpuSince(before) - spent.cpu_seconds };
  },

  memory: () => ({ baseline, peak: memory('VmHWM') }),
});

function cpuSince(before: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1e6;
}

function scaled(weights: Weights, by: number): Weights {
  const times = ({ shape, data }: Tensor): Tensor => ({ shape, data: data.map((x) => x * by) });
  return new Map([...weights].map(([name, tensor]) => [name, times(tensor)]));
}

function sameWeights(a: Weights, b: Weights): boolean {
  const same = ([name, { data }]: readonly [string, Tensor]): boolean => {
    const other = b.get(name)?.data;
    return other !== undefined && bytesOf(data).equals(bytesOf(other));
  };
  return a.size === b.size && [...a].every(same);
}

function bytesOf({ buffer, byteOffset, byteLength }: Float32Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength);
}
