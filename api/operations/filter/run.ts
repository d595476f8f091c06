/** What the operation filter does and prints. */

import { readFilter } from '../../../store/filter/episode-filter.ts';
import { filterText } from '../../../store/filter/filter-text.ts';
import { showSql } from '../../../store/filter/select.ts';
import type { OutputOf } from '../operation.ts';

export async function filter(_: unknown, { filter: written }: { readonly filter: string }) {
  const read = readFilter(written, 'filter');
  return { filter: read, text: filterText(read), sql: showSql(read) };
}

export const filterShown = ({ filter: read, text, sql }: OutputOf<typeof filter>): string =>
  `${text}\n\n${JSON.stringify(read, null, 2)}\n\n${sql}`;
