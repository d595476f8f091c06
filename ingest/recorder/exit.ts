/**
 * A recorder with something unsent when its program ends: a program that runs out of work waits for it to be sent; one that is
 * ended at once (`process.exit`, an uncaught error) can only write it down. A signal that kills leaves no time for either.
 */

export type Unsent = {
  readonly flush: () => Promise<unknown>;
  /** Cannot wait for anything. */
  readonly leave: () => void;
};

const unsent = new Set<Unsent>();
const tried = new WeakSet<Unsent>();
let listening = false;

/** Notes whether this recorder has something unsent. */
export function noteUnsent(one: Unsent, has: boolean): void {
  if (!has) {
    unsent.delete(one);
    return;
  }
  unsent.add(one);
  if (listening) return;
  listening = true;
  process.on('beforeExit', () => {
    for (const each of unsent) {
      // Node asks again after every piece of work: a server that stays away must not keep the program for ever.
      if (tried.has(each)) continue;
      tried.add(each);
      each.flush().catch((error: Error) => process.stderr.write(`${error.message}\n`));
    }
  });
  process.on('exit', () => {
    for (const each of unsent) each.leave();
  });
}
