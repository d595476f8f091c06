/** Lists that are read page by page, newest first: a page goes on after the last row seen, so it costs the same however deep it is. */
import type { Db } from '../store/db/pool.ts';
import { PAGE_SIZE, readCursor, UNKNOWN_TIME, writeCursor } from './query.ts';

export type Listing = {
  /** What is read: a view, or a query in brackets. */
  readonly from: string;
  readonly columns: readonly string[];
  /** Expression of the time that orders the list, and the column that tells equal times apart. */
  readonly time: string;
  readonly id: string;
};

export type Condition = { readonly sql: (parameter: string) => string; readonly value: unknown };

export type Page = { readonly items: readonly Record<string, unknown>[]; readonly next: string | null };

/** `column = value`. */
export const equals = (column: string, value: unknown): Condition => ({
  sql: (parameter) => `${column} = ${parameter}`,
  value,
});

/** One page; `next` is null on the last. A row whose time is unknown comes last. */
export async function readPage(
  db: Pick<Db, 'query'>,
  { from, columns, time, id }: Listing,
  { limit = PAGE_SIZE, after }: { readonly limit?: number | undefined; readonly after?: string | undefined },
  conditions: readonly Condition[] = [],
): Promise<Page> {
  const order = `coalesce(${time}, '${UNKNOWN_TIME}'::timestamptz)`;
  const params: unknown[] = [];
  const bind = (value: unknown): string => `$${params.push(value)}`;
  const where = conditions.map(({ sql, value }) => sql(bind(value)));
  if (after !== undefined) {
    const place = readCursor(after);
    where.push(`(${order}, ${id}) < (${bind(place.at)}::timestamptz, ${bind(place.id)})`);
  }
  const { rows } = await db.query<Record<string, unknown>>(
    `select ${columns.join(', ')}, ${order} as page_at, ${id} as page_id from ${from}
     ${where.length === 0 ? '' : `where ${where.join(' and ')}`} order by ${order} desc, ${id} desc limit ${limit + 1}`,
    params,
  );
  const items = rows.slice(0, limit).map(({ page_at, page_id, ...row }) => row);
  const last = rows[limit - 1];
  return {
    items,
    next: rows.length > limit && last ? writeCursor({ at: last.page_at as string, id: last.page_id as string }) : null,
  };
}
