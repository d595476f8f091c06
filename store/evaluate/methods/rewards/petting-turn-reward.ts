/**
 * Spreads a final reward over the turns that led to it.
 *
 * Source: PettingLLMs, trainer code. Verified (code). Turns count from 0. turn_weighted: r·(t+1)/T; discount: r·γ^(T−t);
 * binary: 1 if r > 0.5, otherwise 0; normalized: r clipped to −1 … 1.
 * Kept: four variants, T 8, γ 0.99. Added in version 2: a turn from T on is refused where T weighs it; the source ends at T, and such a turn
 * would earn more than the final reward. Dropped: nothing. Open: nothing known.
 */

import { Type } from 'typebox';
import { reward } from '../../judging/judgement.ts';
import { along, overEpisodes } from '../../judging/over-episodes.ts';
import { method } from '../method.ts';
import { refuseInput } from '../refuse.ts';

type Mode = 'turn_weighted' | 'discount' | 'binary' | 'normalized';
const params: { mode: Mode; max_turns: number; gamma: number } = { mode: 'turn_weighted', max_turns: 8, gamma: 0.99 };

const REWARD: Record<Mode, (final: number, turn: number, turns: number, gamma: number) => number> = {
  turn_weighted: (final, turn, turns) => (final * (turn + 1)) / turns,
  discount: (final, turn, turns, gamma) => final * gamma ** (turns - turn),
  binary: (final) => (final > 0.5 ? 1 : 0),
  normalized: (final) => Math.min(Math.max(final, -1), 1),
};

export const pettingTurnReward = method({
  name: 'petting_turn_reward',
  kind: 'reward',
  source: 'AT-GRPO: PettingLLMs; verified (code)',
  version: 2,
  summary: 'A reward for each turn from the final one: weighted by turn, discounted, binary or clipped.',
  params,
  limits: {
    mode: Type.Union([
      Type.Literal('turn_weighted'),
      Type.Literal('discount'),
      Type.Literal('binary'),
      Type.Literal('normalized'),
    ]),
    max_turns: Type.Integer({ minimum: 1 }),
    gamma: Type.Number({ minimum: 0, maximum: 1 }),
  },
  input: Type.Object({ final: Type.Number(), turns: Type.Array(Type.Integer({ minimum: 0 })) }),
  run: ({ final, turns }, { mode, max_turns, gamma }): number[] => {
    const over = mode === 'turn_weighted' || mode === 'discount' ? turns.findIndex((turn) => turn >= max_turns) : -1;
    if (over >= 0) refuseInput(`turns[${over}]`, `a turn before max_turns, which is ${max_turns}`, turns[over]);
    return turns.map((turn) => REWARD[mode](final, turn, max_turns, gamma));
  },
  judged: {
    writes: ['rewards', 'scores'],
    /** The episode's reward, for each step with a turn. */
    rows: (facts, ask) =>
      overEpisodes(facts, reward, (episode, steps) => {
        if (episode.reward === null) return 'missing_reward';
        const counted = steps.filter(({ turn }) => turn !== null && turn >= 0);
        const turns = counted.map(({ turn }) => turn!);
        const values = ask.answer({ final: episode.reward, turns });
        return along(steps, counted, values, { none: 'no_turn', other: () => 'no_turn' });
      }),
  },
});
