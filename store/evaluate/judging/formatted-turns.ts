/** Rewards of turns that are also measured by their format (UnityMAS-O). */
import type { Assembled } from './assembled.ts';
import { stepKey } from './facts.ts';
import { type Judgement, reward } from './judgement.ts';
import { numbersOn } from './named-feedback.ts';
import { along, onwardOf, overEpisodes } from './over-episodes.ts';

type Turns = { readonly outcome: number | null; readonly format: readonly (number | null)[] };

/** The outcome is the episode's reward; each step that the episode went on from is a turn with its own `format`. */
export function rewardsByFormat(
  facts: Assembled,
  rewards: (turns: Turns) => readonly (number | null)[] | string,
): Judgement[] {
  const formats = numbersOn(facts.feedback, 'step', 'format');
  return overEpisodes(facts, reward, (episode, steps) => {
    const chain = onwardOf(steps);
    const format = chain.map((step) => formats.get(stepKey(step.episode_id, step.step_id)) ?? null);
    const values = rewards({ outcome: episode.reward, format });
    const none = episode.reward === null ? 'missing_reward' : 'no_format_score';
    return along(steps, chain, values, { none, other: () => 'not_chosen' });
  });
}
