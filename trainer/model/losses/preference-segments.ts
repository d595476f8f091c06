/**
 * A preference as a row of a batch: one prompt with two completions, the chosen and the rejected one, which are one segment. A token
 * weighs +1 in the chosen completion and −1 in the rejected one, so that the segment's sum is a margin; the segment weighs 1/pairs.
 */

/** What a row of a batch takes for its two completions, chosen before rejected. */
export type PreferenceSegments = {
  readonly completions: readonly [SegmentSide, SegmentSide];
  readonly segmentWeights: readonly [number];
};
type SegmentSide = { readonly weights: readonly number[]; readonly segments: readonly number[] };

/**
 * For `dpoLoss`, which compares all trained tokens.
 * @param chosen of each token whether it is trained
 * @param pairs in the step, parts included
 */
export function preferenceSegments(
  chosen: readonly boolean[],
  rejected: readonly boolean[],
  pairs: number,
): PreferenceSegments {
  const side = (mask: readonly boolean[], sign: number): SegmentSide => ({
    weights: mask.map((on) => (on ? sign : 0)),
    segments: mask.map(() => 0),
  });
  return { completions: [side(chosen, 1), side(rejected, -1)], segmentWeights: [1 / pairs] };
}

/** For `bradleyTerryLoss`, which compares the outputs of the value head at the last token. */
export function lastTokenPreference(chosen: number, rejected: number, pairs: number): PreferenceSegments {
  const last = (length: number) => Array.from({ length }, (_, t) => t === length - 1);
  return preferenceSegments(last(chosen), last(rejected), pairs);
}
