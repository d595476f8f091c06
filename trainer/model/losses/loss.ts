/** What a loss is to the training graph: a function from the model's outputs for K trained tokens to a scalar and to what is reported. */
import type { Value } from '../../tensor/node.ts';

/** Numbers of each token that a batch can carry; a loss names those it reads, the batch fails by name where one is missing. */
const TOKEN_COLUMNS = [
  /** Advantage times aggregation weight, or the weight in a supervised mean. */
  'weight',
  /** Log-probability when it was sampled. */
  'old.logprob',
  /** Log-probability under the reference policy. */
  'ref.logprob',
  'entropy.weight',
  /** Aggregation weight times the coefficient of the divergence to the reference. */
  'kl.weight',
  /** The target of the value head. */
  'return',
] as const;
export type TokenColumn = (typeof TOKEN_COLUMNS)[number];

/** The K trained tokens of a batch, one row each, padding left out. A getter builds its part of the model only when a loss reads it. */
export type LossTokens = {
  /** Log-probability of each token, [K, 1]. */
  readonly logprobs: Value;
  /** Entropy of the distribution each token was drawn from, in nats, [K, 1]. */
  readonly entropy: Value;
  /** The output of the value head before each token is drawn, [K, 1]. Only of a model with such a head. */
  readonly values: Value;
  /** A number of each token that the batch carries, [K, 1]. */
  readonly column: (name: TokenColumn) => Value;
  /**
   * Tokens in M sets that a loss treats as one: the turns of a policy gradient by turns, the two answers of a preference. A set lies in
   * one row of a batch, so a batch in parts never cuts it.
   */
  readonly segments: {
    /** [K, 1] to [M, 1]: the sum over each segment's tokens. */
    readonly sum: (tokens: Value) => Value;
    /** [M, 1] to [K, 1]: each token gets its segment's number. */
    readonly spread: (segments: Value) => Value;
    /** [M, 1]: the segment's weight in the loss; an advantage may be in it. */
    readonly weight: Value;
  };
};

export type LossValues = {
  /** A sum, so that a batch in parts gives the same gradient as a whole: means are in the weights. */
  readonly loss: Value;
  /** Per-token values [K, 1] whose means over the batch's tokens are metrics: `entropy`, `clip_share`, `kl`. */
  readonly report: Readonly<Record<string, Value>>;
};

export type Loss = {
  /** Equal keys mean equal graphs: a compiled graph is found again by it. */
  readonly key: string;
  readonly build: (tokens: LossTokens) => LossValues;
};
