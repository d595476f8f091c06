/**
 * What is known of a JSON value that never changes, kept with the value itself: how it is written, and that it was looked at. A span
 * is part of each event derived from it, and is hashed, checked, put in order and written with each of them.
 */

/** Where a value keeps what is known of it. No copy has it. */
const KNOWN = Symbol('known');

export type JsonMemo = {
  /** Its canonical JSON; empty until it was written. */
  json: string;
  /** It is JSON of no more than so many levels; 0 where nobody has looked. */
  depth: number;
  /** `JSON.stringify` writes its canonical JSON: keys come in order, no number is -0. */
  ordered: boolean;
};

/** What is known of a value, where anything is. */
export const knownOf = (value: object): JsonMemo | undefined => (value as { [KNOWN]?: JsonMemo })[KNOWN];

const mark = (value: object, known: JsonMemo): void =>
  void Object.defineProperty(value, KNOWN, { value: known, enumerable: false });

/**
 * Has the canonical JSON of a value that never changes kept with it: a span is part of each event derived from it. `depth` shows that it was
 * found to be JSON of no more than so many levels.
 */
export function writeOnce<T extends object>(value: T, depth = 0): T {
  if (knownOf(value) === undefined) mark(value, { json: '', depth, ordered: false });
  return value;
}

/** Keeps with a value the canonical JSON that it was parsed from, or was written as. */
export function keepWritten(value: object, json: string): void {
  const known = knownOf(value);
  if (known) known.json = json;
  else mark(value, { json, depth: 0, ordered: false });
}

/**
 * True for a value whose text was kept and that is no deeper than `depth` levels, if its keys come in the order of canonical JSON (those
 * that are numbers never do). From then on nothing walks through it: it is known to be JSON, to be in order, and how it is written.
 */
export function settled(value: object, depth: number): boolean {
  const known = knownOf(value);
  if (known === undefined || known.json === '') return false;
  if (!known.ordered && isOrdered(value, depth)) {
    known.depth = depth;
    known.ordered = true;
  }
  return known.ordered && known.depth <= depth;
}

function isOrdered(value: unknown, depth: number): boolean {
  if (typeof value === 'number') return Number.isFinite(value) && !Object.is(value, -0);
  if (typeof value !== 'object' || value === null) return true;
  if (depth === 0) return false;
  if (Array.isArray(value)) {
    for (let i = 0; i < value.length; i++) if (!isOrdered(value[i], depth - 1)) return false;
    return true;
  }
  let before = '';
  for (const key in value) {
    if (key < before || !isOrdered((value as Record<string, unknown>)[key], depth - 1)) return false;
    before = key;
  }
  return true;
}

/** Whether {@link settled} returned true before. */
export const isSettled = (value: object): boolean => knownOf(value)?.ordered === true;
