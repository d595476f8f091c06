/** What a schedule is: when it is due, what it starts, and what happens to a tick that comes at a bad time. */
import { type Static, Type } from 'typebox';
import { WatchRules } from '../../loop/comparison/watch.ts';
import { Budget } from '../../loop/play/budget-schema.ts';

/**
 * What of an episode a drift compares: the domain of its task, the set of roles that acted, the set of tools that were called, its tokens in
 * tenths of the reference.
 */
const DRIFTS = ['families', 'roles', 'tools', 'tokens'] as const;
export type DriftOf = (typeof DRIFTS)[number];

const Clock = Type.String({ pattern: '^([01][0-9]|2[0-3]):[0-5][0-9]$' });

export const ScheduleDefinition = Type.Object(
  {
    cron: Type.Optional(Type.String({ description: 'times: minute, hour, day of month, month and day of week' })),
    every_seconds: Type.Optional(
      Type.Integer({
        minimum: 60,
        maximum: 31_536_000,
        description: 'interval from each tick to the next',
      }),
    ),
    zone: Type.String({ description: 'time zone of cron and of the hours' }),
    job: Type.Object(
      { kind: Type.String({ minLength: 1 }), spec: Type.Record(Type.String(), Type.Unknown()) },
      { description: 'the job that a tick requests' },
    ),
    overlap: Type.Enum(['skip', 'queue'], {
      description: 'at a tick while the last job still runs: skip the tick, or queue another job',
    }),
    catch_up_seconds: Type.Integer({
      minimum: 0,
      description: 'maximum age of a missed tick that still starts a job; of several only the last',
    }),
    jitter_seconds: Type.Integer({
      minimum: 0,
      description: 'maximum delay of a tick; the same tick always has the same delay',
    }),
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
        {
          description:
            'start a job at a tick only if this condition holds, such as "new episodes >= 500", "reward fell 0.05" or "drift of families > 0.2"; the ticks of an interval only look, and are not recorded',
        },
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
        { description: 'start jobs only in these hours of the zone, such as 22:00-06:00' },
      ),
    ),
  },
  { additionalProperties: false },
);
export type ScheduleDefinition = Static<typeof ScheduleDefinition>;
