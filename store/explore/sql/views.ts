/** The views of the schemas traj and report as the database describes them, and which of their names somebody who mistyped one most likely meant. */

import { VIEW_SCHEMAS } from '../../../migrations/views.ts';
import { nearest } from '../../../nearest.ts';
import type { Session } from '../../db/pool.ts';
import { query, rowsOf, type SqlBool, sql } from '../../db/query.ts';

type ViewColumn = { readonly name: string; readonly type: string; readonly note: string | null };
/** With its schema in its name. */
export type View = { readonly name: string; readonly about: string | null; readonly columns: readonly ViewColumn[] };

const CATALOGUE = query
  .selectFrom(sql<{ oid: number }>`pg_catalog.pg_class`.as('c'))
  .innerJoin(sql<{ attrelid: number; attnum: number; attname: string }>`pg_catalog.pg_attribute`.as('a'), (on) =>
    on.onRef('a.attrelid', '=', 'c.oid'),
  )
  .select('a.attname as name')
  .select([
    sql<string>`c.relnamespace::regnamespace || '.' || c.relname`.as('view'),
    sql<string>`format_type(a.atttypid, a.atttypmod)`.as('type'),
    sql<string | null>`obj_description(c.oid, 'pg_class')`.as('about'),
    sql<string | null>`col_description(c.oid, a.attnum)`.as('note'),
  ])
  .where(
    sql<SqlBool>`c.relnamespace::regnamespace::text = any (${[...VIEW_SCHEMAS]}) and c.relkind = 'v' and a.attnum > 0`,
  )
  .orderBy('c.oid')
  .orderBy('a.attnum');

/** The views in the order in which they were made, with their columns in order. */
export async function listViews(db: Pick<Session, 'query'>): Promise<View[]> {
  const views = new Map<string, { name: string; about: string | null; columns: ViewColumn[] }>();
  for (const { view, about, name, type, note } of await rowsOf(db, CATALOGUE)) {
    const found = views.get(view) ?? { name: view, about, columns: [] };
    views.set(view, found);
    found.columns.push({ name, type, note });
  }
  return [...views.values()];
}

/** `traj.steps` and `steps` to `steps`. */
export const bareName = (name: string): string => name.replace(/^(?:traj|report)\./i, '');

/** The view, with its schema, whose name is most like this one. */
export function nearestView(name: string, views: readonly View[]): string | null {
  const bare = nearest(
    bareName(name),
    views.map((view) => bareName(view.name)),
  );
  return views.find((view) => bareName(view.name) === bare)?.name ?? null;
}

/** What to say beside PostgreSQL's message about a missing view or column: the one that was most likely meant, or where it is. Pure. */
export function adviceOn(message: string, text: string, views: readonly View[]): string | null {
  const [, relation] = /^relation "([^"]+)" does not exist/.exec(message) ?? [];
  if (relation !== undefined) {
    const name = nearestView(relation, views);
    return name === null ? null : `Did you mean ${name}?`;
  }
  const [, column] = /^column (?:"([^"]+)"|\S+) does not exist/.exec(message) ?? [];
  const wanted = column ?? /^column (?:\S+\.)?(\S+) does not exist/.exec(message)?.[1];
  if (wanted === undefined) return null;
  const words = new Set(text.toLowerCase().match(/\w+/g));
  const columns = views.filter((view) => words.has(bareName(view.name))).flatMap((view) => view.columns);
  const elsewhere = views.filter((view) => view.columns.some(({ name }) => name === wanted));
  if (elsewhere.length > 0) return `It is a column of ${elsewhere.map(({ name }) => name).join(', ')}.`;
  const name = nearest(wanted, [...new Set(columns.map(({ name }) => name))]);
  return name === null ? null : `Did you mean ${name}?`;
}
