/** What is trained on or scored: tokens, and what a loss needs of each. */

/** One completion; the arrays beside `tokenIds` have its length. */
export type Completion = {
  readonly tokenIds: readonly number[];
  /** Advantage times aggregation weight, or the weight in a supervised mean; 0 for a token that is not trained. */
  readonly weights: readonly number[];
  /** Log-probability when it was sampled; needed by losses with a ratio. */
  readonly oldLogprobs?: readonly number[];
  /** Log-probability under the reference policy. */
  readonly refLogprobs?: readonly number[];
  readonly entropyWeights?: readonly number[];
  readonly klWeights?: readonly number[];
  /** The target of the value head before the token. */
  readonly returns?: readonly number[];
  /** For losses over segments: of each token, which of the row's `segmentWeights` is its segment's. */
  readonly segments?: readonly number[];
};

/** A prompt of at least one token and the completions that share it. */
export type Row = {
  readonly promptIds: readonly number[];
  readonly completions: readonly Completion[];
  readonly segmentWeights?: readonly number[];
};
