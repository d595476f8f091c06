/** Waiting that a signal ends. */

/** Waits so many milliseconds, or until the signal fires. */
export const pause = (ms: number, signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    const timer = setTimeout(ended, ms);
    function ended() {
      clearTimeout(timer);
      signal.removeEventListener('abort', ended);
      resolve();
    }
    signal.addEventListener('abort', ended);
    if (signal.aborted) ended();
  });

/** Waits until the signal fires. */
export const untilAborted = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
