/** The ticks of an interval: every so many milliseconds from its start, whatever the clocks of a time zone do. */
import type { Ticks } from './cron.ts';

/** The first tick comes one interval after `start`; both in milliseconds. */
export function intervalTicks(start: number, every: number): Ticks {
  const whole = (time: number): number => Math.floor((time - start) / every);
  return {
    next: (after) => start + Math.max(1, whole(after) + 1) * every,
    latest: (until) => (whole(until) < 1 ? null : start + whole(until) * every),
  };
}
