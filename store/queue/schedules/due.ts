/** Which ticks of a schedule are due, and what becomes of each: pure, with the clock handed in. */
import { createHash } from 'node:crypto';
import type { AsOf } from '../../datasets/as-of.ts';
import type { Ticks } from './cron.ts';
import { ticksOf } from './definition.ts';
import type { ScheduleDefinition } from './definition-schema.ts';

/** Why a tick started no job. */
export type SkipReason = 'missed' | 'overlap' | 'outside_hours' | 'paused' | 'condition' | 'budget';

/** `as_of` where the tick is run afterwards: its job reads what had been recorded then. */
export type Fire = { readonly action: 'fire'; readonly instant: string; readonly as_of?: AsOf };

/** One tick, or the ticks from `instant` to `until`; `count` is null where they are more than anyone counted. */
export type Skip = {
  readonly action: 'skip';
  readonly instant: string;
  readonly until: string;
  readonly count: number | null;
  readonly reason: SkipReason;
  readonly detail: string;
};

export type Decision = Fire | Skip;

export type DueOptions = {
  readonly name: string;
  /** When the schedule was made, in milliseconds since 1970. */
  readonly since: number;
  /** Every tick up to this time is decided, in milliseconds since 1970. */
  readonly last: number;
  readonly now: number;
  /** A job of this schedule that has not ended. */
  readonly running: string | null;
};

/** A tick that is later than this was missed by the scheduler. */
const ON_TIME_MS = 60_000;
/** More missed ticks than these are not counted one by one. */
const COUNTED = 100;
/** Ticks that are looked through for some in the allowed hours: more than a day of one a minute. */
const LOOKED_THROUGH = 2000;

/** An instant as it stands in ids and events: UTC, without a fraction of a second that is zero. */
export const instantOf = (time: number): string => new Date(time).toISOString().replace('.000Z', 'Z');

/** The id of the job that a tick requests. */
export const fireId = (name: string, instant: string): string => `schedule/${name}/${instant}`;

/** Delay of a tick in milliseconds, below `most`: the same for the same schedule and tick in every scheduler. */
export function jitterOf(name: string, tick: number, most: number): number {
  if (most === 0) return 0;
  const digest = createHash('sha256')
    .update(fireId(name, instantOf(tick)))
    .digest();
  return Math.floor((digest.readUIntBE(0, 6) / 2 ** 48) * most);
}

/**
 * What is to be decided now, oldest first, and up to which time everything is decided then. Of several ticks that are due the last one
 * may start a job; those before it were missed.
 */
export function due(
  definition: ScheduleDefinition,
  options: DueOptions,
): { readonly decisions: readonly Decision[]; readonly last: number } {
  const { last, now } = options;
  const ticks = ticksOf(definition, options.since);
  const tick = newestDue(ticks, definition, options);
  if (tick === null) return { decisions: [], last };
  const before = missedTicks(ticks, last, tick);
  const newest = decided(definition, tick, options);
  const why =
    newest.action === 'fire'
      ? `no scheduler worked then; the job of ${newest.instant} stands for them`
      : `no scheduler worked then; it was ${instantOf(now)} when one did`;
  const missed: Decision[] = before === null ? [] : [{ action: 'skip', ...before, reason: 'missed', detail: why }];
  return { decisions: [...missed, newest], last: tick };
}

/** The ticks that a pause from `last` to `now` left out, as one; none where it left out none. */
export function pausedTicks(
  definition: ScheduleDefinition,
  { since, last, now }: Pick<DueOptions, 'since' | 'last' | 'now'>,
  detail: string,
): Skip[] {
  const ticks = ticksOf(definition, since);
  const newest = ticks.latest(now);
  if (newest === null || newest <= last) return [];
  const { instant, count } = missedTicks(ticks, last, newest) ?? { instant: instantOf(newest), count: 0 };
  const whole = count === null ? null : count + 1;
  return [{ action: 'skip', instant, until: instantOf(newest), count: whole, reason: 'paused', detail }];
}

/** When the next ticks start their jobs, jitter included. */
export function nextTimes(
  definition: ScheduleDefinition,
  { name, since, last, now }: Omit<DueOptions, 'running'>,
  count: number,
): string[] {
  const ticks = ticksOf(definition, since);
  const times: string[] = [];
  let tick = ticks.next(Math.max(last, now - definition.jitter_seconds * 1000));
  for (let i = 0; i < LOOKED_THROUGH && tick !== null && times.length < count; i++) {
    const at = tick + jitterOf(name, tick, definition.jitter_seconds * 1000);
    if (at > now && withinHours(definition, at)) times.push(instantOf(at));
    tick = ticks.next(tick);
  }
  return times;
}

/** The jitter is shorter than the time between two ticks, so at most one tick still waits for its delay. */
function newestDue(
  ticks: Ticks,
  { jitter_seconds }: ScheduleDefinition,
  { name, last, now }: DueOptions,
): number | null {
  for (let tick = ticks.latest(now); tick !== null && tick > last; tick = ticks.latest(tick - 1))
    if (tick + jitterOf(name, tick, jitter_seconds * 1000) <= now) return tick;
  return null;
}

function missedTicks(ticks: Ticks, last: number, newest: number): Pick<Skip, 'instant' | 'until' | 'count'> | null {
  const first = ticks.next(last);
  if (first === null || first >= newest) return null;
  let count = 0;
  for (let tick: number | null = first; tick !== null && tick < newest && count <= COUNTED; tick = ticks.next(tick))
    count += 1;
  return {
    instant: instantOf(first),
    until: instantOf(ticks.latest(newest - 1) ?? first),
    count: count > COUNTED ? null : count,
  };
}

function decided(definition: ScheduleDefinition, tick: number, { name, now, running }: DueOptions): Decision {
  const instant = instantOf(tick);
  const skip = (reason: SkipReason, detail: string): Skip => ({
    action: 'skip',
    instant,
    until: instant,
    count: 1,
    reason,
    detail,
  });
  const late = now - tick - jitterOf(name, tick, definition.jitter_seconds * 1000);
  if (late > Math.max(ON_TIME_MS, definition.catch_up_seconds * 1000))
    return skip(
      'missed',
      `it was ${Math.round(late / 1000)} s late, and the catch-up window is ${definition.catch_up_seconds} s`,
    );
  if (!withinHours(definition, now)) {
    const { from, to } = definition.hours!;
    return skip('outside_hours', `it was ${clockIn(definition.zone, now)}, and the allowed hours are ${from} to ${to}`);
  }
  if (running !== null && definition.overlap === 'skip') return skip('overlap', `job ${running} had not ended`);
  return { action: 'fire', instant };
}

/** Whether jobs may start at that time; hours may pass midnight. */
export function withinHours({ hours, zone }: Pick<ScheduleDefinition, 'hours' | 'zone'>, time: number): boolean {
  if (hours === undefined) return true;
  const at = clockIn(zone, time);
  return hours.from < hours.to ? at >= hours.from && at < hours.to : at >= hours.from || at < hours.to;
}

const clockIn = (zone: string, time: number): string =>
  new Intl.DateTimeFormat('en-GB', { timeZone: zone, hour: '2-digit', minute: '2-digit', hourCycle: 'h23' }).format(
    time,
  );
