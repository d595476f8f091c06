/**
 * The schedules of a project. A schedule is a row of the queue, of kind `schedule`, that stays there: its spec is the definition, its
 * result how far it came. Everything that changes it compares the row's token and moves it, so of two who change it at once one does.
 * What happened is in the log: `schedule.changed` and `schedule.skipped` under the key of the schedule, and the jobs it requested.
 */
import { got, TroupeError } from '../../../errors.ts';
import { notify } from '../../db/notifications.ts';
import type { Db } from '../../db/pool.ts';
import { countOf, firstOf, query, rowsOf, sql } from '../../db/query.ts';
import { logEnds } from '../../projecting/positions.ts';
import { type JobContext, requestJob } from '../jobs/jobs.ts';
import { type TimeSpan, ticksWithoutJob } from './backfill.ts';
import { checkedDefinition, requireName } from './definition.ts';
import type { ScheduleDefinition } from './definition-schema.ts';
import { type Fire, fireId, instantOf, nextTimes, pausedTicks } from './due.ts';
import { recordChange, recordScheduleEvent } from './schedule-events.ts';
import type { Schedule, ScheduleState } from './schedule-state.ts';

export const SCHEDULE_CHANNEL = 'troupe_schedules';
const KIND = 'schedule';

const rowId = (name: string): string => `${KIND}/${name}`;

const rows = query
  .selectFrom('troupe.job_queue')
  .select(['job_id', 'spec', 'result', 'token'])
  .where('kind', '=', KIND)
  .where('state', '=', 'waiting')
  .orderBy('job_id');

type FireRow = { readonly job_id: string; readonly spec: unknown; readonly result: unknown; readonly token: number };

const scheduleOf = ({ job_id, spec, result, token }: FireRow): Schedule => ({
  name: job_id.slice(rowId('').length),
  definition: spec as ScheduleDefinition,
  state: result as ScheduleState,
  token,
});

/** Every schedule, by name. */
export const listSchedules = async (db: Db): Promise<Schedule[]> => (await rowsOf(db, rows)).map(scheduleOf);

/** The names of all of them. */
export const scheduleNames = async (db: Db): Promise<string[]> =>
  (await rowsOf(db, rows.clearSelect().select('job_id'))).map(({ job_id }) => job_id.slice(rowId('').length));

/** Null where it is gone. */
export async function scheduleNamed(db: Db, name: string): Promise<Schedule | null> {
  const row = await firstOf(db, rows.where('job_id', '=', rowId(name)));
  return row ? scheduleOf(row) : null;
}

/** @throws TroupeError `not_found` with the names that there are */
export async function findSchedule(db: Db, name: string): Promise<Schedule> {
  const found = await scheduleNamed(db, name);
  if (found !== null) return found;
  const names = await scheduleNames(db);
  const known = names.length === 0 ? 'there is none yet' : `there are ${names.join(', ')}`;
  throw new TroupeError('not_found', `There is no schedule ${got(name)}; ${known}.`);
}

export type By = { readonly by: string; readonly reason?: string | null };

/** Whole seconds, so that the ticks of an interval are too. */
const sinceAt = (at: Date): string => new Date(Math.floor(at.getTime() / 1000) * 1000).toISOString();

/** When a schedule that is added at that time starts its first jobs. @throws TroupeError `usage` where no tick lies in its hours */
export function firstTimes(name: string, definition: ScheduleDefinition, at: Date, count: number): string[] {
  const since = Date.parse(sinceAt(at));
  const times = nextTimes(definition, { name, since, last: since, now: at.getTime() }, count);
  if (times.length > 0) return times;
  throw new TroupeError('usage', 'No tick of the schedule lies in its allowed hours; change the one or the other.');
}

/** @throws TroupeError `usage` for what cannot be a schedule, `conflict` where the name is taken */
export async function addSchedule(
  { db, log, now }: JobContext,
  name: string,
  written: unknown,
  { by }: By,
): Promise<Schedule> {
  requireName(name);
  const at = now();
  const definition = checkedDefinition(written, at.getTime());
  const since = sinceAt(at);
  const state: ScheduleState = { since, last: since, paused: null, pending: null };
  firstTimes(name, definition, at, 1);
  const row = { job_id: rowId(name), kind: KIND, spec: JSON.stringify(definition), result: JSON.stringify(state) };
  const added = await countOf(
    db,
    query
      .insertInto('troupe.job_queue')
      .values(row)
      .onConflict((conflict) => conflict.doNothing()),
  );
  if (added === 0)
    throw new TroupeError('conflict', `There is a schedule ${name} already; remove it first to change it.`);
  await recordChange(log, at, { schedule: name, change: 'added', by, definition: { ...definition } });
  await notify(db, SCHEDULE_CHANNEL, name);
  return { name, definition, state, token: 0 };
}

/** Starts no job until it is resumed. @throws TroupeError `not_found`; `conflict` where it is paused already */
export async function pauseSchedule(
  context: JobContext,
  name: string,
  by: { readonly by: string; readonly reason: string },
): Promise<void> {
  for (;;) {
    const schedule = await carryOut(context, await findSchedule(context.db, name));
    if (schedule === null) continue;
    const { paused } = schedule.state;
    if (paused !== null) throw new TroupeError('conflict', `Schedule ${name} is paused already: ${paused.reason}.`);
    if (await pauseAsRead(context, schedule, by)) return;
  }
}

/** Pauses the schedule as it was read. Returns false where somebody changed it since. */
export async function pauseAsRead(
  { db, log, now }: JobContext,
  schedule: Schedule,
  { by, reason }: { readonly by: string; readonly reason: string },
): Promise<boolean> {
  const at = now();
  const paused = { by, reason, at: at.toISOString() };
  if ((await moveState(db, schedule, { ...schedule.state, paused })) === null) return false;
  await recordChange(log, at, { schedule: schedule.name, change: 'paused', by, reason });
  return true;
}

/** The ticks of the pause are skipped; the next one starts its job. @throws TroupeError `not_found`; `conflict` where it is not paused */
export async function resumeSchedule(context: JobContext, name: string, { by, reason }: By): Promise<Schedule> {
  const at = context.now();
  const resumed = await changed(context, name, ({ state, definition }) => {
    if (state.paused === null) throw new TroupeError('conflict', `Schedule ${name} is not paused.`);
    const detail = `paused by ${state.paused.by}: ${state.paused.reason}`;
    const skipped = pausedTicks(definition, { ...timesOf(state), now: at.getTime() }, detail);
    return {
      ...state,
      last: skipped.at(-1)?.until ?? state.last,
      paused: null,
      resumed: instantOf(at.getTime()),
      pending: skipped.length === 0 ? null : { at: at.toISOString(), decisions: skipped },
    };
  });
  await recordChange(context.log, at, { schedule: name, change: 'resumed', by, reason: reason ?? null });
  await carryOut(context, resumed);
  await notify(context.db, SCHEDULE_CHANNEL, name);
  return resumed;
}

/** Its jobs and its events stay. @throws TroupeError `not_found` */
export async function removeSchedule({ db, log, now }: JobContext, name: string, { by, reason }: By): Promise<void> {
  await findSchedule(db, name);
  await countOf(db, query.deleteFrom('troupe.job_queue').where('job_id', '=', rowId(name)).where('kind', '=', KIND));
  await recordChange(log, now(), { schedule: name, change: 'removed', by, reason: reason ?? null });
}

/**
 * Requests the job of a schedule now, regardless of its ticks, its hours and its pause. Returns the id of the job.
 * @throws TroupeError `not_found`; `conflict` where the last job has not ended and the schedule does not queue another
 */
export async function runScheduleNow(context: JobContext, name: string): Promise<string> {
  const { definition } = await findSchedule(context.db, name);
  const running = await runningJob(context.db, name);
  if (running !== null && definition.overlap === 'skip')
    throw new TroupeError('conflict', `Job ${running} of schedule ${name} has not ended; wait for its end.`, {
      hint: `troupe jobs cancel ${running} ends it.`,
    });
  const instant = instantOf(context.now().getTime());
  if (definition.when !== undefined) {
    const started = await logEnds(context.db);
    await changed(context, name, ({ state }) => ({ ...state, started }));
  }
  await fire(context, name, definition, { action: 'fire', instant });
  return fireId(name, instant);
}

/**
 * Has the ticks of a span that started no job run afterwards. Returns those, the oldest first.
 * @throws TroupeError `not_found`; `conflict` where it is paused; `usage` as `ticksWithoutJob`
 */
export async function backfillSchedule(
  context: JobContext,
  name: string,
  span: TimeSpan,
  { by }: By,
): Promise<string[]> {
  const at = context.now();
  const ticks = await ticksWithoutJob(context.db, await findSchedule(context.db, name), span, at.getTime());
  if (ticks.length === 0) return ticks;
  await changed(context, name, ({ state }) => {
    if (state.paused !== null)
      throw new TroupeError('conflict', `Schedule ${name} is paused, so nothing would start: resume it first.`);
    return { ...state, backfill: [...new Set([...(state.backfill ?? []), ...ticks])].sort() };
  });
  await recordChange(context.log, at, {
    schedule: name,
    change: 'backfilled',
    by,
    reason: `ticks without a job: ${ticks.join(', ')}`,
  });
  await notify(context.db, SCHEDULE_CHANNEL, name);
  return ticks;
}

/** Forgets the ticks of a backfill whose jobs have not started. Returns how many those were. */
export async function endBackfill(context: JobContext, name: string, { by }: By): Promise<number> {
  let left = 0;
  await changed(context, name, ({ state: { backfill = [], ...state } }) => {
    left = backfill.length;
    return state;
  });
  if (left > 0)
    await recordChange(context.log, context.now(), {
      schedule: name,
      change: 'backfill_ended',
      by,
      reason: `${left} ticks were left`,
    });
  return left;
}

/** The oldest job of a schedule that has not ended, by id; null where all have. */
export async function runningJob(db: Db, name: string): Promise<string | null> {
  const running = query
    .selectFrom('troupe.job_queue')
    .select('job_id')
    // The ids of its jobs, which alone lie between these two.
    .where('job_id', '>', `${rowId(name)}/`)
    .where('job_id', '<', `${rowId(name)}0`)
    .where('state', '<>', 'finished')
    .orderBy('requested_at')
    .limit(1);
  return (await firstOf(db, running))?.job_id ?? null;
}

/** What `due` needs to know of a state, in milliseconds. */
export const timesOf = ({ since, last }: ScheduleState) => ({ since: Date.parse(since), last: Date.parse(last) });

/** Writes the state, unless somebody wrote it since this one was read. Returns what stands there now, null where it was not written. */
export async function moveState(db: Db, schedule: Schedule, state: ScheduleState): Promise<Schedule | null> {
  const moved = await countOf(
    db,
    query
      .updateTable('troupe.job_queue')
      .set({ result: JSON.stringify(state), token: sql<number>`token + 1` })
      .where('job_id', '=', rowId(schedule.name))
      .where('kind', '=', KIND)
      .where('token', '=', schedule.token),
  );
  return moved === 1 ? { ...schedule, state, token: schedule.token + 1 } : null;
}

/**
 * Puts what was decided into the log and the queue. Ids and bodies are those of the decision, so that doing it twice, by two schedulers
 * or after a crash, changes nothing. Returns the schedule as it stands then; null where somebody else changed it meanwhile.
 */
export async function carryOut(context: JobContext, schedule: Schedule): Promise<Schedule | null> {
  const { name, definition, state } = schedule;
  if (state.pending === null) return schedule;
  const at = new Date(state.pending.at);
  for (const decision of state.pending.decisions) {
    if (decision.action === 'fire') await fire({ ...context, now: () => at }, name, definition, decision);
    else {
      const { instant, until, count, reason, detail } = decision;
      await recordScheduleEvent(context.log, at, {
        name: 'schedule.skipped',
        data: { schedule: name, first_due_at: instant, last_due_at: until, count, reason, detail },
      });
    }
  }
  return moveState(context.db, schedule, { ...state, pending: null });
}

const fire = (
  context: JobContext,
  name: string,
  { job: { kind, spec } }: ScheduleDefinition,
  { instant, as_of }: Fire,
): Promise<void> =>
  requestJob(context, {
    job_id: fireId(name, instant),
    kind,
    spec: as_of === undefined ? spec : { ...spec, as_of },
    tick: { schedule: name, due_at: instant },
  });

/** Changes the state as it stands now, again where somebody was faster. What was decided before is carried out first. */
async function changed(
  context: JobContext,
  name: string,
  change: (schedule: Schedule) => ScheduleState,
): Promise<Schedule> {
  for (;;) {
    const schedule = await carryOut(context, await findSchedule(context.db, name));
    const moved = schedule && (await moveState(context.db, schedule, change(schedule)));
    if (moved !== null) return moved;
  }
}
