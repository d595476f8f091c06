/** One page of a list that the database holds. */
import type { Db } from '../../store/db/pool.ts';
import { firstOf, query, rowsOf, type SelectQueryBuilder, type SqlBool, sql } from '../../store/db/query.ts';
import { type Page, type PageRequest, readCursor, writeCursor, wrongCursor } from './lists.ts';

/** Least values, in the place of one that is not known. */
const LEAST = { text: '', bigint: '-1' } as const;

/** The columns that a list may be sorted by with their types, and that of the id. */
type Order = { readonly columns: Readonly<Record<string, keyof typeof LEAST>>; readonly id: string };

/** One page of a query that has no `order by`. Rows without a value to sort by come first, and last in the reverse order. */
export async function readList<R>(
  db: Db,
  list: object,
  { columns, id }: Order,
  { sort, limit, after }: PageRequest,
): Promise<Page<R>> {
  const rows = list as SelectQueryBuilder<object, never, Record<string, unknown>>;
  const [name, direction] = sort.startsWith('-') ? ([sort.slice(1), 'desc'] as const) : ([sort, 'asc'] as const);
  const type = columns[name]!;
  const value = sql<string>`coalesce(${sql.ref(name)}::${sql.raw(type)}, ${sql.lit(LEAST[type])}::${sql.raw(type)})`;
  let page = rows
    .select([sql<string>`${value}::text`.as('page_value'), sql<string>`${sql.ref(id)}::text`.as('page_id')])
    .orderBy(value, direction)
    .orderBy(sql.ref(id), direction)
    .limit(limit + 1);
  if (after !== undefined) {
    const place = readCursor(after);
    const fits = (column: string, text: string) => columns[column] !== 'bigint' || /^-?\d{1,18}$/.test(text);
    if (!fits(name, place.value) || !fits(id, place.id)) throw wrongCursor(after);
    const idType = sql.raw(columns[id] ?? 'text');
    const [from, least] = [
      sql`(${value}, ${sql.ref(id)}::${idType})`,
      sql`(${place.value}::${sql.raw(type)}, ${place.id}::${idType})`,
    ];
    page = page.where(direction === 'asc' ? sql<SqlBool>`${from} > ${least}` : sql<SqlBool>`${from} < ${least}`);
  }
  const total = query.selectFrom(sql<object>`(${rows})`.as('q')).select(sql<number>`count(*)::integer`.as('total'));
  const [found, counted] = await Promise.all([rowsOf(db, page), firstOf(db, total)]);
  const kept = found.slice(0, limit);
  const last = kept.at(-1) as { readonly page_value: string; readonly page_id: string } | undefined;
  return {
    items: kept.map(({ page_value, page_id, ...row }) => row as R),
    total: counted!.total,
    next: last !== undefined && found.length > limit ? writeCursor({ value: last.page_value, id: last.page_id }) : null,
  };
}
