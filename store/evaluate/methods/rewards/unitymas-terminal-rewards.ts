/**
 * UnityMAS-O in terminal mode: the last turn earns the outcome and the format rewards of all turns.
 *
 * Source: chenyiqun/UnityMAS-O, verl/experimental/star_ppo/ray_trainer.py (_assemble_rewards). Verified (code).
 * Kept: with `emit_intermediate`, as released, the turns before the last earn their own format reward too, so that it counts twice;
 * without, they earn 0. A null outcome, or a null format reward anywhere, leaves the sum unknown, so the last turn has no reward.
 * Dropped: the fallback for a missing format reward, 1 for any text, because a null is not a reward. Open: nothing known.
 */

import { Type } from 'typebox';
import { rewardsByFormat } from '../../judging/formatted-turns.ts';
import { method } from '../method.ts';
import { Reward } from '../shapes.ts';

export const unitymasTerminalRewards = method({
  name: 'unitymas_terminal_rewards',
  kind: 'reward',
  source: 'UnityMAS-O: chenyiqun/UnityMAS-O, ray_trainer.py; verified (code)',
  version: 1,
  summary: 'The outcome and all format rewards for the last turn, their own format reward for those before.',
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
    reads: ['feedback'],
    writes: ['rewards', 'scores'],
    rows: (facts, ask) => rewardsByFormat(facts, ask.answer),
  },
});
