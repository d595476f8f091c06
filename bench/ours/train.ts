/** Troupe's side of the training benchmarks: opens a model directory, takes steps on the given rows, returns their losses. */

import type { Row } from '../../trainer/learn/data/row.ts';
import { type AdamOptions, initAdam } from '../../trainer/learn/optimizer.ts';
import { closeTrainable, type TrainableModel, trainable, trainStep } from '../../trainer/learn/step.ts';
import { openAdapter } from '../../trainer/model/adapter-directory.ts';
import { sftLoss } from '../../trainer/model/losses/sft.ts';
import { openModel } from '../../trainer/model/model-directory.ts';
import { runtime } from '../../trainer/tensor/session.ts';
import { memory, serve, timed } from './lines.ts';

await runtime();
const baseline = memory('VmRSS');
type Open = {
  readonly dir: string;
  /** Directory of an adapter to train in place of all weights. */
  readonly adapter: string | null;
  readonly threads: number;
  readonly adam: AdamOptions;
  /** Where the runtime's trace goes, complete when this process has ended. */
  readonly profile?: string;
};

let model: TrainableModel | null = null;
let adam: AdamOptions = { learningRate: 0 };

await serve({
  async open({ dir, adapter, threads, adam: asked, profile }: Open) {
    const { config, weights } = await openModel(dir);
    model = trainable(config, weights, {
      threads,
      ...(profile === undefined ? {} : { profile }),
      ...(adapter === null ? {} : { adapter: await openAdapter(adapter) }),
    });
    adam = asked;
  },

  /**
   * One step for each batch, a batch being sequences of token ids; all tokens but the first of a sequence are trained.
   * `fresh` begins with a new optimizer.
   */
  async steps({ batches, fresh = false }: { batches: readonly (readonly number[])[][]; fresh?: boolean }) {
    const rows = batches.map(rowsOf);
    const [losses, spent] = await timed(async () => {
      const seen: number[] = [];
      if (fresh) model!.optimizer = initAdam();
      for (const batch of rows) seen.push((await trainStep(model!, batch, { ...adam, loss: sftLoss })).loss);
      return seen;
    });
    return { losses, ...spent };
  },

  memory: () => ({ baseline, peak: memory('VmHWM') }),
});
if (model !== null) await closeTrainable(model);

/** The mean over all trained tokens of the batch is in the weights. */
function rowsOf(sequences: readonly (readonly number[])[]): Row[] {
  const trained = sequences.reduce((sum, ids) => sum + ids.length - 1, 0);
  return sequences.map((ids) => {
    const tokenIds = ids.slice(1);
    return { promptIds: ids.slice(0, 1), completions: [{ tokenIds, weights: tokenIds.map(() => 1 / trained) }] };
  });
}
