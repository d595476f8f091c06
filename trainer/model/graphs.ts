/** The graphs that train a model and that measure it: a tower, the K tokens that matter, a head, a loss, and the gradients. */
import type { Layout } from '../learn/data/batch.ts';
import { gradients } from '../tensor/gradient.ts';
import type { Value } from '../tensor/node.ts';
import {
  chunkedTokenLogprobs,
  distinctRows,
  exp,
  gatherRows,
  input,
  largest,
  less,
  logSoftmax,
  multiply,
  negate,
  pick,
  reshape,
  scalar,
  scatterRows,
  subtract,
  sum,
  tokenLogprobs,
} from '../tensor/operations.ts';
import { completionTower, promptTower } from './decoder.ts';
import { head, normed, outputMatrix, type Parameters, parameterInputs, valueHead } from './layer.ts';
import type { Adapter } from './lora.ts';
import type { Loss, LossTokens, LossValues } from './losses/loss.ts';
import { sequenceTower, type Tower } from './sequence.ts';
import type { ModelConfig } from './weights.ts';

export type Outputs = Readonly<Record<string, Value>>;

export type GraphOptions = {
  /** Reports whether each target was the most probable token: a pass over the logits. */
  readonly accuracy?: boolean;
  /** Trains these matrices instead of the model's own. */
  readonly adapter?: Adapter | null;
  /** Layers of whole sequences are computed again for the gradient instead of kept: a third more work, a fraction of the memory. */
  readonly recompute?: boolean;
};

/** [K, 1] from a per-token input [K]. */
const column = (name: string, type: 'float32' | 'int32' = 'float32'): Value =>
  reshape(input(name, ['K'], type), ['K', 1]);

/**
 * Loss and gradients of a batch. Inputs: those of the layout's tower, the parameters, predict [K] int32 (the row of the tower that
 * predicts each token), target [K] int32 and the columns the loss reads. Outputs: loss [], logprobs [K, 1] (values, where the model has
 * a value head), report.<name> [K, 1] and d.<parameter> for each parameter that is trained.
 */
export function trainingGraph(config: ModelConfig, loss: Loss, layout: Layout, options: GraphOptions = {}): Outputs {
  const parameters = parameterInputs(config, options.adapter);
  const { built, outputs, checkpoints } = lossGraph(config, parameters, loss, layout, options);
  const slopes = gradients(
    built.loss,
    parameters.trained.map(([, value]) => value),
    { checkpoints: options.recompute ? checkpoints : [] },
  );
  return {
    ...outputs,
    ...Object.fromEntries(parameters.trained.map(([name], i) => [`d.${name}`, slopes[i] as Value])),
  };
}

/** The same without gradients: what a loss is on held-out rows. */
export function evaluationGraph(config: ModelConfig, loss: Loss, layout: Layout, options: GraphOptions = {}): Outputs {
  return lossGraph(config, parameterInputs(config, options.adapter), loss, layout, options).outputs;
}

/** The outputs of a model for given tokens, without a loss: logprobs [K, 1], or values [K, 1] where it has a value head. */
export function scoreGraph(config: ModelConfig, layout: Layout): Outputs {
  const parameters = parameterInputs(config);
  return outputsFor(config, tokensOf(config, parameters, predictingRows(config, parameters, layout).stream));
}

function lossGraph(
  config: ModelConfig,
  parameters: Parameters,
  loss: Loss,
  layout: Layout,
  { accuracy = false }: GraphOptions,
): { readonly built: LossValues; readonly outputs: Outputs; readonly checkpoints: readonly Value[] } {
  const { stream, checkpoints } = predictingRows(config, parameters, layout);
  const tokens = tokensOf(config, parameters, stream);
  const built = loss.build(tokens);
  const report = { ...built.report, ...(accuracy && tokens.hits !== null ? { accuracy: tokens.hits } : {}) };
  return {
    built,
    checkpoints,
    outputs: {
      loss: built.loss,
      ...outputsFor(config, tokens),
      ...Object.fromEntries(Object.entries(report).map(([name, value]) => [`report.${name}`, value])),
    },
  };
}

const hasLmHead = ({ head: kind = 'lm' }: ModelConfig): boolean => kind === 'lm';

const outputsFor = (config: ModelConfig, tokens: LossTokens): Outputs =>
  hasLmHead(config) ? { logprobs: tokens.logprobs } : { values: tokens.values };

/** Logits of a larger vocabulary are computed in pieces: of Qwen's 151,936 in ten, each as wide as a small model's whole vocabulary. */
export const VOCABULARY_AT_ONCE = 16_384;

/** What a loss can read of the rows [K, d]; built when it is read, so that a value model computes no logits and sft no entropy. */
function tokensOf(
  config: ModelConfig,
  parameters: Parameters,
  rows: Value,
): LossTokens & {
  /** 1 where the target was the most probable token; null where no distribution is computed whole. */
  readonly hits: Value | null;
} {
  const target = column('target', 'int32');
  const matrix = hasLmHead(config) ? outputMatrix(config, parameters) : null;
  const chunks = matrix === null ? 1 : Math.ceil(config.vocab_size / VOCABULARY_AT_ONCE);
  const x = () => normed(config, parameters, rows);
  const whole = once(() => {
    if (matrix !== null) return tokenLogprobs(x(), matrix, target);
    const distribution = logSoftmax(head(config, parameters, rows));
    return { logprobs: pick(distribution, target), distribution };
  });
  const inChunks = once(() => chunkedTokenLogprobs(x(), matrix as Value, target, chunks));
  return {
    get logprobs() {
      return chunks > 1 ? inChunks() : whole().logprobs;
    },
    get entropy() {
      const { distribution } = whole();
      return negate(sum(multiply(exp(distribution), distribution), [1], true));
    },
    get hits() {
      if (chunks > 1 || !hasLmHead(config)) return null;
      const { logprobs, distribution } = whole();
      return subtract(scalar(1), less(logprobs, largest(distribution)));
    },
    get values() {
      return valueHead(config, parameters, rows);
    },
    column: (name) => column(name),
    get segments() {
      return segments();
    },
  };
}

function once<T>(make: () => T): () => T {
  let made: T | undefined;
  return () => (made ??= make());
}

/** The residual stream [K, d] that predicts each wanted token: no logits are computed of prompts, padding or untrained tokens. */
function predictingRows(config: ModelConfig, parameters: Parameters, layout: Layout): Tower {
  const predict = input('predict', ['K'], 'int32');
  const { stream, checkpoints } =
    layout === 'sequences'
      ? sequenceTower(config, parameters)
      : { stream: completionTower(config, parameters, promptTower(config, parameters)), checkpoints: [] };
  return { stream: distinctRows(stream, predict), checkpoints };
}

function segments(): LossTokens['segments'] {
  const ids = input('segment', ['K'], 'int32');
  return {
    sum: (tokens) => scatterRows(tokens, ids, ['M', 1]),
    spread: (values) => gatherRows(values, ids),
    weight: reshape(input('segment.weight', ['M']), ['M', 1]),
  };
}
