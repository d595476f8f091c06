/**
 * UnityMAS-O for mathematics: every turn of every agent earns the accuracy of the final answer, and its own format part.
 *
 * Source: chenyiqun/UnityMAS-O, verl/experimental/star_ppo/reward_allocators/math_final_answer.py and base.py. Verified (code).
 * Kept: the task part is the same for all turns; the format part, 0 or −1 in the release, is added with its weight, 1 in the released
 * configurations. Where the accuracy or a turn's format is null, the turn has no reward. Dropped: how format is judged, and a weight for
 * each role. Open: nothing known.
 */

import { Type } from 'typebox';
import { rewardsByFormat } from '../../judging/formatted-turns.ts';
import { method } from '../method.ts';
import { Reward } from '../shapes.ts';

export const unitymasMathRewards = method({
  name: 'unitymas_math_rewards',
  kind: 'reward',
  source: 'UnityMAS-O: chenyiqun/UnityMAS-O, reward_allocators/math_final_answer.py; verified (code)',
  version: 1,
  summary: 'The final accuracy for every turn, and a weight times the turn’s own format reward.',
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
    reads: ['feedback'],
    writes: ['rewards', 'scores'],
    rows: (facts, ask) => rewardsByFormat(facts, ({ outcome: accuracy, format }) => ask.answer({ accuracy, format })),
  },
});
