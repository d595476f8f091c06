/** A stored event as the projections see it, before any amendment: its data in the newest version of its type. */
import { upcast } from '../../ingest/events/upcast/catalogue.ts';
import type { LoggedEvent } from '../projecting/amend.ts';
import { type Effective, versionOf } from './projection.ts';

export const effective = (event: LoggedEvent): Effective =>
  ({
    name: event.name,
    source: event.source,
    id: event.id,
    time: event.time,
    key: event.key,
    data: upcast(event.name, event.type_version, event.data),
    version: versionOf(event),
  }) as Effective;
