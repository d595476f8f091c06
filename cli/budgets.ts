/** Budgets as options: `tokens=N`, `seconds=N` or `usd=N`. */
import { InvalidArgumentError } from 'commander';
import type { Budget } from '../store/loop/play/budget-schema.ts';

/** Adds one of them to those before. */
export function budgeted(text: string, so_far: Budget): Budget {
  const [, name, value] = /^(tokens|seconds|usd)=(.+)$/.exec(text) ?? [];
  if (name === undefined || !(Number(value) > 0) || (name === 'tokens' && !Number.isInteger(Number(value))))
    throw new InvalidArgumentError('It should be tokens=N, seconds=N or usd=N, with a number above 0.');
  return { ...so_far, [name]: Number(value) };
}
