/** Outputs of a model under training for given rows: the way for adapters beside the weights, and for heads that generate no text. */

import { closeTrainable, evaluate, trainable } from '../trainer/learn/step.ts';
import type { Adapter } from '../trainer/model/lora.ts';
import { sftLoss } from '../trainer/model/losses/sft.ts';
import { valueMseLoss } from '../trainer/model/losses/value-regression.ts';
import type { ModelConfig, Weights } from '../trainer/model/weights.ts';
import type { ScoreRow } from '../trainer/sample/policy.ts';

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
