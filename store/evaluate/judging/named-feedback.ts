/**
 * What methods read that has no column of its own: feedback by its name, on the kind of target that the name is defined for. The last,
 * by (time, id), counts; a truth value counts as 1 or 0; feedback without a value is ignored.
 */

import type { FeedbackFact } from './episode-facts.ts';
import { type StepFacts, stepKey } from './facts.ts';
import type { MethodFacts } from './method-facts.ts';

export type NamedFeedback = {
  readonly name: string;
  readonly target: 'step' | 'agent' | 'episode';
  readonly value: 'number' | 'truth' | 'text' | 'numbers' | 'pairs';
  readonly meaning: string;
  readonly readers: readonly string[];
};

const named = (
  target: NamedFeedback['target'],
  name: string,
  value: NamedFeedback['value'],
  meaning: string,
  readers: readonly string[],
): NamedFeedback => ({ name, target, value, meaning, readers });

/** Every name that a method reads, for those who record it. */
export const NAMED_FEEDBACK: readonly NamedFeedback[] = [
  named('step', 'reward', 'number', 'what this output earned by itself', [
    'petting_mixed_reward',
    'marti_shaping',
    'mars2_tree_shaping',
    'comam_rewards',
    'mars_turn_advantage',
    'marft_gae',
    'marft_returns',
    'drmas_advantage',
    'magrpo_returns',
  ]),
  named('agent', 'reward', 'number', 'what an agent earned in the episode, where its steps have no reward', [
    'petting_mixed_reward',
    'comam_rewards',
    'drmas_advantage',
  ]),
  named('step', 'correct', 'truth', 'whether the answer of this step is right', [
    'marsrl_rewards',
    'draft_rl_reward',
    'malt_values',
    'masprm_backprop',
    'masprm_target',
    'masprm_tree_keep',
    'uct',
  ]),
  named('step', 'flags_error', 'truth', 'whether a verifier judges the solution in force to be wrong', [
    'marsrl_rewards',
  ]),
  named('step', 'format', 'number', 'how well the output keeps to the format asked for', [
    'unitymas_math_rewards',
    'unitymas_terminal_rewards',
  ]),
  named('step', 'pass_rate', 'number', 'share of the tests that the program of this turn passes', [
    'unitymas_code_rewards',
  ]),
  named('step', 'f1', 'number', 'overlap of a plan or of the running answer with the truth', [
    'unitymas_search_rewards',
  ]),
  named('episode', 'f1', 'number', 'overlap of the final answer with the truth', ['mmoa_rewards']),
  named('episode', 'joint_rewards', 'numbers', 'reward of every combination of the agents’ candidates', [
    'magrpo_cross',
  ]),
  named('step', 'value', 'number', 'what a critic or a process reward model expects from here on', [
    'marft_gae',
    'marft_returns',
    'masprm_path_score',
    'draft_rl_select',
  ]),
  named('step', 'embedding', 'numbers', 'the output as a vector', ['cosine_groups']),
  named('step', 'influence', 'number', 'causal influence, where it was not computed from recorded passes', [
    'mamr_step_advantage',
  ]),
  named('step', 'restart', 'number', 'restart reward, where it was not computed from recorded passes', [
    'mamr_step_advantage',
  ]),
  named('step', 'rating', 'number', '1 to 5, given to a message by the peer that annotator names', [
    'dylan_edge_weights',
    'dylan_importance',
  ]),
  named('step', 'peer_score', 'number', '0 to 1, given to a draft by the peer that annotator names', [
    'draft_rl_reward',
  ]),
  named('step', 'agrees', 'truth', 'whether this message agrees with the final answer of the team', [
    'dylan_importance',
  ]),
  named('step', 'answer', 'text', 'the answer that this message gives', ['dylan_consensus']),
  named('episode', 'correctness', 'number', 'how right a judge finds the answer', ['mrag_select']),
  named('episode', 'faithfulness', 'number', 'how far a judge finds the answer borne out by its sources', [
    'mrag_select',
  ]),
  named('episode', 'format_check', 'truth', 'whether the blueprint of the task has the right form', [
    'apigen_mt_blueprint',
  ]),
  named('episode', 'execution_check', 'truth', 'whether its true actions run and change the state as claimed', [
    'apigen_mt_blueprint',
  ]),
  named('episode', 'policy_check', 'truth', 'whether it keeps to the policy of its domain', ['apigen_mt_blueprint']),
  named('episode', 'vote', 'truth', 'whether the member of the committee that annotator names accepts the blueprint', [
    'apigen_mt_blueprint',
  ]),
  named('episode', 'ifd_small', 'number', 'difficulty of following the instruction, by the small model', [
    'star_agents_score',
  ]),
  named('episode', 'ifd_large', 'number', 'difficulty of following the instruction, by the large model', [
    'star_agents_score',
  ]),
  named('episode', 'referee', 'text', 'base, tie or generated: which answer a referee prefers', ['star_agents_score']),
  named('episode', 'intervention_fulfilled', 'truth', 'whether this replay carried its intervention out', [
    'dover_verdict',
  ]),
  named('episode', 'data_deps', 'pairs', 'producer and consumer, by step id or agent', ['invert_dependencies']),
  named(
    'agent',
    'mistake',
    'truth',
    'who made the mistake that decided, at which entry; a failure, as is one on a step',
    ['who_when_accuracy'],
  ),
];

/** The last feedback of a name on each target, by `stepKey` (an episode is the target '' of itself), read in this way. */
const lastOf =
  <T>(read: (fact: FeedbackFact) => T | null) =>
  (feedback: MethodFacts['feedback'], target: NamedFeedback['target'], name: string): Map<string, T> => {
    const found = new Map<string, T>();
    for (const [episode, facts] of feedback) {
      for (const fact of facts) {
        if (fact.target_kind !== target || fact.name !== name) continue;
        const value = read(fact);
        if (value !== null) found.set(stepKey(episode, target === 'episode' ? '' : (fact.target_id ?? '')), value);
      }
    }
    return found;
  };

/** A truth value was made 1 or 0 when it was recorded. */
export const numberOf = ({ value }: FeedbackFact): number | null => value;

export const numbersOn = lastOf(numberOf);

/** Anything but 0 and false is true. */
export const truthsOn = lastOf(({ value }) => (value === null ? null : value !== 0));

export const textsOn = lastOf(({ value, value_json, label }) =>
  typeof value_json === 'string' ? value_json : (label ?? (value === null ? null : String(value))),
);

export const listsOn = lastOf(({ value_json }): number[] | null =>
  Array.isArray(value_json) && value_json.every((one) => typeof one === 'number') ? value_json : null,
);

/** Parameters of a method that reads what a step or an agent earned by itself: the name of that feedback. */
export const EARNED = { reward_name: 'reward' };
type EarnedParams = Readonly<typeof EARNED>;

/** What a step earned by itself: the reward that the method that is read gave it, else the one recorded on the step. */
export function ownRewardsOf(facts: MethodFacts, { reward_name }: EarnedParams): (step: StepFacts) => number | null {
  if (facts.ownRewards) return facts.rewardOf;
  const recorded = numbersOn(facts.feedback, 'step', reward_name);
  return ({ episode_id, step_id }) => recorded.get(stepKey(episode_id, step_id)) ?? null;
}

/** What the agent of a step earned: recorded on the step, else on the agent for the whole episode. */
export function agentRewardsOf(
  { feedback }: MethodFacts,
  { reward_name }: EarnedParams,
): (step: StepFacts) => number | null {
  const ofStep = numbersOn(feedback, 'step', reward_name);
  const ofAgent = numbersOn(feedback, 'agent', reward_name);
  return ({ episode_id, step_id, agent }) =>
    ofStep.get(stepKey(episode_id, step_id)) ?? ofAgent.get(stepKey(episode_id, agent ?? '')) ?? null;
}
