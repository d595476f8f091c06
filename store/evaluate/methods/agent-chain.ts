/** MARFT's walk along the actions of agents, one after the other, which its advantages and its returns have in common. */
import { type Static, Type } from 'typebox';
import type { Given } from './given.ts';
import { refuseInput, requireRectangle, requireRows } from './refuse.ts';
import { Bit } from './shapes.ts';

const Matrix = Type.Array(Type.Array(Type.Number()));
/** Rewards and a critic's values by turn and agent in acting order, whether the episode goes on after each turn, and the value after the last. */
export const AgentChain = Type.Object({
  rewards: Matrix,
  values: Matrix,
  alive: Type.Array(Bit),
  bootstrap: Type.Number(),
});
export type Chain = Given<Static<typeof AgentChain>>;
export const Discount = Type.Number({ minimum: 0, maximum: 1 });

export type Estimate = {
  readonly advantages: readonly (readonly number[])[];
  readonly returns: readonly (readonly number[])[];
};

/** Advantages and returns of turns by agents, walked from the last agent of the last turn. @throws TroupeError `method_input` for uneven rows */
export function discountedChain(
  { rewards, values, alive, bootstrap }: Chain,
  { gamma, lambda, entry_mask }: { readonly gamma: number; readonly lambda: number; readonly entry_mask: boolean },
): Estimate {
  const agents = requireRectangle('rewards', rewards);
  if (requireRectangle('values', values) !== agents) refuseInput('values', `rows of ${agents} agents`, values[0]);
  requireRows('values', values, rewards.length, 'the turns of rewards');
  requireRows('alive', alive, rewards.length, 'the turns of rewards');
  const advantages = values.map((row) => row.map(() => 0));
  let gae = 0;
  for (let turn = rewards.length - 1; turn >= 0; turn--) {
    for (let agent = agents - 1; agent >= 0; agent--) {
      const last = agent === agents - 1;
      const next = last ? (values[turn + 1]?.[0] ?? bootstrap) : values[turn]![agent + 1]!;
      const within = entry_mask ? (alive[turn - 1] ?? 1) : 1;
      const mask = last ? alive[turn]! : within;
      const delta = rewards[turn]![agent]! + gamma * next * mask - values[turn]![agent]!;
      gae = delta + gamma * lambda * mask * gae;
      advantages[turn]![agent] = gae;
    }
  }
  const returns = advantages.map((row, turn) => row.map((advantage, agent) => advantage + values[turn]![agent]!));
  return { advantages, returns };
}
