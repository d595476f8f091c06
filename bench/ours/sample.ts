/** Troupe's side of the sampling benchmark: opens a model directory and continues prompts greedily. */

import { openModel } from '../../trainer/model/model-directory.ts';
import { Policy } from '../../trainer/sample/policy.ts';
import { runtime } from '../../trainer/tensor/session.ts';
import { memory, serve, timed } from './lines.ts';

await runtime();
const baseline = memory('VmRSS');
let policy: Policy | null = null;

await serve({
  async open({ dir, threads }: { dir: string; threads: number }) {
    const { config, weights } = await openModel(dir);
    policy = await Policy.load(config, weights, { threads });
  },

  /** Each batch of prompts continued by `tokens` tokens, one batch after the other. */
  async generate({ batches, tokens }: { batches: readonly (readonly number[])[][]; tokens: number }) {
    const asked = batches.map((prompts) =>
      prompts.map((promptIds) => ({ promptIds, n: 1, maxTokens: tokens, temperature: 0, seed: 0, stopIds: [] })),
    );
    const [sampled, spent] = await timed(async () => {
      const all: (readonly number[])[][] = [];
      for (const requests of asked) all.push((await policy!.sample(requests)).map(([sample]) => sample!.tokenIds));
      return all;
    });
    return { tokens: sampled, ...spent };
  },

  memory: () => ({ baseline, peak: memory('VmHWM') }),
});
await (policy as Policy | null)?.close();
