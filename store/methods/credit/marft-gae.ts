/**
 * MARFT: generalised advantages along a chain of turns in which the agents act one after the other.
 *
 * Source: jwliao-ai/MARFT, marft/buffers/action_level_buffer.py. Verified (code). Rewards and values have a row for each turn and a
 * column for each agent in acting order. Within a turn the next value is the next agent's; after the last agent it is the first of the
 * next turn, unless the episode ended (`alive` 0). `entry_mask` is the released behaviour, which cuts the chain inside the turn after an
 * end, against the paper. `normalise` is the batch step that follows in the source: (A − mean)/(std ddof 0 + 1e-8), statistics without
 * entries that are exactly 0. Returns are taken before it. Dropped: the token-level variant and the value loss.
 * Kept: γ 0.99, λ 0.95, the walk from the last agent of the last turn. Open: nothing known.
 */

import { type Static, Type } from 'typebox';
import type { Method } from '../method.ts';
import { refuseInput, requireRectangle, requireRows } from '../refuse.ts';
import { Bit } from '../shapes.ts';
import { mean, standardDeviation } from '../statistics.ts';

const Matrix = Type.Array(Type.Array(Type.Number()));
const Input = Type.Object({ rewards: Matrix, values: Matrix, alive: Type.Array(Bit), bootstrap: Type.Number() });
const params = { gamma: 0.99, lambda: 0.95, entry_mask: false, normalise: false };
const Discount = Type.Number({ minimum: 0, maximum: 1 });

type Estimate = {
  readonly advantages: readonly (readonly number[])[];
  readonly returns: readonly (readonly number[])[];
};

export const marftGae: Method<Static<typeof Input>, typeof params, Estimate> = {
  name: 'marft_gae',
  kind: 'credit',
  source: 'MARFT: jwliao-ai/MARFT, buffers/action_level_buffer.py; verified (code)',
  version: 1,
  needs: 'action values',
  summary: 'GAE from agent to agent within a turn and from turn to turn.',
  params,
  limits: { gamma: Discount, lambda: Discount },
  input: Input,
  run: ({ rewards, values, alive, bootstrap }, { gamma, lambda, entry_mask, normalise }) => {
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
    return { advantages: normalise ? normalised(advantages) : advantages, returns };
  },
};

function normalised(advantages: readonly (readonly number[])[]): number[][] {
  const counted = advantages.flat().filter((value) => value !== 0);
  const [centre, deviation] = counted.length === 0 ? [0, 0] : [mean(counted), standardDeviation(counted, 0)];
  return advantages.map((row) => row.map((value) => (value - centre) / (deviation + 1e-8)));
}
