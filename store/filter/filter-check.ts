/** Checks of a filter that need the tables: which judgements its methods mean, and which of its values occur nowhere. */
import { got } from '../../errors.ts';
import { escapeText } from '../../ingest/events/text.ts';
import { nearest } from '../../nearest.ts';
import { type ChosenMethod, chooseMethod, judgedMethods } from '../datasets/chosen-methods.ts';
import type { Session } from '../db/pool.ts';
import { firstOf, query, type RawBuilder, rowsOf, type SqlBool, sql, typed } from '../db/query.ts';
import { FIELDS, type FieldScope, ROWS } from './filter-fields.ts';
import {
  type Comparison,
  comparisonsOf,
  type Fields,
  type Filter,
  factsOf,
  lowerOver,
  mapComparisons,
} from './select.ts';

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

/** What a filter is over: its fields, and the rows that each is read from. */
export type SearchSpace = { readonly fields: Fields; readonly rows: Readonly<Record<FieldScope, string>> };

const STORED: SearchSpace = { fields: FIELDS, rows: ROWS };

/** A comparison with the values that it names, and where they are looked up. */
type CheckedComparison = Omit<Comparison, 'value'> & {
  readonly value: readonly Value[];
  readonly searched: SearchSpace;
};

/** What finds, or with `!=` and `not in` leaves out, nothing where nothing has the value. */
const isEquality = (op: string): boolean => ['=', '!=', 'in', 'has'].includes(op);

/** So many comparisons are looked up, one query each: a value that is there may be found by reading everything. */
const MOST_LOOKED_UP = 100;

/**
 * One sentence for each value that is asked for and occurs nowhere, with the nearest that does; of many the first, and how many more.
 * What `count(NAME where …)` asks for is looked up among what is counted.
 */
export async function unknownValues(
  tx: Pick<Session, 'query'>,
  filter: Filter | null,
  searched: SearchSpace = STORED,
): Promise<readonly string[]> {
  const asked = new Map<string, CheckedComparison>();
  for (const one of askedIn(filter, searched)) asked.set(JSON.stringify([one.field, one.op, one.value]), one);
  const unknown = new Map<string, readonly [CheckedComparison, Value]>();
  const unknownFeedback = new Set<string>();
  for (const comparison of [...asked.values()].slice(0, MOST_LOOKED_UP)) {
    for (const value of await absentOf(tx, comparison))
      unknown.set(JSON.stringify([comparison.field, value]), [comparison, value]);
  }
  for (const one of await absentFeedback(tx, filter, searched.fields)) unknownFeedback.add(one);
  // Of a tag that nothing has, each of several values gives the same sentence.
  const absences = new Set<string>();
  for (const [comparison, value] of [...unknown.values()].slice(0, NAMED))
    absences.add(await absence(tx, comparison, value));
  const warnings = [...unknownFeedback, ...absences];
  if (unknown.size > NAMED) warnings.push(`${unknown.size - NAMED} more values of the filter occur nowhere.`);
  if (asked.size > MOST_LOOKED_UP)
    warnings.push(
      `Only the first ${MOST_LOOKED_UP} of ${asked.size} comparisons were looked up for values that occur nowhere.`,
    );
  return warnings;
}

function askedIn(filter: Filter | null, searched: SearchSpace): readonly CheckedComparison[] {
  return comparisonsOf(filter).flatMap((comparison) => {
    const { tag, kind, counted } = factsOf(comparison.field, 'where', searched.fields);
    if (counted)
      return askedIn(counted.where, { fields: counted.fields, rows: { episode: counted.from, step: counted.from } });
    const isValue = (one: unknown): one is Value =>
      typeof one === 'string' || (tag !== undefined && (typeof one === 'number' || typeof one === 'boolean'));
    const value = [comparison.value].flat().filter(isValue);
    const isLookedUp = !LONG_TEXTS.includes(comparison.field) && (kind === 'text' || kind === 'json');
    if (value.length === 0 || !(isEquality(comparison.op) ? isLookedUp : tag !== undefined)) return [];
    return [{ ...comparison, value, searched }];
  });
}

/** A sentence for each name of feedback that nothing of its kind of target has as a number, with the nearest that something has. */
async function absentFeedback(
  tx: Pick<Session, 'query'>,
  filter: Filter | null,
  fields: Fields,
): Promise<readonly string[]> {
  const asked = comparisonsOf(filter).flatMap(({ field }) => {
    const { feedback, name } = factsOf(field, 'where', fields);
    return feedback === undefined ? [] : [{ feedback, name, target: TARGETS[name.split('(')[0]!]! }];
  });
  if (asked.length === 0) return [];
  const known = await rowsOf(
    tx,
    query
      .selectFrom('facts.feedback')
      .select(['target_kind', 'name'])
      .distinct()
      .where('value', 'is not', null)
      .where('name', 'is not', null)
      .orderBy('name'),
  );
  return asked.flatMap(({ feedback, name, target }) => {
    const here = known.filter(({ target_kind }) => target_kind === target).map((row) => row.name!);
    if (here.includes(escapeText(feedback))) return [];
    const elsewhere = known.filter((row) => row.name === escapeText(feedback)).map(({ target_kind }) => target_kind);
    const meant = nearest(feedback, here);
    const more =
      elsewhere.length > 0
        ? ` It is recorded on the ${elsewhere.join(' and the ')}.`
        : meant !== null
          ? ` Did you mean ${meant}?`
          : here.length > 0
            ? ` There is ${listed(here)}.`
            : '';
    return [`Nothing has ${name}: no ${target} has feedback ${got(feedback)} that is a number.${more}`];
  });
}

const TARGETS: Readonly<Record<string, string>> = {
  feedback: 'step',
  'agent.feedback': 'agent',
  'episode.feedback': 'episode',
};

const LONG_TEXTS: readonly string[] = ['text', 'answer', 'task.query'];

/** Each of so many values is looked for until it is found once; more of them by one query, which reads everything. */
const ONE_BY_ONE = 8;

/** The values that occur nowhere; of a tag that is compared by size or with a pattern, the value where no such tag has its type. */
async function absentOf(tx: Pick<Session, 'query'>, asked: CheckedComparison): Promise<readonly Value[]> {
  const { field, op, value: values, searched } = asked;
  const { tag, kind, sql: column } = factsOf(field, 'where', searched.fields);
  if (op === 'in' && kind === 'text' && !tag && values.length > ONE_BY_ONE) {
    const there = lowerOver({ field, op, value: values }, searched.fields);
    const known = new Set(await valuesOf(tx, asked, sql.raw<string>(column), there, null));
    return values.filter((value) => !known.has(escapeText(String(value))));
  }
  const absent: Value[] = [];
  for (const value of values.slice(0, MOST_LOOKED_UP)) {
    const is: Filter = isEquality(op)
      ? { field, op: op === 'has' ? 'has' : '=', value }
      : {
          or: [
            { field, op: '<=', value },
            { field, op: '>', value },
          ],
        };
    const found = sql`(select 1 as one from ${rowsOfField(asked)} where ${lowerOver(is, searched.fields)} limit 1)`;
    if (!(await firstOf(tx, query.selectFrom(found.as('found')).selectAll()))) absent.push(value);
  }
  return absent;
}

const rowsOfField = ({ field, searched }: Pick<CheckedComparison, 'field' | 'searched'>): RawBuilder<unknown> =>
  sql.raw(searched.rows[factsOf(field, 'where', searched.fields).scope]);

/** What an expression reads in the rows of the field, each value once, in order; at most so many. */
async function valuesOf(
  tx: Pick<Session, 'query'>,
  asked: Pick<CheckedComparison, 'field' | 'searched'>,
  read: RawBuilder<string>,
  where: RawBuilder<SqlBool>,
  most: number | null,
): Promise<readonly string[]> {
  const values = sql<{
    readonly value: string;
  }>`(select distinct ${read} as value from ${rowsOfField(asked)} where ${where} order by 1 limit ${typed(most, 'integer')})`;
  return (await rowsOf(tx, query.selectFrom(values.as('v')).selectAll())).map(({ value }) => value);
}

const TYPES = { string: 'text', number: 'number', boolean: 'truth value' } as const;

/** That a value occurs nowhere, as a sentence. */
async function absence(tx: Pick<Session, 'query'>, asked: CheckedComparison, value: Value): Promise<string> {
  const { field, op, searched } = asked;
  const { tag, sql: column } = factsOf(field, 'where', searched.fields);
  if (op === 'has') return `${field} has ${got(value)} nowhere.`;
  const read = tag ? sql<string>`${sql.raw(tag.json)} ->> ${typed(tag.key, 'text')}` : sql.raw<string>(column);
  const known = await valuesOf(tx, asked, read, sql<SqlBool>`${read} is not null`, MOST_VALUES);
  if (known.length === 0 && tag) return `Nothing has the tag ${got(tag.key)}.${await nearestTag(tx, asked, tag)}`;
  if (!isEquality(op))
    return `Nothing has a ${TYPES[typeof value as keyof typeof TYPES]} as ${field}. Of another type there is ${listed(known)}.`;
  return `Nothing has ${field} = ${got(value)}. ${hint(field, value, known)}`;
}

const listed = (known: readonly string[]): string =>
  `${known.slice(0, NAMED).join(', ')}${known.length > NAMED ? ` and ${known.length - NAMED} more` : ''}`;

function hint(field: string, value: Value, known: readonly string[]): string {
  if (known.length === 0) return `No ${field} is known anywhere.`;
  if (known.includes(String(value)))
    return typeof value === 'string' ? `It is no text: write ${value}.` : `It is recorded as text: write "${value}".`;
  const meant = typeof value === 'string' ? nearest(value, known) : null;
  if (meant !== null) return `Did you mean ${meant}?`;
  if (known.length === MOST_VALUES) return `There are ${MOST_VALUES} others or more.`;
  return `There is ${listed(known)}.`;
}

async function nearestTag(
  tx: Pick<Session, 'query'>,
  asked: CheckedComparison,
  { json, key }: { readonly json: string; readonly key: string },
): Promise<string> {
  const tags = sql.raw(json);
  const keys = sql<string>`jsonb_object_keys(case jsonb_typeof(${tags}) when 'object' then ${tags} end)`;
  const known = await valuesOf(tx, asked, keys, sql<SqlBool>`true`, MOST_VALUES);
  const meant = nearest(key, known);
  if (meant !== null) return ` Did you mean ${meant}?`;
  return known.length === 0 ? '' : ` Tags are ${known.slice(0, NAMED).join(', ')}.`;
}
