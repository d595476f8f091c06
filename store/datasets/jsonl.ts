/** A dataset as JSON Lines: one object a row with the names of the columns, null where a value is unknown. */
import type { ArrowRow, Frame } from './arrow.ts';

/** JSON has no NaN and no infinities: they are written as text, since null stands for unknown. */
function plain(value: unknown): unknown {
  if (typeof value === 'bigint') return Number.isSafeInteger(Number(value)) ? Number(value) : String(value);
  if (typeof value === 'number') return Number.isFinite(value) ? value : String(value);
  if (value === null || typeof value !== 'object') return value;
  if (Array.isArray(value) || ArrayBuffer.isView(value)) return Array.from(value as ArrayLike<unknown>, plain);
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, plain(member)]));
}

const lineOf = (row: ArrowRow): string =>
  `${JSON.stringify(Object.fromEntries(Object.entries(row).map(([name, value]) => [name, plain(value)])))}\n`;

const LINES = 1000;

/** The lines of a dataset, some thousand at a time. */
export function* jsonLines(frame: Frame): Generator<Uint8Array, void, undefined> {
  let lines: string[] = [];
  for (const row of frame.each()) {
    lines.push(lineOf(row));
    if (lines.length === LINES) {
      yield Buffer.from(lines.join(''));
      lines = [];
    }
  }
  if (lines.length > 0) yield Buffer.from(lines.join(''));
}
