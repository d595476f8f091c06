/**
 * The plain form of a loss as a method of the catalogue: the same shape as the store's methods, so that whoever runs those by name runs
 * these too and refuses bad input alike.
 */
import type { Method } from '../../../store/evaluate/methods/method.ts';

export type LossMethod<Input = unknown, Params = unknown, Output = unknown> = Method<string, Input, Params, Output> & {
  readonly kind: 'loss';
};
