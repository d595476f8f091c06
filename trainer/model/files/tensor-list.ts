/** What the safetensors files of a model or adapter hold, by their headers alone. */
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { TroupeError } from '../../../errors.ts';
import { EARLIER_OPTIMIZER } from '../checkpoints/checkpoint-format.ts';
import { withFile } from './read-file.ts';
import { type Dtype, headerLength, readHeader } from './safetensors-header.ts';
import { type FileKind, SNIFFED_BYTES, sniffFile } from './sniff.ts';

export type ListedTensor = {
  readonly name: string;
  readonly dtype: Dtype;
  readonly shape: readonly number[];
  readonly bytes: number;
};

export type TensorList = {
  /** In the order of the header. */
  readonly tensors: readonly ListedTensor[];
  readonly metadata: Readonly<Record<string, string>>;
  /** Of the whole file. */
  readonly bytes: number;
};

/** The kind of a file by its first bytes. Throws `not_found` or `checkpoint_damaged` where it cannot be read. */
export const sniffPath = (path: string): Promise<FileKind> =>
  withFile(path, async ({ file, bytes }) => {
    const start = new Uint8Array(Math.min(bytes, SNIFFED_BYTES));
    const { bytesRead } = await file.read(start, 0, start.length, 0);
    return sniffFile(start.subarray(0, bytesRead)).kind;
  });

/** Reads the header of a safetensors file. Throws `not_found`, `checkpoint_damaged` or `model_unsupported` naming what is wrong. */
export const listTensors = (path: string): Promise<TensorList> =>
  withFile(path, async ({ file, bytes }) => {
    const read = async (length: number, at: number): Promise<Uint8Array> => {
      const buffer = new Uint8Array(length);
      let got = 0;
      while (got < length) {
        const { bytesRead } = await file.read(buffer, got, length - got, at + got);
        if (bytesRead === 0) throw new TroupeError('checkpoint_damaged', `${path} ended while it was read.`);
        got += bytesRead;
      }
      return buffer;
    };
    const length = headerLength(await read(Math.min(bytes, SNIFFED_BYTES), 0), bytes);
    const { slots, metadata } = readHeader(await read(length, 8), bytes);
    const tensors = slots.map(({ name, dtype, shape, begin, end }) => ({ name, dtype, shape, bytes: end - begin }));
    return { tensors, metadata, bytes };
  });

/** The tensors of all safetensors files of a directory but the optimizer's, by file. */
export async function listDirectoryTensors(dir: string): Promise<ReadonlyMap<string, TensorList>> {
  const names = (await readdir(dir)).filter((name) => name.endsWith('.safetensors') && name !== EARLIER_OPTIMIZER);
  const lists = new Map<string, TensorList>();
  for (const name of names.sort()) lists.set(name, await listTensors(join(dir, name)));
  return lists;
}

/** How many numbers a list of tensors holds, and of which types, the largest part first. */
export function summed(tensors: readonly ListedTensor[]): {
  readonly parameters: number;
  readonly dtypes: readonly Dtype[];
} {
  const byType = new Map<Dtype, number>();
  let parameters = 0;
  for (const { dtype, shape } of tensors) {
    const count = shape.reduce((a, b) => a * b, 1);
    parameters += count;
    byType.set(dtype, (byType.get(dtype) ?? 0) + count);
  }
  return { parameters, dtypes: [...byType].sort((a, b) => b[1] - a[1]).map(([dtype]) => dtype) };
}
