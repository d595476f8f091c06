/**
 * How many tasks a paired comparison needs. Source: the normal approximation of the paired t test's power, Lachin 1981, Controlled
 * Clinical Trials 2, equation 2.
 */
import { normalQuantile } from './distributions.ts';

/**
 * @param deviation of the tasks' differences; √(discordant share − difference²) where each task is tried once
 * @param difference to be found, in the same unit, not 0; for "not worse" the margin plus the expected gain
 * @param power chance of finding it, between 0 and 1
 */
export function tasksNeeded(deviation: number, difference: number, level: number, power: number): number {
  const z = -normalQuantile((1 - level) / 2) + normalQuantile(power);
  return Math.max(2, Math.ceil(((z * deviation) / difference) ** 2));
}
