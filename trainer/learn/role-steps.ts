/**
 * Supervised learning role by role: each role has its own number of steps, a step has rows of one role, and the steps of all roles are
 * interleaved at random, so that one model learns several roles at once (role-wise sets of M1-32B, arXiv:2504.09772).
 */
import { TroupeError } from '../../errors.ts';
import { hashInts, randomStream } from '../tensor/random.ts';
import { shuffledOrder, stepsFor } from './data/orders.ts';
import { shuffle } from './data/shuffle.ts';
import type { RowOrder } from './numbers.ts';
import type { FinishedStep } from './training-loop.ts';

export type RoleSteps = {
  /** Optimizer steps of each role, or by role; a role that has no rows is left out, and rows of others are. */
  readonly steps?: number | Readonly<Record<string, number>>;
  /** Without steps: how often each row of a role is taken. */
  readonly epochs?: number;
  readonly batch: number;
  readonly seed: number;
};

export type RoleOrder = RowOrder & {
  /** The role of a step, counted from 0. */
  readonly roleOf: (step: number) => string;
  /** Steps of each role that has some. */
  readonly byRole: Readonly<Record<string, number>>;
};

/**
 * Which rows each step takes, drawn from the seed: each row of a role is taken once before any is taken again.
 * @param roles the role of each row
 * @throws TroupeError `training_failed` where no row has one of the roles
 */
export function roleOrder(roles: readonly string[], { steps, epochs = 1, batch, seed }: RoleSteps): RoleOrder {
  const sets = [...new Set(roles)]
    .sort()
    .map((role) => {
      const rows = roles.flatMap((one, at) => (one === role ? [at] : []));
      const asked = typeof steps === 'object' ? (steps[role] ?? 0) : steps;
      const taken = asked === undefined ? { taken: Math.ceil(rows.length * epochs) } : {};
      return { role, rows, count: asked ?? stepsFor(rows.length, batch, epochs), taken };
    })
    .filter(({ count }) => count > 0);
  if (sets.length === 0)
    throw new TroupeError(
      'training_failed',
      `No row of the dataset has one of the roles ${Object.keys(typeof steps === 'object' ? steps : {}).join(', ')}; there is nothing to learn.`,
    );
  const orders = sets.map(({ rows, taken }, i) => {
    const order = shuffledOrder(rows.length, { batch, ...taken }, sets.length === 1 ? seed : hashInts([seed, i]));
    return (nth: number) => order(nth).map((at) => rows[at]!);
  });
  const drawn = shuffle(
    sets.flatMap(({ count }, i) => Array.from({ length: count }, () => i)),
    randomStream(seed),
  );
  const seen = sets.map(() => 0);
  const places = drawn.map((set) => ({ set, nth: seen[set]!++ }));
  return {
    steps: places.length,
    order: (step) => {
      const { set, nth } = places[step]!;
      return orders[set]!(nth);
    },
    roleOf: (step) => sets[places[step]!.set]!.role,
    byRole: Object.fromEntries(sets.map(({ role, count }) => [role, count])),
  };
}

/** Mean over sequences of the mean negative log-likelihood of their trained tokens. */
export function likelihood(logprobs: FinishedStep['logprobs']): number {
  const means = logprobs
    .flat()
    .map((tokens) => tokens.filter((logprob) => logprob !== null))
    .filter((tokens) => tokens.length > 0)
    .map((tokens) => -tokens.reduce((a, b) => a + b, 0) / tokens.length);
  return means.reduce((a, b) => a + b, 0) / means.length;
}
