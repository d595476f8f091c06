/** Lists that are read page by page, newest first: a page goes on after the last row seen, so it costs the same however deep it is. */
import type { Db } from '../store/db/pool.ts';
import { type RawBuilder, rowsOf, type SelectQueryBuilder, type SqlBool, sql } from '../store/db/query.ts';
import { PAGE_SIZE, readCursor, UNKNOWN_TIME, writeCursor } from './query.ts';

export type Page = { readonly items: readonly Record<string, unknown>[]; readonly next: string | null };

/** The time that orders a list, and the column that tells equal times apart. */
export type Order = { readonly time: RawBuilder<string | null>; readonly id: RawBuilder<string | null> };

/** One page of the list, which has no order of its own; `next` is null on the last. A row whose time is unknown comes last. */
export async function readPage<Tables, From extends keyof Tables, Row>(
  db: Pick<Db, 'query'>,
  list: SelectQueryBuilder<Tables, From, Row>,
  { time, id }: Order,
  { limit = PAGE_SIZE, after }: { readonly limit?: number | undefined; readonly after?: string | undefined },
): Promise<Page> {
  const at = sql<string>`coalesce(${time}, ${sql.lit(UNKNOWN_TIME)}::timestamptz)`;
  let page = list
    .select([at.as('page_at'), id.as('page_id')])
    .orderBy(at, 'desc')
    .orderBy(id, 'desc')
    .limit(limit + 1);
  if (after !== undefined) {
    const place = readCursor(after);
    page = page.where(sql<SqlBool>`(${at}, ${id}) < (${place.at}::timestamptz, ${place.id})`);
  }
  const rows: readonly Record<string, unknown>[] = await rowsOf(db, page);
  const items = rows.slice(0, limit).map(({ page_at, page_id, ...row }) => row);
  const last = rows[limit - 1];
  return {
    items,
    next: rows.length > limit && last ? writeCursor({ at: last.page_at as string, id: last.page_id as string }) : null,
  };
}
