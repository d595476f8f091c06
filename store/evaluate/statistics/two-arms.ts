/**
 * Two streams as one of differences, whose mean is the difference of their means whatever came before, so that a bet on it is fair.
 *
 * Source: Shekhar and Ramdas 2023, "Nonparametric two-sample testing by betting" (arXiv:2112.09162), which bets on pairs; blocks of
 * unequal size as in Turner, Ly and Grünwald 2024, "Generic E-variables for exact sequential k-sample tests" (arXiv:2106.02693).
 */

/** A value of the first or the second stream. */
export type OfArm<Arm extends string> = { readonly arm: Arm; readonly value: number };

/**
 * Blocks of both streams, each the means of what came since the block before. A block ends with the first value of the stream that it
 * lacked, so what is compared came at about the same time, and where it ends depends on the order of the streams alone, not on values.
 * @param values in the order in which they came; those after the last block are left out
 */
export function blocksOf<First extends string, Second extends string>(
  [first, second]: readonly [First, Second],
  values: readonly OfArm<First | Second>[],
): Record<First | Second, number>[] {
  type Block = Record<First | Second, number>;
  const blocks: Block[] = [];
  let [sum, count, otherSum, otherCount] = [0, 0, 0, 0];
  for (const { arm, value } of values) {
    if (arm === first) {
      sum += value;
      count++;
    } else {
      otherSum += value;
      otherCount++;
    }
    if (count === 0 || otherCount === 0) continue;
    blocks.push({ [first]: sum / count, [second]: otherSum / otherCount } as Block);
    sum = count = otherSum = otherCount = 0;
  }
  return blocks;
}
