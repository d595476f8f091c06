/** Work that waits for notifications, and polls now and then in case one was lost. */
import { setTimeout as sleep } from 'node:timers/promises';
import { patiently } from './patience.ts';
import type { Db, Session } from './pool.ts';
import { scalarOf, sql } from './query.ts';

export type NotifyOptions = {
  readonly signal: AbortSignal;
  /** Polls at the latest after so many milliseconds, with or without a notification; a function is asked after each piece of work. */
  readonly pollMs?: number | (() => number);
  /** After a notification, waits so long for more: one larger piece of work is cheaper than several small ones. */
  readonly gatherMs?: number;
  /** And then while more keeps coming, but no longer than so, unless somebody waits for the work and says so by the payload {@link AT_ONCE}. */
  readonly streamMs?: () => number;
  /** More keeps coming where no more than so much lies between one notification and the next. */
  readonly quietMs?: number;
  /** And then so long in any case, with the same exception. */
  readonly restMs?: () => number;
  /** Called with what the environment failed at, which is tried again for ever. */
  readonly onTrouble?: (error: unknown) => void;
};

const MOST_PAUSE_MS = 2000;

/** Payload of a notification by whoever waits for the work that it asks for. */
export const AT_ONCE = 'at once';

/** Wakes whoever waits on the channel, once the transaction is committed. */
export const notify = (session: Pick<Session, 'query'>, channel: string, payload = ''): Promise<unknown> =>
  scalarOf(session, sql`pg_notify(${channel}, ${payload})`, { name: 'notify' });

/** Of each database and channel who waits: they share one connection, which the first of them opens and the database closes. */
const shared = new WeakMap<Db, Map<string, { readonly wakes: Set<() => void>; listening: Promise<unknown> | null }>>();

function waitingFor(db: Db, channel: string) {
  const channels = shared.get(db) ?? new Map();
  shared.set(db, channels);
  const known = channels.get(channel) ?? { wakes: new Set<() => void>(), listening: null };
  channels.set(channel, known);
  return known;
}

/** What `look` finds: it is asked at once, and after each notification. Null once `ms` have passed or the signal fires. */
export async function untilNotified<T>(
  db: Db,
  channel: string,
  look: () => Promise<T | null>,
  { ms, signal }: { readonly ms: number; readonly signal: AbortSignal },
): Promise<T | null> {
  const deadline = performance.now() + ms;
  const of = waitingFor(db, channel);
  of.listening ??= db
    .listen(channel, () => {
      for (const wake of of.wakes) wake();
    })
    .catch((error) => {
      // Where the database is away the next request tries again.
      of.listening = null;
      throw error;
    });
  await of.listening;
  while (!signal.aborted) {
    const woken = new AbortController();
    const wake = () => woken.abort();
    // Before the look, so that nothing is missed between the two.
    of.wakes.add(wake);
    try {
      const found = await look();
      const left = deadline - performance.now();
      if (found !== null || left <= 0) return found;
      await sleep(left, undefined, { signal: AbortSignal.any([woken.signal, signal]) }).catch(() => {});
    } finally {
      of.wakes.delete(wake);
    }
  }
  return null;
}

/** Calls `work` until the signal fires: at once, after each notification on the channel, and again while it answers true. */
export async function onNotify(
  db: Db,
  channel: string,
  {
    signal,
    pollMs = 500,
    gatherMs = 0,
    streamMs = () => 0,
    quietMs = 30,
    restMs = () => 0,
    onTrouble = () => {},
  }: NotifyOptions,
  work: () => Promise<boolean>,
): Promise<void> {
  const patience = { signal, onTrouble, mostMs: MOST_PAUSE_MS };
  const unlessStopped = (error: unknown): null => {
    if (!signal.aborted) throw error;
    return null;
  };
  let wake: () => void = () => {};
  let notified = true;
  let isAwaited = false;
  let last = Number.NEGATIVE_INFINITY;
  const onNotification = (payload: string | null) => {
    notified = true;
    last = performance.now();
    isAwaited ||= payload === AT_ONCE;
    wake();
  };
  /** Returns after so many milliseconds, or once `over` is true after a notification or the signal. */
  const pause = (ms: number, over: () => boolean): Promise<void> =>
    new Promise((resolve) => {
      if (ms <= 0 || over() || signal.aborted) return resolve();
      const timer = setTimeout(resolve, ms);
      wake = () => {
        if (!over() && !signal.aborted) return;
        clearTimeout(timer);
        resolve();
      };
    });
  const subscription = await patiently(() => db.listen(channel, onNotification), patience).catch(unlessStopped);
  const stop = () => wake();
  signal.addEventListener('abort', stop);
  try {
    while (!signal.aborted) {
      notified = false;
      isAwaited = false;
      if (await patiently(work, patience).catch(unlessStopped)) continue;
      await pause(typeof pollMs === 'number' ? pollMs : pollMs(), () => notified);
      await pause(gatherMs, () => false);
      const streamsUntil = performance.now() + streamMs();
      const streamsFor = () => (signal.aborted ? 0 : Math.min(streamsUntil, last + quietMs) - performance.now());
      for (let ms = streamsFor(); ms > 0 && !isAwaited; ms = streamsFor()) await pause(ms, () => isAwaited);
      await pause(restMs(), () => isAwaited);
    }
  } finally {
    signal.removeEventListener('abort', stop);
    await subscription?.close().catch(() => {});
  }
}
