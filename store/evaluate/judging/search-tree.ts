/**
 * Values of a search tree that the steps of an episode form, or those of episodes that were played from places of each other. Its root is
 * no step, so that candidates of the first call are siblings. Every leaf is one roll-out; one without a label `correct` is omitted, not taken for wrong.
 */

import { type StepFacts, stepKey } from './facts.ts';
import { credit, type Judgement } from './judgement.ts';
import type { MethodFacts } from './method-facts.ts';
import { truthsOn } from './named-feedback.ts';
import type { ReplayTree } from './replay-trees.ts';
import { type Tree, treeOf } from './tree.ts';

export const stepTree = (steps: readonly StepFacts[]): Tree<StepFacts> =>
  treeOf(
    steps,
    (step) => step.step_id,
    (step) => step.parent_step_id,
  );

export type NodeValue = { readonly visits: number; readonly q: number };

/** No step has this id. */
export const ROOT = '';

export type Rollout = { readonly path: readonly string[]; readonly correct: boolean };

function rolloutsOf(tree: Tree<StepFacts>, outcomeOf: (step: StepFacts) => boolean | undefined): Rollout[] {
  return tree.nodes.flatMap((node) => {
    const outcome = outcomeOf(node);
    if (outcome === undefined || tree.childrenOf(node).length > 0) return [];
    return [{ path: [ROOT, ...tree.pathTo(node).map(({ step_id }) => step_id)], correct: outcome }];
  });
}

/** Whether a step came out right: as its label `correct` says, else as the episode that ended with it did. */
export function outcomesIn({
  feedback,
}: MethodFacts): (tree: Pick<ReplayTree, 'rightAt'>) => (step: StepFacts) => boolean | undefined {
  const correct = truthsOn(feedback, 'step', 'correct');
  return ({ rightAt }) =>
    (step) =>
      correct.get(stepKey(step.episode_id, step.step_id)) ?? rightAt(step);
}

/** Of each tree what the roll-outs that were graded make of it; a text is the reason why there is nothing. */
export function valued(
  facts: MethodFacts,
  over: (input: { readonly rollouts: readonly Rollout[] }) => Readonly<Record<string, NodeValue>> | string,
) {
  const outcomes = outcomesIn(facts);
  return (grown: ReplayTree) => {
    const tree = stepTree(grown.steps);
    if (!tree.grown) return 'no_tree';
    const rollouts = rolloutsOf(tree, outcomes(grown));
    if (rollouts.length === 0) return 'not_graded';
    const values = over({ rollouts });
    return typeof values === 'string' ? values : { tree, rollouts, values };
  };
}

export const onNodes = (
  steps: readonly StepFacts[],
  { apart }: Tree<StepFacts>,
  judge: (step: StepFacts) => Judgement | null,
): Judgement[] =>
  steps.map((step) =>
    apart.has(step) ? credit(step, null, apart.get(step)!) : (judge(step) ?? credit(step, null, 'not_graded')),
  );

/** A number for each node of a tree that was graded, from its value and visits and those of its parent. */
export const onEachNode = (
  facts: MethodFacts,
  backup: Parameters<typeof valued>[1],
  judge: (own: NodeValue, parent: NodeValue) => number | string,
): ((grown: ReplayTree) => Judgement[] | string) => {
  const valuesOf = valued(facts, backup);
  return (grown) => {
    const found = valuesOf(grown);
    if (typeof found === 'string') return found;
    return onNodes(grown.steps, found.tree, (step) => {
      const own = found.values[step.step_id];
      if (own === undefined) return null;
      const value = judge(own, found.values[found.tree.parentOf(step)?.step_id ?? ROOT]!);
      return typeof value === 'string' ? credit(step, null, value) : credit(step, value, null);
    });
  };
};
