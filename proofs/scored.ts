/** Outputs of a model under training for given rows: the way for adapters beside the weights, and for heads that generate no text. */

import { sftLoss } from '../trainer/losses/sft.ts';
import { valueMseLoss } from '../trainer/losses/value-regression.ts';
import type { Adapter } from '../trainer/models/lora.ts';
import type { ModelConfig, Weights } from '../trainer/models/weights.ts';
import type { ScoreRow } from '../trainer/sampling/policy.ts';
import { closeTrainable, evaluate, trainable } from '../trainer/training/step.ts';

export type Scored = {
  readonly config: ModelConfig;
  readonly weights: Weights;
  readonly adapter?: { readonly adapter: Adapter; readonly weights: Weights } | null;
};

/** Of each token of each row, or of the last of each, its log-probability or the value before it. */
export async function scored(
  { config, weights, adapter = null }: Scored,
  rows: readonly ScoreRow[],
  { last = false }: { readonly last?: boolean } = {},
): Promise<number[][]> {
  const model = trainable(config, weights, adapter === null ? {} : { adapter });
  const asked = rows.map(({ promptIds, tokenIds }) => {
    const asks = tokenIds.map((_, t) => (last && t < tokenIds.length - 1 ? 0 : 1));
    return { promptIds, completions: [{ tokenIds, weights: asks, returns: tokenIds.map(() => 0) }] };
  });
  try {
    const { logprobs } = await evaluate(model, asked, (config.head ?? 'lm') === 'lm' ? sftLoss : valueMseLoss);
    return logprobs.map(([row]) => (row ?? []).filter((value) => value !== null));
  } finally {
    await closeTrainable(model);
  }
}
