/**
 * Where a model under training keeps what changes: weights, gradients and both moments of AdamW side by side in memory that the
 * optimizer's kernel works on and ONNX Runtime reads and writes without a copy. Large models lie in several blocks.
 */

import type { Tensor, Weights } from '../model/weights.ts';
import { COLUMNS, type Kernel, type KernelColumn, MAX_COLUMN_BYTES, makeKernel } from './optimizer-kernel.ts';

/** One parameter's place: bytes [from, to) of each column of a kernel's memory, `to` rounded up to 16. */
type ParameterPlace = { readonly name: string; readonly kernel: Kernel; readonly from: number; readonly to: number };

export type Arena = {
  /** The parameters, as views that updates change. */
  readonly weights: Weights;
  readonly gradients: ReadonlyMap<string, Float32Array>;
  readonly m: ReadonlyMap<string, Float32Array>;
  readonly v: ReadonlyMap<string, Float32Array>;
  /** Gradients of a further part of a batch, to be added to the first. */
  readonly more: ReadonlyMap<string, Float32Array>;
  readonly places: readonly ParameterPlace[];
};

/** An arena that begins with a copy of these weights and zeros beside them. */
export function makeArena(weights: Weights): Arena {
  const places: ParameterPlace[] = [];
  const columns = Object.fromEntries(COLUMNS.map((column) => [column, new Map()])) as Record<
    KernelColumn,
    Map<string, Float32Array>
  >;
  for (const block of blocks(weights)) {
    const bytes = block.reduce((sum, [, tensor]) => sum + padded(tensor), 0);
    const kernel = makeKernel(bytes);
    let from = 0;
    for (const [name, tensor] of block) {
      places.push({ name, kernel, from, to: from + padded(tensor) });
      for (const [i, column] of COLUMNS.entries()) {
        columns[column].set(name, new Float32Array(kernel.memory, i * bytes + from, tensor.data.length));
      }
      (columns.weights.get(name) as Float32Array).set(tensor.data);
      from += padded(tensor);
    }
  }
  const held = [...weights].map(([name, { shape }]): [string, Tensor] => {
    return [name, { shape, data: columns.weights.get(name) as Float32Array }];
  });
  const { gradients, m, v, more } = columns;
  return { weights: new Map(held), gradients, m, v, more, places };
}

const padded = ({ data }: Tensor): number => Math.max(1, Math.ceil(data.length / 4)) * 16;

/** Parameters in as few blocks as hold them. */
function blocks(weights: Weights): (readonly [string, Tensor])[][] {
  const all: (readonly [string, Tensor])[][] = [];
  let room = 0;
  for (const entry of weights) {
    const bytes = padded(entry[1]);
    if (bytes > room) {
      all.push([]);
      room = MAX_COLUMN_BYTES;
    }
    all.at(-1)?.push(entry);
    room -= bytes;
  }
  return all;
}
