/** Shares of the groups that are judged. */
import { ALL_SHARES } from '../../../store/evaluate/judging/lock.ts';

/** `2/3`: the second of three equal parts of the shares. @throws Error with what the text should be */
export function sharesOf(text: string): readonly number[] {
  const [, k, n] = (/^(\d+)\/(\d+)$/.exec(text) ?? []).map(Number);
  if (k === undefined || n === undefined || k < 1 || k > n || n > ALL_SHARES.length)
    throw new Error(`should be k/n with 1 ≤ k ≤ n ≤ ${ALL_SHARES.length}, such as 1/2`);
  return ALL_SHARES.filter((share) => share % n === k - 1);
}
