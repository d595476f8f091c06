/**
 * Generalised advantage estimation over the tokens of a sequence, passing through what the policy did not write.
 *
 * Source: verl, verl/trainer/ppo/core_algos.py (compute_gae_advantage_return). Verified (code). A token with mask 0 (an observation) keeps
 * the next value and the running sum of what follows it. Returns are taken before any whitening. γ and λ default to verl's 1.
 * Kept: no bootstrap after the last token. Dropped: whitening, which is `masked_whiten`. Open: nothing known.
 */

import { type Static, Type } from 'typebox';
import type { Method } from '../method.ts';
import { requireRows } from '../refuse.ts';
import { Bit } from '../shapes.ts';

const Column = Type.Array(Type.Number());
const Input = Type.Object({ rewards: Column, values: Column, mask: Type.Array(Bit) });
const params = { gamma: 1, lambda: 1 };
const Discount = Type.Number({ minimum: 0, maximum: 1 });

type Estimate = { readonly advantages: readonly number[]; readonly returns: readonly number[] };

export const gae: Method<Static<typeof Input>, typeof params, Estimate> = {
  name: 'gae',
  kind: 'credit',
  source: 'GAE: verl/trainer/ppo/core_algos.py; verified (code)',
  version: 1,
  needs: 'token values',
  summary: 'Generalised advantages and returns over tokens; masked tokens are passed through.',
  params,
  limits: { gamma: Discount, lambda: Discount },
  input: Input,
  run: ({ rewards, values, mask }, { gamma, lambda }) => {
    requireRows('values', values, rewards.length, 'rewards');
    requireRows('mask', mask, rewards.length, 'rewards');
    const advantages: number[] = new Array(rewards.length);
    const returns: number[] = new Array(rewards.length);
    let nextValue = 0;
    let last = 0;
    for (let t = rewards.length - 1; t >= 0; t--) {
      if (mask[t] === 1) {
        const delta = rewards[t]! + gamma * nextValue - values[t]!;
        last = delta + gamma * lambda * last;
        nextValue = values[t]!;
      }
      advantages[t] = last;
      returns[t] = last + values[t]!;
    }
    return { advantages, returns };
  },
};
