/** Lists whose rows a filter chooses, by the grammar of recipes over the fields of the list. */
import { type TOptional, type TString, Type } from 'typebox';
import type { Db } from '../../store/db/pool.ts';
import type { SelectQueryBuilder } from '../../store/db/query.ts';
import { unknownValues } from '../../store/filter/filter-check.ts';
import type { FieldFacts, FieldKind } from '../../store/filter/filter-fields.ts';
import { type Filter, lowerOver, parseFilter } from '../../store/filter/select.ts';
import { filter, type Page, type PageRequest } from './lists.ts';
import { asParameter, readFiltered, readList } from './read-list.ts';

/** The input of such a list: exact values of some of its fields, and a filter over all of them. */
export const filterInput = <N extends string>(...names: readonly N[]) => ({
  ...(Object.fromEntries(
    names.map((name) => [
      name,
      Type.Optional(
        Type.String({ maxLength: 512, pattern: '^[^\\u0000]*$', description: `only rows with this ${name}` }),
      ),
    ]),
  ) as Record<N, TOptional<TString>>),
  filter,
});

export type FilteredPage = PageRequest & { readonly [field: string]: unknown };

/** Fields that are columns of the rows. */
export const columns = (kind: FieldKind, ...names: readonly string[]): Readonly<Record<string, FieldFacts>> =>
  Object.fromEntries(names.map((name) => [name, { scope: 'episode', kind, sql: name }]));

/** One page of the rows that the filter and the values choose, with a sentence on each value that nothing has. */
export async function filteredList<R>(
  db: Db,
  list: object,
  {
    rows,
    fields,
    id,
  }: { readonly rows: string; readonly fields: Readonly<Record<string, FieldFacts>>; readonly id: string },
  { sort, limit, after, filter: where, ...values }: FilteredPage,
): Promise<Page<R> & { readonly warnings?: readonly string[] }> {
  const known = new Map(Object.entries(fields));
  const comparisons = Object.entries(values).flatMap(([field, value]): Filter[] =>
    value === undefined ? [] : [{ field, op: '=', value: value as string }],
  );
  const parsed = where === undefined ? [] : [await asParameter(() => parseFilter(where, 'filter', 0, known))];
  const chosen: Filter = { and: [...comparisons, ...parsed] };
  const all = list as SelectQueryBuilder<object, never, Record<string, unknown>>;
  const types = Object.entries(fields).map(([name, { kind }]) => [name, kind === 'time' ? 'timestamptz' : 'text']);
  return readFiltered(db, async (tx) => {
    const page = await readList<R>(
      tx,
      chosen.and.length === 0 ? all : all.where(lowerOver(chosen, known)),
      { columns: Object.fromEntries(types), id },
      { sort, limit, after },
    );
    const warnings =
      parsed.length > 0 || page.items.length === 0
        ? await unknownValues(tx, chosen, { fields: known, rows: { episode: rows, step: rows } })
        : [];
    return warnings.length === 0 ? page : { ...page, warnings };
  });
}
