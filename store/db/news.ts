/** Work that waits for news: woken by a notification, and looking by itself now and then in case one was lost. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Db, Session } from './pool.ts';
import { scalarOf, sql } from './query.ts';

export type NewsOptions = {
  readonly signal: AbortSignal;
  /** Looks at the latest after so many milliseconds, whatever was heard. */
  readonly pollMs?: number;
  /** After news, waits so long for more of it: one larger piece of work is cheaper than several small ones. */
  readonly gatherMs?: number;
};

/** Wakes whoever waits on the channel, once the transaction is committed. */
export const notify = (session: Pick<Session, 'query'>, channel: string, payload = ''): Promise<unknown> =>
  scalarOf(session, sql`pg_notify(${channel}, ${payload})`, { name: 'notify' });

/** Calls `work` until the signal fires: at once, after each piece of news on the channel, and again while it answers true. */
export async function onNews(
  db: Db,
  channel: string,
  { signal, pollMs = 500, gatherMs = 0 }: NewsOptions,
  work: () => Promise<boolean>,
): Promise<void> {
  let wake: () => void = () => {};
  let news = true;
  const subscription = await db.listen(channel, () => {
    news = true;
    wake();
  });
  const stop = () => wake();
  signal.addEventListener('abort', stop);
  try {
    while (!signal.aborted) {
      news = false;
      if (await work()) continue;
      if (!news && !signal.aborted) {
        await new Promise<void>((resolve) => {
          const timer = setTimeout(resolve, pollMs);
          wake = () => {
            clearTimeout(timer);
            resolve();
          };
        });
      }
      if (gatherMs > 0 && !signal.aborted) await sleep(gatherMs);
    }
  } finally {
    signal.removeEventListener('abort', stop);
    await subscription.close();
  }
}
