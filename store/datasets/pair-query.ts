/**
 * Pairs of answers as SQL. The answers that meet the recipe are numbered in the order of its rows; which of them are pairs is decided by
 * their key and worth alone, and only then are prompts and texts read.
 */
import { literalSql, type RawBuilder, type SqlBool, type Statement, sql } from '../db/query.ts';
import { fieldSql } from '../filter/filter-fields.ts';
import { shownJson, shownText } from '../tables/long-texts.ts';
import type { SplitName } from './columns.ts';
import { type DatasetColumn, PROMPT } from './columns.ts';
import { CAP_KEYS, capOrder } from './picked.ts';
import {
  andAll,
  type ChosenColumns,
  columnsOf,
  EPISODES,
  eventOf,
  IN_EPISODE,
  judgedValues,
  type Rows,
  splitCondition,
  tables,
  takenRows,
  type UsedMethods,
  weightOfRow,
} from './query.ts';
import type { Pairs, Recipe } from './recipe.ts';
import type { Cap } from './thinning.ts';
import { WEIGHT_COLUMN } from './weights.ts';

/** What two answers must share: the messages and instructions they were given, their role, and where they were played. */
const ASKED = `coalesce(${PROMPT}, c.prompt_token_ids::text)`;
const KEYS: Readonly<Record<Pairs['from'], string>> = {
  group: `coalesce('g/' || e.group_id, 't/' || e.task_id, 'e/' || e.episode_id)`,
  tree: `e.episode_id || '/' || coalesce(s.parent_step_id, '')`,
  corrections: 'e.episode_id',
};

/** Values at a distance below this are equal: sums in another order differ by less. */
const ROUNDING = 1e-12;

/** The pairs of one split in order, as text for COPY: the columns of the recipe, then twice those of `LINEAGE`, the preferred answer first. */
export function pairRowsQuery(recipe: Recipe, used: UsedMethods, chosen: ChosenColumns, split: SplitName): string {
  const answers = answersOf(recipe, used, chosen, split);
  const asked = recipe.pairs!.from === 'corrections' ? 'w' : 'b';
  const at = (table: string, alias: string, of: string, ...keys: readonly string[]) => {
    const on = keys.map((name) => sql<SqlBool>`${sql.ref(`${alias}.${name}`)} = ${sql.ref(`${of}.${name}`)}`);
    return tables
      .selectFrom(`facts.${table} as ${alias}`)
      .selectAll(alias)
      .where(andAll(on))
      .offset(sql.lit(0))
      .as(alias);
  };
  const rows = withPairs(recipe, answers)
    .selectFrom('pairs as p')
    .innerJoin('answers as b', 'b.place', 'p.chosen')
    .innerJoin('answers as w', 'w.place', 'p.rejected')
    .innerJoinLateral(at('calls', 'c', asked, 'episode_id', 'call_id'), (join) => join.onTrue())
    .leftJoinLateral(at('agents', 'a', asked, 'episode_id', 'agent_id'), (join) => join.onTrue())
    .innerJoinLateral(at('steps', 'bs', 'b', 'episode_id', 'call_id', 'candidate'), (join) => join.onTrue())
    .innerJoinLateral(at('steps', 'ws', 'w', 'episode_id', 'call_id', 'candidate'), (join) => join.onTrue())
    .leftJoinLateral(at('tasks', 't', 'b', 'task_id'), (join) => join.onTrue()) as unknown as Rows;
  const lineage = (of: string) => [
    ...['episode_id', 'call_id', 'candidate::text', 'requested', 'completed'].map((name) => `${of}.${name}`),
    'null',
  ];
  const sqlOf = (column: DatasetColumn) => (column === WEIGHT_COLUMN ? 'b.weight' : column.sql);
  const selected = [...columnsOf(recipe).map(sqlOf), ...lineage('b'), ...lineage('w')];
  const limit = recipe.limit === null ? sql<SqlBool>`true` : sql<SqlBool>`p.number <= ${sql.lit(recipe.limit)}`;
  return literalSql(
    rows
      .select(selected.map((text, i) => sql.raw(text).as(`c${i}`)))
      .where(sql<SqlBool>`b.in_split and w.in_split and ${limit}`)
      .orderBy('p.number'),
  );
}

/** How many pairs there are in all parts together. */
export const pairCountQuery = (
  recipe: Recipe,
  used: UsedMethods,
  chosen: ChosenColumns,
): Statement<{ pairs: number }> =>
  withPairs(recipe, answersOf({ ...recipe, split: null }, used, chosen, 'train'))
    .selectFrom('pairs')
    .select(sql<number>`count(*)::float8`.as('pairs'));

/** How many answers there are, and how many of them have a worth. */
export const worthQuery = (
  recipe: Recipe,
  used: UsedMethods,
  chosen: ChosenColumns,
): Statement<{ before: number; after: number }> =>
  tables
    .selectFrom(answersOf({ ...recipe, split: null }, used, chosen, 'train').as('a'))
    .select([sql<number>`count(*)::float8`.as('before'), sql<number>`count(worth)::float8`.as('after')]);

const withPairs = (recipe: Recipe, answers: Rows): typeof tables =>
  tables
    .with('answers', () => answers)
    .with('pairs', (q) => pairsAmong(recipe, q as unknown as typeof tables)) as unknown as typeof tables;

/** The answers that meet the recipe, with what decides which of them are a pair. */
function answersOf(recipe: Recipe, used: UsedMethods, chosen: ChosenColumns, split: SplitName): Rows {
  const { reward, advantage } = judgedValues(used);
  const order = [...EPISODES[recipe.order], ...IN_EPISODE];
  const inSplit = recipe.split === null ? sql<SqlBool>`true` : splitCondition(recipe.split, split);
  const instructions = `coalesce(${shownText('a', 'system_instructions')}, '')`;
  const worth = `coalesce(${advantage}, ${reward})`;
  // Corrections name both of their answers, and without a worth an answer is in no other pair.
  const isKeyed = recipe.pairs!.from === 'corrections' ? 'false' : `${worth} is not null`;
  const key = `case when ${isKeyed} then md5(${KEYS[recipe.pairs!.from]} || E'\\x01' || ${fieldSql('role')} || E'\\x01' || ${instructions} || E'\\x01' || ${ASKED}) end`;
  return takenRows(recipe, used, chosen).select([
    sql.raw(`row_number() over (order by ${order.join(', ')})`).as('place'),
    sql.raw(key).as('key'),
    sql.raw(worth).as('worth'),
    sql.raw(weightOfRow(recipe, used)).as('weight'),
    inSplit.as('in_split'),
    sql.raw(`md5(coalesce((${shownJson('s', 'content')})::text, s.text, s.token_ids::text))`).as('answer'),
    ...['e.task_id', 'e.episode_id', 'e.group_id', 's.call_id', 's.candidate'],
    sql.raw(fieldSql('role')).as('role'),
    sql.raw(fieldSql('agent')).as('agent'),
    sql.raw(fieldSql('agent_id')).as('agent_id'),
    sql.raw(fieldSql('cut')).as('cut'),
    sql.raw(eventOf('c.requested_version')).as('requested'),
    sql.raw(eventOf('s.version')).as('completed'),
  ]) as Rows;
}

/** The places of the preferred and the rejected answer of each pair, what they are worth, and the number of the pair. */
function pairsAmong(recipe: Recipe, q: typeof tables): Rows {
  const { from, margin, threshold } = recipe.pairs!;
  const found = from === 'corrections' ? corrected(q) : threshold === null ? extremes(q) : across(q, threshold);
  const apart = tables
    .selectFrom(found.as('f'))
    .selectAll('f')
    .where(sql<SqlBool>`chosen_value - rejected_value >= ${sql.lit(Math.max(margin - ROUNDING, ROUNDING))}`) as Rows;
  return tables
    .selectFrom((recipe.caps ?? []).reduce((pairs, cap) => withinCap(q, pairs, cap), apart).as('f'))
    .selectAll('f')
    .select(sql.raw('row_number() over (order by chosen, rejected)').as('number')) as Rows;
}

/** The first pairs of each task, group or role of the preferred answer. */
function withinCap(q: typeof tables, pairs: Rows, cap: Cap): Rows {
  const id = `x.episode_id || ' ' || x.call_id || '/' || x.candidate || ' ' || y.episode_id || ' ' || y.call_id || '/' || y.candidate`;
  const order = capOrder(cap, 'f.chosen_value - f.rejected_value', id);
  const numbered = q
    .selectFrom(pairs.as('f'))
    .innerJoin('answers as x', 'x.place', 'f.chosen')
    .innerJoin('answers as y', 'y.place', 'f.rejected')
    .select(['f.chosen', 'f.rejected', 'f.chosen_value', 'f.rejected_value'])
    .select(sql.raw(`row_number() over (partition by ${CAP_KEYS[cap.of]('x')} order by ${order})`).as('of_kind'));
  return tables
    .selectFrom(numbered.as('n'))
    .select(['chosen', 'rejected', 'chosen_value', 'rejected_value'])
    .where('of_kind', '<=', sql.lit(cap.rows)) as Rows;
}

const places = (chosen: string, rejected: string, chosenValue: string, rejectedValue: string) => [
  sql.raw(chosen).as('chosen'),
  sql.raw(rejected).as('rejected'),
  sql.raw(chosenValue).as('chosen_value'),
  sql.raw(rejectedValue).as('rejected_value'),
];

const joined = (q: typeof tables, on: RawBuilder<SqlBool>): Rows =>
  q
    .selectFrom('answers as x')
    .innerJoin('answers as y', (join) => join.on(on))
    .where(sql<SqlBool>`x.answer is distinct from y.answer`) as unknown as Rows;

/** The first best and the first worst answer of each key. */
function extremes(q: typeof tables): Rows {
  const ends = q
    .selectFrom('answers')
    .select([
      sql.raw('(array_agg(place order by worth desc, place))[1]').as('best'),
      sql.raw('(array_agg(place order by worth, place))[1]').as('worst'),
    ])
    .where(sql<SqlBool>`worth is not null and key is not null`)
    .groupBy('key');
  return joined(q, sql<SqlBool>`true`)
    .innerJoin(ends.as('z'), (join) => join.on(sql<SqlBool>`z.best = x.place and z.worst = y.place`))
    .select(places('x.place', 'y.place', 'x.worth', 'y.worth')) as Rows;
}

/** Every answer of a key that is worth more than `threshold` with every one that is not. */
const across = (q: typeof tables, threshold: number): Rows => {
  const bound = sql.lit(threshold + ROUNDING);
  return joined(q, sql<SqlBool>`x.key = y.key and x.worth > ${bound} and y.worth <= ${bound}`).select(
    places('x.place', 'y.place', 'x.worth', 'y.worth'),
  ) as Rows;
};

/** A step that is right with the wrong one that it revises, or that its own agent gave before: worth 1 and 0. */
const corrected = (q: typeof tables): Rows => {
  const stepOf = (alias: string) => `${alias}.call_id || '/' || ${alias}.candidate`;
  const is = (alias: string, step: string) =>
    sql<SqlBool>`${sql.ref(`${alias}.episode_id`)} = k.episode_id and ${sql.raw(stepOf(alias))} = ${sql.ref(`k.${step}`)}`;
  return q
    .selectFrom('report.corrections as k')
    .innerJoin('answers as x', (join) => join.on(is('x', 'step_id')))
    .innerJoin('answers as y', (join) => join.on(is('y', 'before_step_id')))
    .where('k.change', '=', sql.lit('corrected'))
    .where('k.compared_with', 'in', [sql.lit('revision'), sql.lit('own')])
    .where(sql<SqlBool>`x.answer is distinct from y.answer`)
    .select(places('x.place', 'y.place', '1::float8', '0::float8'))
    .distinct() as unknown as Rows;
};
