/**
 * Proof that training here is training as everybody does it: random Llama, Qwen2 and Qwen3 models, written by transformers, are trained
 * on the same batches by Troupe and by transformers, PEFT, torch's autograd and AdamW, for every loss, whole and by adapters, on rows of
 * one completion and on shared prompts; losses, gradient norms and what is learnt are compared.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { closeTrainable, trainable, trainStep } from '../trainer/learn/step.ts';
import { openAdapter } from '../trainer/model/adapter-directory.ts';
import { decodeSafetensors } from '../trainer/model/files/safetensors.ts';
import { openModel } from '../trainer/model/model-directory.ts';
import type { Weights } from '../trainer/model/weights.ts';
import { apart, movedBy, signed, within } from './distance.ts';
import type { Outcome, Proof, Setting } from './proof.ts';
import { type PythonWorker, startPython } from './python-worker.ts';
import { type DrawnRow, lossOf, type ProvedLoss } from './training-losses.ts';

type Model = {
  readonly family: 'llama' | 'qwen2' | 'qwen3';
  readonly head?: 'value' | 'reward';
  readonly config?: Readonly<Record<string, unknown>>;
  readonly dtype?: 'bfloat16' | 'float16';
  readonly seed?: number;
};

type Case = {
  readonly model: Model;
  readonly loss: ProvedLoss;
  /** PEFT's LoraConfig; `begun`: B is not zero at the beginning. Whole weights are trained without it. */
  readonly adapter?: Readonly<Record<string, unknown>>;
  /** More than one: they share a prompt, which is computed once. */
  readonly completions: number;
  readonly threads?: number;
  /** Of a step; 6 completions if left out. */
  readonly rows?: number;
};

type Trace = { readonly losses: readonly number[]; readonly gradient_norms: readonly number[] };
type Answer = Trace & { readonly batches: readonly (readonly DrawnRow[])[] };
type Gaps = { readonly losses: number; readonly norms: number; readonly weights: number };
type Compared = { readonly fine: boolean; readonly what: string; readonly gaps: Gaps };
type Versions = { readonly torch: string; readonly transformers: string; readonly peft: string };

const LOSS_TOLERANCE = 1e-4;
const NORM_TOLERANCE = 1e-3;
/** Of what is trained, relative to how far it moved. A weight decay that is left out shows as 1e-3 and more. */
const WEIGHT_TOLERANCE = 1e-3;
const ADAM = { learningRate: 1e-3, beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weightDecay: 0.01, clip: 1 };
/** More, and losses of rows learnt by heart are near 0, where rounding is a large part of them. */
const STEPS = 20;
const BATCHES = 5;
const UNKNOWN: Gaps = { losses: Infinity, norms: Infinity, weights: Infinity };
const COMPLETIONS = 6;

const ATTENTION = { r: 4, lora_alpha: 8, target_modules: ['q_proj', 'v_proj'] };
const ALL = {
  r: 3,
  lora_alpha: 12,
  target_modules: ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj'],
};
const ranked = { r: 4, lora_alpha: 8, use_rslora: true, rank_pattern: { k_proj: 2 }, begun: true };
const RANKED = { ...ranked, target_modules: ['q_proj', 'k_proj', 'o_proj', 'down_proj'] };
const BEGUN = { ...ALL, begun: true };

const llama: Model = { family: 'llama' };
const qwen2: Model = { family: 'qwen2', seed: 1 };
const qwen3: Model = { family: 'qwen3', config: { head_dim: 16 }, seed: 2 };
const tied: Model = { family: 'llama', config: { tie_word_embeddings: true, num_key_value_heads: 4 }, seed: 3 };
const biased: Model = { family: 'llama', config: { attention_bias: true, mlp_bias: true, head_dim: 8 }, seed: 4 };
const single: Model = {
  family: 'qwen2',
  config: { num_key_value_heads: 1, tie_word_embeddings: true },
  dtype: 'bfloat16',
};
const stretched: Model = {
  family: 'qwen3',
  config: {
    head_dim: 8,
    attention_bias: true,
    tie_word_embeddings: true,
    rope_parameters: {
      rope_type: 'yarn',
      rope_theta: 1000,
      factor: 4,
      original_max_position_embeddings: 16,
    },
  },
  dtype: 'float16',
};
/** More words than logits are computed of at once. */
const wordy: Model = { family: 'llama', config: { vocab_size: 17000, tie_word_embeddings: true }, seed: 5 };
const wordyUntied: Model = { family: 'qwen3', config: { vocab_size: 17000, head_dim: 8 }, seed: 6 };
const valued = (model: Model): Model => ({ ...model, head: 'value' });
const rewarding = (model: Model): Model => ({ ...model, head: 'reward' });

/** Each family, loss, way of training and layout at least twice. */
const SHORT: readonly Case[] = [
  { model: tied, loss: 'token-mean', completions: 1, threads: 2 },
  { model: qwen2, loss: 'token-mean', completions: 3, adapter: ALL },
  { model: qwen3, loss: 'sequence-mean', completions: 1 },
  { model: llama, loss: 'sequence-mean', completions: 1, adapter: ATTENTION },
  { model: biased, loss: 'entropy', completions: 1 },
  { model: stretched, loss: 'entropy', completions: 1, adapter: BEGUN },
  { model: qwen3, loss: 'dpo', completions: 2 },
  { model: qwen2, loss: 'dpo-smoothed', completions: 2, adapter: ALL },
  { model: llama, loss: 'ppo', completions: 4 },
  { model: qwen3, loss: 'ppo', completions: 1, adapter: BEGUN },
  { model: qwen2, loss: 'grpo', completions: 4 },
  { model: biased, loss: 'grpo', completions: 3, adapter: RANKED },
  { model: stretched, loss: 'dr-grpo', completions: 4 },
  { model: llama, loss: 'dr-grpo', completions: 1, adapter: BEGUN },
  { model: single, loss: 'dapo', completions: 1 },
  { model: qwen3, loss: 'dapo', completions: 4, adapter: BEGUN },
  { model: llama, loss: 'clipped-policy', completions: 3 },
  { model: qwen2, loss: 'clipped-policy', completions: 1, adapter: RANKED },
  { model: qwen3, loss: 'turn-ratio', completions: 3 },
  { model: llama, loss: 'turn-ratio-trajectory', completions: 1, adapter: BEGUN },
  { model: valued(qwen2), loss: 'value-huber', completions: 1 },
  { model: valued(qwen3), loss: 'value-huber', completions: 3, adapter: BEGUN },
  { model: valued(llama), loss: 'value-mse', completions: 3 },
  { model: valued(biased), loss: 'value-mse', completions: 1, adapter: ALL },
  { model: rewarding(qwen3), loss: 'bradley-terry', completions: 2 },
  { model: rewarding(qwen2), loss: 'bradley-terry', completions: 2, adapter: BEGUN },
  { model: wordy, loss: 'token-mean', completions: 1 },
  // Steps of more tokens than are computed at once.
  { model: qwen2, loss: 'sequence-mean', completions: 1, rows: 380 },
  { model: llama, loss: 'ppo', completions: 4, adapter: BEGUN, rows: 100 },
];

const PAIRS: readonly ProvedLoss[] = ['dpo', 'dpo-smoothed', 'bradley-terry'];
const VALUES: readonly ProvedLoss[] = ['value-mse', 'value-huber', 'value-cross-entropy'];
const PROVED: readonly ProvedLoss[] = [
  ...(['token-mean', 'sequence-mean', 'entropy', 'dpo', 'dpo-smoothed', 'clipped-policy'] as const),
  ...(['ppo', 'grpo', 'dr-grpo', 'dapo', 'turn-ratio', 'turn-ratio-trajectory'] as const),
];

/** Every model with every loss it can have, whole and by an adapter; layouts by turns. */
const FULL: readonly Case[] = [
  ...SHORT,
  { model: wordyUntied, loss: 'ppo', completions: 3 },
  { model: wordyUntied, loss: 'entropy', completions: 1 },
  { model: wordyUntied, loss: 'dpo', completions: 2, adapter: { ...BEGUN, target_modules: ['q_proj', 'lm_head'] } },
  ...[llama, qwen2, qwen3, tied, biased, single, stretched].flatMap((model, m) =>
    [
      ...PROVED.map((loss) => ({ model, loss })),
      ...VALUES.map((loss) => ({ model: valued(model), loss })),
      { model: rewarding(model), loss: 'bradley-terry' as const },
    ].flatMap((trained, i) => {
      const completions = PAIRS.includes(trained.loss) ? 2 : (i + m) % 2 === 0 ? 1 : 3;
      const adapter = [ALL, BEGUN, RANKED, ATTENTION][(i + m) % 4] as Readonly<Record<string, unknown>>;
      return [
        { ...trained, completions },
        { ...trained, completions, adapter },
      ];
    }),
  ),
];

export const proof: Proof = {
  name: 'training-matches-pytorch',
  needs: ['python'],
  async run({ short, python, scratch, say }: Setting): Promise<Outcome> {
    const worker = startPython(python, 'training_in_pytorch.py');
    const lines: string[] = [];
    const largest = { losses: 0, norms: 0, weights: 0 };
    let ok = true;
    const tell = (fine: boolean, what: string): void => {
      const line = `${fine ? 'ok' : 'NOT OK'}  ${what}`;
      say(line);
      lines.push(line);
      ok &&= fine;
    };
    try {
      const versions = worker.ask<Versions>({ do: 'versions' });
      // All are asked at once: Python trains on one core while Troupe does on the other.
      const asked = (short ? SHORT : FULL).map((one, i) => ask(worker, one, join(scratch, String(i)), i));
      for (const answer of asked) answer.theirs.catch(() => {});
      for (const { one, dir, theirs } of asked) {
        const { fine, what, gaps } = await theirs
          .then((answer) => compare(one, dir, answer))
          .catch((error: Error) => ({ fine: false, what: error.message, gaps: UNKNOWN }));
        for (const name of ['losses', 'norms', 'weights'] as const) largest[name] = Math.max(largest[name], gaps[name]);
        tell(fine, `${nameOf(one)}: ${what}`);
      }
      const { torch, transformers, peft } = await versions;
      say(`The largest of ${lines.length}: ${described(largest)}`);
      say(`PyTorch is torch ${torch} with transformers ${transformers} and peft ${peft}`);
    } finally {
      await worker.close();
    }
    return { ok, lines };
  },
};

function ask(worker: PythonWorker, one: Case, dir: string, seed: number) {
  const { model, loss, adapter, completions } = one;
  const untrained = PAIRS.includes(loss) ? 0 : 0.1;
  const theirs = worker.ask<Answer>({
    do: 'train',
    ...{ directory: dir, model, loss, completions, steps: STEPS, seed, untrained, adam: ADAM },
    batches: BATCHES,
    rows: one.rows ?? Math.max(2, Math.ceil(COMPLETIONS / completions)),
    ...(adapter ? { adapter } : {}),
  });
  return { one, dir, theirs };
}

async function compare(one: Case, dir: string, theirs: Answer): Promise<Compared> {
  const ours = await trainHere(one, dir, theirs);
  const learnt = await learntThere(one, dir);
  const losses = apart(ours.losses, theirs.losses, { floor: signed(theirs.losses) });
  const norms = apart(ours.gradient_norms, theirs.gradient_norms);
  const weights = movedApart(ours.before, ours.after, learnt);
  const moved = movedBy(theirs.losses, BATCHES);
  // Losses that never move would agree whatever the optimizer does.
  const fine =
    within(losses, LOSS_TOLERANCE) &&
    within(norms, NORM_TOLERANCE) &&
    within(weights, WEIGHT_TOLERANCE) &&
    moved > 100 * LOSS_TOLERANCE;
  const gaps = { losses, norms, weights };
  return {
    fine,
    gaps,
    what: `${theirs.losses.length} ${described(gaps)}; training moved the loss by ${percent(moved)}`,
  };
}

function nameOf({ model, loss, adapter, completions, threads, rows }: Case): string {
  const { head, family, config = {}, dtype } = model;
  const how = [
    `${family}${head ? ` with a ${head} head` : ''}`,
    ...Object.keys(config),
    ...(dtype ? [dtype] : []),
    adapter ? `adapter r=${adapter.r}` : 'whole',
    completions === 1 ? 'single completions' : `${completions} on a prompt`,
    ...(rows === undefined ? [] : [`${rows} rows a step`]),
    ...(threads === undefined ? [] : [`${threads} threads`]),
  ];
  return `${loss}: ${how.join(', ')}`;
}

const described = ({ losses, norms, weights }: Gaps): string =>
  `losses within ${losses.toExponential(1)}, gradient norms ${norms.toExponential(1)}, what was learnt ${weights.toExponential(1)}`;

const percent = (share: number): string => `${Math.round(100 * share)} %`;

type Here = Trace & { readonly before: Weights; readonly after: Weights };

async function trainHere(
  { loss, adapter, threads = 1 }: Case,
  dir: string,
  { batches, losses }: Answer,
): Promise<Here> {
  const { config, weights } = await openModel(dir);
  const held = adapter ? await openAdapter(join(dir, 'adapter')) : null;
  const { loss: function_, rows } = await lossOf(loss, { config, weights }, batches);
  const model = trainable(config, weights, { threads, ...(held ? { adapter: held } : {}) });
  const seen: number[] = [];
  const norms: number[] = [];
  try {
    for (const step of losses.keys()) {
      const taken = rows[step % rows.length]!;
      const done = await trainStep(model, taken, { ...ADAM, loss: function_ });
      seen.push(done.loss);
      norms.push(done.gradientNorm);
    }
  } finally {
    await closeTrainable(model);
  }
  return { losses: seen, gradient_norms: norms, before: held?.weights ?? weights, after: model.trained };
}

async function learntThere({ adapter }: Case, dir: string): Promise<Weights> {
  if (adapter) return (await openAdapter(join(dir, 'trained'))).weights;
  return decodeSafetensors(await readFile(join(dir, 'trained', 'model.safetensors'))).tensors;
}

/** How far what was learnt lies apart, as a part of how far training moved it; infinite where names or sizes differ. */
function movedApart(before: Weights, ours: Weights, theirs: Weights): number {
  if (ours.size !== theirs.size) return Infinity;
  let gap = 0;
  let moved = 0;
  for (const [name, { data }] of ours) {
    const start = before.get(name)?.data;
    const other = theirs.get(name)?.data;
    if (start?.length !== data.length || other?.length !== data.length) return Infinity;
    for (let i = 0; i < data.length; i++) {
      gap += (data[i]! - other[i]!) ** 2;
      moved += (other[i]! - start[i]!) ** 2;
    }
  }
  return Math.sqrt(gap / moved);
}
