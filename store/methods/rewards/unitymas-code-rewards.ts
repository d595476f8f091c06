/**
 * UnityMAS-O for code: each turn earns how far it moved the pass rate, and a reflection what the next turn made of it.
 *
 * Source: chenyiqun/UnityMAS-O, verl/experimental/star_ppo/reward_allocators/code_turn_level.py. Verified (code).
 * Pass rates are clipped to 0 … 1. Dropped: the format part, which is added with a weight to any task part.
 * Kept: differences of clipped rates. Open: nothing known.
 */

import { type Static, Type } from 'typebox';
import type { Method } from '../method.ts';

const Input = Type.Object({
  pass_rate: Type.Array(Type.Number()),
  reflections: Type.Integer({ minimum: 0, maximum: 1_000_000 }),
});

type Rewards = { readonly planner_coder: readonly number[]; readonly reflection: readonly number[] };

export const unitymasCodeRewards: Method<Static<typeof Input>, Record<never, never>, Rewards> = {
  name: 'unitymas_code_rewards',
  kind: 'reward',
  source: 'UnityMAS-O: chenyiqun/UnityMAS-O, reward_allocators/code_turn_level.py; verified (code)',
  version: 1,
  needs: 'pass rates by turn',
  summary: 'The change of the pass rate for each turn, and the next turn’s change for each reflection.',
  params: {},
  input: Input,
  run: ({ pass_rate, reflections }) => {
    const rates = pass_rate.map((rate) => Math.min(Math.max(rate, 0), 1));
    const gains = rates.map((rate, turn) => rate - (rates[turn - 1] ?? 0));
    return {
      planner_coder: gains,
      reflection: Array.from({ length: reflections }, (_, turn) => gains[turn + 1] ?? 0),
    };
  },
};
