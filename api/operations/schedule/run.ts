/** What operations on schedules do. */

import { TroupeError } from '../../../errors.ts';
import { checkedDefinition, requireName } from '../../../store/queue/schedules/definition.ts';
import type { ScheduleDefinition } from '../../../store/queue/schedules/definition-schema.ts';
import { due, nextTimes } from '../../../store/queue/schedules/due.ts';
import { PAUSE_AFTER } from '../../../store/queue/schedules/jobs-in-a-row.ts';
import type { Schedule } from '../../../store/queue/schedules/schedule-state.ts';
import {
  addSchedule,
  backfillSchedule,
  endBackfill as end,
  findSchedule,
  firstTimes,
  listSchedules,
  pauseSchedule,
  removeSchedule,
  resumeSchedule,
  runningJob,
  runScheduleNow,
  timesOf,
} from '../../../store/queue/schedules/schedules.ts';
import { pageOf } from '../lists.ts';
import type { ChangeContext, ReadContext } from '../operation.ts';
import { whenText } from './words.ts';

type ScheduleName = { readonly name: string };

/** Times that are looked ahead. */
const AHEAD = 5;

const stateOf = ({ name, definition, state }: Schedule, now: Date) => ({
  name,
  definition,
  paused: state.paused,
  next: state.paused ? [] : nextTimes(definition, { name, ...timesOf(state), now: now.getTime() }, AHEAD),
});

type NewSchedule = ScheduleName &
  Omit<ScheduleDefinition, 'pause_after'> & {
    readonly pause_after?: { readonly [K in keyof typeof PAUSE_AFTER]?: number | undefined } | undefined;
    readonly dry_run: boolean;
  };

export async function add(context: ChangeContext, { name, dry_run, ...asked }: NewSchedule) {
  const { requireJob } = await import('../../../trainer/loop/jobs/checked-job.ts');
  const at = context.now();
  requireName(name);
  await requireJob(asked.job);
  if (!context.isHere) await requireNoFolders(asked.job);
  const written = { ...asked, pause_after: { ...PAUSE_AFTER, ...asked.pause_after } };
  const definition = dry_run
    ? checkedDefinition(written, at.getTime())
    : (await addSchedule({ ...context, now: () => at }, name, written, context)).definition;
  const waits = definition.when !== undefined && 'new_episodes' in definition.when && context.settings.judge === null;
  const notes = waits
    ? ['Episodes count once they are judged, and the setting judge is empty: set it, or run `troupe judge` yourself.']
    : [];
  return { name, definition, paused: null, next: firstTimes(name, definition, at, AHEAD), added: !dry_run, notes };
}

/** @throws TroupeError `usage`, `plan_invalid` for a job that names a folder of the machine */
async function requireNoFolders({ kind, spec }: ScheduleDefinition['job']): Promise<void> {
  if (kind === 'plan') {
    const { planOf } = await import('../plan/read.ts');
    await planOf({ plan: spec.plan as object });
    return;
  }
  const field = ['base', 'dataset', 'model', 'lora_base'].find((name) => typeof spec[name] === 'string');
  if (field === undefined) return;
  throw new TroupeError('usage', `job.spec.${field} names a folder, which nobody may do over HTTP.`, {
    field: `job.spec.${field}`,
    hint: 'Schedule a plan whose policies begin with what was released, or add the schedule by command.',
  });
}

export async function list({ db, now, settings }: ReadContext, page: Parameters<typeof pageOf>[2]) {
  const { receiverStates } = await import('../../../store/queue/notify/delivery.ts');
  const schedules = (await listSchedules(db)).map((schedule) => {
    const { name, definition, paused, next } = stateOf(schedule, now());
    return { name, when: whenText(definition), job: definition.job.kind, paused, next: next[0] ?? null };
  });
  const warnings = (await receiverStates(db)).flatMap(({ name, failing }) =>
    failing !== null && Object.hasOwn(settings.notify ?? {}, name)
      ? [`Receiver ${name} was not notified since ${failing.since}: ${failing.error}`]
      : [],
  );
  return { ...pageOf(schedules, 'name', page), warnings };
}

export async function show(
  { db, now, catchUp }: ReadContext,
  { name, limit }: ScheduleName & { readonly limit: number },
) {
  const { scheduleHistory } = await import('../../../store/queue/schedules/history.ts');
  // Skipped ticks that came by another log are read where they are archived.
  await catchUp();
  const schedule = await findSchedule(db, name);
  const { since, last, checked = null, backfill = [] } = schedule.state;
  return {
    ...stateOf(schedule, now()),
    ...{ since, decided_until: last, checked, backfill },
    ...(await scheduleHistory(db, name, limit)),
  };
}

export async function pause(context: ChangeContext, { name, reason }: ScheduleName & { readonly reason: string }) {
  await pauseSchedule(context, name, { by: context.by, reason });
  return stateOf(await findSchedule(context.db, name), context.now());
}

type WithReason = ScheduleName & { readonly reason?: string | null | undefined };

export const resume = async (context: ChangeContext, { name, reason = null }: WithReason) =>
  stateOf(await resumeSchedule(context, name, { by: context.by, reason }), context.now());

export const run = async (context: ChangeContext, { name }: ScheduleName) => ({
  name,
  job_id: await runScheduleNow(context, name),
});

export async function dryRun({ db, now }: ReadContext, { name }: ScheduleName) {
  const [{ conditionNow }, { dayBudgetOver }, { badJobs, lastStart }] = await Promise.all([
    import('../../../store/queue/schedules/condition.ts'),
    import('../../../store/queue/schedules/day-budget.ts'),
    import('../../../store/queue/schedules/scheduler.ts'),
  ]);
  const schedule = await findSchedule(db, name);
  const { definition, state } = schedule;
  const running = await runningJob(db, name);
  const at = now();
  const options = { name, ...timesOf(state), now: at.getTime(), running };
  const found =
    definition.when === undefined ? null : await conditionNow(db, definition.when, await lastStart(db, name, state));
  return {
    ...stateOf(schedule, at),
    running,
    new_episodes: found?.new_episodes ?? null,
    condition: found && { holds: found.holds, detail: found.detail },
    budget_used_up: await dayBudgetOver(db, name, definition, options.now),
    would_pause: state.paused ? null : await badJobs(db, { name, definition, state }),
    decisions: state.paused ? [] : due(definition, options).decisions,
  };
}

type Span = ScheduleName & { readonly from: string; readonly to?: string | undefined; readonly dry_run: boolean };

export async function backfill(context: ChangeContext, { name, dry_run, ...written }: Span) {
  const { db, now } = context;
  const { spanOf, ticksWithoutJob } = await import('../../../store/queue/schedules/backfill.ts');
  const at = now().getTime();
  const span = spanOf(written, at);
  if (!dry_run) {
    const ticks = await backfillSchedule(context, name, span, context);
    return { name, started: true, ticks: ticks.map((tick) => ({ tick, events: null })) };
  }
  const { eventsBefore, snapshotAt } = await import('../../../store/datasets/as-of.ts');
  const ticks: { tick: string; events: number }[] = [];
  for (const tick of await ticksWithoutJob(db, await findSchedule(db, name), span, at))
    ticks.push({ tick, events: eventsBefore(await snapshotAt(db, tick)) });
  return { name, started: false, ticks };
}

export const endBackfill = async (context: ChangeContext, { name }: ScheduleName) => ({
  name,
  ended: await end(context, name, context),
});

export async function remove(context: ChangeContext, { name, reason = null }: WithReason) {
  await removeSchedule(context, name, { by: context.by, reason });
  return { name, removed: true };
}
