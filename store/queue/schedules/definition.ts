/** What a schedule is: when it is due, what it starts, and what happens to a tick that comes at a bad time. */
import { type Static, Type } from 'typebox';
import { read } from '../../../document.ts';
import { got, TroupeError } from '../../../errors.ts';
import { WatchRules } from '../../loop/comparison/watch.ts';
import { Budget } from '../../loop/play/rollout.ts';
import { cronTicks, type Ticks } from './cron.ts';
import { DRIFTS } from './drift.ts';
import { intervalTicks } from './interval.ts';

const Clock = Type.String({ pattern: '^([01][0-9]|2[0-3]):[0-5][0-9]$' });

export const ScheduleDefinition = Type.Object(
  {
    cron: Type.Optional(Type.String({ description: 'five fields; the ticks in the time zone' })),
    every_seconds: Type.Optional(
      Type.Integer({
        minimum: 60,
        maximum: 31_536_000,
        description: 'the ticks: so many seconds from each to the next',
      }),
    ),
    zone: Type.String({ description: 'time zone of cron and of the hours' }),
    job: Type.Object(
      { kind: Type.String({ minLength: 1 }), spec: Type.Record(Type.String(), Type.Unknown()) },
      { description: 'the job that a tick requests' },
    ),
    overlap: Type.Enum(['skip', 'queue'], {
      description: 'a tick while the last job has not ended: skip it, or queue another job',
    }),
    catch_up_seconds: Type.Integer({
      minimum: 0,
      description: 'a missed tick that is no older still starts its job; of several the last',
    }),
    jitter_seconds: Type.Integer({ minimum: 0, description: 'delay of a tick, at most; the same for the same tick' }),
    when: Type.Optional(
      Type.Union(
        [
          Type.Object(
            { new_episodes: Type.Integer({ minimum: 1, description: 'judged since the last job started' }) },
            { additionalProperties: false },
          ),
          Type.Object(
            {
              fell: Type.Object(
                {
                  metric: WatchRules.properties.metric,
                  by: Type.Number({ minimum: 0, description: 'fall of the mean of live episodes that is accepted' }),
                  range: WatchRules.properties.range,
                },
                { additionalProperties: false, description: 'since the last job started, against those before' },
              ),
            },
            { additionalProperties: false },
          ),
          Type.Object(
            {
              drift: Type.Object(
                {
                  of: Type.Enum([...DRIFTS], { description: 'what of the live episodes is compared' }),
                  by_role: Type.Optional(
                    Type.Boolean({ description: 'each role on its own, with what it did itself; one is enough' }),
                  ),
                  above: Type.Number({ exclusiveMinimum: 0, description: 'population stability index' }),
                },
                {
                  additionalProperties: false,
                  description: 'live episodes since the last job started, against those of the newest training dataset',
                },
              ),
            },
            { additionalProperties: false },
          ),
        ],
        { description: 'a tick starts its job only then; with an interval the ticks only look, and are not recorded' },
      ),
    ),
    budget_per_day: Type.Optional(Budget),
    pause_after: Type.Optional(
      Type.Object(
        {
          failed: Type.Integer({ minimum: 0, maximum: 100 }),
          refused: Type.Integer({ minimum: 0, maximum: 100 }),
          rolled_back: Type.Optional(Type.Integer({ minimum: 0, maximum: 100 })),
          over_budget: Type.Optional(Type.Integer({ minimum: 0, maximum: 100 })),
        },
        {
          additionalProperties: false,
          description:
            'so many jobs in a row that failed, whose gate refused the candidates, whose release was rolled back by its watch, or that the budget of their plan ended, pause it; 0: never',
        },
      ),
    ),
    hours: Type.Optional(
      Type.Object(
        { from: Clock, to: Clock },
        { description: 'jobs start only from `from` until before `to`, in the zone' },
      ),
    ),
  },
  { additionalProperties: false },
);
export type ScheduleDefinition = Static<typeof ScheduleDefinition>;

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
