/**
 * Group commit: while one write runs, whatever arrives gathers, and goes as the next write together. Each caller waits for its own
 * write and is answered with its own result, so hundreds of small calls cost a few transactions and none is answered early.
 */
import { TroupeError } from '../../errors.ts';
import { isTransient } from '../../store/db/faults.ts';

export type GroupCommitOptions<T> = {
  /** How much of a write one item is, in any unit. */
  readonly weigh: (item: T) => number;
  /** Most weight of one write; a single heavier item goes alone. */
  readonly maxWeight: number;
  /** Most weight that may wait; beyond it callers are refused as `busy`. */
  readonly maxWaiting: number;
};

export type GroupCommit<T, R> = {
  readonly submit: (item: T) => Promise<R>;
  /** Answers when nothing waits and nothing runs. */
  readonly idle: () => Promise<void>;
};

type Waiting<T, R> = {
  readonly item: T;
  readonly weight: number;
  readonly resolve: (result: R) => void;
  readonly reject: (error: unknown) => void;
};

/**
 * `write` gets items in the order of their arrival and answers with as many results in that order. Where it fails for a reason
 * that lies in the items, each is written alone, so that only the caller of the faulty one gets an error.
 */
export function groupCommit<T, R>(
  write: (items: readonly T[]) => Promise<readonly R[]>,
  { weigh, maxWeight, maxWaiting }: GroupCommitOptions<T>,
): GroupCommit<T, R> {
  let queue: Waiting<T, R>[] = [];
  let waiting = 0;
  let running: Promise<void> | null = null;

  const takeGroup = (): Waiting<T, R>[] => {
    let weight = 0;
    let count = 0;
    while (count < queue.length && (count === 0 || weight + queue[count]!.weight <= maxWeight)) {
      weight += queue[count]!.weight;
      count++;
    }
    const group = queue.slice(0, count);
    queue = queue.slice(count);
    waiting -= weight;
    return group;
  };

  const writeGroup = async (group: readonly Waiting<T, R>[]): Promise<void> => {
    try {
      const results = await write(group.map(({ item }) => item));
      for (const [i, one] of group.entries()) one.resolve(results[i]!);
    } catch (error) {
      if (group.length === 1 || isTransient(error)) for (const one of group) one.reject(error);
      else for (const one of group) await writeGroup([one]);
    }
  };

  const run = async (): Promise<void> => {
    // Callers that arrive in the same turn of the event loop share the first write too.
    await new Promise(setImmediate);
    while (queue.length > 0) await writeGroup(takeGroup());
    running = null;
  };

  return {
    submit: (item) =>
      new Promise((resolve, reject) => {
        const weight = weigh(item);
        if (waiting > 0 && waiting + weight > maxWaiting) {
          reject(new TroupeError('busy', 'The log is overloaded; try again in a moment.'));
          return;
        }
        waiting += weight;
        queue.push({ item, weight, resolve, reject });
        running ??= run();
      }),
    idle: async () => {
      while (running) await running;
    },
  };
}
