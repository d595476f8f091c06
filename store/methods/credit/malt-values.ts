/**
 * MALT: what each generation, verification and refinement in a tree is worth, and the preference pairs that follow.
 *
 * Source: arXiv 2412.01928 §4.2–4.3. Verified (text). A verification is worth the mean of its refinements, a generation the mean of
 * its verifications. Positive is strictly above 0.5; exactly 0.5, up to rounding, is negative. Pairs are (positive, negative) among
 * siblings of one parent. Refinements are 0 or 1, and their own label.
 * Kept: means upwards, strict threshold, pairs among siblings. Dropped: building the tree; which roles train on what
 * (SFT all three, DPO without the generator). Open: nothing known.
 */

import { type Static, Type } from 'typebox';
import type { Method } from '../method.ts';
import { Bit } from '../shapes.ts';
import { mean, sum } from '../statistics.ts';

const Input = Type.Object({
  refinements: Type.Array(Type.Array(Type.Array(Bit, { minItems: 1 }), { minItems: 1 })),
});

type Pair = readonly [number, number];
type Values = {
  readonly V_verifier: readonly (readonly number[])[];
  readonly V_generator: readonly number[];
  readonly label_verifier: readonly (readonly boolean[])[];
  readonly label_generator: readonly boolean[];
  readonly pairs_generator: readonly Pair[];
  readonly pairs_verifier: readonly (readonly Pair[])[];
  readonly n_pairs_refiner: number;
};

export const maltValues: Method<Static<typeof Input>, Record<never, never>, Values> = {
  name: 'malt_values',
  kind: 'credit',
  source: 'MALT: arXiv 2412.01928 §4.2–4.3; verified (text)',
  version: 1,
  needs: 'refinement tree',
  summary: 'Values, labels and preference pairs of a generate–verify–refine tree.',
  params: {},
  input: Input,
  run: ({ refinements }) => {
    const V_verifier = refinements.map((verifications) => verifications.map(mean));
    const V_generator = V_verifier.map(mean);
    const label_verifier = V_verifier.map((values) => values.map(positive));
    const label_generator = V_generator.map(positive);
    return {
      V_verifier,
      V_generator,
      label_verifier,
      label_generator,
      pairs_generator: pairsOf(label_generator),
      pairs_verifier: label_verifier.map(pairsOf),
      n_pairs_refiner: sum(
        refinements.flat().map((outcomes) => {
          const right = sum(outcomes);
          return right * (outcomes.length - right);
        }),
      ),
    };
  },
};

function positive(value: number): boolean {
  return value > 0.5 + 1e-12;
}

function pairsOf(labels: readonly boolean[]): Pair[] {
  const wanted = (label: boolean) => labels.flatMap((one, i) => (one === label ? [i] : []));
  return wanted(true).flatMap((better) => wanted(false).map((worse): Pair => [better, worse]));
}
