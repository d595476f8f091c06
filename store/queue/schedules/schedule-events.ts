/** The events of schedules, appended under the key of the schedule. */
import type { Draft, EventData } from '../../../ingest/events/events.ts';
import { hashId } from '../../../ingest/events/json.ts';
import type { EventLog } from '../../../ingest/log/log.ts';
import { appendOwn } from '../../../ingest/log/own-event.ts';

type ScheduleDraft = Pick<Draft<'schedule.changed'> | Draft<'schedule.skipped'>, 'name' | 'data'>;

/** A skipped tick is one event, whoever records it; a change is one for each time. */
export async function recordScheduleEvent(log: EventLog, at: Date, { name, data }: ScheduleDraft): Promise<void> {
  const id =
    name === 'schedule.skipped'
      ? `skipped/${(data as EventData<'schedule.skipped'>).first_due_at}`
      : hashId('schedule', data, at.toISOString());
  await appendOwn(log, [{ name, data, source: '/schedules', id, time: at.toISOString() } as Draft]);
}

export const recordChange = (log: EventLog, at: Date, data: EventData<'schedule.changed'>): Promise<void> =>
  recordScheduleEvent(log, at, { name: 'schedule.changed', data });
