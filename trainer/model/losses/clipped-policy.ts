/**
 * The clipped surrogate of PPO (Schulman et al. 2017, arXiv:1707.06347, section 3) with separate bounds below and above as in
 * DAPO (arXiv:2503.14476, section 3.1), minus an entropy bonus. The log-ratio is clamped to ±20 as in verl
 * (verl/trainer/ppo/core_algos.py). No dual clip, no KL term.
 */
import { withEntropyBonus } from './entropy-bonus.ts';
import type { Loss } from './loss.ts';
import { ppoClipLoss } from './ppo-clip.ts';
import type { ClipRange } from './surrogate.ts';

/** −Σ min(A·r, A·clip(r, 1−low, 1+high)) − Σ w·H, with r = exp(log p − log p_old), A the weight, H entropy and w its weight. */
export function clippedPolicyLoss({ clipLow = 0.2, clipHigh = 0.28 }: ClipRange = {}): Loss {
  return withEntropyBonus(ppoClipLoss({ clipLow, clipHigh, dualClip: null }));
}
