/**
 * One page of a list that the database holds. It goes on after the last row seen, so it costs the same however deep it is, and ends at a
 * number of bytes too, so that large rows do not make a large answer.
 */
import { TroupeError } from '../../errors.ts';
import { sqlState } from '../../store/db/faults.ts';
import type { Db, Session } from '../../store/db/pool.ts';
import {
  firstOf,
  query,
  type RawBuilder,
  rowsOf,
  type SelectQueryBuilder,
  type SqlBool,
  sql,
} from '../../store/db/query.ts';
import type { Comparison, Filter } from '../../store/filter/select.ts';
import { type Page, type PageRequest, readCursor, writeCursor, wrongCursor } from './lists.ts';

/** Least values, in the place of one that is not known. */
const LEAST = { text: '', bigint: '-1', timestamptz: '-infinity' } as const;
/** Bytes of rows, as the server writes them, after which a page ends; it has one row at least. */
const PAGE_BYTES = 2 * 1024 * 1024;
/** Milliseconds that a statement of a filtered list may take. */
const FILTER_MS = 20_000;

type Order = {
  /** The columns that the list may be sorted by, with their types, and that of the id where it is no text. */
  readonly columns: Readonly<Record<string, keyof typeof LEAST>>;
  readonly id: string;
  /** What a column is sorted by where that is not the column. */
  readonly values?: Readonly<Record<string, RawBuilder<unknown>>>;
};

/** One page of a query that has no `order by`. Rows without a value to sort by come first, and last in the reverse order. */
export async function readList<R>(
  db: Pick<Db, 'query'>,
  list: object,
  { columns, id, values = {} }: Order,
  { sort, limit, after }: PageRequest,
): Promise<Page<R>> {
  const rows = list as SelectQueryBuilder<object, never, Record<string, unknown>>;
  const [name, direction] = sort.startsWith('-') ? ([sort.slice(1), 'desc'] as const) : ([sort, 'asc'] as const);
  const type = sql.raw<string>(columns[name]!);
  const value = sql<string>`coalesce((${values[name] ?? sql.ref(name)})::${type}, ${sql.lit(LEAST[columns[name]!])}::${type})`;
  let page = rows
    .select([value.as('page_value'), sql<string>`${sql.ref(id)}`.as('page_id')])
    .orderBy(value, direction)
    .orderBy(sql.ref(id), direction)
    .limit(limit + 1);
  if (after !== undefined) {
    const place = readCursor(after);
    const [from, least] = [
      sql`(${value}, ${sql.ref(id)})`,
      sql`(${place.value}::text::${type}, ${place.id}::text::${sql.raw(columns[id] ?? 'text')})`,
    ];
    page = page.where(direction === 'asc' ? sql<SqlBool>`${from} > ${least}` : sql<SqlBool>`${from} < ${least}`);
  }
  const placed = sql.raw(`order by page_value ${direction}, page_id ${direction}`);
  const sized = sql<SizedRow>`(
    select p.*, sum(octet_length(p::text)) over (${placed}) - octet_length(p::text) as page_before, count(*) over ()::integer as page_rows
    from (${page}) as p)`;
  const total = query.selectFrom(sql<object>`(${rows})`.as('q')).select(sql<number>`count(*)::integer`.as('total'));
  const counted = await firstOf(db, total);
  const found = (await rowsOf(
    db,
    query
      .selectFrom(sized.as('q'))
      .selectAll()
      .select([sql<string>`page_value::text`.as('page_value_text'), sql<string>`page_id::text`.as('page_id_text')])
      .where(sql<SqlBool>`page_before < ${sql.lit(PAGE_BYTES)}`)
      .orderBy('page_value', direction)
      .orderBy('page_id', direction),
  ).catch((error) => {
    // A place that no page gave, as its value is none of the column.
    throw after !== undefined && /^22/.test(sqlState(error) ?? '') ? wrongCursor(after) : error;
  })) as unknown as readonly SizedRow[];
  const kept = found.slice(0, limit);
  const last = kept.at(-1);
  const items = kept.map(
    ({ page_value, page_id, page_before, page_rows, page_value_text, page_id_text, ...row }) => row,
  );
  return {
    items: items as unknown as readonly R[],
    total: counted!.total,
    next:
      last !== undefined && last.page_rows > kept.length
        ? writeCursor({ value: last.page_value_text, id: last.page_id_text })
        : null,
  };
}

type SizedRow = Readonly<Record<string, unknown>> & {
  readonly page_value: string;
  readonly page_id: string;
  readonly page_before: number;
  readonly page_rows: number;
  readonly page_value_text: string;
  readonly page_id_text: string;
};

/** A page, and where it has no row a sentence for each of these values that nothing has. */
export async function withUnknown<R>(
  page: Page<R>,
  asked: readonly (readonly [field: string, value: unknown])[],
  unknown: (filter: Filter) => Promise<readonly string[]>,
): Promise<Page<R> & { readonly warnings?: readonly string[] }> {
  if (page.items.length > 0) return page;
  const and = asked.flatMap(([field, value]) => (value === undefined ? [] : [{ field, op: '=', value } as Comparison]));
  const warnings = await unknown({ and });
  return warnings.length === 0 ? page : { ...page, warnings };
}

/** Reads in one transaction. @throws TroupeError `sql_timeout` where a statement runs past the limit */
export async function readFiltered<T>(db: Db, read: (tx: Session) => Promise<T>): Promise<T> {
  try {
    return await db.transaction(read, { readOnly: true, settings: `set local statement_timeout = ${FILTER_MS}` });
  } catch (error) {
    if (sqlState(error) !== '57014') throw error;
    throw new TroupeError('sql_timeout', `The filtered list was not read within ${FILTER_MS / 1000} s.`, {
      field: 'filter',
      hint: 'choose fewer rows, such as by task_id, team_id or a time',
      cause: error,
    });
  }
}

/** What the filter is read into. @throws TroupeError `usage` with the reason why it cannot be */
export async function asParameter<T>(read: () => T | Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (error) {
    if (!(error instanceof TroupeError)) throw error;
    throw new TroupeError('usage', error.message, { ...error.detail, field: 'filter' });
  }
}
