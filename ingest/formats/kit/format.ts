/**
 * A foreign format: recognised by content, never by file name; pure functions from native records to drafts of events.
 * One file a format. Ids come from the native record (`hashId(format, canonical record, ordinal among equal ones)`), never from a
 * file name, a file's hash or a row's place, so a file that grows, is split, reordered or pretty-printed names the same events.
 */
import type { Refusal } from '../../../errors.ts';
import type { Draft, EventName } from '../../events/events.ts';

/** What a format sees of a file to detect whether it is its own. */
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
  /** By id, the episodes that are known to hold lines of this run before it; see `Joins.originals`. */
  readonly copied?: ReadonlyMap<string, string>;
  /** Where a file of it lies, for what its content does not say. */
  readonly path?: string | undefined;
};

/**
 * A refusal inside a record; of a gathered one, `at` is the place of the member that is meant. `raw` is what was refused, where that
 * is less than the record.
 */
export type NativeRefusal = Refusal & { readonly at?: number; readonly raw?: string };

export type Conversion = {
  readonly drafts: readonly Draft[];
  /** What was refused inside the record, by native field; the rest of the record is kept. */
  readonly refusals: readonly NativeRefusal[];
  /** The record as JSON, kept as an artifact: canonical, or in its own order where later imports may read it again. Null where nothing is kept or the events are the record itself. */
  readonly raw: string | null;
  /** Further bodies that the drafts name by their SHA-256: patches, programs. */
  readonly bodies?: readonly string[];
  /** The kind of each line of which nothing was read and that the format does not know, for the report. */
  readonly unread?: readonly string[];
  /** True where this record was read before in this import with the same content, so that nothing is counted twice. */
  readonly repeated?: boolean;
};

/** An event as a two-way format reads it back: text as it was sent, without the escape of the log. */
export type RestoredEvent = {
  readonly name: EventName;
  readonly time: string | null;
  readonly data: Readonly<Record<string, unknown>>;
};

export type Format = {
  readonly name: string;
  /** One sentence for lists and reports. */
  readonly summary: string;
  readonly recognises: (head: Head) => boolean;
  /**
   * Where a run is more than a record: the list of all records of the `file` is one native record, or that of all files of this
   * format in one `folder` (of `folder:events` the one above, where it is called `events`), or that of all files of the import whose formats return the same `import:…`, as far as they can be held
   * at once. Without it, or where it returns null, each record is a run of its own.
   */
  readonly gathers?: (head: Head) => 'file' | 'folder' | 'folder:events' | `import:${string}` | null;
  /** How files that hold parts of one run are recognised, where a run is the lines of a file. `gathers` of such a format returns `file`. */
  readonly joins?: Joins;
  /**
   * The records that an original stored by `raw-record` came from, for formats whose records are gathered over files: those of earlier
   * imports are read again beside new ones.
   */
  readonly rereads?: (stored: unknown) => readonly unknown[];
  /** Formats from whose runs a record of this one is often made, with their id: one of the two is recorded, the other refused. */
  readonly restatesRunsOf?: readonly string[];
  readonly convert: (record: NativeRecord) => Conversion;
  /** Events that many records state in equal words, emitted once per import; without it the task, which each attempt states. */
  readonly restates?: readonly EventName[];
  /** The way back, for two-way formats: all events of one episode to native records. */
  readonly write?: (episode: readonly RestoredEvent[]) => readonly unknown[];
  /** How many calls of an episode `write` leaves out. */
  readonly unwritten?: (episode: readonly RestoredEvent[]) => number;
};

/** How parts of one run are distinguished from parts of another, and put in order. */
export type JoinRules = {
  /** What these lines call their run; parts of one run share a name. Empty where the lines do not say. */
  readonly names: (lines: readonly unknown[]) => readonly string[];
  /** Ids that a line holds, and ids of other lines that it refers to. */
  readonly marks: (line: unknown) => { readonly holds: readonly string[]; readonly refers: readonly string[] };
  /** A text that sorts by time; null where the line has no time. */
  readonly timeOf: (line: unknown) => string | null;
  /** True where lines without a name cannot be a run of their own. */
  readonly needsName: boolean;
};

export type Joins = JoinRules & {
  /** The episodes whose stored records may hold other parts of the run. */
  readonly episodes: (lines: readonly unknown[]) => readonly string[];
  /** The lines of a stored record, where it is not the list of them. */
  readonly linesOf?: (stored: unknown) => readonly unknown[];
  /**
   * Of formats whose sessions repeat lines of other sessions without a word: the ids of all lines and answers that do not call themselves
   * copies, and those under which answers are recorded as responses.
   */
  readonly originals?: (lines: readonly unknown[]) => {
    readonly ids: readonly string[];
    readonly responses: readonly string[];
  };
};

/** The records of a gathered folder, file by file; a record that was not gathered is a file of its own. */
export const listsOf = (value: unknown): readonly (readonly unknown[])[] =>
  Array.isArray(value) && value.every((list) => Array.isArray(list)) ? value : [[value]];

/** The items of a stored original that is a list. */
export const listed = (stored: unknown): readonly unknown[] => (Array.isArray(stored) ? stored : []);

/** Whether many records of a format state this event in equal words. */
export const restates = ({ restates: names = ['task.defined'] }: Format, name: EventName): boolean =>
  names.includes(name);
