/** Sampling and gradient steps of a rollout and a round alone: the recorded calls, and the frozen rows, by nothing but the model. */
import { createHash } from 'node:crypto';
import { openDataset } from '../../store/datasets/read.ts';
import type { StepRow } from '../../trainer/learn/data/training-rows.ts';
import { policyRow } from '../../trainer/learn/data/training-rows.ts';
import { closeLearner, type Learner, openLearner, resetOptimizer } from '../../trainer/learn/learner.ts';
import { type RlNumbers, rlOptions } from '../../trainer/learn/numbers.ts';
import { rlPass } from '../../trainer/learn/rl.ts';
import { openModelForIds } from '../../trainer/model/model-directory.ts';
import type { SampleRequest, Weights } from '../../trainer/model/weights.ts';
import { Policy } from '../../trainer/sample/policy.ts';
import { runtime } from '../../trainer/tensor/session.ts';
import { serve, timed } from './lines.ts';

/** What one iteration of a round asked of the model. Without `learn`, which stands for its training job, nothing is learnt. */
export type Part = {
  readonly calls: readonly Pick<SampleRequest, 'promptIds' | 'n' | 'maxTokens' | 'temperature' | 'seed'>[];
  readonly learn: (RlNumbers & { readonly dataset: string }) | null;
};

await runtime();
let learner: Learner | null = null;
let policy: Policy | null = null;
let first: Weights = new Map();
let stopIds: readonly number[] = [];

await serve({
  async open({ dir, threads }: { dir: string; threads: number }) {
    await policy?.close();
    if (learner !== null) await closeLearner(learner);
    learner = await openLearner(dir, { threads });
    first = new Map([...learner.open.weights].map(([name, { shape, data }]) => [name, { shape, data: data.slice() }]));
    stopIds = learner.open.eosIds;
    policy = await Policy.load(learner.open.config, first, { threads });
  },

  /** Each part from the weights that the one before it left, the first from those that were opened. Rows are read before the time begins. */
  async again({ parts }: { parts: readonly Part[] }) {
    const { model } = learner!;
    for (const [name, { data }] of first) (model.weights.get(name)!.data as Float32Array).set(data as Float32Array);
    resetOptimizer(learner!);
    policy!.setWeights(first);
    const rows = await Promise.all(
      parts.map(async ({ learn }) =>
        learn === null
          ? []
          : ([...(await openDataset(learn.dataset)).rows('train')] as unknown as StepRow[]).map(policyRow),
      ),
    );
    const [{ tokens, sampling }, spent] = await timed(async () => {
      const tokens: (readonly number[])[][][] = [];
      let sampling = 0;
      for (const [i, { calls, learn }] of parts.entries()) {
        const began = performance.now();
        const drawn = await policy!.sample(calls.map((call) => ({ ...call, stopIds: [...stopIds] })));
        sampling += (performance.now() - began) / 1000;
        tokens.push(drawn.map((samples) => samples.map(({ tokenIds }) => tokenIds)));
        if (learn === null) continue;
        await rlPass(model, rows[i]!, rlOptions(learn, model));
        policy!.setWeights(model.weights);
      }
      return { tokens, sampling };
    });
    return { tokens, sampling, weights: fingerprint(model.weights), ...spent };
  },

  weightsOf: async ({ dir }: { dir: string }) => ({ weights: fingerprint((await openModelForIds(dir)).weights) }),
});
await (policy as Policy | null)?.close();
if (learner !== null) await closeLearner(learner);

/** SHA-256 of all parameters, by name. */
function fingerprint(weights: Weights): string {
  const hash = createHash('sha256');
  for (const name of [...weights.keys()].sort()) {
    const { data } = weights.get(name)!;
    hash.update(name).update(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
  }
  return hash.digest('hex');
}
