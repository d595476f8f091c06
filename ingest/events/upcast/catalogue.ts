/**
 * Versions of event types. A field more is no new version; another name or meaning is. The log keeps an event in the version in which it
 * was sent, for ever, and whoever reads it gets the newest: each old version has a schema and a pure function to the version after it.
 */
import type { TObject } from 'typebox';
import { type EventName, VOCABULARY } from '../events.ts';
import type { OldVersion } from './old-version.ts';
import { scheduleSkippedV1 } from './schedule-skipped.ts';

/** Versions 1, 2 … up to the one before the newest, which is that of the vocabulary. */
const OLD: Readonly<Partial<Record<EventName, readonly OldVersion[]>>> = { 'schedule.skipped': [scheduleSkippedV1] };

export const EVENT_NAMES = Object.keys(VOCABULARY) as readonly EventName[];

/** The version in which this type is written. */
export const newestVersion = (name: EventName): number => 1 + (OLD[name]?.length ?? 0);

/** True for what this code can read: a type of the vocabulary, in a version up to its own. */
export const isKnown = ({ name, type_version }: { readonly name: string; readonly type_version: number }): boolean =>
  Object.hasOwn(VOCABULARY, name) && type_version <= newestVersion(name as EventName);

/** What data of this type has to be in this version. */
export const schemaOf = (name: EventName, version: number): TObject =>
  OLD[name]?.[version - 1]?.schema ?? VOCABULARY[name];

/** Data of this version as data of the newest; the data itself where it is that. */
export function upcast(name: EventName, version: number, data: unknown): unknown {
  const old = OLD[name];
  if (old === undefined) return data;
  return old.slice(version - 1).reduce((now, one) => one.upcast(now), data as Record<string, unknown>);
}
