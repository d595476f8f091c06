/**
 * Which rows each step takes, as a function of the step's number and the seed alone: so the data cursor of a run is its step, and a run
 * that goes on where it ended takes the very rows it would have taken.
 */
import { hashInts, randomStream } from '../../tensor/random.ts';
import { shuffle } from './shuffle.ts';

/** Row numbers of a step, counted from 0. */
export type Order = (step: number) => readonly number[];

export type OrderOptions = {
  readonly batch: number;
  /** Rows taken in all; the last step is then shorter. Without it the rows come round without end. */
  readonly taken?: number;
};

/** Rows as they stand, from the first again after the last. */
export function fileOrder(rows: number, options: OrderOptions): Order {
  return (step) => places(step, options).map((place) => place % rows);
}

/** Every row once in each epoch, in an order of that epoch's own. */
export function shuffledOrder(rows: number, options: OrderOptions, seed: number): Order {
  let known = { epoch: -1, order: [] as number[] };
  const ofEpoch = (epoch: number): number[] => {
    if (known.epoch === epoch) return known.order;
    const order = shuffle(
      Array.from({ length: rows }, (_, row) => row),
      randomStream(hashInts([seed, epoch])),
    );
    known = { epoch, order };
    return order;
  };
  return (step) => places(step, options).map((place) => ofEpoch(Math.floor(place / rows))[place % rows]!);
}

/** Batches that somebody else put together, one after the other, from the first again after the last. */
export function listedOrder(batches: readonly (readonly number[])[]): Order {
  return (step) => batches[step % batches.length]!;
}

/** How many steps it takes to see every row `epochs` times. */
export const stepsFor = (rows: number, batch: number, epochs: number): number =>
  Math.max(1, Math.ceil((rows * epochs) / batch));

function places(step: number, { batch, taken = Infinity }: OrderOptions): number[] {
  const count = Math.max(0, Math.min(batch, taken - step * batch));
  return Array.from({ length: count }, (_, i) => step * batch + i);
}
