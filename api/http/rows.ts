/**
 * Lists that are read page by page, newest first: a page goes on after the last row seen, so it costs the same however deep it is, and it
 * ends at a number of bytes too, so that large rows do not make a large response.
 */
import type { Db } from '../../store/db/pool.ts';
import { query, type RawBuilder, rowsOf, type SelectQueryBuilder, type SqlBool, sql } from '../../store/db/query.ts';
import { PAGE_SIZE, readCursor, UNKNOWN_TIME, writeCursor } from './query.ts';

export type Page = { readonly items: readonly Record<string, unknown>[]; readonly next: string | null };

/** Bytes of rows, as the server writes them, after which a page ends; it has one row at least. */
const PAGE_BYTES = 2 * 1024 * 1024;

/** The time that orders a list, and the column that orders equal times. */
export type Order = { readonly time: RawBuilder<string | null>; readonly id: RawBuilder<string | null> };

type SizedRow = Record<string, unknown> & {
  readonly page_at: string;
  readonly page_id: string;
  readonly page_rows: number;
};

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
  const rows = (await rowsOf(
    db,
    query
      .selectFrom(
        query
          .selectFrom(sql<SizedRow>`(${page})`.as('p'))
          .selectAll('p')
          .select(sql<number>`sum(octet_length(p::text)) over (order by page_at desc, page_id desc)`.as('page_bytes'))
          .select(sql<number>`octet_length(p::text)`.as('page_row_bytes'))
          .select(sql<number>`count(*) over ()::integer`.as('page_rows'))
          .as('q'),
      )
      .selectAll('q')
      .where(sql<SqlBool>`page_bytes - page_row_bytes < ${sql.lit(PAGE_BYTES)}`)
      .orderBy('page_at', 'desc')
      .orderBy('page_id', 'desc'),
  )) as unknown as readonly SizedRow[];
  const kept = rows.slice(0, limit);
  const items = kept.map(({ page_at, page_id, page_bytes, page_row_bytes, page_rows, ...row }) => row);
  const last = kept.at(-1);
  return {
    items,
    next:
      last !== undefined && last.page_rows > kept.length ? writeCursor({ at: last.page_at, id: last.page_id }) : null,
  };
}
