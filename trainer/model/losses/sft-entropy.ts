/** Supervised fine-tuning on own successes with an entropy bonus: −Σ weight · log p − Σ w·H (own, no paper). */
import { withEntropyBonus } from './entropy-bonus.ts';
import type { Loss } from './loss.ts';
import { sftLoss } from './sft.ts';

export const sftEntropyLoss: Loss = withEntropyBonus(sftLoss);
