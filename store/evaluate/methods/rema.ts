/**
 * ReMA: both roles get the outcome of the trajectory, unless their turns did not end.
 *
 * Source: ziyuwan/ReMA-public, src/verl/verl/workers/reward_manager/rema.py. Verified (code).
 * Kept, though it looks like an accident: the code changes one variable in the order meta-thinking, reasoning. So the bonus of 0.25
 * for the reasoning role only undoes the malus of the other, and a score set to 0 for an unfinished role stays 0 for the later one.
 * The first happens only with one turn, a boxed answer and masking off; the second only with masking on.
 * Dropped: where on the last turn the reward is put. Open: nothing known. Version 2 reads the setting of a rollout too.
 */

import { Type } from 'typebox';
import type { StepFacts } from '../judging/facts.ts';
import { onwardOf, rewardsByRole } from '../judging/over-episodes.ts';
import { method } from './method.ts';

const params = { mask_unfinished: false };

type Rewards = { readonly 'meta-thinking': number; readonly reasoning: number };

export const remaReward = method({
  name: 'rema_reward',
  kind: 'reward',
  source: 'ReMA: ziyuwan/ReMA-public, reward_manager/rema.py; verified (code)',
  version: 2,
  summary:
    'The outcome for both roles, 0 for one whose turns did not end when such roles are masked; stored on each step of the role.',
  teams: 'meta-thinker and reasoner',
  params,
  input: Type.Object({
    score: Type.Number(),
    finished: Type.Object({ 'meta-thinking': Type.Boolean(), reasoning: Type.Boolean() }),
    max_turns: Type.Integer({ minimum: 1 }),
    boxed: Type.Boolean(),
  }),
  run: ({ score, finished, max_turns, boxed }, { mask_unfinished }): Rewards => {
    const after = (now: number, role: keyof Rewards, shift: number) => {
      if (mask_unfinished) return finished[role] ? now : 0;
      return max_turns === 1 && boxed ? now + shift : now;
    };
    const meta = after(score, 'meta-thinking', -0.25);
    return { 'meta-thinking': meta, reasoning: after(meta, 'reasoning', 0.25) };
  },
  judged: {
    over: 'episode',
    reads: ['content'],
    writes: ['rewards', 'scores'],
    /**
     * ReMA. A role finished when each of its calls stopped by itself, which is asked for only where unfinished roles are masked. The
     * number of turns is the episode's budget `max_turns`, or the setting of that name of its rollout. The source puts a role's reward on its last turn; here it is copied to all.
     */
    each:
      (facts, ask) =>
      ({ episode, steps }) => {
        if (episode.reward === null) return 'missing_reward';
        const max_turns = episode.budgets?.max_turns ?? episode.tags?.max_turns;
        if (typeof max_turns !== 'number' || !Number.isInteger(max_turns)) return 'no_max_turns';
        const onward = onwardOf(steps);
        const ofRole = (role: string) => onward.filter((step) => step.role === role);
        const [thinking, reasoning] = [ofRole('meta-thinking'), ofRole('reasoning')];
        if (thinking.length === 0 || reasoning.length === 0) return 'no_such_roles';
        const endOf = (step: StepFacts) => facts.contentOf(step).finish_reason ?? null;
        if (ask.params.mask_unfinished && [...thinking, ...reasoning].some((step) => endOf(step) === null))
          return 'no_finish_reason';
        const ended = (own: readonly StepFacts[]) =>
          own.every((step) => [null, 'stop', 'tool_call'].includes(endOf(step)));
        const input = {
          score: episode.reward,
          finished: { 'meta-thinking': ended(thinking), reasoning: ended(reasoning) },
          max_turns,
          boxed: reasoning.some((step) => facts.contentOf(step).text?.includes('boxed') ?? false),
        };
        return { input, rows: (rewards) => rewardsByRole(steps, rewards) };
      },
  },
});
