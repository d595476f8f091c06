/** Rewards along the turns of an episode. */
import type { Assemble, Assemblers } from './assembler.ts';
import { type StepFacts, stepKey } from './facts.ts';
import { type Judgement, reward } from './judgement.ts';
import { numbersOn, ownRewardsOf } from './named-feedback.ts';
import { answerTo, onwardOf, overEpisodes } from './over-episodes.ts';

/** The rewards of these steps in their order, and a reason for each other step of the episode. */
function along(
  steps: readonly StepFacts[],
  chain: readonly StepFacts[],
  values: readonly (number | null)[] | string,
  reasons: { readonly none: string; readonly other: (step: StepFacts) => string },
): Judgement[] {
  if (typeof values === 'string') return steps.map((step) => reward(step, null, values));
  const places = new Map(chain.map((step, i) => [step, i]));
  return steps.map((step) => {
    const place = places.get(step);
    if (place === undefined) return reward(step, null, reasons.other(step));
    const value = values[place] ?? null;
    return reward(step, value, value === null ? reasons.none : null);
  });
}

/** AT-GRPO's mixture: the episode's reward for the team, and the step's own, or the one its agent was given for the whole episode. */
const byTeam: Assemble = (method, params, facts) => {
  const ownReward = ownRewardsOf(facts);
  const ofAgent = numbersOn(facts.feedback, 'agent', 'reward');
  return overEpisodes(method, facts, (episode, steps) => {
    if (episode.reward === null) return 'missing_reward';
    const local = steps.map(
      (step) => ownReward(step) ?? ofAgent.get(stepKey(step.episode_id, step.agent ?? '')) ?? null,
    );
    const values = answerTo<(number | null)[]>(method, { team: episode.reward, local, ...params });
    return along(steps, steps, values, { none: 'no_local_reward', other: () => 'no_local_reward' });
  });
};

/** The episode's reward, for each step that says its turn. */
const byTurn: Assemble = (method, params, facts) =>
  overEpisodes(method, facts, (episode, steps) => {
    if (episode.reward === null) return 'missing_reward';
    const counted = steps.filter(({ turn }) => turn !== null && turn >= 0);
    const turns = counted.map(({ turn }) => turn);
    const values = answerTo<number[]>(method, { final: episode.reward, turns, ...params });
    return along(steps, counted, values, { none: 'no_turn', other: () => 'no_turn' });
  });

/** UnityMAS-O: the outcome is the episode's reward; each step that the episode went on from is a turn with its own `format`. */
const byFormat: Assemble = (method, params, facts) => {
  const formats = numbersOn(facts.feedback, 'step', 'format');
  const outcomeName = Object.hasOwn((method.input as { properties: object }).properties, 'outcome')
    ? 'outcome'
    : 'accuracy';
  return overEpisodes(method, facts, (episode, steps) => {
    const chain = onwardOf(steps);
    const format = chain.map((step) => formats.get(stepKey(step.episode_id, step.step_id)) ?? null);
    const values = answerTo<(number | null)[]>(method, { [outcomeName]: episode.reward, format, ...params });
    const none = episode.reward === null ? 'missing_reward' : 'no_format_score';
    return along(steps, chain, values, { none, other: () => 'not_chosen' });
  });
};

/** UnityMAS-O for code: the turn's pass rate is what was last said of one of its steps. Every turn with a planner or coder has one. */
const byPassRate: Assemble = (method, params, facts) => {
  const rates = numbersOn(facts.feedback, 'step', 'pass_rate');
  return overEpisodes(method, facts, (_, steps) => {
    const onward = onwardOf(steps).filter(({ turn }) => turn !== null);
    const writing = onward.filter(({ role }) => role === 'planner' || role === 'coder');
    const turns = [...new Set(writing.map(({ turn }) => turn!))].sort((a, b) => a - b);
    if (turns.length === 0) return 'no_such_roles';
    const pass_rate = turns.map((turn) =>
      onward
        .filter((step) => step.turn === turn)
        .map((step) => rates.get(stepKey(step.episode_id, step.step_id)))
        .findLast((rate) => rate !== undefined),
    );
    if (pass_rate.includes(undefined)) return 'no_pass_rate';
    const output = answerTo<{ planner_coder: number[]; reflection: number[] }>(method, {
      pass_rate,
      reflections: turns.length,
      ...params,
    });
    if (typeof output === 'string') return output;
    return steps.map((step) => {
      if (!onward.includes(step)) return reward(step, null, step.turn === null ? 'no_turn' : 'not_chosen');
      const earned = writing.includes(step)
        ? output.planner_coder
        : step.role === 'reflection'
          ? output.reflection
          : null;
      if (earned === null) return reward(step, null, 'other_role');
      const value = earned[turns.indexOf(step.turn!)] ?? null;
      return reward(step, value, value === null ? 'no_pass_rate' : null);
    });
  });
};

const SEARCHING = ['search', 'summary', 'update'];

/**
 * UnityMAS-O for search: `f1` is feedback on the planner's step and on each answer. A search, summary or update belongs to the next
 * answer; one after the last answer ended the search.
 */
const byAnswerScore: Assemble = (method, params, facts) => {
  const f1s = numbersOn(facts.feedback, 'step', 'f1');
  return overEpisodes(method, facts, (_, steps) => {
    const onward = onwardOf(steps);
    const scoreOf = (step: StepFacts) => f1s.get(stepKey(step.episode_id, step.step_id));
    const plan = onward.find(({ role }) => role === 'planner');
    const answers = onward.filter(({ role }) => role === 'answer');
    if (plan === undefined || answers.length === 0) return 'no_such_roles';
    const plan_f1 = scoreOf(plan);
    const answer_f1 = answers.map(scoreOf);
    if (plan_f1 === undefined || answer_f1.includes(undefined)) return 'no_f1';
    type Output = { plan: number; answer_0: number; turns: { search_summary_update: number; answer: number }[] };
    const output = answerTo<Output>(method, { plan_f1, answer_f1, ...params });
    if (typeof output === 'string') return output;
    let answered = 0;
    return steps.map((step) => {
      if (!onward.includes(step)) return reward(step, null, 'not_chosen');
      if (step.role === 'planner') return reward(step, output.plan, null);
      if (step.role === 'answer') {
        const value = answered === 0 ? output.answer_0 : (output.turns[answered - 1]?.answer ?? null);
        answered += 1;
        return reward(step, value, null);
      }
      if (!SEARCHING.includes(step.role ?? '')) return reward(step, null, 'other_role');
      if (answered === 0) return reward(step, null, 'before_the_first_answer');
      const turn = output.turns[answered - 1];
      return turn === undefined
        ? reward(step, null, 'ends_the_search')
        : reward(step, turn.search_summary_update, null);
    });
  });
};

/** MARTI: the steps that the episode went on from are the chain; each must have a reward of its own. */
const byChain: Assemble = (method, params, facts) => {
  const ownReward = ownRewardsOf(facts);
  return overEpisodes(method, facts, (_, steps) => {
    const chain = onwardOf(steps);
    const rewards = chain.map(ownReward);
    if (rewards.includes(null)) return 'missing_reward';
    const values = answerTo<number[]>(method, { rewards, ...params });
    return along(steps, chain, values, { none: 'missing_reward', other: () => 'not_chosen' });
  });
};

const on = (over: Assemble, reads: readonly 'feedback'[] = []) => ({
  reward: { over, reads, writes: ['rewards', 'scores'] as const },
});
export const TURN_ASSEMBLERS: Assemblers = {
  'team and local rewards': on(byTeam, ['feedback']),
  'rewards by turn': on(byTurn),
  'outcome and format scores': on(byFormat, ['feedback']),
  'pass rates by turn': on(byPassRate, ['feedback']),
  'answer scores by turn': on(byAnswerScore, ['feedback']),
  'rewards along a chain': on(byChain, ['feedback']),
};
