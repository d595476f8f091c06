/** Answers to queries as text for people. */
import { countText } from '../../../errors.ts';
import { bytesText } from '../bytes.ts';
import type { OutputOf, Printer } from '../operation.ts';
import type { sql } from './run.ts';

export function answered({ columns, rows, truncated, written }: OutputOf<typeof sql>, { say, table }: Printer): string {
  const { file, rows: count, bytes } = { file: null, bytes: 0, rows: rows.length, ...written };
  if (truncated)
    say(
      `Only the first ${count} rows are shown; raise --limit for more, or use --out (an answer also ends at 64 MiB).`,
    );
  if (file !== null)
    return `${countText(count, 'row')} of ${countText(columns.length, 'column')} in ${file}, ${bytesText(bytes)}.`;
  return written === undefined
    ? table(
        columns.map(({ name }) => name),
        rows,
      )
    : '';
}
