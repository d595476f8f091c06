/** A schedule in words: when it starts which job, and its next times. */
import { hashId } from '../ingest/events/json.ts';
import { conditionText } from '../store/queue/schedules/condition.ts';
import type { ScheduleDefinition } from '../store/queue/schedules/definition.ts';
import { PAUSE_AFTER } from '../store/queue/schedules/jobs-in-a-row.ts';
import { durationText } from './durations.ts';

/** The times of a schedule, and its condition. */
export const whenText = ({ cron, every_seconds, zone, when }: ScheduleDefinition): string =>
  `${cron === undefined ? `every ${durationText(every_seconds ?? 0)}` : `${cron} (${zone})`}${when === undefined ? '' : ` when ${conditionText(when)}`}`;

/** All of a definition, a line for each of its parts that is there. */
export function describe(definition: ScheduleDefinition): string {
  const { job, overlap, catch_up_seconds, jitter_seconds, hours, zone, budget_per_day: budget } = definition;
  const pauses = Object.entries({ ...PAUSE_AFTER, ...definition.pause_after }).filter(([, most]) => most > 0);
  return [
    `${whenText(definition)}: a job of kind ${job.kind} (${hashId('job', job).slice(0, 16)})`,
    `overlap: ${overlap} · catch-up: ${durationText(catch_up_seconds)} · jitter: ${durationText(jitter_seconds)}${hours ? ` · hours: ${hours.from}-${hours.to} (${zone})` : ''}`,
    ...(pauses.length === 0
      ? []
      : [
          `pauses after jobs in a row: ${pauses.map(([what, most]) => `${most} ${what.replace('_', ' ')}`).join(', ')}`,
        ]),
    ...(budget === undefined
      ? []
      : [
          `budget of a day: ${Object.entries(budget)
            .map(([name, most]) => `${name}=${most}`)
            .join(' ')} (${zone})`,
        ]),
  ].join('\n');
}

/** Each time in UTC, and in the zone of the schedule where that is another. */
export const timesText = ({ zone }: ScheduleDefinition, times: readonly string[]): string =>
  ['Next times:', ...times.map((time) => `  ${time}${zone === 'UTC' ? '' : `  ${localText(zone, time)}`}`)].join('\n');

const localText = (zone: string, time: string): string =>
  `${new Intl.DateTimeFormat('sv', { timeZone: zone, dateStyle: 'short', timeStyle: 'medium' }).format(new Date(time))} ${zone}`;
