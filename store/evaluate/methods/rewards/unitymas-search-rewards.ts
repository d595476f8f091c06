/**
 * UnityMAS-O for search: planning and answering earn their own score, searching earns how far it moved the answer.
 *
 * Source: chenyiqun/UnityMAS-O, verl/experimental/star_ppo/reward_allocators/mask_turn_level.py. Verified (code).
 * Dropped: that a search turn which ends the search earns 0; such a turn is not among the turns given. And the format part.
 * Kept: absolute F1 for planning and answering, differences for searching. Open: nothing known.
 */

import { Type } from 'typebox';
import { type StepFacts, stepKey } from '../../judging/facts.ts';
import { reward } from '../../judging/judgement.ts';
import { numbersOn } from '../../judging/named-feedback.ts';
import { complete, onwardOf, overEpisodes } from '../../judging/over-episodes.ts';
import { method } from '../method.ts';

type Rewards = {
  readonly plan: number;
  readonly answer_0: number;
  readonly turns: readonly { readonly search_summary_update: number; readonly answer: number }[];
};

export const unitymasSearchRewards = method({
  name: 'unitymas_search_rewards',
  kind: 'reward',
  source: 'UnityMAS-O: chenyiqun/UnityMAS-O, reward_allocators/mask_turn_level.py; verified (code)',
  version: 1,
  summary: 'F1 for planner and answers, and the change of the answer’s F1 for each search turn.',
  input: Type.Object({ plan_f1: Type.Number(), answer_f1: Type.Array(Type.Number(), { minItems: 1 }) }),
  run: ({ plan_f1, answer_f1 }): Rewards => ({
    plan: plan_f1,
    answer_0: answer_f1[0]!,
    turns: answer_f1.slice(1).map((f1, i) => ({ search_summary_update: f1 - answer_f1[i]!, answer: f1 })),
  }),
  judged: {
    reads: ['feedback'],
    writes: ['rewards', 'scores'],
    /**
     * UnityMAS-O for search: `f1` is feedback on the planner's step and on each answer. A search, summary or update belongs to the next
     * answer; one after the last answer ended the search.
     */
    rows: (facts, ask) => {
      const f1s = numbersOn(facts.feedback, 'step', 'f1');
      return overEpisodes(facts, reward, (_, steps) => {
        const onward = onwardOf(steps);
        const scoreOf = (step: StepFacts) => f1s.get(stepKey(step.episode_id, step.step_id));
        const plan = onward.find(({ role }) => role === 'planner');
        const answers = onward.filter(({ role }) => role === 'answer');
        if (plan === undefined || answers.length === 0) return 'no_such_roles';
        const plan_f1 = scoreOf(plan);
        const answer_f1 = complete(answers.map(scoreOf));
        if (plan_f1 === undefined || answer_f1 === null) return 'no_f1';
        const output = ask.answer({ plan_f1, answer_f1 });
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
    },
  },
});

const SEARCHING = ['search', 'summary', 'update'];
