/** Whether what was written is a schedule, and when it is due. */
import { read } from '../../../document.ts';
import { got, TroupeError } from '../../../errors.ts';
import { cronTicks, type Ticks } from './cron.ts';
import { ScheduleDefinition } from './definition-schema.ts';

const NAME = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/;
/** Ticks that are looked at before a schedule is accepted. */
const LOOKED_AT = 20;

/** @throws TroupeError `usage` for a name that cannot be part of a job's id. */
export function requireName(name: string): void {
  if (!NAME.test(name))
    throw new TroupeError(
      'usage',
      `The name of a schedule should be 1 to 64 letters, digits, dots, dashes or underscores, but it is ${got(name)}.`,
    );
}

/** The times of a schedule that was made at `since` (milliseconds since 1970). */
export function ticksOf({ cron, every_seconds, zone }: ScheduleDefinition, since: number): Ticks {
  return cron === undefined ? intervalTicks(since, (every_seconds ?? 0) * 1000) : cronTicks(cron, zone);
}

/** Every so many milliseconds from the start, whatever the clocks of a time zone do; the first tick comes one interval after `start`. */
function intervalTicks(start: number, every: number): Ticks {
  const whole = (time: number): number => Math.floor((time - start) / every);
  return {
    next: (after) => start + Math.max(1, whole(after) + 1) * every,
    latest: (until) => (whole(until) < 1 ? null : start + whole(until) * every),
  };
}

/**
 * The definition, where it can be kept as it is.
 * @throws TroupeError `usage` naming the field that is missing, wrong, or without an effect
 */
export function checkedDefinition(value: unknown, now: number): ScheduleDefinition {
  const written = read(ScheduleDefinition, value, { called: 'A schedule' });
  const { cron, every_seconds, jitter_seconds, hours, zone, when } = written;
  if (when !== undefined && 'drift' in when && when.drift.of === 'roles' && when.drift.by_role)
    throw new TroupeError('usage', 'A drift of roles compares the roles of whole episodes; leave out by_role.');
  if ((cron === undefined) === (every_seconds === undefined))
    throw new TroupeError('usage', 'A schedule needs either a cron expression or an interval, and not both.');
  // An interval alone has no use for the zone, but the hours do.
  cronTicks('0 0 * * *', zone);
  if (hours !== undefined && hours.from === hours.to)
    throw new TroupeError('usage', `The hours ${hours.from}-${hours.to} are none; leave them out to allow all.`);
  const ticks = ticksOf(written, now);
  let last = ticks.next(now);
  if (last === null) throw new TroupeError('usage', `The cron expression ${got(cron)} never comes.`);
  for (let i = 0; i < LOOKED_AT; i++) {
    const next = ticks.next(last);
    if (next === null) break;
    if (jitter_seconds * 1000 >= next - last)
      throw new TroupeError(
        'usage',
        `The jitter of ${jitter_seconds} s should be shorter than the ${(next - last) / 1000} s from one tick to the next.`,
      );
    last = next;
  }
  return written;
}
