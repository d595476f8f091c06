/** Reads the counts of the processes under `troupe up`, over the channel to each. */
import type { ChildProcess } from 'node:child_process';
import { type CounterValues, processCounts } from '../../api/health/prometheus.ts';

const ASK = 'metrics';
/** A process whose event loop is held up by a model answers late. */
const PATIENCE_MS = 3000;

/** Answers the process that started this one, where one did; the channel keeps nobody alive. */
export function answerCounts(): void {
  if (!process.channel) return;
  process.on('message', async (message) => {
    if (message === ASK) process.send?.({ counts: await processCounts() }, () => {});
  });
  process.channel.unref();
}

/** Asks for the counts of a process; null where it does not answer in time. */
export function countsOf(child: ChildProcess): Promise<CounterValues | null> {
  if (!child.connected) return Promise.resolve(null);
  return new Promise((resolve) => {
    const end = (counts: CounterValues | null) => {
      clearTimeout(late);
      child.off('message', take);
      resolve(counts);
    };
    const take = (message: unknown) => {
      const { counts } = (message ?? {}) as { readonly counts?: CounterValues };
      if (counts !== undefined) end(counts);
    };
    const late = setTimeout(() => end(null), PATIENCE_MS);
    child.on('message', take);
    child.send(ASK, (error) => {
      if (error) end(null);
    });
  });
}
