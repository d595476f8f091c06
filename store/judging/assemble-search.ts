/**
 * Values of a search tree that the steps of an episode form. Its root is the episode itself, so that candidates of the first call are
 * siblings. Every leaf is one roll-out; one of which nobody said whether it is `correct` is left out, not taken for wrong.
 */
import { masprmBackprop } from '../methods/process/masprm-backprop.ts';
import { runMethod } from '../methods/run.ts';
import { groupBy } from '../methods/statistics.ts';
import { stepTree } from './assemble-trees.ts';
import type { Assemble, Assembled, Assemblers } from './assembler.ts';
import { type StepFacts, stepKey } from './facts.ts';
import { credit, type Judgement, score, verdictOn } from './judgement.ts';
import { numbersOn, truthsOn } from './named-feedback.ts';
import { answerTo, onwardOf, overEpisodes } from './over-episodes.ts';
import type { Tree } from './tree.ts';

/** No step has this id. */
const ROOT = '';
type Value = { readonly visits: number; readonly q: number };
type Rollout = { readonly path: readonly string[]; readonly correct: boolean };

function rolloutsOf(tree: Tree<StepFacts>, correct: ReadonlyMap<string, boolean>): Rollout[] {
  return tree.nodes.flatMap((node) => {
    const outcome = correct.get(stepKey(node.episode_id, node.step_id));
    if (outcome === undefined || tree.childrenOf(node).length > 0) return [];
    return [{ path: [ROOT, ...tree.pathTo(node).map(({ step_id }) => step_id)], correct: outcome }];
  });
}

/** Of each episode its tree, and what the roll-outs that were graded make of it; a text says why there is nothing. */
function valued(
  facts: Assembled,
  over: (input: { readonly rollouts: readonly Rollout[] }) => Readonly<Record<string, Value>> | string,
) {
  const correct = truthsOn(facts.feedback, 'step', 'correct');
  return (steps: readonly StepFacts[]) => {
    const tree = stepTree(steps);
    if (!tree.grown) return 'no_tree';
    const rollouts = rolloutsOf(tree, correct);
    if (rollouts.length === 0) return 'not_graded';
    const values = over({ rollouts });
    return typeof values === 'string' ? values : { tree, rollouts, values };
  };
}

const backprop = (input: { readonly rollouts: readonly Rollout[] }) =>
  runMethod(masprmBackprop, { rollouts: [...input.rollouts] });

const onNodes = (
  steps: readonly StepFacts[],
  { apart }: Tree<StepFacts>,
  say: (step: StepFacts) => Judgement | null,
): Judgement[] =>
  steps.map((step) =>
    apart.has(step) ? credit(step, null, apart.get(step)!) : (say(step) ?? credit(step, null, 'not_graded')),
  );

const bySearch: Assemble = (method, params, facts) => {
  const valuesOf = valued(facts, (input) => answerTo<Record<string, Value>>(method, { ...input, ...params }));
  return overEpisodes(method, facts, (episode, steps) => {
    const found = valuesOf(steps);
    if (typeof found === 'string') return found;
    const { q, visits } = found.values[ROOT]!;
    return [
      score(`e/${episode.episode_id}`, q, null, { visits }),
      ...onNodes(steps, found.tree, (step) => {
        const value = found.values[step.step_id];
        return value === undefined ? null : credit(step, value.q, null, { visits: value.visits });
      }),
    ];
  });
};

/** A method of one node: its value and visits, and those of its parent, as far as the method asks for them. */
const byNode: Assemble = (method, params, facts) => {
  const valuesOf = valued(facts, backprop);
  const fields = Object.keys((method.input as { properties: object }).properties);
  return overEpisodes(method, facts, (_, steps) => {
    const found = valuesOf(steps);
    if (typeof found === 'string') return found;
    return onNodes(steps, found.tree, (step) => {
      const own = found.values[step.step_id];
      if (own === undefined) return null;
      const parent = found.values[found.tree.parentOf(step)?.step_id ?? ROOT]!;
      const known = { q: own.q, parent_visits: parent.visits, child_visits: own.visits };
      const input = Object.fromEntries(Object.entries(known).filter(([name]) => fields.includes(name)));
      const value = answerTo<number>(method, { ...input, ...params });
      return typeof value === 'string' ? credit(step, null, value) : credit(step, value, null);
    });
  });
};

/** Whether an episode's tree is worth training on: a verdict, so that a recipe can require it. */
const byRoot: Assemble = (method, params, facts) => {
  const valuesOf = valued(facts, backprop);
  const own = groupBy(facts.steps, (step) => step.episode_id);
  return facts.episodes.map((episode) => {
    const found = valuesOf(own.get(episode.episode_id) ?? []);
    if (typeof found === 'string') return verdictOn(episode, null, found);
    const leaves = new Set(found.rollouts.map(({ path }) => path.at(-1)!));
    const root_q = found.values[ROOT]!.q;
    const leaf_q = [...leaves].map((id) => found.values[id]!.q);
    const keep = answerTo<boolean>(method, { root_q, leaf_q, ...params });
    if (typeof keep === 'string') return verdictOn(episode, null, keep);
    return verdictOn(episode, keep, keep ? null : 'root_decided', { root_q });
  });
};

/**
 * A process reward model's `value` of each step on the way to a step, the step included. Where no tree was recorded the way is that
 * which the episode went.
 */
const byPath: Assemble = (method, params, facts) => {
  const values = numbersOn(facts.feedback, 'step', 'value');
  return overEpisodes(method, facts, (_, steps) => {
    const tree = stepTree(steps);
    const onward = onwardOf(steps);
    return steps.map((step) => {
      if (tree.apart.has(step)) return credit(step, null, tree.apart.get(step)!);
      if (!tree.grown && !onward.includes(step)) return credit(step, null, 'not_chosen');
      const path = tree.grown ? tree.pathTo(step) : onward.slice(0, onward.indexOf(step) + 1);
      const said = path.map(({ episode_id, step_id }) => values.get(stepKey(episode_id, step_id)));
      if (said.includes(undefined)) return credit(step, null, 'no_values');
      const value = answerTo<number>(method, { values: said, ...params });
      return typeof value === 'string' ? credit(step, null, value) : credit(step, value, null);
    });
  });
};

const writes = ['credits', 'scores'] as const;
const reads = ['feedback'] as const;
export const SEARCH_ASSEMBLERS: Assemblers = {
  'search tree': { process: { over: bySearch, reads, writes } },
  'nodes of a search tree': { process: { over: byNode, reads, writes } },
  'root of a search tree': { process: { over: byRoot, reads, writes: ['verdicts'] } },
  'values along a path': { process: { over: byPath, reads, writes } },
};
