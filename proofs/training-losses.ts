/**
 * Rows as `training_in_pytorch.py` draws them, made into the rows and the loss that Troupe trains with, in the way its commands make
 * them: means and advantages become weights, turns and pairs become segments.
 */
import type { Row } from '../trainer/learn/data/row.ts';
import type { TokenRow } from '../trainer/learn/data/training-rows.ts';
import { type PolicyLossName, type PolicyLossOptions, policyLoss } from '../trainer/learn/policy-losses.ts';
import { type PreferenceRow, preferenceBatch, referenceScores } from '../trainer/learn/preference.ts';
import { type SftMean, supervisedBatch } from '../trainer/learn/sft.ts';
import { closeTrainable, trainable } from '../trainer/learn/step.ts';
import { dpoLoss } from '../trainer/model/losses/dpo.ts';
import type { Loss } from '../trainer/model/losses/loss.ts';
import { lastTokenPreference } from '../trainer/model/losses/preference-segments.ts';
import { bradleyTerryLoss } from '../trainer/model/losses/reward-head.ts';
import { sftLoss, tokenMeanWeights } from '../trainer/model/losses/sft.ts';
import { sftEntropyLoss } from '../trainer/model/losses/sft-entropy.ts';
import { turnRatioLoss } from '../trainer/model/losses/turn-ratio.ts';
import { turnSegments } from '../trainer/model/losses/turn-segments.ts';
import { valueCrossEntropyLoss, valueHuberLoss, valueMseLoss } from '../trainer/model/losses/value-regression.ts';
import type { ModelConfig, Weights } from '../trainer/model/weights.ts';

export type DrawnCompletion = {
  readonly token_ids: readonly number[];
  readonly mask: readonly (0 | 1)[];
  readonly advantage: number;
  readonly turns: readonly number[];
  /** Of each token, for turns. */
  readonly advantages: readonly number[];
  readonly old_logprobs: readonly number[];
  readonly ref_logprobs: readonly number[];
  readonly returns: readonly number[];
};
export type DrawnRow = { readonly prompt_ids: readonly number[]; readonly completions: readonly DrawnCompletion[] };

export type ProvedLoss =
  | SftMean
  | 'entropy'
  | PolicyLossName
  | 'turn-ratio-trajectory'
  | 'dpo'
  | 'dpo-smoothed'
  | 'value-mse'
  | 'value-huber'
  | 'value-cross-entropy'
  | 'bradley-terry';

type Start = { readonly config: ModelConfig; readonly weights: Weights };
type Batches = readonly (readonly DrawnRow[])[];
export type Proved = { readonly loss: Loss; readonly rows: readonly (readonly Row[])[] };

/** What is more than a name, as in the script. */
const OPTIONS: Readonly<Partial<Record<ProvedLoss, PolicyLossOptions>>> = {
  'clipped-policy': { entropy: 0.02 },
  grpo: { kl: 0.1 },
  dapo: { entropy: 0.02 },
};

/** @param start the model before training, which is the reference of preferences */
export async function lossOf(name: ProvedLoss, start: Start, batches: Batches): Promise<Proved> {
  switch (name) {
    case 'token-mean':
    case 'sequence-mean':
      return { loss: sftLoss, rows: batches.map((rows) => supervised(rows, name, 0)) };
    case 'entropy':
      return { loss: sftEntropyLoss, rows: batches.map((rows) => supervised(rows, 'token-mean', 0.05)) };
    case 'clipped-policy':
    case 'ppo':
    case 'grpo':
    case 'dr-grpo':
    case 'dapo':
    case 'turn-ratio':
      return policy(name, batches);
    case 'turn-ratio-trajectory':
      return { loss: turnRatioLoss(), rows: batches.map(byTurns) };
    case 'dpo':
      return { loss: dpoLoss({ beta: 0.3 }), rows: await preferred(start, batches) };
    case 'dpo-smoothed':
      return { loss: dpoLoss({ labelSmoothing: 0.1 }), rows: await preferred(start, batches) };
    case 'value-mse':
      return { loss: valueMseLoss, rows: batches.map((rows) => valued(rows)) };
    case 'value-huber':
      return { loss: valueHuberLoss(), rows: batches.map((rows) => valued(rows)) };
    case 'value-cross-entropy':
      return {
        loss: valueCrossEntropyLoss,
        rows: batches.map((rows) => valued(rows, (target) => 1 / (1 + Math.exp(-target)))),
      };
    case 'bradley-terry':
      return { loss: bradleyTerryLoss, rows: batches.map(rewarded) };
  }
}

const trainedOf = ({ mask }: DrawnCompletion): boolean[] => mask.map((on) => on === 1);

const tokenRow = (promptIds: readonly number[], completion: DrawnCompletion): TokenRow => ({
  promptIds,
  tokenIds: completion.token_ids,
  trained: trainedOf(completion),
});

/** Weights of a mean over all completions of a step, put back in the rows they are in. */
function withCompletions(rows: readonly DrawnRow[], flat: readonly Row[]): Row[] {
  let next = 0;
  return rows.map(({ prompt_ids, completions }) => ({
    promptIds: prompt_ids,
    completions: completions.map(() => flat[next++]!.completions[0]!),
  }));
}

function supervised(rows: readonly DrawnRow[], mean: SftMean, entropy: number): Row[] {
  const flat = rows.flatMap(({ prompt_ids, completions }) => completions.map((one) => tokenRow(prompt_ids, one)));
  return withCompletions(rows, supervisedBatch(flat, mean, entropy));
}

function policy(name: PolicyLossName, batches: Batches): Proved {
  const { loss, rowsOf } = policyLoss(name, OPTIONS[name]);
  const rows = batches.map((batch) =>
    rowsOf(
      batch.flatMap(({ prompt_ids, completions }, call) =>
        completions.map((one) => ({
          ...tokenRow(prompt_ids, one),
          role: 'solver',
          group: 'group',
          problem: 'problem',
          callId: String(call),
          logprobs: one.old_logprobs,
          reference: one.ref_logprobs,
          advantage: one.advantage,
        })),
      ),
    ),
  );
  return { loss, rows };
}

function byTurns(rows: readonly DrawnRow[]): Row[] {
  const turns = turnSegments(
    rows.map(({ completions }) => completions.map(({ turns: turn, advantages: advantage }) => ({ turn, advantage }))),
  );
  return rows.map(({ prompt_ids, completions }, q) => {
    const { completions: segmented, segmentWeights } = turns[q]!;
    return {
      promptIds: prompt_ids,
      segmentWeights,
      completions: completions.map(({ token_ids, old_logprobs }, i) => ({
        tokenIds: token_ids,
        oldLogprobs: old_logprobs,
        ...segmented[i]!,
      })),
    };
  });
}

async function preferred({ config, weights }: Start, batches: Batches): Promise<Row[][]> {
  const pairs = batches.map((rows) =>
    rows.map(({ prompt_ids, completions }): PreferenceRow => {
      const [chosen, rejected] = completions.map((one) => tokenRow(prompt_ids, one));
      return { promptIds: prompt_ids, chosen: chosen!, rejected: rejected! };
    }),
  );
  const reference = trainable(config, weights);
  try {
    const made: Row[][] = [];
    for (const rows of pairs) made.push(preferenceBatch(rows, await referenceScores(reference, rows)));
    return made;
  } finally {
    await closeTrainable(reference);
  }
}

function valued(rows: readonly DrawnRow[], target: (value: number) => number = (value) => value): Row[] {
  const weights = tokenMeanWeights(rows.flatMap(({ completions }) => completions.map(trainedOf)));
  let next = 0;
  return rows.map(({ prompt_ids, completions }) => ({
    promptIds: prompt_ids,
    completions: completions.map(({ token_ids, returns }) => ({
      tokenIds: token_ids,
      weights: weights[next++]!,
      returns: returns.map(target),
    })),
  }));
}

function rewarded(rows: readonly DrawnRow[]): Row[] {
  return rows.map(({ prompt_ids, completions: [chosen, rejected] }) => {
    const sides = [chosen!.token_ids, rejected!.token_ids] as const;
    const { completions, segmentWeights } = lastTokenPreference(sides[0].length, sides[1].length, rows.length);
    return {
      promptIds: prompt_ids,
      segmentWeights,
      completions: completions.map((side, i) => ({ tokenIds: sides[i]!, ...side })),
    };
  });
}
