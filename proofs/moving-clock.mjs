/**
 * Preloaded into processes whose wall clock a proof moves: `Date` is ahead of the machine by the milliseconds that stand in the file
 * PROOF_CLOCK, looked at ten times a second. Timers and `performance` run on, as they do where somebody sets the clock.
 */
import { readFileSync } from 'node:fs';

const file = process.env.PROOF_CLOCK;
const Real = Date;
let ahead = 0;

function look() {
  try {
    ahead = Number(readFileSync(file, 'utf8'));
  } catch {
    ahead = 0;
  }
}

if (file !== undefined) {
  look();
  setInterval(look, 100).unref();
  const now = () => Real.now() + ahead;
  globalThis.Date = new Proxy(Real, {
    construct: (target, args, as) =>
      args.length === 0 ? new Real(now()) : Reflect.construct(target, args, as === globalThis.Date ? target : as),
    apply: () => new Real(now()).toString(),
    get: (target, name) => (name === 'now' ? now : Reflect.get(target, name)),
  });
}
