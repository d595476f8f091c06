/**
 * Proof that training here is training as everybody's: from the same weights and the same batches, the same losses, gradient norms
 * and weights as transformers' Llama under torch's autograd and AdamW, step after step, for the supervised and the policy loss.
 */
import { join } from 'node:path';
import type { Completion, Row } from '../trainer/batch.ts';
import { clippedPolicyLoss } from '../trainer/losses/clipped-policy.ts';
import type { Loss } from '../trainer/losses/loss.ts';
import { sequenceMeanWeights, sftLoss } from '../trainer/losses/sft.ts';
import { newModelDirectory, openModel } from '../trainer/model-directory.ts';
import { initialWeights } from '../trainer/models/llama.ts';
import { withWarmup } from '../trainer/optimizer.ts';
import { type RandomStream, randomStream } from '../trainer/random.ts';
import { closeTrainable, trainable, trainStep } from '../trainer/step.ts';
import { wordTokenizer } from '../trainer/tokenizer.ts';
import type { ModelConfig, Weights } from '../trainer/weights.ts';
import type { Outcome, Proof, Setting } from './proof.ts';
import { askPython } from './python.ts';

type Trace = {
  readonly losses: readonly number[];
  readonly gradient_norms: readonly number[];
  /** Every parameter at the end, flat. */
  readonly weights: Readonly<Record<string, readonly number[]>>;
};
type Answer = Trace & { readonly versions: { readonly torch: string; readonly transformers: string } };

const LOSS_TOLERANCE = 1e-4;
/** For each step, relative to the largest weight. A weight decay that is left out shows as 4e-6 a step. */
const WEIGHT_TOLERANCE = 2e-6;
const RATE = 1e-3;
const WARMUP = 5;
const ADAM = { beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weightDecay: 0.01, clip: 1 };
const CLIP = { clipLow: 0.2, clipHigh: 0.28 };

const words = Array.from({ length: 37 }, (_, i) => `w${i}`);
const special = ['<pad>', '<end>'];

const tied: ModelConfig = {
  model_type: 'llama',
  hidden_size: 48,
  intermediate_size: 96,
  num_hidden_layers: 2,
  num_attention_heads: 4,
  num_key_value_heads: 4,
  vocab_size: words.length + special.length,
  max_position_embeddings: 64,
  rms_norm_eps: 1e-6,
  rope_theta: 10000,
  tie_word_embeddings: true,
  bos_token_id: null,
  eos_token_id: 1,
  pad_token_id: 0,
};
const models: Readonly<Record<string, ModelConfig>> = {
  tied,
  grouped: { ...tied, num_hidden_layers: 3, num_key_value_heads: 2, tie_word_embeddings: false, rope_theta: 500000 },
};

const losses: Readonly<
  Record<string, { readonly loss: Loss; readonly draw: (random: RandomStream, rows: number) => Row[] }>
> = {
  sft: { loss: sftLoss, draw: supervisedRows },
  'clipped-policy': { loss: clippedPolicyLoss(CLIP), draw: policyRows },
};

export const proof: Proof = {
  name: 'training-matches-pytorch',
  needs: ['python'],
  async run(setting: Setting): Promise<Outcome> {
    const lines: string[] = [];
    let ok = true;
    for (const [modelName, config] of Object.entries(models)) {
      for (const lossName of Object.keys(losses)) {
        const { fine, line } = await compare(modelName, config, lossName, setting);
        setting.say(line);
        lines.push(line);
        ok &&= fine;
      }
    }
    return { ok, lines };
  },
};

async function compare(
  modelName: string,
  config: ModelConfig,
  lossName: string,
  { short, python, scratch }: Setting,
): Promise<{ readonly fine: boolean; readonly line: string }> {
  const { loss, draw } = losses[lossName]!;
  const dir = join(scratch, `${modelName}-${lossName}`);
  const tokenizer = wordTokenizer(words, special, { eos: '<end>', pad: '<pad>' });
  await newModelDirectory(dir, {
    config,
    weights: initialWeights(config, 5),
    tokenizer,
    chatTemplate: '{{ messages }}',
    seed: 5,
  });
  const random = randomStream(17);
  const batches = Array.from({ length: short ? 20 : 200 }, () => draw(random, 8));
  const rates = batches.map((_, step) => withWarmup(WARMUP, () => RATE)(step));

  const ours = await trainHere(dir, loss, batches, rates);
  const theirs = await askPython<Answer>(python, 'training_in_pytorch.py', [dir], {
    loss: lossName,
    adam: ADAM,
    clip: CLIP,
    rates,
    batches: batches.map((rows) => rows.flatMap(sequences)),
  });
  const lossGap = furthest(ours.losses, theirs.losses);
  const normGap = furthest(ours.gradient_norms, theirs.gradient_norms);
  const weightGap = weightDistance(ours.weights, theirs.weights);
  const moved = Math.abs(ours.losses.at(-1)! - ours.losses[0]!);
  // Losses that never move would agree whatever the optimizer does.
  const fine =
    lossGap < LOSS_TOLERANCE &&
    normGap < LOSS_TOLERANCE * 10 &&
    weightGap < WEIGHT_TOLERANCE * batches.length &&
    moved > 10 * LOSS_TOLERANCE;
  const { torch, transformers } = theirs.versions;
  return {
    fine,
    line: `${fine ? 'ok' : 'NOT OK'}  ${modelName}, ${lossName}, ${batches.length} steps: losses within ${lossGap.toExponential(1)}, gradient norms ${normGap.toExponential(1)}, weights ${weightGap.toExponential(1)}; loss ${ours.losses[0]!.toFixed(4)} to ${ours.losses.at(-1)!.toFixed(4)}  (transformers ${transformers}, torch ${torch})`,
  };
}

async function trainHere(dir: string, loss: Loss, batches: readonly Row[][], rates: readonly number[]): Promise<Trace> {
  const { config, weights } = await openModel(dir);
  const model = trainable(config, weights, { threads: 1 });
  const seen: number[] = [];
  const norms: number[] = [];
  try {
    for (const [step, rows] of batches.entries()) {
      const { loss: value, gradientNorm } = await trainStep(model, rows, { ...ADAM, loss, learningRate: rates[step]! });
      seen.push(value);
      norms.push(gradientNorm);
    }
  } finally {
    await closeTrainable(model);
  }
  return { losses: seen, gradient_norms: norms, weights: flat(model.weights) };
}

const flat = (weights: Weights): Record<string, number[]> =>
  Object.fromEntries([...weights].map(([name, { data }]) => [name, Array.from(data)]));

/** One sequence for each completion, as a program without shared prompts would hold them. */
const sequences = ({ promptIds, completions }: Row): object[] =>
  completions.map(({ tokenIds, weights, oldLogprobs, entropyWeights }) => ({
    prompt_ids: promptIds,
    completion_ids: tokenIds,
    weights,
    old_logprobs: oldLogprobs ?? null,
    entropy_weights: entropyWeights ?? null,
  }));

const ids = ({ uniform }: RandomStream, length: number): number[] =>
  Array.from({ length }, () => 2 + Math.floor(uniform() * words.length));
const some = ({ uniform }: RandomStream, from: number, below: number): number =>
  from + Math.floor(uniform() * (below - from));

/** Rows of different lengths, some of whose tokens are not trained; the mean over sequences is in the weights. */
function supervisedRows(random: RandomStream, rows: number): Row[] {
  const drawn = Array.from({ length: rows }, () => ({
    promptIds: ids(random, some(random, 1, 12)),
    // Learnable: every completion counts up from its first token.
    tokenIds: counting(some(random, 2, 30), some(random, 2, 9)),
  }));
  const weights = sequenceMeanWeights(
    drawn.map(({ tokenIds }) => tokenIds.map((_, t) => t === 0 || random.uniform() < 0.8)),
  );
  return drawn.map(({ promptIds, tokenIds }, i) => ({ promptIds, completions: [{ tokenIds, weights: weights[i]! }] }));
}

const counting = (from: number, length: number): number[] =>
  Array.from({ length }, (_, t) => 2 + ((from + t) % words.length));

/** Prompts with several completions each, advantages of both signs, and old log-probabilities far enough off that some are clipped. */
function policyRows(random: RandomStream, rows: number): Row[] {
  return Array.from({ length: Math.ceil(rows / 2) }, () => ({
    promptIds: ids(random, some(random, 1, 12)),
    completions: Array.from({ length: some(random, 1, 5) }, (): Completion => {
      const tokenIds = ids(random, some(random, 1, 8));
      const advantage = random.normal() / 8;
      return {
        tokenIds,
        weights: tokenIds.map(() => advantage),
        oldLogprobs: tokenIds.map(() => Math.log(1 / words.length) + random.normal() / 4),
        entropyWeights: tokenIds.map(() => 0.01),
      };
    }),
  }));
}

function furthest(a: readonly number[], b: readonly number[]): number {
  if (a.length !== b.length) return Infinity;
  return a.reduce((most, value, i) => {
    const gap = Math.abs(value - b[i]!);
    return Number.isNaN(gap) ? Infinity : Math.max(most, gap);
  }, 0);
}

/** The largest difference of any weight, relative to the largest weight; infinite where names or sizes differ. */
function weightDistance(ours: Trace['weights'], theirs: Trace['weights']): number {
  const names = Object.keys(ours);
  if (names.length !== Object.keys(theirs).length) return Infinity;
  const largest = Math.max(...names.flatMap((name) => ours[name]!.map(Math.abs)));
  return Math.max(...names.map((name) => furthest(ours[name]!, theirs[name] ?? []))) / largest;
}
