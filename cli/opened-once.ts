/** A pool that is opened when it is first asked for. */
import type { Db } from '../store/db/pool.ts';

/** Opens at the first `open`, and at the next one where that failed. `close` closes what was opened. */
export function openedOnce(start: () => Promise<Db | null>) {
  let opened: Promise<Db | null> | null = null;
  return {
    open: () => {
      opened ??= start().catch((error: unknown) => {
        opened = null;
        throw error;
      });
      return opened;
    },
    close: async () => (await opened?.catch(() => null))?.close(),
  };
}
