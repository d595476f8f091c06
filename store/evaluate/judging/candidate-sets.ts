/** CURE's sets of candidates whose rewards are weighed against each other. */
import { groupBy } from '../../../ingest/events/group-by.ts';
import type { Assembled } from './assembled.ts';
import { groupOf, type StepFacts, stepKey } from './facts.ts';
import { type Judgement, reward } from './judgement.ts';

/** A step with what is known of it, or the reason why it stays out of its set. */
type Candidate<Known> = Known | string;

/**
 * The programs of a task, or its tests: the outputs of one agent in a group are one set. The rewards are those of the method that is read
 * (such as `cure_code_reward`), else the recorded one of the episode. `weigh` has one value for each known candidate, or null where one
 * side is empty.
 */
export function rewardsBySet<Known extends object>(
  { episodes, steps }: Assembled,
  knownOf: (step: StepFacts) => Candidate<Known>,
  weigh: (known: readonly Known[]) => readonly number[] | string | null,
): Judgement[] {
  const groups = new Map(episodes.map((episode) => [episode.episode_id, groupOf(episode)]));
  const rows = steps.map((step) => ({ step, known: knownOf(step) }));
  const sets = groupBy(rows, ({ step }) => stepKey(groups.get(step.episode_id)!, step.agent ?? ''));
  return [...sets.values()].flatMap((set): Judgement[] => {
    const known = set.flatMap((row) => (typeof row.known === 'string' ? [] : [row.known]));
    const values = weigh(known);
    const without = typeof values === 'string' ? values : values === null ? 'one_sided' : null;
    let place = 0;
    return set.map(({ step, known: own }) => {
      if (typeof own === 'string') return reward(step, null, own);
      const value = typeof values === 'string' ? null : (values?.[place] ?? null);
      place += 1;
      return reward(step, value, without);
    });
  });
}
