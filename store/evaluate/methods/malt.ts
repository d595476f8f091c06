/**
 * MALT: what each generation, verification and refinement in a tree is worth, and the preference pairs that follow.
 *
 * Source: arXiv 2412.01928 §4.2–4.3. Verified (text). A verification is worth the mean of its refinements, a generation the mean of
 * its verifications. Positive is strictly above 0.5; exactly 0.5, up to rounding, is negative. Pairs are (positive, negative) among
 * siblings of one parent. Refinements are 0 or 1, and their own label.
 * Kept: means upwards, strict threshold, pairs among siblings. Dropped: which roles train on what
 * (SFT all three, DPO without the generator). Open: nothing known.
 */

import { Type } from 'typebox';
import type { StepFacts } from '../judging/facts.ts';
import { credit, type Judgement } from '../judging/judgement.ts';
import { outcomesIn, stepTree } from '../judging/search-tree.ts';
import { method } from './method.ts';
import { Bit } from './shapes.ts';
import { mean, sum } from './statistics.ts';

type Pair = readonly [number, number];

export const maltValues = method({
  name: 'malt_values',
  kind: 'credit',
  source: 'MALT: arXiv 2412.01928 §4.2–4.3; verified (text)',
  version: 1,
  summary: 'Values, labels and preference pairs of a generate–verify–refine tree.',
  teams: 'generator, verifier and refiner',
  input: Type.Object({
    refinements: Type.Array(Type.Array(Type.Array(Bit, { minItems: 1 }), { minItems: 1 })),
  }),
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
  judged: {
    over: 'replay',
    reads: ['feedback'],
    writes: ['credits', 'scores'],
    /**
     * MALT: roles generator, verifier and refiner, each expanded from the one before. `correct` on a refiner's step is its outcome; in a tree
     * that grew by replays, else that of the episode that ended with it. What was not graded, and what has nothing graded below it, is left
     * out. Beside the value stand the label and the siblings that the step is preferred to.
     */
    each: (facts) => {
      const outcomes = outcomesIn(facts);
      return (grown) => {
        const { steps } = grown;
        const tree = stepTree(steps);
        if (!tree.grown) return 'no_tree';
        const outcomeOf = outcomes(grown);
        const below = (node: StepFacts, role: string) => tree.childrenOf(node).filter((child) => child.role === role);
        const refinersOf = (node: StepFacts) =>
          below(node, 'refiner').filter((child) => outcomeOf(child) !== undefined);
        const verifiersOf = (node: StepFacts) =>
          below(node, 'verifier').filter((child) => refinersOf(child).length > 0);
        const generators = tree.roots.filter((node) => node.role === 'generator' && verifiersOf(node).length > 0);
        const refinements = generators.map((generator) =>
          verifiersOf(generator).map((verifier) => refinersOf(verifier).map((refiner) => (outcomeOf(refiner) ? 1 : 0))),
        );
        return {
          input: { refinements },
          rows: (output) => {
            const judgements = new Map<StepFacts, Judgement>();
            const judge = (
              family: readonly StepFacts[],
              values: readonly number[],
              labels: readonly boolean[],
              pairs: readonly (readonly [number, number])[],
            ) => {
              for (const [i, step] of family.entries()) {
                const preferred_to = pairs.flatMap(([better, worse]) => (better === i ? [family[worse]!.step_id] : []));
                judgements.set(step, credit(step, values[i] ?? null, null, { label: labels[i], preferred_to }));
              }
            };
            judge(generators, output.V_generator, output.label_generator, output.pairs_generator);
            for (const [g, generator] of generators.entries()) {
              const verifiers = verifiersOf(generator);
              judge(verifiers, output.V_verifier[g]!, output.label_verifier[g]!, output.pairs_verifier[g]!);
              for (const [v, verifier] of verifiers.entries()) {
                const outcomes = refinements[g]![v]!;
                const labels = outcomes.map((outcome) => outcome === 1);
                for (const [r, refiner] of refinersOf(verifier).entries())
                  judgements.set(refiner, credit(refiner, outcomes[r]!, null, { label: labels[r] }));
              }
            }
            return steps.map(
              (step) => judgements.get(step) ?? credit(step, null, tree.apart.get(step) ?? reasonOf(step)),
            );
          },
        };
      };
    },
  },
});

function positive(value: number): boolean {
  return value > 0.5 + 1e-12;
}

function pairsOf(labels: readonly boolean[]): Pair[] {
  const wanted = (label: boolean) => labels.flatMap((one, i) => (one === label ? [i] : []));
  return wanted(true).flatMap((better) => wanted(false).map((worse): Pair => [better, worse]));
}

const reasonOf = ({ role }: StepFacts): string => {
  if (role === 'refiner') return 'not_graded';
  return role === 'generator' || role === 'verifier' ? 'no_graded_refinement' : 'other_role';
};
