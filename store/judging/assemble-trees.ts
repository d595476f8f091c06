/** Rewards and credit from the tree that the steps of an episode form by the steps they were expanded from. */
import type { Assemble, Assemblers } from './assembler.ts';
import { type StepFacts, stepKey } from './facts.ts';
import { credit, type Judgement, reward } from './judgement.ts';
import { ownRewardsOf, truthsOn } from './named-feedback.ts';
import { answerTo, overEpisodes } from './over-episodes.ts';
import { type Tree, treeOf } from './tree.ts';

export const stepTree = (steps: readonly StepFacts[]): Tree<StepFacts> =>
  treeOf(
    steps,
    (step) => step.step_id,
    (step) => step.parent_step_id,
  );

/** MARS²: the step's own reward is that of its node. A node that hangs from nothing belongs to no family. */
const byTree: Assemble = (method, params, facts) => {
  const ownReward = ownRewardsOf(facts);
  return overEpisodes(method, facts, (_, steps) => {
    const tree = stepTree(steps);
    if (!tree.grown) return 'no_tree';
    const places = new Map(tree.nodes.map((node, i) => [node, i]));
    const parent = tree.nodes.map((node) => places.get(tree.parentOf(node) as StepFacts) ?? -1);
    const values = answerTo<(number | null)[]>(method, { rewards: tree.nodes.map(ownReward), parent, ...params });
    if (typeof values === 'string') return values;
    return steps.map((step) => {
      const place = places.get(step);
      if (place === undefined) return reward(step, null, tree.apart.get(step) ?? null);
      const value = values[place] ?? null;
      return reward(step, value, value === null ? 'missing_reward' : null);
    });
  });
};

type Malt = {
  readonly V_verifier: readonly (readonly number[])[];
  readonly V_generator: readonly number[];
  readonly label_verifier: readonly (readonly boolean[])[];
  readonly label_generator: readonly boolean[];
  readonly pairs_generator: readonly (readonly [number, number])[];
  readonly pairs_verifier: readonly (readonly (readonly [number, number])[])[];
};

/**
 * MALT: roles generator, verifier and refiner, each expanded from the one before. `correct` on a refiner's step is its outcome; what
 * was not graded, and what has nothing graded below it, is left out. Beside the value stand the label and the siblings that the step
 * is preferred to.
 */
const byRefinements: Assemble = (method, params, facts) => {
  const correct = truthsOn(facts.feedback, 'step', 'correct');
  return overEpisodes(method, facts, (_, steps) => {
    const tree = stepTree(steps);
    if (!tree.grown) return 'no_tree';
    const outcomeOf = (step: StepFacts) => correct.get(stepKey(step.episode_id, step.step_id));
    const below = (node: StepFacts, role: string) => tree.childrenOf(node).filter((child) => child.role === role);
    const refinersOf = (node: StepFacts) => below(node, 'refiner').filter((child) => outcomeOf(child) !== undefined);
    const verifiersOf = (node: StepFacts) => below(node, 'verifier').filter((child) => refinersOf(child).length > 0);
    const generators = tree.roots.filter((node) => node.role === 'generator' && verifiersOf(node).length > 0);
    const refinements = generators.map((generator) =>
      verifiersOf(generator).map((verifier) => refinersOf(verifier).map((refiner) => Number(outcomeOf(refiner)))),
    );
    const output = answerTo<Malt>(method, { refinements, ...params });
    if (typeof output === 'string') return output;
    const said = new Map<StepFacts, Judgement>();
    const say = (
      family: readonly StepFacts[],
      values: readonly number[],
      labels: readonly boolean[],
      pairs: readonly (readonly [number, number])[],
    ) => {
      for (const [i, step] of family.entries()) {
        const preferred_to = pairs.flatMap(([better, worse]) => (better === i ? [family[worse]!.step_id] : []));
        said.set(step, credit(step, values[i] ?? null, null, { label: labels[i], preferred_to }));
      }
    };
    say(generators, output.V_generator, output.label_generator, output.pairs_generator);
    for (const [g, generator] of generators.entries()) {
      const verifiers = verifiersOf(generator);
      say(verifiers, output.V_verifier[g]!, output.label_verifier[g]!, output.pairs_verifier[g]!);
      for (const [v, verifier] of verifiers.entries()) {
        const outcomes = refinements[g]![v]!;
        const labels = outcomes.map((outcome) => outcome === 1);
        for (const [r, refiner] of refinersOf(verifier).entries())
          said.set(refiner, credit(refiner, outcomes[r]!, null, { label: labels[r] }));
      }
    }
    return steps.map((step) => said.get(step) ?? credit(step, null, tree.apart.get(step) ?? reasonOf(step)));
  });
};

const reasonOf = ({ role }: StepFacts): string => {
  if (role === 'refiner') return 'not_graded';
  return role === 'generator' || role === 'verifier' ? 'no_graded_refinement' : 'other_role';
};

export const TREE_ASSEMBLERS: Assemblers = {
  'rewards of a tree': { reward: { over: byTree, reads: ['feedback'], writes: ['rewards', 'scores'] } },
  'refinement tree': { credit: { over: byRefinements, reads: ['feedback'], writes: ['credits', 'scores'] } },
};
