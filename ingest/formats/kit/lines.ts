/** Formats in which a run is the lines of a file, and several files may hold parts of one run. */
import { isRecord, type JsonObject } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import type { Conversion, Format, Head, Joins, NativeRecord, NativeRefusal } from './format.ts';

type Joining = Pick<Joins, 'names'> &
  Partial<Omit<Joins, 'names' | 'marks' | 'timeOf'>> & {
    /** Ids that a line holds, and ids of other lines that it refers to; values that are no identifiers are left out. */
    readonly marks?: (line: JsonObject) => readonly [holds: readonly unknown[], refers: readonly unknown[]];
    readonly timeOf?: (line: JsonObject) => string | null;
  };

/** How parts of a run are joined: by its names alone, unless its lines say more. */
export const joinsOf = ({ marks = () => [[], []], timeOf = () => null, ...declared }: Joining): Joins => ({
  episodes: declared.names,
  needsName: true,
  ...declared,
  marks: (line) => {
    const [holds, refers] = isRecord(line) ? marks(line) : [[], []];
    return { holds: holds.filter(isIdentifier), refers: refers.filter(isIdentifier) };
  },
  timeOf: (line) => (isRecord(line) ? timeOf(line) : null),
});

/** A format whose records are the lines of a file; a run that is read again with the same lines is a repeated one. */
export const lineFormat = ({
  isLine,
  joins,
  convert,
  ...declared
}: Omit<Format, 'recognises' | 'joins' | 'convert'> & {
  readonly isLine: (line: unknown, shape: Head['shape']) => boolean;
  readonly joins: Joining;
  readonly convert: (lines: readonly unknown[], record: NativeRecord) => Conversion;
}): Format => ({
  gathers: () => 'file',
  ...declared,
  recognises: ({ records, shape }) => records.some((line) => isLine(line, shape)),
  joins: joinsOf(joins),
  convert: (record) => ({
    repeated: record.ordinal > 0,
    ...convert(Array.isArray(record.value) ? record.value : [record.value], record),
  }),
});

/** The lines that can be read, each with its place; why others cannot is noted. */
export const readLines = (
  lines: readonly unknown[],
  bad: (line: unknown) => NativeRefusal | null,
  refusals: NativeRefusal[],
): { readonly seq: number; readonly fields: JsonObject }[] =>
  lines.flatMap((line, at) => {
    const problem = bad(line);
    if (problem) refusals.push({ ...problem, at });
    return problem ? [] : [{ seq: at, fields: line as JsonObject }];
  });
