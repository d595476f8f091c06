/**
 * `schedule.skipped` version 1 called the first of several ticks `due_at`, the name that `job.requested` has for the one tick of a job:
 * a query that joined both by it met the first tick only. Since version 2 they are `first_due_at` and `last_due_at`.
 */
import { Type } from 'typebox';
import { about, Id, Integer, maybe, Text } from '../events.ts';
import type { OldVersion } from './old-version.ts';

export const scheduleSkippedV1: OldVersion = {
  schema: about('Ticks of a schedule that requested no job.', {
    schedule: Id('its name'),
    due_at: Text('the tick, in UTC; the first of several'),
    until: Text('the last of several'),
    count: maybe(Integer('how many; null where they are more than were counted')),
    reason: Type.Enum(['missed', 'overlap', 'outside_hours', 'paused', 'condition']),
    detail: maybe(Text('reason in a sentence')),
  }),
  upcast: ({ due_at, until, ...same }) => ({ ...same, first_due_at: due_at, last_due_at: until }),
};
