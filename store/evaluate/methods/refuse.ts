/** How a method refuses input that does not fit: one error code, the field, what was expected and what came. */

import { misfit } from '../../../errors.ts';

/** Throws TroupeError `method_input`. `field` is a path such as `steps[3].reward`. */
export function refuseInput(field: string, expected: string, value: unknown): never {
  throw misfit('method_input', field, expected, value);
}

/** Throws unless the column has as many entries as the one that sets the number of rows. */
export function requireRows(field: string, column: readonly unknown[], rows: number, of: string): void {
  if (column.length !== rows) {
    refuseInput(field, `${rows} entries, one for each of ${of}`, `${column.length} entries`);
  }
}

/** Throws unless every row of the matrix has the same length; returns that length, 0 for no rows. */
export function requireRectangle(field: string, matrix: readonly (readonly unknown[])[]): number {
  const width = matrix[0]?.length ?? 0;
  matrix.forEach((row, i) => {
    requireRows(`${field}[${i}]`, row, width, `the columns of ${field}[0]`);
  });
  return width;
}
