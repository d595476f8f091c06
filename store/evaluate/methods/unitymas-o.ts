/** UnityMAS-O (chenyiqun/UnityMAS-O): rewards of the roles of a team, by kind of task. */

import { Type } from 'typebox';
import { type StepFacts, stepKey } from '../judging/facts.ts';
import { reward } from '../judging/judgement.ts';
import type { MethodFacts } from '../judging/method-facts.ts';
import { numbersOn } from '../judging/named-feedback.ts';
import type { GroupMember } from '../judging/over-episodes.ts';
import { along, complete, onwardOf } from '../judging/over-episodes.ts';
import { method } from './method.ts';
import { Reward } from './shapes.ts';

type Turns = { readonly outcome: number | null; readonly format: readonly (number | null)[] };

/** The outcome is the episode's reward; each step that the episode went on from is a turn with its own `format`. */
function onFormattedTurns<Input>(facts: MethodFacts, inputOf: (turns: Turns) => Input) {
  const formats = numbersOn(facts.feedback, 'step', 'format');
  return ({ episode, steps }: GroupMember) => {
    const chain = onwardOf(steps);
    const format = chain.map((step) => formats.get(stepKey(step.episode_id, step.step_id)) ?? null);
    const none = episode.reward === null ? 'missing_reward' : 'no_format_score';
    return {
      input: inputOf({ outcome: episode.reward, format }),
      rows: (values: readonly (number | null)[]) => along(steps, chain, values, { none, other: () => 'not_chosen' }),
    };
  };
}

/**
 * UnityMAS-O in terminal mode: the last turn earns the outcome and the format rewards of all turns.
 *
 * Source: chenyiqun/UnityMAS-O, verl/experimental/star_ppo/ray_trainer.py (_assemble_rewards). Verified (code).
 * Kept: with `emit_intermediate`, as released, the turns before the last earn their own format reward too, so that it counts twice;
 * without, they earn 0. A null outcome, or a null format reward anywhere, leaves the sum unknown, so the last turn has no reward.
 * Dropped: the fallback for a missing format reward, 1 for any text, because a null is not a reward. Open: nothing known.
 */
export const unitymasTerminalRewards = method({
  name: 'unitymas_terminal_rewards',
  kind: 'reward',
  source: 'UnityMAS-O: chenyiqun/UnityMAS-O, ray_trainer.py; verified (code)',
  version: 1,
  summary: 'The outcome and all format rewards for the last turn, their own format reward for those before.',
  teams: 'roles with turns of a measured format',
  params: { emit_intermediate: true },
  input: Type.Object({
    outcome: Reward,
    /** One entry a turn. */
    format: Type.Array(Reward),
  }),
  run: ({ outcome, format }, { emit_intermediate }): (number | null)[] => {
    const total = [outcome, ...format].reduce((sum, part) => (sum === null || part === null ? null : sum + part), 0);
    return format.map((own, turn) => (turn === format.length - 1 ? total : emit_intermediate ? own : 0));
  },
  judged: {
    over: 'episode',
    reads: ['feedback'],
    writes: ['rewards', 'scores'],
    each: (facts) => onFormattedTurns(facts, (turns) => turns),
  },
});

/**
 * UnityMAS-O for mathematics: every turn of every agent earns the accuracy of the final answer, and its own format part.
 *
 * Source: chenyiqun/UnityMAS-O, verl/experimental/star_ppo/reward_allocators/math_final_answer.py and base.py. Verified (code).
 * Kept: the task part is the same for all turns; the format part, 0 or −1 in the release, is added with its weight, 1 in the released
 * configurations. Where the accuracy or a turn's format is null, the turn has no reward. Dropped: how format is judged, and a weight for
 * each role. Open: nothing known.
 */
export const unitymasMathRewards = method({
  name: 'unitymas_math_rewards',
  kind: 'reward',
  source: 'UnityMAS-O: chenyiqun/UnityMAS-O, reward_allocators/math_final_answer.py; verified (code)',
  version: 1,
  summary: 'The final accuracy for every turn, and a weight times the turn’s own format reward.',
  teams: 'roles with turns of a measured format',
  params: { format_weight: 1 },
  input: Type.Object({
    /** Of the final answer; null where nobody graded it. */
    accuracy: Reward,
    /** One entry a turn of an agent. */
    format: Type.Array(Reward),
  }),
  run: ({ accuracy, format }, { format_weight }): (number | null)[] =>
    format.map((own) => (accuracy === null || own === null ? null : accuracy + format_weight * own)),
  judged: {
    over: 'episode',
    reads: ['feedback'],
    writes: ['rewards', 'scores'],
    each: (facts) => onFormattedTurns(facts, ({ outcome: accuracy, format }) => ({ accuracy, format })),
  },
});

/**
 * UnityMAS-O for code: each turn earns how far it moved the pass rate, and a reflection what the next turn made of it.
 *
 * Source: chenyiqun/UnityMAS-O, verl/experimental/star_ppo/reward_allocators/code_turn_level.py. Verified (code).
 * Pass rates are clipped to 0 … 1. Dropped: the format part, which is added with a weight to any task part.
 * Kept: differences of clipped rates. Open: nothing known.
 */
export const unitymasCodeRewards = method({
  name: 'unitymas_code_rewards',
  kind: 'reward',
  source: 'UnityMAS-O: chenyiqun/UnityMAS-O, reward_allocators/code_turn_level.py; verified (code)',
  version: 1,
  summary: 'The change of the pass rate for each turn, and the next turn’s change for each reflection.',
  teams: 'planner, coder and reflection; test execution',
  input: Type.Object({
    pass_rate: Type.Array(Type.Number()),
    reflections: Type.Integer({ minimum: 0, maximum: 1_000_000 }),
  }),
  run: ({ pass_rate, reflections }) => {
    const rates = pass_rate.map((rate) => Math.min(Math.max(rate, 0), 1));
    const gains = rates.map((rate, turn) => rate - (rates[turn - 1] ?? 0));
    return {
      planner_coder: gains,
      reflection: Array.from({ length: reflections }, (_, turn) => gains[turn + 1] ?? 0),
    };
  },
  judged: {
    over: 'episode',
    reads: ['feedback'],
    writes: ['rewards', 'scores'],
    /** UnityMAS-O for code: the turn's pass rate is the last one recorded for one of its steps. Every turn with a planner or coder has one. */
    each: (facts) => {
      const rates = numbersOn(facts.feedback, 'step', 'pass_rate');
      return ({ steps }) => {
        const onward = onwardOf(steps).filter(({ turn }) => turn !== null);
        const writing = onward.filter(({ role }) => role === 'planner' || role === 'coder');
        const turns = [...new Set(writing.map(({ turn }) => turn!))].sort((a, b) => a - b);
        if (turns.length === 0) return 'no_such_roles';
        const pass_rate = complete(
          turns.map((turn) =>
            onward
              .filter((step) => step.turn === turn)
              .map((step) => rates.get(stepKey(step.episode_id, step.step_id)))
              .findLast((rate) => rate !== undefined),
          ),
        );
        if (pass_rate === null) return 'no_pass_rate';
        return {
          input: {
            pass_rate,
            reflections: turns.length,
          },
          rows: (output) =>
            steps.map((step) => {
              if (!onward.includes(step)) return reward(step, null, step.turn === null ? 'no_turn' : 'not_chosen');
              const earned = writing.includes(step)
                ? output.planner_coder
                : step.role === 'reflection'
                  ? output.reflection
                  : null;
              if (earned === null) return reward(step, null, 'other_role');
              const value = earned[turns.indexOf(step.turn!)] ?? null;
              return reward(step, value, value === null ? 'no_pass_rate' : null);
            }),
        };
      };
    },
  },
});

/**
 * UnityMAS-O for search: planning and answering earn their own score, searching earns how far it moved the answer.
 *
 * Source: chenyiqun/UnityMAS-O, verl/experimental/star_ppo/reward_allocators/mask_turn_level.py. Verified (code).
 * Dropped: that a search turn which ends the search earns 0; such a turn is not among the turns given. And the format part.
 * Kept: absolute F1 for planning and answering, differences for searching. Open: nothing known.
 */
export const unitymasSearchRewards = method({
  name: 'unitymas_search_rewards',
  kind: 'reward',
  source: 'UnityMAS-O: chenyiqun/UnityMAS-O, reward_allocators/mask_turn_level.py; verified (code)',
  version: 1,
  summary: 'F1 for planner and answers, and the change of the answer’s F1 for each search turn.',
  teams: 'planner and answerer of searches',
  input: Type.Object({ plan_f1: Type.Number(), answer_f1: Type.Array(Type.Number(), { minItems: 1 }) }),
  run: ({ plan_f1, answer_f1 }) => ({
    plan: plan_f1,
    answer_0: answer_f1[0]!,
    turns: answer_f1.slice(1).map((f1, i) => ({ search_summary_update: f1 - answer_f1[i]!, answer: f1 })),
  }),
  judged: {
    over: 'episode',
    reads: ['feedback'],
    writes: ['rewards', 'scores'],
    /**
     * UnityMAS-O for search: `f1` is feedback on the planner's step and on each answer. A search, summary or update belongs to the next
     * answer; one after the last answer ended the search.
     */
    each: (facts) => {
      const f1s = numbersOn(facts.feedback, 'step', 'f1');
      return ({ steps }) => {
        const onward = onwardOf(steps);
        const scoreOf = (step: StepFacts) => f1s.get(stepKey(step.episode_id, step.step_id));
        const plan = onward.find(({ role }) => role === 'planner');
        const answers = onward.filter(({ role }) => role === 'answer');
        if (plan === undefined || answers.length === 0) return 'no_such_roles';
        const plan_f1 = scoreOf(plan);
        const answer_f1 = complete(answers.map(scoreOf));
        if (plan_f1 === undefined || answer_f1 === null) return 'no_f1';
        return {
          input: { plan_f1, answer_f1 },
          rows: (output) => {
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
          },
        };
      };
    },
  },
});

const SEARCHING = ['search', 'summary', 'update'];
