/** Checks of a filter that need the tables: which judgements its methods mean, and which of its values occur nowhere. */
import { type ChosenMethod, chooseMethod, judgedMethods } from './datasets/chosen-methods.ts';
import type { Session } from './db/pool.ts';
import { firstOf, query, rowsOf, type SqlBool, sql } from './db/query.ts';
import { nearest } from './methods/nearest.ts';
import { type Comparison, comparisonsOf, type Filter, factsOf, lowerFilter, mapComparisons } from './select.ts';

/**
 * The filter with each method it names replaced by the key of its judgements, so that it stays what it is when a later version judges.
 * @throws TroupeError `not_found` where nothing was judged by a method, `recipe_invalid` where several parameter sets fit
 */
export async function pinMethods(tx: Pick<Session, 'query'>, filter: Filter): Promise<Filter> {
  if (comparisonsOf(filter).every(({ field }) => factsOf(field).method === undefined)) return filter;
  const judged = await judgedMethods(tx);
  return mapComparisons(filter, (comparison) => {
    const { method, name } = factsOf(comparison.field);
    if (method === undefined) return comparison;
    const { method_key } = methodNamed(judged, method, name);
    return { ...comparison, field: withKey(name, method_key) };
  });
}

/** The filter with each method that is among these, once, replaced by its key. Pure. */
export const pinnedTo = (filter: Filter, runs: readonly { readonly name: string; readonly key: string }[]): Filter =>
  mapComparisons(filter, (comparison) => {
    const { method, name } = factsOf(comparison.field);
    const [run, ...more] = runs.filter((one) => one.name === method);
    return run === undefined || more.length > 0 ? comparison : { ...comparison, field: withKey(name, run.key) };
  });

const withKey = (field: string, key: string): string => field.replace(/\(.*$/su, `(${key})`);

function methodNamed(judged: readonly ChosenMethod[], name: string, field: string): ChosenMethod {
  const isKey = judged.some(({ method_key }) => method_key === name);
  const choice = { method: isKey ? null : name, version: null, params: null, method_key: isKey ? name : null };
  return chooseMethod(judged, choice, field);
}

/** So many values are compared with one that occurs nowhere, and so many are named. */
const MOST_VALUES = 1000;
const NAMED = 8;

/** One sentence for each value that is asked for and occurs nowhere, with the nearest that does. */
export async function unknownValues(tx: Pick<Session, 'query'>, filter: Filter | null): Promise<readonly string[]> {
  const warnings: string[] = [];
  const asked = new Set<string>();
  for (const comparison of comparisonsOf(filter)) {
    for (const value of [comparison.value].flat()) {
      if (typeof value !== 'string' || !['=', 'in', 'has'].includes(comparison.op)) continue;
      const key = `${comparison.field} ${value}`;
      if (asked.has(key)) continue;
      asked.add(key);
      const warning = await unknownValue(tx, comparison, value);
      if (warning !== null) warnings.push(warning);
    }
  }
  return warnings;
}

const LONG_TEXTS: readonly string[] = ['text', 'answer'];

async function unknownValue(tx: Pick<Session, 'query'>, comparison: Comparison, value: string): Promise<string | null> {
  const { field } = comparison;
  const { kind, scope, tag, sql: column } = factsOf(field);
  if (LONG_TEXTS.includes(field) || (kind !== 'text' && kind !== 'json')) return null;
  const op = comparison.op === 'has' ? 'has' : '=';
  const found = await firstOf(
    tx,
    rowsAt(scope).select(sql`1`.as('one')).where(lowerFilter({ field, op, value })).limit(1),
  );
  if (found) return null;
  if (op === 'has') return `${field} has ${JSON.stringify(value)} nowhere.`;
  const read = tag ? sql<string>`${sql.raw(tag.json)} ->> ${tag.key}` : sql<string>`${sql.raw(column)}`;
  const values = await rowsOf(
    tx,
    rowsAt(scope)
      .select(read.as('value'))
      .distinct()
      .where(sql<SqlBool>`${read} is not null`)
      .orderBy('value')
      .limit(MOST_VALUES),
  );
  const known = values.map((row) => row.value);
  if (known.length === 0 && tag) return `Nothing has the tag ${JSON.stringify(tag.key)}.${await nearestTag(tx, tag)}`;
  return `Nothing has ${field} = ${JSON.stringify(value)}. ${hint(field, value, known)}`;
}

function hint(field: string, value: string, known: readonly string[]): string {
  if (known.length === 0) return `No ${field} is known anywhere.`;
  const meant = nearest(value, known);
  if (meant !== null) return `Did you mean ${meant}?`;
  if (known.length === MOST_VALUES) return `There are ${MOST_VALUES} others or more.`;
  const more = known.length > NAMED ? ` and ${known.length - NAMED} more` : '';
  return `There is ${known.slice(0, NAMED).join(', ')}${more}.`;
}

async function nearestTag(tx: Pick<Session, 'query'>, { json, key }: { readonly json: string; readonly key: string }) {
  const tags = sql.raw(json);
  const keys = await rowsOf(
    tx,
    rowsAt('episode')
      .select(sql<string>`jsonb_object_keys(case jsonb_typeof(${tags}) when 'object' then ${tags} end)`.as('key'))
      .distinct()
      .orderBy('key')
      .limit(MOST_VALUES),
  );
  const known = keys.map((row) => row.key);
  const meant = nearest(key, known);
  if (meant !== null) return ` Did you mean ${meant}?`;
  return known.length === 0 ? '' : ` Tags are ${known.slice(0, NAMED).join(', ')}.`;
}

/** Every row that a field of the scope is read from. */
function rowsAt(scope: 'episode' | 'step') {
  const episodes = query.selectFrom('facts.episodes as e').leftJoin('facts.tasks as t', 't.task_id', 'e.task_id');
  return scope === 'episode'
    ? episodes
    : episodes
        .innerJoin('facts.calls as c', 'c.episode_id', 'e.episode_id')
        .leftJoin('facts.agents as a', (on) =>
          on
            .onRef('a.episode_id', '=', 'c.episode_id')
            .on(sql<SqlBool>`a.agent_id = ${sql.raw(factsOf('agent_id').sql)}`),
        )
        .innerJoin('facts.steps as s', (on) =>
          on.onRef('s.episode_id', '=', 'c.episode_id').onRef('s.call_id', '=', 'c.call_id'),
        );
}
