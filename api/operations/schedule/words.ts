/** A schedule in words, and what people write in words of one: its hours and its condition. */
import { hashId } from '../../../ingest/events/json.ts';
import type { DriftOf, ScheduleDefinition } from '../../../store/queue/schedules/definition-schema.ts';
import { PAUSE_AFTER } from '../../../store/queue/schedules/jobs-in-a-row.ts';
import { durationText } from '../durations.ts';

type Condition = NonNullable<ScheduleDefinition['when']>;
type Hours = NonNullable<ScheduleDefinition['hours']>;

/** @throws Error unless it is a range such as 22:00-06:00 */
export function hoursOf(text: string): Hours {
  const [, from, to] = /^((?:[01]\d|2[0-3]):[0-5]\d)-((?:[01]\d|2[0-3]):[0-5]\d)$/.exec(text) ?? [];
  if (from === undefined || to === undefined) throw new Error('should be a range such as 22:00-06:00');
  return { from, to };
}

export const hoursText = ({ from, to }: Hours): string => `${from}-${to}`;

/** @throws Error with examples, unless it is a condition */
export function conditionOf(text: string): Condition {
  const [, count] = /^\s*new[ _]episodes\s*>=\s*([1-9]\d{0,8})\s*$/.exec(text) ?? [];
  if (count !== undefined) return { new_episodes: Number(count) };
  const [, metric, by] = /^\s*(reward|success)\s+fell\s+(?:by\s+)?(\d*\.?\d+)\s*$/.exec(text) ?? [];
  if (metric !== undefined) return { fell: { metric: metric as 'reward' | 'success', by: Number(by) } };
  const [, of, byRole, above] =
    /^\s*drift\s+of\s+(families|roles|tools|tokens)(\s+by\s+role)?\s*>\s*(\d*\.?\d+)\s*$/.exec(text) ?? [];
  if (of !== undefined)
    return { drift: { of: of as DriftOf, ...(byRole === undefined ? {} : { by_role: true }), above: Number(above) } };
  throw new Error(
    'should be such as "new episodes >= 500", "reward fell 0.05" or "drift of tokens by role > 0.2" (families, roles, tools or tokens)',
  );
}

export function conditionText(when: Condition): string {
  if ('fell' in when) return `${when.fell.metric} fell ${when.fell.by}`;
  if ('drift' in when) return `drift of ${when.drift.of}${when.drift.by_role ? ' by role' : ''} > ${when.drift.above}`;
  return `new episodes >= ${when.new_episodes}`;
}

/** The times of a schedule, and its condition. */
export const whenText = ({ cron, every_seconds, zone, when }: ScheduleDefinition): string =>
  `${cron === undefined ? `every ${durationText(every_seconds ?? 0)}` : `${cron} (${zone})`}${when === undefined ? '' : ` when ${conditionText(when)}`}`;

/** All of a definition, a line for each of its parts that is there. */
export function describe(definition: ScheduleDefinition): string {
  const { job, overlap, catch_up_seconds, jitter_seconds, hours, zone, budget_per_day: budget } = definition;
  const pauses = Object.entries({ ...PAUSE_AFTER, ...definition.pause_after }).filter(([, most]) => most > 0);
  return [
    `${whenText(definition)}: a job of kind ${job.kind} (${hashId('job', job).slice(0, 16)})`,
    `overlap: ${overlap} · catch-up: ${durationText(catch_up_seconds)} · jitter: ${durationText(jitter_seconds)}${hours ? ` · hours: ${hoursText(hours)} (${zone})` : ''}`,
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
