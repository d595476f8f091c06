/** Two candidates on the same tasks. What the tasks differ in cancels, so far fewer are needed than for two separate rates. */
import { type Interval, meanInterval } from './bootstrap.ts';
import { type McNemar, mcnemar } from './mcnemar.ts';

/** The mean outcome of a task under each of the two, between 0 and 1 for shares solved. */
export type Pair = { readonly first: number; readonly second: number };

export type PairedDifference = {
  readonly tasks: number;
  readonly first: number | null;
  readonly second: number | null;
  /** second − first, and its interval over tasks; null where there is no task, or only one. */
  readonly difference: number | null;
  readonly interval: Interval | null;
  /** Over the majority of each task's attempts; tasks where half of the attempts solve it, on either side, are not informative. */
  readonly mcnemar: McNemar;
};

export function pairedDifference(pairs: readonly Pair[], level: number, seed: number): PairedDifference {
  const mean = (of: (pair: Pair) => number): number | null =>
    pairs.length === 0 ? null : pairs.reduce((total, pair) => total + of(pair), 0) / pairs.length;
  const only = (a: keyof Pair, b: keyof Pair): number => pairs.filter((pair) => pair[a] > 0.5 && pair[b] < 0.5).length;
  return {
    tasks: pairs.length,
    first: mean(({ first }) => first),
    second: mean(({ second }) => second),
    difference: mean(({ first, second }) => second - first),
    interval: meanInterval(
      pairs.map(({ first, second }) => second - first),
      level,
      seed,
    ),
    mcnemar: mcnemar(only('first', 'second'), only('second', 'first')),
  };
}
