/**
 * The scheduler: decides the ticks that are due and carries the decisions out. Any number of schedulers may run on one project: the
 * decision on a tick is written by one of them, and the id of its job is made of schedule and tick. Its clock is handed in.
 */
import { snapshotAt } from '../../datasets/as-of.ts';
import { isTransient } from '../../db/faults.ts';
import { onNotify } from '../../db/notifications.ts';
import type { Db } from '../../db/pool.ts';
import type { JobContext } from '../jobs/jobs.ts';
import { conditionNow, type Since } from './condition.ts';
import { dayBudgetOver } from './day-budget.ts';
import { type Decision, due, nextTimes, type SkipReason, withinHours } from './due.ts';
import { lastRuns, rolledBack } from './history.ts';
import { PAUSE_AFTER, reasonToPause } from './jobs-in-a-row.ts';
import type { Schedule, ScheduleState } from './schedule-state.ts';
import {
  carryOut,
  moveState,
  pauseAsRead,
  runningJob,
  SCHEDULE_CHANNEL,
  scheduleNamed,
  scheduleNames,
  timesOf,
} from './schedules.ts';

/** The longest time between two looks: a step of the clock is noticed within it. */
const LONGEST_MS = 60_000;
/** Before a schedule is looked at again that another scheduler just changed. */
const CHANGED_MS = 1000;
/** Between two looks whether the job of a backfill has ended. */
const BACKFILL_MS = 5000;

export type SchedulerTrouble = {
  /** Called with what the environment failed at, which is tried again. */
  readonly onTrouble?: (error: unknown) => void;
  /** Called with the error of a schedule that cannot be decided; the others are. */
  readonly onBroken?: (name: string, error: unknown) => void;
};

/**
 * Decides every tick that is due by the clock of the context, and carries out what was decided. Returns how many milliseconds from now
 * the next tick is due, null where none is.
 */
export async function scheduleOnce(context: JobContext, { onBroken }: SchedulerTrouble = {}): Promise<number | null> {
  const now = context.now().getTime();
  let soonest: number | null = null;
  // One at a time: a definition may hold a plan with thousands of tasks.
  for (const name of await scheduleNames(context.db)) {
    try {
      const schedule = await scheduleNamed(context.db, name);
      const next = schedule && (await decide(context, schedule, now));
      if (next !== null) soonest = Math.min(soonest ?? next, next);
    } catch (error) {
      if (isTransient(error) || onBroken === undefined) throw error;
      onBroken(name, error);
    }
  }
  return soonest;
}

/** Milliseconds until the next tick of the schedule; null where none comes. */
async function decide(context: JobContext, found: Schedule, now: number): Promise<number | null> {
  // Something is left where the scheduler that decided it died before it was carried out.
  const schedule = await carryOut(context, found);
  if (schedule === null) return CHANGED_MS;
  const { name, definition, state } = schedule;
  if (state.paused !== null) return null;
  const options = { name, ...timesOf(state), now };
  const isDue = due(definition, { ...options, running: null }).decisions.length > 0;
  const { backfill = [] } = state;
  if (isDue || backfill.length > 0) {
    const reason = await badJobs(context.db, schedule);
    if (reason !== null) {
      const paused = await pauseAsRead(context, schedule, { by: 'scheduler', reason });
      return paused ? null : CHANGED_MS;
    }
  }
  if (isDue) {
    const found = due(definition, { ...options, running: await runningJob(context.db, name) });
    const { decisions: wanted, ...more } = await underCondition(context.db, schedule, found.decisions, now);
    const decisions = await underBudget(context.db, schedule, wanted, now);
    const at = new Date(now).toISOString();
    const pending = decisions.length === 0 ? null : { at, decisions };
    const after = { ...state, ...more, last: new Date(found.last).toISOString(), pending };
    const moved = await moveState(context.db, schedule, after);
    if (moved === null || (await carryOut(context, moved)) === null) return CHANGED_MS;
  } else if (backfill.length > 0 && !(await startedBackfill(context, schedule, now))) return CHANGED_MS;
  const [next] = nextTimes(definition, options, 1);
  const left = next === undefined ? null : Date.parse(next) - now;
  return backfill.length === 0 ? left : Math.min(left ?? BACKFILL_MS, BACKFILL_MS);
}

/**
 * Starts the oldest tick of a backfill where no job of the schedule runs, its hours allow it and its budget lasts. Returns false where
 * somebody changed the schedule meanwhile.
 */
async function startedBackfill(context: JobContext, schedule: Schedule, now: number): Promise<boolean> {
  const { db } = context;
  const { name, definition, state } = schedule;
  const [instant, ...left] = state.backfill!;
  if (!withinHours(definition, now) || (await runningJob(db, name)) !== null) return true;
  if ((await dayBudgetOver(db, name, definition, now)) !== null) return true;
  const as_of = await snapshotAt(db, instant!);
  const pending = {
    at: new Date(now).toISOString(),
    decisions: [{ action: 'fire' as const, instant: instant!, as_of }],
  };
  const moved = await moveState(db, schedule, { ...state, backfill: left, pending });
  return moved !== null && (await carryOut(context, moved)) !== null;
}

/** Why the next tick would pause the schedule instead of starting a job, by its last jobs; null where it would not. */
export async function badJobs(db: Db, { name, definition, state }: Omit<Schedule, 'token'>): Promise<string | null> {
  const most = Math.max(...Object.values({ ...PAUSE_AFTER, ...definition.pause_after }));
  if (most === 0) return null;
  // One more than are needed: the newest may not have ended.
  const limit = most + 1;
  const runs = await lastRuns(db, name, { after: state.resumed ?? '', limit });
  return reasonToPause(definition, runs, await rolledBack(db, runs));
}

/** What the condition of a schedule looks back to. */
export async function lastStart(db: Db, name: string, { started = [], since }: ScheduleState): Promise<Since> {
  const [last] = await lastRuns(db, name, { limit: 1 });
  return { positions: started, at: last?.due_at ?? since };
}

/** What is left of the decisions under the condition of the schedule, and what its state remembers of the look. */
async function underCondition(
  db: Db,
  { name, definition: { when, cron }, state }: Schedule,
  decisions: readonly Decision[],
  now: number,
): Promise<{ readonly decisions: readonly Decision[] } & Pick<ScheduleState, 'started' | 'checked'>> {
  if (when === undefined) return { decisions };
  // The ticks of an interval only look whether the condition holds; those of a cron expression are expected to start a job.
  const recorded = cron === undefined ? decisions.filter((one) => one.action === 'fire') : decisions;
  if (!recorded.some((one) => one.action === 'fire')) return { decisions: recorded };
  const { holds, detail, new_episodes, until } = await conditionNow(db, when, await lastStart(db, name, state));
  const checked = { at: new Date(now).toISOString(), new_episodes, detail };
  if (holds) return { decisions: recorded, ...(until === null ? {} : { started: until }), checked };
  if (cron === undefined) return { decisions: [], checked };
  return {
    decisions: skipped(recorded, 'condition', detail),
    checked,
  };
}

/** What is left of the decisions once the budget of the day is used up. */
async function underBudget(
  db: Db,
  { name, definition }: Schedule,
  decisions: readonly Decision[],
  now: number,
): Promise<readonly Decision[]> {
  if (!decisions.some((one) => one.action === 'fire')) return decisions;
  const over = await dayBudgetOver(db, name, definition, now);
  return over === null ? decisions : skipped(decisions, 'budget', over);
}

/** The decisions without those that start a job. */
const skipped = (decisions: readonly Decision[], reason: SkipReason, detail: string): Decision[] =>
  decisions.map((one) =>
    one.action === 'skip'
      ? one
      : { action: 'skip', instant: one.instant, until: one.instant, count: 1, reason, detail },
  );

export type SchedulerOptions = SchedulerTrouble & { readonly signal: AbortSignal };

/** Works until the signal fires: wakes when the next tick is due, when a schedule changed, and at least once a minute. */
export async function runScheduler(context: JobContext, options: SchedulerOptions): Promise<void> {
  let pollMs = LONGEST_MS;
  const wake = { signal: options.signal, ...(options.onTrouble ? { onTrouble: options.onTrouble } : {}) };
  await onNotify(context.db, SCHEDULE_CHANNEL, { ...wake, pollMs: () => pollMs }, async () => {
    const next = await scheduleOnce(context, options);
    pollMs = Math.max(1, Math.min(LONGEST_MS, next ?? LONGEST_MS));
    return false;
  });
}
