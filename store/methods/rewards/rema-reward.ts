/**
 * ReMA: both roles get the outcome of the trajectory, unless their turns did not end.
 *
 * Source: ziyuwan/ReMA-public, src/verl/verl/workers/reward_manager/rema.py. Verified (code).
 * Kept, though it looks like an accident: the code changes one variable in the order meta-thinking, reasoning. So the bonus of 0.25
 * for the reasoning role only undoes the malus of the other, and a score set to 0 for an unfinished role stays 0 for the later one.
 * The first happens only with one turn, a boxed answer and masking off; the second only with masking on.
 * Dropped: where on the last turn the reward is put. Open: nothing known.
 */

import { type Static, Type } from 'typebox';
import type { Method } from '../method.ts';

const Input = Type.Object({
  score: Type.Number(),
  finished: Type.Object({ 'meta-thinking': Type.Boolean(), reasoning: Type.Boolean() }),
  max_turns: Type.Integer({ minimum: 1 }),
  boxed: Type.Boolean(),
});
const params = { mask_unfinished: false };

type Rewards = { readonly 'meta-thinking': number; readonly reasoning: number };

export const remaReward: Method<Static<typeof Input>, typeof params, Rewards> = {
  name: 'rema_reward',
  kind: 'reward',
  source: 'ReMA: ziyuwan/ReMA-public, reward_manager/rema.py; verified (code)',
  version: 1,
  needs: 'outcome and roles',
  summary:
    'The outcome for both roles, 0 for one whose turns did not end when such roles are masked; stored on each step of the role.',
  params,
  input: Input,
  run: ({ score, finished, max_turns, boxed }, { mask_unfinished }) => {
    const after = (now: number, role: keyof Rewards, shift: number) => {
      if (mask_unfinished) return finished[role] ? now : 0;
      return max_turns === 1 && boxed ? now + shift : now;
    };
    const meta = after(score, 'meta-thinking', -0.25);
    return { 'meta-thinking': meta, reasoning: after(meta, 'reasoning', 0.25) };
  },
};
