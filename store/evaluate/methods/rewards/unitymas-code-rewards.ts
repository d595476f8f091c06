/**
 * UnityMAS-O for code: each turn earns how far it moved the pass rate, and a reflection what the next turn made of it.
 *
 * Source: chenyiqun/UnityMAS-O, verl/experimental/star_ppo/reward_allocators/code_turn_level.py. Verified (code).
 * Pass rates are clipped to 0 … 1. Dropped: the format part, which is added with a weight to any task part.
 * Kept: differences of clipped rates. Open: nothing known.
 */

import { Type } from 'typebox';
import { stepKey } from '../../judging/facts.ts';
import { reward } from '../../judging/judgement.ts';
import { numbersOn } from '../../judging/named-feedback.ts';
import { complete, onwardOf, overEpisodes } from '../../judging/over-episodes.ts';
import { method } from '../method.ts';

type Rewards = { readonly planner_coder: readonly number[]; readonly reflection: readonly number[] };

export const unitymasCodeRewards = method({
  name: 'unitymas_code_rewards',
  kind: 'reward',
  source: 'UnityMAS-O: chenyiqun/UnityMAS-O, reward_allocators/code_turn_level.py; verified (code)',
  version: 1,
  summary: 'The change of the pass rate for each turn, and the next turn’s change for each reflection.',
  input: Type.Object({
    pass_rate: Type.Array(Type.Number()),
    reflections: Type.Integer({ minimum: 0, maximum: 1_000_000 }),
  }),
  run: ({ pass_rate, reflections }): Rewards => {
    const rates = pass_rate.map((rate) => Math.min(Math.max(rate, 0), 1));
    const gains = rates.map((rate, turn) => rate - (rates[turn - 1] ?? 0));
    return {
      planner_coder: gains,
      reflection: Array.from({ length: reflections }, (_, turn) => gains[turn + 1] ?? 0),
    };
  },
  judged: {
    reads: ['feedback'],
    writes: ['rewards', 'scores'],
    /** UnityMAS-O for code: the turn's pass rate is the last one recorded for one of its steps. Every turn with a planner or coder has one. */
    rows: (facts, ask) => {
      const rates = numbersOn(facts.feedback, 'step', 'pass_rate');
      return overEpisodes(facts, reward, (_, steps) => {
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
        const output = ask.answer({
          pass_rate,
          reflections: turns.length,
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
    },
  },
});
