/**
 * The only file that knows croner, which finds the next and the previous time of a cron expression in a time zone. Where clocks go
 * forward, a time that does not exist becomes the first moment after the gap; where they go back, a time that comes twice counts once,
 * the first time, while `*` and steps of hours and minutes run through both hours.
 */
import { Cron } from 'croner';
import { got, TroupeError } from '../../../errors.ts';

/** The times of a schedule in milliseconds since 1970, in UTC. */
export type Ticks = {
  /** The first one after that time; null where none comes. */
  readonly next: (after: number) => number | null;
  /** The last one up to that time, that time included; null where there was none. */
  readonly latest: (until: number) => number | null;
};

const MINUTE_MS = 60_000;

/** @throws TroupeError `usage` for an unknown zone, for what is no expression of five fields, and for one that never comes. */
export function cronTicks(expression: string, zone: string): Ticks {
  requireZone(zone);
  let cron: Cron;
  try {
    cron = new Cron(expression, { timezone: zone, paused: true, mode: '5-part' });
  } catch (cause) {
    const why = (cause as Error).message.replace(/^CronPattern: /, '');
    throw new TroupeError(
      'usage',
      `The cron expression ${got(expression)} should have five fields (minute, hour, day of month, month, day of week), such as '0 3 * * *': ${why}`,
    );
  }
  return {
    next: (after) => cron.nextRun(new Date(after))?.getTime() ?? null,
    // croner looks strictly before the time it is given.
    latest: (until) =>
      cron.previousRuns(1, new Date(Math.floor(until / MINUTE_MS) * MINUTE_MS + MINUTE_MS))[0]?.getTime() ?? null,
  };
}

function requireZone(zone: string): void {
  try {
    new Intl.DateTimeFormat('en', { timeZone: zone });
  } catch (cause) {
    throw new TroupeError(
      'usage',
      `The zone ${got(zone)} should be a name of the IANA time zone database, such as Europe/Berlin or UTC.`,
      { cause },
    );
  }
}
