/**
 * A native record, read field by field: each is taken once by its type, and what nobody took is the rest, which becomes `unmapped`. A field
 * of another type than the one it is taken as is not taken; null says nothing and is in no rest.
 */
import type { Refusal } from '../../../errors.ts';
import { isRecord, put } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import type { Conversion, Format, Head, NativeRecord, NativeRefusal } from './format.ts';
import { badIdentifier, refusal, refused } from './native.ts';
import { timeOfText } from './run.ts';

type Native = Readonly<Record<string, unknown>>;

/** Thrown where a record, or an item of it, cannot be read at all. */
export class Unreadable extends Error {
  readonly refusal: NativeRefusal;

  constructor(refusal: NativeRefusal) {
    super(refusal.code);
    this.refusal = refusal;
  }
}

/** Ends the reading of what holds this field. */
export function unreadable(...problem: Parameters<typeof refusal>): never {
  throw new Unreadable(refusal(...problem));
}

/** Throws the refusal, where there is one. */
export function demand(bad: Refusal | null): void {
  if (bad) throw new Unreadable(bad);
}

const isText = (value: unknown): value is string => typeof value === 'string';
export const isNumber = (value: unknown): value is number => typeof value === 'number';
export const isWhole = (value: unknown): value is number => Number.isSafeInteger(value);
export const isBoolean = (value: unknown): value is boolean => typeof value === 'boolean';
const isList = (value: unknown): value is readonly unknown[] => Array.isArray(value);

export class Reader {
  readonly native: Native;
  /** Where the record is in its file, such as `events[2]`. */
  readonly at: string;
  /** What could not be read of it, and of the records in it, while the rest was. */
  readonly problems: NativeRefusal[];
  readonly #taken = new Set<string>();
  readonly #inner = new Map<string, Reader>();

  constructor(native: Native, at = '', problems: NativeRefusal[] = []) {
    this.native = native;
    this.at = at;
    this.problems = problems;
  }

  /** The path of a field, for refusals. */
  path(name: string): string {
    return this.at === '' ? name : `${this.at}.${name}`;
  }

  has(name: string): boolean {
    return this.native[name] !== undefined && this.native[name] !== null;
  }

  /** A field as it is; undefined where it says nothing. */
  any(name: string): unknown {
    this.#taken.add(name);
    return this.native[name] ?? undefined;
  }

  /** Leaves a field in the rest. */
  leave(name: string): void {
    this.#taken.delete(name);
  }

  /** Several fields as they are, under their own names; undefined where none says anything. */
  these(...names: readonly string[]): Record<string, unknown> | undefined {
    const said = names.flatMap((name) => (this.any(name) === undefined ? [] : [[name, this.native[name]] as const]));
    return said.length === 0 ? undefined : Object.fromEntries(said);
  }

  /** A field, if it is of a kind. With `needed`, what it must be, nothing can be read without it. */
  #take<T>(name: string, is: (value: unknown) => value is T, needed?: string, code: Refusal['code'] = 'bad_type') {
    const value = this.native[name];
    const fits = is(value);
    if (needed !== undefined && !fits) unreadable(code, this.path(name), needed, value);
    if (fits || value === null) this.#taken.add(name);
    return fits ? value : undefined;
  }

  text(name: string): string | undefined;
  text(name: string, needed: string): string;
  text(name: string, needed?: string): string | undefined {
    return this.#take(name, isText, needed);
  }

  number(name: string): number | undefined {
    return this.#take(name, isNumber);
  }

  whole(name: string): number | undefined {
    return this.#take(name, isWhole);
  }

  boolean(name: string): boolean | undefined {
    return this.#take(name, isBoolean);
  }

  id(name: string): string | undefined;
  id(name: string, needed: string): string;
  id(name: string, needed?: string): string | undefined {
    return this.#take(name, isIdentifier, needed, 'bad_identifier');
  }

  /** An identifier without which nothing can be read. */
  ownId(name: string): string {
    demand(badIdentifier(this.native[name], this.path(name)));
    return this.id(name)!;
  }

  /** An identifier, or nothing: anything else that is there refuses. */
  idIfAny(name: string): string | undefined {
    return this.any(name) === undefined ? undefined : this.ownId(name);
  }

  list(name: string): readonly unknown[] | undefined;
  list(name: string, needed: string): readonly unknown[];
  list(name: string, needed?: string): readonly unknown[] | undefined {
    return this.#take(name, isList, needed);
  }

  /** An object as it is: nobody reads what is in it. */
  record(name: string): Native | undefined {
    return this.#take(name, isRecord);
  }

  /** A time in the form of an event; null where it is unknown. */
  time(name: string): string | null {
    this.#taken.add(name);
    return timeOfText(this.native[name]);
  }

  /** A time in the form that `read` gives, or null for none: anything else that is there refuses. */
  timeIfAny(name: string, read: (value: unknown) => string | null, expected: string): string | null {
    const value = this.any(name);
    return value === undefined ? null : (read(value) ?? unreadable('bad_time', this.path(name), expected, value));
  }

  /** An object, to be read in the same way: what nobody takes of it is in the rest of this one too. */
  object(name: string): Reader | undefined;
  object(name: string, needed: string): Reader;
  object(name: string, needed?: string): Reader | undefined {
    const value = this.#take(name, isRecord, needed);
    if (value === undefined) return undefined;
    const inner = this.#inner.get(name) ?? new Reader(value, this.path(name), this.problems);
    this.#inner.set(name, inner);
    return inner;
  }

  /** A field of a kind; where it is something else this is noted, and the rest is read without it. */
  checked<T extends {}>(
    name: string,
    is: (value: unknown) => value is T,
    code: Refusal['code'],
    expected: string,
  ): T | undefined {
    const value = this.any(name);
    if (value === undefined) return undefined;
    if (is(value)) return value;
    this.problems.push(refusal(code, this.path(name), expected, value));
    return undefined;
  }

  /** Reads each item of a list of objects; those that cannot be read are noted and left out. */
  each<T>(name: string, needed: string, called: string, read: (item: Reader, index: number) => T): T[] {
    return this.list(name, needed).flatMap((item, i) => {
      const at = `${this.path(name)}[${i}]`;
      return this.attempt(() => {
        if (!isRecord(item)) return unreadable('bad_type', at, called, item);
        return read(new Reader(item, at, this.problems), i);
      });
    });
  }

  /** What `read` returns, in a list; none where something in it cannot be read, which is noted. */
  attempt<T>(read: () => T): T[] {
    try {
      return [read()];
    } catch (error) {
      if (!(error instanceof Unreadable)) throw error;
      this.problems.push(error.refusal);
      return [];
    }
  }

  /** What nobody took; undefined where that is nothing. */
  rest(): Record<string, unknown> | undefined {
    let rest: Record<string, unknown> | undefined;
    for (const name of Object.keys(this.native)) {
      const inner = this.#inner.get(name);
      const value = inner ? inner.rest() : this.#taken.has(name) ? undefined : this.native[name];
      if (value === undefined) continue;
      rest ??= {};
      put(rest, name, value);
    }
    return rest;
  }

  /** The rest without what says nothing there: null, and objects without members. */
  filledRest(): Record<string, unknown> | undefined {
    const isFilled = (value: unknown): boolean =>
      value !== null && !(isRecord(value) && Object.keys(value).length === 0);
    const filled = Object.entries(this.rest() ?? {}).filter(([, value]) => isFilled(value));
    return filled.length === 0 ? undefined : Object.fromEntries(filled);
  }
}

type Declaration = Omit<Format, 'recognises' | 'convert'> & {
  /** Whether an object, one of this head, is a record of this format. */
  readonly recognises: (record: Native, head: Head) => boolean;
  /** What a record is, for the refusal of one that is no object. */
  readonly called: string;
  readonly convert: (record: Reader, native: NativeRecord) => Conversion;
  /** All records of what `gathers` names, as one. Without it each record is read on its own. */
  readonly convertAll?: (records: readonly unknown[], native: NativeRecord) => Conversion;
};

/** A format whose records are objects, each read on its own. What is {@link Unreadable} in one refuses it. */
export const format = ({ recognises, called, convert, convertAll, ...declared }: Declaration): Format => ({
  ...declared,
  recognises: (head) => head.records.some((record) => isRecord(record) && recognises(record, head)),
  convert: (record) => {
    try {
      if (convertAll && isList(record.value)) return convertAll(record.value, record);
      if (!isRecord(record.value)) return unreadable('bad_type', '', called, record.value);
      return convert(new Reader(record.value), record);
    } catch (error) {
      if (error instanceof Unreadable) return refused(error.refusal);
      throw error;
    }
  },
});
