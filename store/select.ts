/**
 * The typed filter: a small JSON tree over named fields of episodes and steps, lowered to a condition of SQL.
 *
 * Logic is two-valued: a comparison with a missing value is false, `!=` is exactly `not =`, and `not` turns false into true. So
 * `{"not": {"field": "reward", "op": ">", "value": 0}}` also finds the episodes without a reward; add `is null` where that is not meant.
 */
import { Type } from 'typebox';
import { got, TroupeError } from '../errors.ts';
import { isRecord } from '../ingest/json.ts';
import { escapeText } from '../ingest/text.ts';
import { literalSql, type RawBuilder, type SqlBool, sql, typed } from './db/query.ts';
import { nearest } from './methods/nearest.ts';

export const OPERATORS = ['=', '!=', '<', '<=', '>', '>=', 'in', 'like', 'is null', 'has'] as const;
export type Operator = (typeof OPERATORS)[number];
export type Scalar = string | number | boolean;

/** `in` takes a list, `is null` no value, `has` a key of an object or a member of a list, `like` a pattern with % and _. */
export type Comparison = { readonly field: string; readonly op: Operator; readonly value?: Scalar | readonly Scalar[] };
export type Filter =
  | { readonly and: readonly Filter[] }
  | { readonly or: readonly Filter[] }
  | { readonly not: Filter }
  | Comparison;

const Value = Type.Union([Type.String(), Type.Number(), Type.Boolean()]);

/** JSON Schema of a filter. Field names and the types of values are checked by `parseFilter`, with better sentences. */
export const filterSchema = Type.Cyclic(
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
);

export type FieldKind = 'text' | 'integer' | 'number' | 'boolean' | 'time' | 'list' | 'json';
/** Where a field lives: its value decides over whole episodes (with their task) or over single steps. */
export type FieldScope = 'episode' | 'step';
export type FieldFacts = {
  readonly scope: FieldScope;
  readonly kind: FieldKind;
  readonly sql: string;
  /** Never null, so that no test for null stands between the comparison and an index. */
  readonly required?: boolean;
};

const fields = (scope: FieldScope, kind: FieldKind, columns: Readonly<Record<string, string>>) =>
  Object.entries(columns).map(([name, sql]) => [name, { scope, kind, sql }] as const);
const same = (alias: string, ...names: readonly string[]) =>
  Object.fromEntries(names.map((name) => [name, `${alias}.${name}`]));

/** Aliases: `e` episodes, `t` tasks, `c` calls, `s` steps, `a` agents. */
const FIELDS: ReadonlyMap<string, FieldFacts> = new Map<string, FieldFacts>([
  ['episode_id', { scope: 'episode', kind: 'text', sql: 'e.episode_id', required: true }],
  ...fields('episode', 'text', {
    ...same('e', 'task_id', 'group_id', 'team_id', 'session_id', 'env_id', 'parent_episode_id'),
    ...same('e', 'outcome', 'answer', 'stop_reason', 'exit_status'),
    'task.origin': 't.origin',
    'task.split': 't.split',
    'task.difficulty': 't.difficulty',
    'task.domain': 't.domain',
  }),
  ...fields(
    'episode',
    'integer',
    same('e', 'attempt', 'group_size', 'agents', 'calls', 'steps', 'tool_calls', 'messages', 'feedback'),
  ),
  ...fields('episode', 'number', same('e', 'reward')),
  ...fields('episode', 'boolean', same('e', 'closed')),
  ...fields('episode', 'time', same('e', 'started_at', 'finished_at', 'last_at')),
  ...fields('episode', 'json', { ...same('e', 'tags', 'flags', 'policies'), 'task.tags': 't.tags' }),
  ['call_id', { scope: 'step', kind: 'text', sql: 's.call_id', required: true }],
  ['candidate', { scope: 'step', kind: 'integer', sql: 's.candidate', required: true }],
  ['step_id', { scope: 'step', kind: 'text', sql: "(s.call_id || '/' || s.candidate)", required: true }],
  ...fields('step', 'text', {
    ...same('s', 'text', 'finish_reason', 'parent_step_id'),
    ...same('c', 'model', 'response_model', 'policy', 'checkpoint_id', 'model_version'),
    agent_id: 'coalesce(c.completed_agent_id, c.requested_agent_id)',
    agent: 'coalesce(a.name, c.completed_agent_id, c.requested_agent_id)',
    role: 'coalesce(c.completed_role, c.requested_role, a.role, a.name, c.completed_agent_id, c.requested_agent_id)',
  }),
  ...fields('step', 'integer', {
    turn: 'coalesce(c.completed_turn, c.requested_turn)',
    seq: 'coalesce(c.requested_seq, c.completed_seq)',
    ...same('c', 'input_tokens', 'output_tokens'),
  }),
  ...fields('step', 'number', same('c', 'temperature', 'latency_ms')),
  ...fields('step', 'boolean', { ...same('s', 'chosen'), ...same('c', 'cached') }),
  ...fields('step', 'time', same('c', 'requested_at', 'completed_at')),
  ...fields('step', 'list', { ...same('s', 'token_ids', 'logprobs', 'loss_mask'), ...same('c', 'prompt_token_ids') }),
]);

/** The SQL of a plain field, for whoever selects or orders by it. */
export const fieldSql = (name: string): string => FIELDS.get(name)!.sql;

/** Every name a filter may use; `tags.KEY` and `task.tags.KEY` stand for each tag. */
export const fieldNames = (): readonly string[] => [...FIELDS.keys(), 'tags.KEY', 'task.tags.KEY'];

type Tag = { readonly json: string; readonly key: string };
const TAG = /^(tags|task\.tags)\.(.+)$/su;

function resolve(name: string, at: string): FieldFacts & { readonly tag?: Tag } {
  const field = FIELDS.get(name);
  if (field) return field;
  const tag = TAG.exec(name);
  if (tag) {
    const json = tag[1] === 'tags' ? 'e.tags' : 't.tags';
    return { scope: 'episode', kind: 'json', sql: json, tag: { json, key: tag[2]! } };
  }
  const meant = nearest(name, fieldNames());
  throw new TroupeError(
    'recipe_invalid',
    `There is no field ${got(name)} to filter on.${meant ? ` Did you mean ${meant}?` : ''}`,
    {
      field: `${at}.field`,
      expected: `one of ${fieldNames().join(', ')}`,
      got: got(name),
      ...(meant ? { hint: `use ${meant}` } : {}),
    },
  );
}

const refuse = (at: string, expected: string, value: unknown): never => {
  throw new TroupeError('recipe_invalid', `${at} should be ${expected}, but it is ${got(value)}.`, {
    field: at,
    expected,
    got: got(value),
  });
};

const DEEPEST = 64;

/**
 * Checks a JSON value and returns it as a filter in canonical form: the members of `in` sorted and without repetition.
 * @throws TroupeError `recipe_invalid` with the path of what is wrong; for an unknown field with the nearest name.
 */
export function parseFilter(value: unknown, at = 'where', depth = 0): Filter {
  if (depth > DEEPEST) refuse(at, `nested at most ${DEEPEST} deep`, value);
  if (!isRecord(value))
    return refuse(at, 'a filter such as {"field": "outcome", "op": "=", "value": "success"}', value);
  for (const word of ['and', 'or', 'not'] as const) {
    if (!(word in value)) continue;
    const beside = Object.keys(value).filter((key) => key !== word);
    if (beside.length > 0) refuse(at, `only "${word}" at this place`, value);
    const inner = value[word];
    if (word === 'not') return { not: parseFilter(inner, `${at}.not`, depth + 1) };
    if (!Array.isArray(inner)) return refuse(`${at}.${word}`, 'a list of filters', inner);
    const members = inner.map((member, i) => parseFilter(member, `${at}.${word}[${i}]`, depth + 1));
    return word === 'and' ? { and: members } : { or: members };
  }
  return parseComparison(value, at);
}

function parseComparison(value: Readonly<Record<string, unknown>>, at: string): Comparison {
  const { field, op, value: operand, ...more } = value;
  const stray = Object.keys(more)[0];
  if (stray !== undefined) refuse(`${at}.${stray}`, 'left out; a comparison has field, op and value', more[stray]);
  if (typeof field !== 'string') return refuse(`${at}.field`, 'the name of a field', field);
  if (!OPERATORS.includes(op as Operator)) return refuse(`${at}.op`, `one of ${OPERATORS.join(', ')}`, op);
  const facts = resolve(field, at);
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
  if (type === 'number' && !Number.isFinite(value)) return refuse(at, 'a finite number', value);
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
  return sql`case when json_typeof(${tags} -> ${text(key)}) = ${sql.lit(type)} then (${tags} ->> ${text(key)})${sql.raw(JSON_TYPE[type])} end`;
}

/** A list holds the texts among its members; an object its keys. */
function hasSql(json: RawBuilder<unknown>, member: RawBuilder<unknown>): RawBuilder<unknown> {
  const list = sql`json_array_elements_text(case json_typeof(${json}) when 'array' then ${json} end)`;
  return sql`case json_typeof(${json}) when 'object' then ${json} -> ${member} is not null when 'array' then exists (select 1 from ${list} m where m = ${member}) end`;
}

function comparisonSql(comparison: Comparison): RawBuilder<unknown> {
  const { field, op, value } = comparison;
  const { kind, sql: column, tag } = resolve(field, 'where');
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
      return hasSql(plain, text(escapeScalar(value as string)));
    case 'like':
      return sql`${operand('string')} like ${text(escapeScalar(value as string))}`;
    case 'in': {
      const members = value as readonly Scalar[];
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
function lower(filter: Filter, below: boolean): RawBuilder<SqlBool> {
  const all = (members: readonly Filter[], word: RawBuilder<unknown>) =>
    sql<SqlBool>`(${sql.join(
      members.map((member) => lower(member, below)),
      word,
    )})`;
  if ('and' in filter) return filter.and.length === 0 ? sql`true` : all(filter.and, sql` and `);
  if ('or' in filter) return filter.or.length === 0 ? sql`false` : all(filter.or, sql` or `);
  if ('not' in filter) return sql`not ${lower(filter.not, true)}`;
  const comparison = comparisonSql(filter);
  if (filter.op === '!=') return sql`(${comparison}) is not true`;
  return below ? sql`coalesce(${comparison}, false)` : sql`(${comparison})`;
}

/**
 * The filter as a condition over the aliases `e` (facts.episodes), `t` (facts.tasks), `c` (facts.calls), `s` (facts.steps) and
 * `a` (facts.agents); without a filter it is true.
 */
export const lowerFilter = (filter: Filter | null): RawBuilder<SqlBool> =>
  filter === null ? sql`true` : lower(filter, false);

/** The filter as readable SQL with every literal quoted: the same condition as `lowerFilter`. */
export const showSql = (filter: Filter): string => literalSql(lowerFilter(filter));

/** True where the filter, at any depth, looks at this scope. */
export function looksAt(filter: Filter, scope: FieldScope): boolean {
  if ('and' in filter) return filter.and.some((member) => looksAt(member, scope));
  if ('or' in filter) return filter.or.some((member) => looksAt(member, scope));
  if ('not' in filter) return looksAt(filter.not, scope);
  return resolve(filter.field, 'where').scope === scope;
}

/** True where the filter looks at the episode's task, so that facts.tasks has to be joined as `t`. */
export function looksAtTask(filter: Filter): boolean {
  if ('and' in filter) return filter.and.some(looksAtTask);
  if ('or' in filter) return filter.or.some(looksAtTask);
  if ('not' in filter) return looksAtTask(filter.not);
  return filter.field.startsWith('task.');
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
