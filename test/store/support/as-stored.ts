import { digestOf } from '../../../ingest/events/decode.ts';
import type { Event } from '../../../ingest/events/events.ts';
import { canonicalJson } from '../../../ingest/events/json.ts';
import { withJson } from '../../../ingest/events/long-context.ts';

/** The event with the data that a log has of it: to one that comes today the text of arguments is added. */
export function asStored(event: Event, data: Event['data']): Event {
  const json = canonicalJson(data);
  return { ...withJson({ ...event, data }, json), digest: digestOf(event, json) } as Event;
}
