/**
 * Joint actions in a tree that replays grew: what the agents of a team did in one turn, after what all of them did in the turns before. A replay
 * that goes on from the first step of a turn is another joint action of the same node.
 */
import { groupBy } from '../../../ingest/events/group-by.ts';
import { type StepFacts, stepKey } from './facts.ts';
import type { Grown } from './replay-trees.ts';
import { type Tree, treeOf } from './tree.ts';

export type JointAction = {
  /** Of an episode and its turn. */
  readonly id: string;
  readonly parent_id: string | null;
  readonly steps: readonly StepFacts[];
  /** Null where nobody knows. */
  readonly reward: number | null;
};

/**
 * @param grown a tree of steps; a step is not in the record of two episodes
 * @param earnedBy what a step earned by itself. Where any step of the tree has such a reward, a joint action earns the sum of those of its steps;
 * where none has, the last one of an episode earns the reward of the episode, and the others nothing of their own.
 * @returns the tree, and the steps that belong to no joint action, with the reason
 */
export function jointActions(
  grown: Pick<Grown, 'episodes' | 'steps'>,
  earnedBy: (step: StepFacts) => number | null,
): { readonly tree: Tree<JointAction>; readonly without: ReadonlyMap<StepFacts, string> } {
  const byId = new Map(grown.steps.map((step) => [step.step_id, step]));
  const without = new Map<StepFacts, string>();
  const actions: JointAction[] = [];
  const idOf = ({ episode_id, turn }: StepFacts) => stepKey(episode_id, String(turn));
  const rewards = new Map(grown.episodes.map(({ episode_id, reward }) => [episode_id, reward]));
  const isEarned = grown.steps.some((step) => earnedBy(step) !== null);
  for (const [episode_id, own] of groupBy(grown.steps, (step) => step.episode_id)) {
    const last = own.findLast(({ turn }) => turn !== null)?.turn;
    for (const [turn, steps] of groupBy(own, (step) => step.turn)) {
      const before = byId.get(steps[0]!.parent_step_id ?? '');
      // Of an action that others began, its episode has a part only.
      const why = turn === null ? 'no_turn' : before?.turn === turn ? 'within_turn' : null;
      if (why !== null) {
        for (const step of steps) without.set(step, why);
        continue;
      }
      const earned = steps.flatMap((step) => earnedBy(step) ?? []);
      const ofTurn = earned.length === 0 ? null : earned.reduce((sum, one) => sum + one, 0);
      const reward = isEarned ? ofTurn : turn === last ? (rewards.get(episode_id) ?? null) : 0;
      actions.push({ id: idOf(steps[0]!), parent_id: before === undefined ? null : idOf(before), steps, reward });
    }
  }
  return {
    tree: treeOf(
      actions,
      ({ id }) => id,
      ({ parent_id }) => parent_id,
    ),
    without,
  };
}
