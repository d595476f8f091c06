/**
 * A foreign format: recognised by content, never by file name; pure functions from native records to drafts of events.
 * One file a format. Ids come from the native record (`hashId(format, canonical record, ordinal among equal ones)`), never from a
 * file name, a file's hash or a row's place, so a file that grows, is split, reordered or pretty-printed names the same events.
 */
import type { Refusal } from '../../errors.ts';
import type { Draft, EventName } from '../events.ts';

/** What a format sees of a file before it says whether it is its own. */
export type Head = {
  /** First records of the file (whole lines, or first elements of a top-level array, or the one document). */
  readonly records: readonly unknown[];
  readonly shape: Shape;
};

/** JSON Lines · a top-level array, element by element · one document. */
export type Shape = 'lines' | 'array' | 'document';

/** One native record, numbered among the equal ones of this import (0 for the first). */
export type NativeRecord = {
  readonly value: unknown;
  /** `value` as canonical JSON: what its ids are made of. */
  readonly canonical: string;
  readonly ordinal: number;
};

export type Converted = {
  readonly drafts: readonly Draft[];
  /** What was refused inside the record, by native field; the rest of the record is kept. */
  readonly refusals: readonly Refusal[];
  /** The record as canonical JSON, kept as an artifact; null where nothing is kept or the events are the record itself. */
  readonly raw: string | null;
  /** True where this record was read before in this import and says the same thing again, so that nothing is counted twice. */
  readonly repeated?: boolean;
};

/** An event as a two-way format reads it back: text as it was sent, without the escape of the log. */
export type Told = {
  readonly name: EventName;
  readonly time: string | null;
  readonly data: Readonly<Record<string, unknown>>;
};

export type Format = {
  readonly name: string;
  /** One sentence for lists and reports. */
  readonly summary: string;
  readonly recognises: (head: Head) => boolean;
  readonly convert: (record: NativeRecord) => Converted;
  /** Events that many records state in equal words, such as the task of each attempt: told once an import. */
  readonly restates: ReadonlySet<EventName>;
  /** Native field to where it goes, for `--dry-run`. */
  readonly mapping: readonly (readonly [native: string, ours: string])[];
  /** The way back, for two-way formats: all events of one episode to native records. */
  readonly write?: (episode: readonly Told[]) => readonly unknown[];
};
