/** The chance that at least one of k attempts at a task solves it. Source: Chen et al. 2021, arXiv:2107.03374, section 2.1. */
import { type Interval, meanInterval } from './bootstrap.ts';

export type Attempts = { readonly n: number; readonly solved: number };

/** 1 − C(n−c, k) / C(n, k) of one task, as a product, which does not overflow. Null where k > n: nothing is known of so many attempts. */
export function passAtK({ n, solved }: Attempts, k: number): number | null {
  if (k > n) return null;
  if (n - solved < k) return 1;
  let none = 1;
  for (let i = n - solved + 1; i <= n; i++) none *= 1 - k / i;
  return 1 - none;
}

export type PassAtK = {
  readonly k: number;
  /** Tasks with k attempts or more; the mean is over these. */
  readonly tasks: number;
  readonly left_out: number;
  readonly value: number | null;
  readonly interval: Interval | null;
};

/** The mean over tasks, with an interval over tasks. */
export function meanPassAtK(tasks: readonly Attempts[], k: number, level: number, seed: number): PassAtK {
  const values = tasks.map((task) => passAtK(task, k)).filter((value) => value !== null);
  return {
    k,
    tasks: values.length,
    left_out: tasks.length - values.length,
    value: values.length === 0 ? null : values.reduce((a, b) => a + b, 0) / values.length,
    interval: meanInterval(values, level, seed),
  };
}
