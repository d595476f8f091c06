/** Schedules as text for people. */

import { fireId } from '../../../store/queue/schedules/due.ts';
import type { OutputOf, Printer } from '../operation.ts';
import type * as run from './run.ts';
import { describe, timesText } from './words.ts';

/** Characters of the spec of a job that a dry run prints: a plan may hold thousands of tasks. */
const SPEC_SHOWN = 600;

export const added = ({ name, definition, next, added, notes }: OutputOf<typeof run.add>): string =>
  [
    ...(added ? [`Added: ${name}`] : []),
    describe(definition),
    timesText(definition, next),
    ...(added ? [] : ['Nothing was added.']),
    ...notes,
  ].join('\n');

export const listed = ({ items }: OutputOf<typeof run.list>, { table }: Printer): string =>
  items.length === 0
    ? 'No schedules yet.'
    : table(
        ['schedule', 'when', 'job', 'next', 'paused'],
        items.map((one) => [one.name, one.when, one.job, one.next, one.paused?.reason]),
      );

export function shown(schedule: OutputOf<typeof run.show>, { table }: Printer): string {
  const { definition, paused, next, checked, backfill, runs, skipped } = schedule;
  const parts = [
    describe(definition),
    paused ? `Paused at ${paused.at} by ${paused.by}: ${paused.reason}` : timesText(definition, next),
  ];
  if (checked)
    parts.push(
      checked.new_episodes === null
        ? `Condition at ${checked.at}: ${checked.detail}`
        : `New judged episodes at ${checked.at}: ${checked.new_episodes}`,
    );
  if (backfill.length > 0) parts.push(`Backfill, still to start: ${backfill.join(' ')}`);
  if (runs.length > 0)
    parts.push(
      '',
      table(
        ['job', 'state', 'outcome', 'as of', 'error'],
        runs.map(({ job_id, state, outcome, as_of, error }) => [
          ...[job_id, state, outcome, as_of],
          (error as { message?: string } | null)?.message ?? error,
        ]),
      ),
    );
  if (skipped.length > 0)
    parts.push(
      '',
      table(
        ['skipped', 'until', 'ticks', 'reason', 'detail'],
        skipped.map((one) => [one.due_at, one.until, one.count, one.reason, one.detail]),
      ),
    );
  return parts.join('\n');
}

export const paused = ({ name }: OutputOf<typeof run.pause>): string =>
  `Paused: ${name}. Resume it with: troupe schedule resume ${name}`;

export const resumed = ({ name, definition, next }: OutputOf<typeof run.resume>): string =>
  `Resumed: ${name}\n${timesText(definition, next)}`;

export const requested = ({ job_id }: OutputOf<typeof run.run>): string => `Requested: ${job_id}`;

export function dryRun(schedule: OutputOf<typeof run.dryRun>): string {
  const { name, definition, paused, next, running, new_episodes, condition, decisions } = schedule;
  const parts = decisions.map((one) =>
    one.action === 'fire'
      ? `Now: request ${fireId(name, one.instant)}`
      : `Now: skip ${one.instant}${one.until === one.instant ? '' : ` to ${one.until}`}: ${one.detail}`,
  );
  if (paused) parts.unshift(`Nothing: it is paused by ${paused.by}: ${paused.reason}`);
  if (running !== null)
    parts.push(
      `Job ${running} has not ended; a tick before its end would ${definition.overlap === 'skip' ? 'be skipped' : 'queue another job'}.`,
    );
  if (condition !== null)
    parts.push(
      definition.when !== undefined && 'new_episodes' in definition.when
        ? `${new_episodes} new judged episodes; a tick starts a job from ${definition.when.new_episodes} on.`
        : `A tick ${condition.holds ? 'starts' : 'does not start'} a job: ${condition.detail}.`,
    );
  if (schedule.budget_used_up !== null)
    parts.push(`A tick before the next midnight would be skipped: ${schedule.budget_used_up}`);
  if (schedule.would_pause !== null) parts.push(`The next tick would pause it: ${schedule.would_pause}.`);
  if (!paused) parts.push(timesText(definition, next));
  const spec = JSON.stringify(definition.job.spec);
  const part =
    spec.length > SPEC_SHOWN ? `${spec.slice(0, SPEC_SHOWN)}… (${spec.length} characters; --json has all)` : spec;
  return [...parts, `Each requests a job of kind ${definition.job.kind}: ${part}`].join('\n');
}

export function backfilled({ started, ticks }: OutputOf<typeof run.backfill>, { table }: Printer): string {
  if (started)
    return ticks.length === 0
      ? 'Nothing to do: every tick of this time has a job.'
      : `To run, one after the other: ${ticks.map(({ tick }) => tick).join(' ')}`;
  const rows = ticks.map(({ tick, events }) => [tick, events]);
  return [
    ...(rows.length === 0 ? [] : [table(['tick', 'events recorded by then'], rows)]),
    `Ticks without a job: ${ticks.length}. Nothing was started.`,
  ].join('\n');
}

export const ended = ({ name, ended }: OutputOf<typeof run.endBackfill>): string =>
  `Ended: the backfill of ${name}. Ticks left: ${ended}`;

export const removed = ({ name }: OutputOf<typeof run.remove>): string => `Removed: ${name}`;
