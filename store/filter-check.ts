/** Checks of a filter that need the tables: which judgements its methods mean, and which of its values occur nowhere. */
import { got } from '../errors.ts';
import { escapeText } from '../ingest/text.ts';
import { nearest } from '../nearest.ts';
import { type ChosenMethod, chooseMethod, judgedMethods } from './datasets/chosen-methods.ts';
import type { Session } from './db/pool.ts';
import { firstOf, query, rowsOf, type SqlBool, sql } from './db/query.ts';
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

/** What a value is looked up as: texts, and of a tag, which is JSON, numbers and truth values. */
type Value = string | number | boolean;

/** A comparison with the values that it names. */
type Asked = Omit<Comparison, 'value'> & { readonly value: readonly Value[] };

const isEquality = (op: string): boolean => ['=', 'in', 'has'].includes(op);

/** So many comparisons are looked up, one query each: a value that is there may be found by reading everything. */
const MOST_LOOKED_UP = 100;

/** One sentence for each value that is asked for and occurs nowhere, with the nearest that does; of many the first, and how many more. */
export async function unknownValues(tx: Pick<Session, 'query'>, filter: Filter | null): Promise<readonly string[]> {
  const asked = new Map<string, Asked>();
  for (const comparison of comparisonsOf(filter)) {
    const { tag } = factsOf(comparison.field);
    const isValue = (one: unknown): one is Value =>
      typeof one === 'string' || (tag !== undefined && (typeof one === 'number' || typeof one === 'boolean'));
    const value = [comparison.value].flat().filter(isValue);
    if (value.length > 0 && (isEquality(comparison.op) ? isLookedUp(comparison) : tag !== undefined))
      asked.set(JSON.stringify([comparison.field, value]), { ...comparison, value });
  }
  const unknown = new Map<string, readonly [Asked, Value]>();
  for (const comparison of [...asked.values()].slice(0, MOST_LOOKED_UP)) {
    for (const value of await absentOf(tx, comparison))
      unknown.set(JSON.stringify([comparison.field, value]), [comparison, value]);
  }
  // Of a tag that nothing has, each of several values gives the same sentence.
  const absences = new Set<string>();
  for (const [comparison, value] of [...unknown.values()].slice(0, NAMED))
    absences.add(await absence(tx, comparison, value));
  const warnings = [...absences];
  if (unknown.size > NAMED) warnings.push(`${unknown.size - NAMED} more values of the filter occur nowhere.`);
  if (asked.size > MOST_LOOKED_UP)
    warnings.push(
      `Only the first ${MOST_LOOKED_UP} of ${asked.size} comparisons were looked up for values that occur nowhere.`,
    );
  return warnings;
}

const LONG_TEXTS: readonly string[] = ['text', 'answer'];

function isLookedUp({ field }: Comparison): boolean {
  const { kind } = factsOf(field);
  return !LONG_TEXTS.includes(field) && (kind === 'text' || kind === 'json');
}

/** Each of so many values is looked for until it is found once; more of them by one query, which reads everything. */
const ONE_BY_ONE = 8;

/** The values that occur nowhere; of a tag that is compared otherwise, the value where nothing has the tag. */
async function absentOf(tx: Pick<Session, 'query'>, { field, op, value: values }: Asked): Promise<readonly Value[]> {
  const { scope, tag, kind, sql: column } = factsOf(field);
  if (op === 'in' && kind === 'text' && !tag && values.length > ONE_BY_ONE) {
    const there = rowsAt(scope).where(lowerFilter({ field, op, value: values }));
    const found = await rowsOf(tx, there.select(sql.raw<string>(column).as('value')).distinct());
    const known = new Set(found.map((row) => row.value));
    return values.filter((value) => !known.has(escapeText(String(value))));
  }
  const absent: Value[] = [];
  for (const value of values.slice(0, MOST_LOOKED_UP)) {
    const is = isEquality(op)
      ? lowerFilter({ field, op: op === 'has' ? 'has' : '=', value })
      : lowerFilter({ not: { field, op: 'is null' } });
    if (!(await firstOf(tx, rowsAt(scope).select(sql`1`.as('one')).where(is).limit(1)))) absent.push(value);
  }
  return absent;
}

/** That a value occurs nowhere, as a sentence. */
async function absence(tx: Pick<Session, 'query'>, { field, op }: Asked, value: Value): Promise<string> {
  const { scope, tag, sql: column } = factsOf(field);
  if (op === 'has') return `${field} has ${got(value)} nowhere.`;
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
  if (known.length === 0 && tag) return `Nothing has the tag ${got(tag.key)}.${await nearestTag(tx, tag)}`;
  return `Nothing has ${field} = ${got(value)}. ${hint(field, value, known)}`;
}

function hint(field: string, value: Value, known: readonly string[]): string {
  if (known.length === 0) return `No ${field} is known anywhere.`;
  if (known.includes(String(value)))
    return typeof value === 'string' ? `It is no text: write ${value}.` : `It is recorded as text: write "${value}".`;
  const meant = typeof value === 'string' ? nearest(value, known) : null;
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
