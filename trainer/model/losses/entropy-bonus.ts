/**
 * An entropy bonus beside any loss: −Σ w·H, with H in nats and w `entropy.weight`. It keeps a policy that learns from its own samples
 * from closing in on them. Source: PPO (arXiv:1707.06347, equation 9).
 */
import { multiply, subtract, sum } from '../../tensor/operations.ts';
import type { Loss } from './loss.ts';

/** The loss minus the bonus; reports `entropy`. */
export function withEntropyBonus(base: Loss): Loss {
  return {
    key: `${base.key}, entropy bonus`,
    build: (tokens) => {
      const { loss, report } = base.build(tokens);
      const bonus = sum(multiply(tokens.column('entropy.weight'), tokens.entropy), [0, 1]);
      return { loss: subtract(loss, bonus), report: { ...report, entropy: tokens.entropy } };
    },
  };
}
