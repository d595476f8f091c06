/**
 * The typed filter: a small JSON tree over named fields of episodes and steps, lowered to a condition of SQL. Wherever a filter stands,
 * a text of the grammar in store/filter/filter-text.ts may stand instead.
 *
 * Logic is two-valued: a comparison with a missing value is false, `!=` is exactly `not =`, and `not` turns false into true. So
 * `{"not": {"field": "reward", "op": ">", "value": 0}}` also finds the episodes without a reward; add `is null` where that is not meant.
 */
import { Type } from 'typebox';
import { got, misfit, TroupeError } from '../../errors.ts';
import { isRecord } from '../../ingest/events/json.ts';
import { escapeText } from '../../ingest/events/text.ts';
import { nearest } from '../../nearest.ts';
import { literalSql, type RawBuilder, type SqlBool, sql, typed } from '../db/query.ts';
import {
  COLLECTIONS,
  FEEDBACK,
  FIELDS,
  type FieldFacts,
  type FieldKind,
  type FieldScope,
  JUDGEMENTS,
  TASK_FIELDS,
} from './filter-fields.ts';
import { filterText, readFilterText } from './filter-text.ts';

const OPERATORS = ['=', '!=', '<', '<=', '>', '>=', 'in', 'like', 'is null', 'has'] as const;
type Operator = (typeof OPERATORS)[number];
type Scalar = string | number | boolean;

/** `in` takes a list, `is null` no value, `has` a key of an object or a member of a list, `like` a pattern with % and _. */
export type Comparison = { readonly field: string; readonly op: Operator; readonly value?: Scalar | readonly Scalar[] };
export type Filter =
  | { readonly and: readonly Filter[] }
  | { readonly or: readonly Filter[] }
  | { readonly not: Filter }
  | Comparison;

const Value = Type.Union([Type.String(), Type.Number(), Type.Boolean()]);

/** JSON Schema of a filter as a tree. Field names and the types of values are checked by `parseFilter`, with better sentences. */
export const filterSchema = Object.assign(
  Type.Cyclic(
    {
      Filter: Type.Union([
        Type.Object({ and: Type.Array(Type.Ref('Filter')) }, { additionalProperties: false }),
        Type.Object({ or: Type.Array(Type.Ref('Filter')) }, { additionalProperties: false }),
        Type.Object({ not: Type.Ref('Filter') }, { additionalProperties: false }),
        Type.Object(
          {
            field: Type.String({ minLength: 1 }),
            op: Type.Enum([...OPERATORS]),
            value: Type.Optional(Type.Union([Value, Type.Array(Value)])),
          },
          { additionalProperties: false },
        ),
      ]),
    },
    'Filter',
  ),
  { type: 'object', reads: (value: unknown, at: string) => void parseFilter(value, at) },
);

export type Fields = ReadonlyMap<string, FieldFacts>;

/** Every name a filter may use; `tags.KEY` and `task.tags.KEY` stand for each tag, `METHOD` for a judged method. */
const fieldNames = (fields: Fields = FIELDS): readonly string[] =>
  fields === FIELDS
    ? [
        ...FIELDS.keys(),
        'tags.KEY',
        'task.tags.KEY',
        ...Object.keys(JUDGEMENTS).map((name) => `${name}(METHOD)`),
        ...Object.keys(FEEDBACK).map((name) => `${name}(NAME)`),
        ...counts('count', 'episode'),
        ...counts('step.count', 'step'),
      ]
    : fields === TASK_FIELDS
      ? [...fields.keys(), 'task.tags.KEY']
      : [...fields.keys()];

const counts = (called: string, scope: FieldScope): readonly string[] =>
  Object.entries(COLLECTIONS).flatMap(([name, { of }]) => (of[scope] === undefined ? [] : [`${called}(${name})`]));

type Tag = { readonly json: string; readonly key: string };
type ResolvedField = FieldFacts & {
  readonly tag?: Tag;
  /** The name in one spelling. */
  readonly name: string;
  /** The method whose judgements the field reads. */
  readonly method?: string;
  /** The name of the feedback that the field reads. */
  readonly feedback?: string;
  /** Of `count(NAME where …)`: which rows are counted, and among which. */
  readonly counted?: { readonly where: Filter | null; readonly fields: Fields; readonly from: string };
};
const TAG = /^(tags|task\.tags)\.(.+)$/su;
const TASK_TAG = /^(task\.tags)\.(.+)$/su;
const FUNCTION = /^([a-z_.]+)\s*\((.*)\)$/su;

function resolve(name: string, at: string, fields: Fields = FIELDS): ResolvedField {
  const field = fields.get(name);
  if (field) return { ...field, name };
  const [, called, argument] = (fields === FIELDS && FUNCTION.exec(name)) || [];
  if (called === 'count' || called === 'step.count') return counted(called, argument!.trim(), at);
  if (called !== undefined && Object.hasOwn(JUDGEMENTS, called)) return judgement(called, argument!.trim(), at);
  if (called !== undefined && Object.hasOwn(FEEDBACK, called)) return feedbackField(called, argument!.trim(), at);
  const tag = fields === FIELDS ? TAG.exec(name) : fields === TASK_FIELDS ? TASK_TAG.exec(name) : null;
  if (tag) {
    const json = tag[1] === 'tags' ? 'e.tags' : 't.tags';
    return { name, scope: 'episode', kind: 'json', sql: json, tag: { json, key: tag[2]! } };
  }
  const functions = ['count', 'step.count', ...Object.keys(JUDGEMENTS), ...Object.keys(FEEDBACK)];
  const meant =
    called !== undefined
      ? nearest(called, functions)
      : fields === FIELDS && functions.includes(name)
        ? `${name}(…)`
        : nearest(name, fieldNames(fields));
  throw new TroupeError(
    'recipe_invalid',
    `There is no field ${got(name)} to filter on.${meant ? ` Did you mean ${meant}?` : ''}`,
    {
      field: `${at}.field`,
      expected: `one of ${fieldNames(fields).join(', ')}`,
      got: got(name),
      hint: meant ? `use ${meant}` : 'docs/recipes.md lists the fields and what they can be compared with',
    },
  );
}

const METHOD = /^(?:[\w.@#-]+|'[^']+'|"[^"]+")$/u;

/** The key of the latest version, or exactly the key that is named; the method's parameters are distinguished by `pinMethods`. */
function judgement(called: string, argument: string, at: string): ResolvedField {
  if (!METHOD.test(argument)) return refuse(`${at}.field`, `${called}(METHOD) with the name of one method`, argument);
  const method = argument.replace(/^['"]|['"]$/gu, '');
  const { sql: read, ...facts } = JUDGEMENTS[called]!;
  const named = literalSql(sql`${typed(method, 'text')}`);
  const key = `(select m.method_key from facts.judged_methods m where m.method = ${named} or m.method_key = ${named} order by m.version desc, m.method_key limit 1)`;
  return { ...facts, name: `${called}(${method})`, sql: read(key), judged: true, method };
}

/** Feedback has names that people gave it, which may need quotes. */
function feedbackField(called: string, argument: string, at: string): ResolvedField {
  if (!METHOD.test(argument)) return refuse(`${at}.field`, `${called}(NAME) with the name of feedback`, argument);
  const feedback = argument.replace(/^['"]|['"]$/gu, '');
  const { sql: read, ...facts } = FEEDBACK[called]!;
  const written = /^[\w.@#-]+$/u.test(feedback) ? feedback : feedback.includes("'") ? `"${feedback}"` : `'${feedback}'`;
  return {
    ...facts,
    name: `${called}(${written})`,
    sql: read(literalSql(sql`${typed(escapeText(feedback), 'text')}`)),
    feedback,
  };
}

const COUNT = /^([a-z_]+)(?:\s+where\s(.+))?$/isu;

function counted(called: 'count' | 'step.count', argument: string, at: string): ResolvedField {
  const [, name = '', where] = COUNT.exec(argument) ?? [];
  const collection = Object.hasOwn(COLLECTIONS, name) ? COLLECTIONS[name]! : null;
  const scope = called === 'count' ? 'episode' : 'step';
  const of = collection?.of[scope];
  if (!collection || of === undefined) {
    const known = Object.keys(COLLECTIONS).filter((one) => COLLECTIONS[one]!.of[scope] !== undefined);
    const expected = `${called}(NAME) or ${called}(NAME where FILTER), NAME one of ${known.join(', ')}`;
    return refuse(`${at}.field`, expected, `${called}(${argument})`);
  }
  const filter = where === undefined ? null : parseFilter(where, `${at} of ${name}`, 0, collection.fields);
  const condition = filter === null ? '' : ` and (${literalSql(lower(filter, false, collection.fields))})`;
  return {
    name: `${called}(${filter === null ? name : `${name} where ${filterText(filter)}`})`,
    scope,
    kind: 'integer',
    sql: `(select count(*) from ${collection.from} where ${of}${condition})`,
    counted: { where: filter, fields: collection.fields, from: collection.from },
  };
}

const refuse = (at: string, expected: string, value: unknown, came?: string): never => {
  throw misfit('recipe_invalid', at, expected, value, came);
};

const DEEPEST = 64;
/** PostgreSQL takes 43 s to count ten thousand lists for each of a few episodes. */
const MOST_COMPARISONS = 1000;

/**
 * Checks a JSON value and returns it as a filter in canonical form: the members of `in` sorted and without repetition.
 * @throws TroupeError `recipe_invalid` with the path of what is wrong; for an unknown field with the nearest name.
 */
export function parseFilter(value: unknown, at = 'where', depth = 0, fields: Fields = FIELDS): Filter {
  if (depth > DEEPEST) refuse(at, `nested at most ${DEEPEST} deep`, value);
  if (depth > 0) return parsePart(value, at, depth, fields);
  const filter = parsePart(value, at, depth, fields);
  const count = comparisonsOf(filter).length;
  if (count > MOST_COMPARISONS)
    refuse(at, `a filter of at most ${MOST_COMPARISONS} comparisons (field in (…) is one)`, `${count} comparisons`);
  return filter;
}

function parsePart(value: unknown, at: string, depth: number, fields: Fields): Filter {
  if (typeof value === 'string') return parseText(value, at, fields);
  if (!isRecord(value))
    return refuse(at, 'a filter such as "role = coder" or {"field": "role", "op": "=", "value": "coder"}', value);
  for (const word of ['and', 'or', 'not'] as const) {
    if (!(word in value)) continue;
    const beside = Object.keys(value).filter((key) => key !== word);
    if (beside.length > 0) refuse(at, `only "${word}" at this place`, value);
    const inner = value[word];
    if (word === 'not') return { not: parseFilter(inner, `${at}.not`, depth + 1, fields) };
    if (!Array.isArray(inner)) return refuse(`${at}.${word}`, 'a list of filters', inner);
    const members = inner.map((member, i) => parseFilter(member, `${at}.${word}[${i}]`, depth + 1, fields));
    return word === 'and' ? { and: members } : { or: members };
  }
  return parseComparison(value, at, fields);
}

const parseText = (text: string, at: string, fields: Fields): Filter =>
  readFilterText(text, at, {
    kindOf: (field) => resolve(field, at, fields).kind,
    check: (comparison) => parseComparison(comparison, at, fields),
  }) as Filter;

function parseComparison(value: Readonly<Record<string, unknown>>, at: string, fields: Fields): Comparison {
  const { field: written, op, value: operand, ...more } = value;
  const stray = Object.keys(more)[0];
  if (stray !== undefined) refuse(`${at}.${stray}`, 'left out; a comparison has field, op and value', more[stray]);
  if (typeof written !== 'string') return refuse(`${at}.field`, 'the name of a field', written);
  if (!OPERATORS.includes(op as Operator)) return refuse(`${at}.op`, `one of ${OPERATORS.join(', ')}`, op);
  const facts = resolve(written, at, fields);
  const field = facts.name;
  const place = `${at}.value`;
  switch (op as Operator) {
    case 'is null':
      if (operand !== undefined) refuse(place, 'left out; write {"not": …} for the opposite', operand);
      return { field, op: 'is null' };
    case 'has':
      if (facts.kind !== 'json' || facts.tag) refuse(`${at}.op`, 'used with tags, task.tags, flags or policies', field);
      if (typeof operand !== 'string') return refuse(place, 'a text', operand);
      return { field, op: 'has', value: operand };
    case 'like':
      if (facts.kind !== 'text' && !facts.tag) refuse(`${at}.op`, 'used with a field that holds text', field);
      if (typeof operand !== 'string') return refuse(place, 'a pattern with % and _', operand);
      if (/(?<!\\)(\\\\)*\\$/u.test(operand)) refuse(place, 'a pattern that does not end in a lone backslash', operand);
      return { field, op: 'like', value: operand };
    case 'in': {
      if (!Array.isArray(operand)) return refuse(place, 'a list', operand);
      const members = operand.map((member, i) => scalarOf(facts, member, `${place}[${i}]`));
      const unique = new Map(members.map((member) => [JSON.stringify(member), member]));
      return { field, op: 'in', value: [...unique.keys()].sort().map((key) => unique.get(key)!) };
    }
    default: {
      const scalar = scalarOf(facts, operand, place);
      if (typeof scalar === 'boolean' && op !== '=' && op !== '!=')
        refuse(`${at}.op`, '= or != for true and false', op);
      return { field, op: op as Operator, value: scalar };
    }
  }
}

const TIME = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?(Z|[+-]\d{2}:\d{2})$/u;

function scalarOf(facts: FieldFacts & { readonly tag?: Tag }, value: unknown, at: string): Scalar {
  const type = typeof value;
  if (type === 'number' && !Number.isFinite(value))
    return refuse(at, `a number up to ±${Number.MAX_VALUE}`, value, Number.isNaN(value) ? 'NaN' : 'too large');
  if (facts.tag)
    return type === 'string' || type === 'number' || type === 'boolean'
      ? (value as Scalar)
      : refuse(at, 'a text, a number, true or false', value);
  switch (facts.kind) {
    case 'text':
      return type === 'string'
        ? (value as string)
        : refuse(at, value === null ? 'a text (for a missing value use op "is null")' : 'a text', value);
    case 'integer':
    case 'number':
      return type === 'number' ? (value as number) : refuse(at, 'a number', value);
    case 'boolean':
      return type === 'boolean' ? (value as boolean) : refuse(at, 'true or false', value);
    case 'time':
      return type === 'string' && TIME.test(value as string) && !Number.isNaN(Date.parse(value as string))
        ? (value as string)
        : refuse(at, 'a time with its zone, such as 2026-01-31T09:00:00Z', value);
    default:
      return refuse(
        at.replace(/\.value.*$/u, '.op'),
        facts.kind === 'list' ? '"is null" for a list' : '"has" or "is null" for this field',
        value,
      );
  }
}

const typeName = (value: Scalar, kind: FieldKind) =>
  kind === 'time'
    ? 'timestamptz'
    : typeof value === 'number'
      ? 'float8'
      : typeof value === 'boolean'
        ? 'boolean'
        : 'text';

const JSON_TYPE = { string: '', number: '::float8', boolean: '::boolean' } as const;

const text = (value: Scalar) => typed(value as string, 'text');

function tagSql({ json, key }: Tag, type: keyof typeof JSON_TYPE): RawBuilder<unknown> {
  const tags = sql.raw(json);
  return sql`case when jsonb_typeof(${tags} -> ${text(key)}) = ${sql.lit(type)} then (${tags} ->> ${text(key)})${sql.raw(JSON_TYPE[type])} end`;
}

/** What contains this is an object with this value under this key: a condition that the index of the column answers. */
const tagJson = (key: string, value: Scalar): string => JSON.stringify({ [escapeText(key)]: escapeScalar(value) });

/** The tag under this key reads as this text: a text, or a number, true or false that is written so. */
export function tagReads(column: string, key: string, value: string): RawBuilder<SqlBool> {
  const number = Number(value);
  const others = String(number) === value && Number.isFinite(number) ? [number] : [];
  const alike: readonly Scalar[] = [
    value,
    ...others,
    ...(value === 'true' || value === 'false' ? [value === 'true'] : []),
  ];
  return sql<SqlBool>`${sql.raw(column)} @> any (${typed(
    alike.map((one) => tagJson(key, one)),
    'jsonb[]',
  )})`;
}

function comparisonSql(comparison: Comparison, fields: Fields): RawBuilder<unknown> {
  const { field, op, value } = comparison;
  const { kind, sql: column, tag } = resolve(field, 'where', fields);
  const plain = sql.raw(column);
  const operand = (type: keyof typeof JSON_TYPE): RawBuilder<unknown> => {
    if (tag) return type === 'string' ? sql`(${tagSql(tag, type)}) collate "C"` : tagSql(tag, type);
    return kind === 'text' && op !== '=' && op !== '!=' && op !== 'in' && op !== 'like'
      ? sql`${plain} collate "C"`
      : plain;
  };
  switch (op) {
    case 'is null':
      // A tag whose value is JSON null is as missing as one that is not there.
      return tag ? sql`(${sql.raw(tag.json)} ->> ${text(tag.key)}) is null` : sql`${plain} is null`;
    case 'has':
      // A list holds the texts among its members; an object its keys.
      return sql`${plain} ? ${text(escapeScalar(value as string))}`;
    case 'like':
      return sql`${operand('string')} like ${text(escapeScalar(value as string))}`;
    case 'in': {
      const members = value as readonly Scalar[];
      if (tag)
        return sql`${sql.raw(tag.json)} @> any (${typed(
          members.map((member) => tagJson(tag.key, member)),
          'jsonb[]',
        )})`;
      const parts = (['string', 'number', 'boolean'] as const).flatMap((type) => {
        const alike = members.filter((member) => typeof member === type);
        if (alike.length === 0) return [];
        const list = typed(alike.map(escapeScalar), `${typeName(alike[0]!, kind)}[]`);
        return [sql`${operand(type)} = any (${list})`];
      });
      if (parts.length === 0) return sql`false`;
      return parts.length === 1 ? parts[0]! : sql`(${sql.join(parts, sql` or `)})`;
    }
    default: {
      const scalar = value as Scalar;
      if (tag && (op === '=' || op === '!='))
        return sql`${sql.raw(tag.json)} @> ${typed(tagJson(tag.key, scalar), 'jsonb')}`;
      const sign = sql.raw(op === '!=' ? '=' : op);
      return sql`${operand(typeof scalar as keyof typeof JSON_TYPE)} ${sign} ${typed(escapeScalar(scalar), typeName(scalar, kind))}`;
    }
  }
}

const escapeScalar = (value: Scalar): Scalar => (typeof value === 'string' ? escapeText(value) : value);

/**
 * In a positive place null counts as false by itself; only below a `not` it must be explicit, which also would hide a column
 * from its index.
 */
function lower(filter: Filter, below: boolean, fields: Fields): RawBuilder<SqlBool> {
  const all = (members: readonly Filter[], word: RawBuilder<unknown>) =>
    sql<SqlBool>`(${sql.join(
      members.map((member) => lower(member, below, fields)),
      word,
    )})`;
  if ('and' in filter) return filter.and.length === 0 ? sql`true` : all(filter.and, sql` and `);
  if ('or' in filter) return filter.or.length === 0 ? sql`false` : all(filter.or, sql` or `);
  if ('not' in filter) return sql`not ${lower(filter.not, true, fields)}`;
  const comparison = comparisonSql(filter, fields);
  if (filter.op === '!=') return sql`(${comparison}) is not true`;
  return below ? sql`coalesce(${comparison}, false)` : sql`(${comparison})`;
}

/**
 * The filter as a condition over the aliases `e` (facts.episodes), `t` (facts.tasks), `c` (facts.calls), `s` (facts.steps) and
 * `a` (facts.agents); without a filter it is true.
 */
export const lowerFilter = (filter: Filter | null): RawBuilder<SqlBool> =>
  filter === null ? sql`true` : lower(filter, false, FIELDS);

/** A filter that was parsed over these fields, as a condition over what their SQL names. */
export const lowerOver = (filter: Filter, fields: Fields): RawBuilder<SqlBool> => lower(filter, false, fields);

/** Checks a filter over stored tasks, which `lowerOver` lowers with `TASK_FIELDS` over the alias `t` (facts.tasks). @throws TroupeError `recipe_invalid` as `parseFilter` does */
export const parseTaskFilter = (value: unknown, at: string): Filter => parseFilter(value, at, 0, TASK_FIELDS);

/** The filter as readable SQL with every literal quoted: the same condition as `lowerFilter`. */
export const showSql = (filter: Filter): string => literalSql(lowerFilter(filter));

/** Every comparison of the filter, from left to right. */
export function comparisonsOf(filter: Filter | null): readonly Comparison[] {
  if (filter === null) return [];
  if ('and' in filter) return filter.and.flatMap(comparisonsOf);
  if ('or' in filter) return filter.or.flatMap(comparisonsOf);
  return 'not' in filter ? comparisonsOf(filter.not) : [filter];
}

/** What is known about a field. @throws TroupeError `recipe_invalid` for a name that is none */
export const factsOf = (field: string, at = 'where', fields: Fields = FIELDS): ResolvedField =>
  resolve(field, at, fields);

/** True where the filter, at any depth, looks at this scope. */
export const looksAt = (filter: Filter, scope: FieldScope): boolean =>
  comparisonsOf(filter).some(({ field }) => factsOf(field).scope === scope);

/** True where the filter looks at the episode's task, so that facts.tasks has to be joined as `t`. */
export const looksAtTask = (filter: Filter): boolean =>
  comparisonsOf(filter).some(({ field }) => field.startsWith('task.'));

/** True where the filter reads results of methods, which exist only after judging. */
export const looksAtJudgement = (filter: Filter): boolean =>
  comparisonsOf(filter).some(({ field }) => factsOf(field).judged === true);

/** The same filter with other comparisons. */
export function mapComparisons(filter: Filter, change: (comparison: Comparison) => Comparison): Filter {
  if ('and' in filter) return { and: filter.and.map((member) => mapComparisons(member, change)) };
  if ('or' in filter) return { or: filter.or.map((member) => mapComparisons(member, change)) };
  return 'not' in filter ? { not: mapComparisons(filter.not, change) } : change(filter);
}

/** The parts that must all hold, by what they decide over: `episode` parts choose episodes, the others choose among their steps. */
export function splitFilter(filter: Filter | null): {
  readonly episode: readonly Filter[];
  readonly step: readonly Filter[];
} {
  const parts = filter === null ? [] : conjuncts(filter);
  return {
    episode: parts.filter((part) => !looksAt(part, 'step')),
    step: parts.filter((part) => looksAt(part, 'step')),
  };
}

const conjuncts = (filter: Filter): readonly Filter[] => ('and' in filter ? filter.and.flatMap(conjuncts) : [filter]);
