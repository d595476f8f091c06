/** A stored event as the projections see it, before any amendment. */
import type { Stored } from '../projecting/amend.ts';
import { type Effective, versionOf } from './projection.ts';

export const effective = (event: Stored): Effective =>
  ({
    name: event.name,
    source: event.source,
    id: event.id,
    time: event.time,
    key: event.key,
    data: event.data,
    version: versionOf(event),
  }) as Effective;
