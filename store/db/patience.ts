/** Trying again what the environment failed at: the one retry loop that everything which needs the database uses. */
import { setMaxListeners } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { TroupeError } from '../../errors.ts';
import { isTransient } from './faults.ts';

export type PatienceOptions = {
  readonly signal?: AbortSignal;
  /** Called with each failure before it is tried again. */
  readonly onTrouble?: (error: unknown) => void;
  /** Gives up once its pauses add up to this; for ever if omitted. What an attempt itself takes does not count. */
  readonly forMs?: number;
  /** The longest pause; pauses begin at 100 ms and double. */
  readonly mostMs?: number;
};

/** Runs work that may be run again, until it succeeds. */
export type Patiently = <T>(work: () => Promise<T>) => Promise<T>;

const LEAST_MS = 100;
const MOST_MS = 5000;

/**
 * Runs `work` until it succeeds. Only what the environment failed at is tried again (`isTransient`); a commit whose answer was lost may
 * have happened, so running `work` twice must be the same as running it once.
 * @throws TroupeError `interrupted` when the signal comes while it waits; the last failure once the patience has ended; any other error at once.
 */
export async function patiently<T>(work: () => Promise<T>, options: PatienceOptions = {}): Promise<T> {
  const { signal, onTrouble = () => {}, forMs = Number.POSITIVE_INFINITY, mostMs = MOST_MS } = options;
  let waited = 0;
  for (let pause = LEAST_MS; ; pause = Math.min(pause * 2, mostMs)) {
    try {
      return await work();
    } catch (error) {
      const stopped = error instanceof TroupeError && error.code === 'interrupted';
      if (stopped || !isTransient(error) || waited >= forMs) throw error;
      if (signal?.aborted) throw interrupted(error);
      onTrouble(error);
      // All loops of a process may wait on its one signal, and Node would warn of a leak.
      if (signal) setMaxListeners(0, signal);
      await sleep(pause, undefined, signal ? { signal } : {}).catch(() => {
        throw interrupted(error);
      });
      waited += pause;
    }
  }
}

const interrupted = (cause: unknown): TroupeError =>
  new TroupeError('interrupted', 'It was stopped while it waited for the database.', { cause });
