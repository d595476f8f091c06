/**
 * UnityMAS-O for search: planning and answering earn their own score, searching earns how far it moved the answer.
 *
 * Source: chenyiqun/UnityMAS-O, verl/experimental/star_ppo/reward_allocators/mask_turn_level.py. Verified (code).
 * Dropped: that a search turn which ends the search earns 0; such a turn is not among the turns given. And the format part.
 * Kept: absolute F1 for planning and answering, differences for searching. Open: nothing known.
 */

import { type Static, Type } from 'typebox';
import type { Method } from '../method.ts';

const Input = Type.Object({ plan_f1: Type.Number(), answer_f1: Type.Array(Type.Number(), { minItems: 1 }) });

type Rewards = {
  readonly plan: number;
  readonly answer_0: number;
  readonly turns: readonly { readonly search_summary_update: number; readonly answer: number }[];
};

export const unitymasSearchRewards: Method<Static<typeof Input>, Record<never, never>, Rewards> = {
  name: 'unitymas_search_rewards',
  kind: 'reward',
  source: 'UnityMAS-O: chenyiqun/UnityMAS-O, reward_allocators/mask_turn_level.py; verified (code)',
  version: 1,
  needs: 'answer scores by turn',
  summary: 'F1 for planner and answers, and the change of the answer’s F1 for each search turn.',
  params: {},
  input: Input,
  run: ({ plan_f1, answer_f1 }) => ({
    plan: plan_f1,
    answer_0: answer_f1[0]!,
    turns: answer_f1.slice(1).map((f1, i) => ({ search_summary_update: f1 - answer_f1[i]!, answer: f1 })),
  }),
};
