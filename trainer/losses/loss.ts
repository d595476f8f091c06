/** What a loss is to the training graph: a function from token log-probabilities to a scalar and what it reports beside it. */
import type { Value } from '../graph/node.ts';

/** Values of N tokens, [N, 1] each; tokens of padding have weight 0 and entropy weight 0. */
export type LossTokens = {
  readonly logprobs: Value;
  /** Entropy of the distribution each token was drawn from, in nats; costs its computation only when used. */
  readonly entropy: Value;
  readonly weights: Value;
  readonly oldLogprobs: Value;
  readonly entropyWeights: Value;
};

export type LossValues = {
  /** A sum, so that a batch in parts gives the same gradient as a whole: means are in the weights. */
  readonly loss: Value;
  /** Null where the loss does not use entropy and so does not compute it. */
  readonly entropy: Value | null;
  /** 1 where the token's gradient was kept and 0 where clipping removed it; null where nothing is clipped. */
  readonly keep: Value | null;
};

export type Loss = {
  /** Equal keys mean equal graphs: a compiled graph is found again by it. */
  readonly key: string;
  readonly build: (tokens: LossTokens) => LossValues;
};
