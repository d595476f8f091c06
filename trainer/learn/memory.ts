/**
 * How much memory a training run will take, estimated before it starts: a run that dies of it after an hour gives no reason. An
 * estimate from shapes. Measured in fresh processes, as the growth of the resident set to its peak over steps of `step.ts`,
 * it estimates 0.95 to 1.17 times what was taken: 0.5, 4 and 10 million parameters and a vocabulary of 50,000, one to 128 rows of 8
 * to 512 tokens, whole, with an adapter and with recomputation. `test/trainer/memory-program.ts` measures it.
 */

import { TroupeError } from '../../errors.ts';
import { headSize } from '../model/families.ts';
import { VOCABULARY_AT_ONCE } from '../model/graphs.ts';
import { type Adapter, adaptedMaps, adapterShapes } from '../model/lora.ts';
import { parameterShapes } from '../model/parameters.ts';
import type { ModelConfig } from '../model/weights.ts';
import { TOKENS_AT_ONCE } from './data/batch.ts';

export type MemoryOptions = {
  /** Tokens of one step, prompts included. */
  readonly tokensPerStep: number;
  /** Tokens of the longest row. */
  readonly longest: number;
  /** Trained tokens of one step at most; all of them where it is not known. */
  readonly trainedTokens?: number;
  /** Trained in place of the weights, which are then only held. */
  readonly adapter?: Adapter | null;
  /** Layers are computed again for the gradient instead of kept; only where rows are whole sequences. */
  readonly recompute?: boolean;
  /** The model is written as ONNX too. */
  readonly onnx?: boolean;
  /** Rows have several completions to one prompt. */
  readonly sharedPrompts?: boolean;
};

/** Bytes, each part and all of them. */
export type MemoryEstimate = {
  /** The runtime, its compiled graphs and what JavaScript holds, whatever the model. */
  readonly runtime: number;
  /** The weights as they were opened, and what is trained once more. */
  readonly weights: number;
  readonly gradients: number;
  /** Both moments of what is trained. */
  readonly optimizer: number;
  readonly activations: number;
  readonly logits: number;
  /** What a save makes beside them: the matrices that an adapter is folded into, and an ONNX file. */
  readonly saving: number;
  readonly total: number;
};

const FLOAT = 4;
const RUNTIME = 45e6;
/** A gradient in its place, and what the runtime still holds of it while it is made: 2.3 times measured at 4 and 10 million. */
const GRADIENTS_KEPT = 3.3;
/** Logits, their softmax and their gradient. */
const LOGITS_KEPT = 3;
/** A matrix that is used in pieces is there in pieces too; and where it is trained, so are its gradient and the whole of that. */
const PIECES_KEPT = { held: 1, trained: 3 } as const;

/** An ONNX file and what its writer holds: 2.0 to 2.8 times the weights measured at 1 to 20 million. */
const ONNX_KEPT = 2.7;

/** Numbers in the weights a configuration describes; a matrix that is used twice counts once. */
export const countParameters = (config: ModelConfig): number => countNumbers(parameterShapes(config));

/** Numbers in tensors of these shapes. */
export const countNumbers = (shapes: readonly (readonly [string, readonly number[]])[]): number =>
  shapes.reduce((sum, [, shape]) => sum + shape.reduce((a, b) => a * b, 1), 0);

/** What training takes at its peak, in bytes. */
export function estimateTrainingMemory(config: ModelConfig, options: MemoryOptions): MemoryEstimate {
  const { tokensPerStep, longest, trainedTokens = tokensPerStep, adapter = null } = options;
  const recompute = options.recompute === true && options.sharedPrompts !== true;
  const all = countParameters(config);
  const trained = adapter === null ? all : countNumbers(adapterShapes(config, adapter));
  const atOnce = Math.max(longest, Math.min(tokensPerStep, TOKENS_AT_ONCE));
  const parts = Math.ceil(tokensPerStep / atOnce);
  const layers = config.num_hidden_layers;
  const kept =
    atOnce *
    (recompute ? perToken(config, longest) + (layers + 1) * config.hidden_size : layers * perToken(config, longest));
  const bytes = {
    runtime: RUNTIME,
    weights: FLOAT * (all + trained),
    // Those of a further part of a step are added to those of the parts before it.
    gradients: FLOAT * trained * (GRADIENTS_KEPT + (parts > 1 ? 1 : 0)),
    optimizer: FLOAT * 2 * trained,
    activations: FLOAT * kept,
    logits: FLOAT * logits(config, Math.min(atOnce, trainedTokens), adapter === null),
    saving: FLOAT * ((adapter === null ? 0 : folded(config, adapter)) + (options.onnx ? ONNX_KEPT * all : 0)),
  };
  return { ...bytes, total: Object.values(bytes).reduce((a, b) => a + b, 0) };
}

/** Numbers that a layer keeps of a token until the gradient has passed: vectors of each width, and scores a head and position. */
function perToken(config: ModelConfig, longest: number): number {
  const { hidden_size, intermediate_size, num_attention_heads: heads, num_key_value_heads: groups } = config;
  return 6 * hidden_size + 2 * headSize(config) * (heads + groups) + 4 * intermediate_size + 2.5 * heads * longest;
}

const folded = (config: ModelConfig, adapter: Adapter): number =>
  adaptedMaps(config, adapter).reduce((sum, { in: from, out }) => sum + from * out, 0);

function logits({ head = 'lm', vocab_size, hidden_size }: ModelConfig, tokens: number, trained: boolean): number {
  if (head !== 'lm') return 0;
  const pieces = Math.ceil(vocab_size / VOCABULARY_AT_ONCE);
  const matrix = pieces === 1 ? 0 : vocab_size * hidden_size * PIECES_KEPT[trained ? 'trained' : 'held'];
  return LOGITS_KEPT * tokens * Math.ceil(vocab_size / pieces) + matrix;
}

/** Something that could be changed so that less memory is needed, in the words of who can change it. */
export type Remedy = { readonly say: string; readonly change: Partial<MemoryOptions> };

/**
 * Refuses a run that does not fit, with the numbers, and with what each remedy would make of them. A list of remedies holds
 * the same one ever stronger: the first that is enough is named, or else the last; one that saves nothing is not.
 * @param free bytes that the run may take in all, weights included
 * @throws TroupeError `training_failed`
 */
export function checkTrainingMemory(
  config: ModelConfig,
  options: MemoryOptions,
  { free, remedies = [] }: { readonly free: number; readonly remedies?: readonly (readonly Remedy[])[] },
): MemoryEstimate {
  const estimate = estimateTrainingMemory(config, options);
  const { total, ...parts } = estimate;
  if (total <= free) return estimate;
  const totalWith = (change: Partial<MemoryOptions>): number =>
    estimateTrainingMemory(config, { ...options, ...change }).total;
  const helping = remedies.flatMap((forms) => {
    const best = forms.find(({ change }) => totalWith(change) <= free) ?? forms.at(-1);
    return best && totalWith(best.change) < 0.95 * total ? [best] : [];
  });
  const says = helping.map(({ say, change }) => {
    const less = totalWith(change);
    return `with ${say} it needs ${size(less)}${less <= free ? ', which is there' : ''}`;
  });
  const together = totalWith(Object.assign({}, ...helping.map(({ change }) => change)));
  if (helping.length > 1 && helping.every(({ change }) => totalWith(change) > free)) {
    says.push(`with all of these ${size(together)}${together <= free ? ', which is there' : ''}`);
  }
  const hint = says.length === 0 ? 'Use a smaller model, shorter rows or more memory.' : `${upper(says.join('; '))}.`;
  const each = Object.entries(parts).map(([name, bytes]) => `${name} ${size(bytes)}`);
  throw new TroupeError(
    'training_failed',
    `This run needs about ${size(total)} of memory (${each.join(', ')}); ${size(free)} are there. ${hint}`,
    { expected: `${size(total)} of memory`, got: size(free), hint },
  );
}

const upper = (text: string): string => `${text.charAt(0).toUpperCase()}${text.slice(1)}`;
const size = (bytes: number): string =>
  bytes < 1e9 ? `${Math.max(0, Math.round(bytes / 1e6))} MB` : `${(bytes / 1e9).toFixed(1)} GB`;
