/**
 * A recipe as SQL. First the episodes are chosen, then everything else is joined to them by primary key, so that the cost follows
 * what is chosen and not what is stored. The order is total and made of keys and recorded times, never of arrival.
 */

import { escapeText } from '../../ingest/events/text.ts';
import {
  type Expression,
  type Kysely,
  literalSql,
  query,
  type RawBuilder,
  type SelectQueryBuilder,
  type SqlBool,
  type Statement,
  sql,
} from '../db/query.ts';
import { fieldSql, UNTRAINABLE } from '../filter/filter-fields.ts';
import { filterText } from '../filter/filter-text.ts';
import { comparisonsOf, type Filter, looksAtTask, lowerFilter, splitFilter } from '../filter/select.ts';
import type { ChosenMethod } from './chosen-methods.ts';
import { COLUMNS, type DatasetColumn, isWhole, PROMPT, type SplitName } from './columns.ts';
import type { Recipe, TaskSplit } from './recipe.ts';
import { WEIGHT_COLUMN, weightFilters, weightSql } from './weights.ts';

/** The methods a recipe names, found in the tables. */
export type UsedMethods = {
  readonly verdicts: readonly ChosenMethod[];
  readonly reward: ChosenMethod | null;
  readonly credit: ChosenMethod | null;
};

/** One condition a row has to meet, with the name it has in the funnel. */
export type Stage = { readonly name: string; readonly sql: RawBuilder<SqlBool> };

/** Which tables are joined, under which names, depends on the recipe: what is selected of them is checked by its columns alone. */
type Tables = Record<string, Record<string, unknown>>;
export type Rows = SelectQueryBuilder<Tables, string, object>;
export const tables = query as unknown as Kysely<Tables>;

/** The steps of the table `picked` (`p`) with their calls (`c`) and answers (`s`). */
export const pickedAnswers: Rows = tables
  .selectFrom('picked as p')
  .innerJoin('facts.calls as c', (join) =>
    join.onRef('c.episode_id', '=', 'p.episode_id').onRef('c.call_id', '=', 'p.call_id'),
  )
  .innerJoin('facts.steps as s', (join) =>
    join
      .onRef('s.episode_id', '=', 'p.episode_id')
      .onRef('s.call_id', '=', 'p.call_id')
      .onRef('s.candidate', '=', 'p.candidate'),
  );

/** Above this many ids the condition is repeated instead of the ids listed; so few are always listed. */
const LISTED_IDS = 20_000;
const FEW_IDS = 1000;

const STEP_ID = sql.raw<string>(fieldSql('step_id'));
/** What the funnel calls a row that is a step. */
export const ROW_ID = `s.episode_id || ' ' || ${fieldSql('step_id')}`;
export const andAll = (conditions: readonly Expression<SqlBool>[]): RawBuilder<SqlBool> =>
  conditions.length === 0
    ? sql`true`
    : sql.join(
        conditions.map((one) => sql`(${one})`),
        sql` and `,
      );

/** The condition on whole episodes: the parts of the filter that look at episodes and tasks, and an entry by index where a part on calls has one. */
export function episodeCondition(recipe: Recipe): {
  readonly sql: RawBuilder<SqlBool>;
  /** Null where all episodes are taken. */
  readonly readable: string | null;
  readonly byKey: boolean;
  readonly task: boolean;
} {
  const { episode, step } = splitFilter(recipe.where);
  const entries = step.flatMap(callEntry);
  return {
    sql: andAll([...episode.map(lowerFilter), ...entries]),
    readable: episode.length === 0 ? null : filterText(episode.length === 1 ? episode[0]! : { and: episode }),
    byKey: entries.length > 0 || episode.some(isKeyed),
    task: episode.some(looksAtTask),
  };
}

const KEYED: readonly string[] = ['episode_id', 'task_id', 'group_id'];
const isKeyed = (filter: Filter): boolean =>
  'field' in filter && KEYED.includes(filter.field) && (filter.op === '=' || filter.op === 'in');

/** calls.checkpoint_id has an index: steps of a checkpoint are found through it. */
function callEntry(filter: Filter): readonly Expression<SqlBool>[] {
  if (!('field' in filter) || filter.field !== 'checkpoint_id' || (filter.op !== '=' && filter.op !== 'in')) return [];
  const calls = query.selectFrom('facts.calls as c').select('c.episode_id').where(lowerFilter(filter));
  return [sql`e.episode_id in (${calls})`];
}

const episodes = (task: boolean) =>
  query
    .selectFrom('facts.episodes as e')
    .$if(task, (all) => all.leftJoin('facts.tasks as t', 't.task_id', 'e.task_id'));

/** One row: the ids that fit, and how many episodes there are, which comes from the same pass; null where a key let us skip it. */
export function episodesQuery(recipe: Recipe): Statement<{ ids: string[] | null; total: number | null }> {
  const { sql: fits, byKey, task } = episodeCondition(recipe);
  return byKey
    ? episodes(task)
        .select([sql<string[] | null>`array_agg(e.episode_id)`.as('ids'), sql<number | null>`null::float8`.as('total')])
        .where(fits)
    : episodes(task).select([
        sql<string[] | null>`array_agg(e.episode_id) filter (where ${fits})`.as('ids'),
        sql<number | null>`count(*)::float8`.as('total'),
      ]);
}

/** The first episodes by id that do not fit. */
export function droppedQuery(recipe: Recipe, most: number): Statement<{ episode_id: string }> {
  const { sql: fits, task } = episodeCondition(recipe);
  return episodes(task)
    .select('e.episode_id')
    .where(sql<SqlBool>`(${fits}) is not true`)
    .orderBy('e.episode_id')
    .limit(most);
}

/** Chosen episodes: by their ids, or all that meet the condition (`all`: every one there is) where listing them would not pay. */
export type ChosenColumns = {
  readonly ids: readonly string[] | null;
  readonly all: boolean;
  /** True where the table `picked` of the transaction holds the steps that meet all conditions. */
  readonly picked?: boolean;
};

/** `total` is null where it was not counted. Lookups by key beat reading the tables up to about a quarter of them. */
export function chosenOf(ids: readonly string[], total: number | null): ChosenColumns {
  const few = ids.length <= FEW_IDS || (ids.length <= LISTED_IDS && (total === null || ids.length <= total / 4));
  return few ? { ids, all: false } : { ids: null, all: total === ids.length };
}

/** An array literal inside a text: constant for the planner, and read much faster than an array constructor. */
const idList = (ids: readonly string[]): RawBuilder<string[]> =>
  sql`${`{${ids.map((id) => `"${id.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`).join(',')}}`}::text[]`;

/** A condition on steps is one stage; `trainable` is one for each reason, so that the funnel shows why. */
function stepStages(filter: Filter): readonly Stage[] {
  const name = `where ${filterText(filter)}`;
  if (!('field' in filter && filter.field === 'trainable' && filter.op === '=' && filter.value === true))
    return [{ name, sql: lowerFilter(filter) }];
  return UNTRAINABLE.map((reason) => ({
    name: `${name}: not ${reason}`,
    sql: sql`${sql.raw(fieldSql('untrainable'))} is distinct from ${sql.lit(reason)}`,
  }));
}

/** The name of the condition that keeps half an answer from being learnt as a whole one. */
const WHOLE = 'not cut off (length, content filter, error, incomplete)';

/** What a row has to meet, beyond its episode being chosen, in the order of the funnel. */
export function stagesOf(recipe: Recipe, used: UsedMethods): readonly Stage[] {
  return [
    { name: 'not copied from another context', sql: sql`c.copied is not true` },
    // What came before a stream broke off is no answer to learn.
    { name: 'not of a call that failed', sql: sql`c.error is null` },
    ...(recipe.cut_answers ? [] : [{ name: WHOLE, sql: sql<SqlBool>`not ${sql.raw(fieldSql('cut'))}` }]),
    ...splitFilter(recipe.where).step.flatMap(stepStages),
    ...(recipe.roles === null
      ? []
      : [
          {
            name: `role in ${recipe.roles.join(', ')}`,
            sql: sql<SqlBool>`${sql.raw(fieldSql('role'))} in (${sql.join(recipe.roles.length === 0 ? [null] : recipe.roles.map(escapeText))})`,
          },
        ]),
    ...recipe.verdicts.map(({ keep }, i) => ({
      name: `${used.verdicts[i]!.method} says ${keep ? 'keep' : 'drop'}`,
      sql: sql<SqlBool>`coalesce(${sql.ref(`vs${i}.keep`)}, ${sql.ref(`ve${i}.keep`)}) = ${sql.lit(keep)}`,
    })),
  ];
}

/** The rows that the recipe takes: those that meet its conditions, or what caps left of them. */
export function takenRows(recipe: Recipe, used: UsedMethods, chosen: ChosenColumns): Rows {
  if (!chosen.picked)
    return joins(recipe, used, chosen, 'values').where(andAll(stagesOf(recipe, used).map(({ sql }) => sql)));
  return joins({ ...recipe, where: null, verdicts: [] }, { ...used, verdicts: [] }, chosen, 'values').innerJoin(
    'picked',
    (join) =>
      join
        .onRef('picked.episode_id', '=', 's.episode_id')
        .onRef('picked.call_id', '=', 's.call_id')
        .onRef('picked.candidate', '=', 's.candidate'),
  ) as unknown as Rows;
}

/**
 * For a transaction whose episodes are listed. Lookups by key are lateral and stay nested loops and index scans; these keep a wrong
 * estimate from making a nested loop of judgements against judgements, or from reading a small partition once for each lookup.
 */
export const LISTED_SETTINGS = 'set local enable_nestloop = off; set local enable_seqscan = off';

/**
 * For a transaction that reads whole tables. The planner takes the two parts of a step's key for independent and expects few of a million
 * rows, so it would look up the others of each row by an index.
 */
export const WHOLE_SETTINGS = 'set local enable_nestloop = off';

/** What every query over chosen episodes begins with: where they are listed, they are the table `chosen`. */
const beginning = ({ ids }: ChosenColumns): Kysely<Tables> =>
  ids === null
    ? tables
    : (tables.with(
        (table) => table('chosen').materialized(),
        (q) => q.selectNoFrom(sql`unnest(${idList(ids)})`.as('id')),
      ) as unknown as Kysely<Tables>);

/**
 * The tables a row is read from. Where the episodes are listed, every table is read by fenced lookups of its primary key (OFFSET 0
 * keeps the planner from joining it earlier), so the cost follows the rows chosen, whatever the statistics are: with plain joins
 * 2,688 of 53,760 steps took 1.3 s, because all steps were read first. Judgements are looked up by episode and hashed, which is
 * three times as fast as a lookup for each step. A verdict on the step itself takes precedence over one on its episode; so does a reward.
 */
export function joins(recipe: Recipe, used: UsedMethods, chosen: ChosenColumns, extra: 'conditions' | 'values'): Rows {
  const listed = chosen.ids !== null;
  const { step } = splitFilter(recipe.where);
  const whole = (table: string, alias: string): Rows =>
    tables.selectFrom(`facts.${table} as ${alias}`).selectAll(alias);
  const fenced = (rows: Rows, alias: string) => rows.offset(sql.lit(0)).as(alias);
  const joined = (
    rows: Rows,
    kind: 'join' | 'left join',
    table: string,
    alias: string,
    on: RawBuilder<SqlBool>,
  ): Rows => {
    if (listed) {
      const looked = fenced(whole(table, alias).where(on), alias);
      return kind === 'join'
        ? rows.innerJoinLateral(looked, (join) => join.onTrue())
        : rows.leftJoinLateral(looked, (join) => join.onTrue());
    }
    const from = `facts.${table} as ${alias}` as const;
    return kind === 'join' ? rows.innerJoin(from, (join) => join.on(on)) : rows.leftJoin(from, (join) => join.on(on));
  };
  const judged = (rows: Rows, table: string, alias: string, stepId: RawBuilder<string>, method: ChosenMethod): Rows => {
    const on = sql<SqlBool>`${sql.ref(`${alias}.episode_id`)} = s.episode_id and ${sql.ref(`${alias}.step_id`)} = ${stepId}`;
    if (!listed) {
      return rows.leftJoin(`facts.${table} as ${alias}`, (join) =>
        join.on(on).on(`${alias}.method_key`, '=', method.method_key),
      );
    }
    const own = tables
      .selectFrom(`facts.${table}`)
      .selectAll()
      .where(sql.ref('episode_id'), '=', sql.ref('chosen.id'))
      .where('method_key', '=', method.method_key);
    const lookedUp = tables.selectFrom('chosen').crossJoinLateral(fenced(own, 'j')).selectAll('j');
    return rows.leftJoin(fenced(lookedUp, alias), (join) => join.on(on));
  };
  const onEpisode = sql.raw<SqlBool>(`a.episode_id = c.episode_id and a.agent_id = ${fieldSql('agent_id')}`);
  const onTask = sql<SqlBool>`t.task_id = e.task_id`;
  const none = sql<string>`''`;

  let rows = listed
    ? joined(beginning(chosen).selectFrom('chosen'), 'join', 'episodes', 'e', sql`e.episode_id = chosen.id`)
    : (tables.selectFrom('facts.episodes as e') as Rows);
  rows = joined(rows, 'join', 'calls', 'c', sql`c.episode_id = e.episode_id`);
  rows = joined(rows, 'left join', 'agents', 'a', onEpisode);
  rows = joined(rows, 'join', 'steps', 's', sql`s.episode_id = c.episode_id and s.call_id = c.call_id`);
  const known = extra === 'values' && recipe.unit !== 'pair' && recipe.columns.includes('ground_truth');
  const weighs = extra === 'values' ? weightFilters(recipe.weight) : [];
  if (known || [...step, ...weighs].some(looksAtTask) || (!listed && episodeCondition(recipe).task))
    rows = joined(rows, 'left join', 'tasks', 't', onTask);
  for (const [i, method] of used.verdicts.entries()) {
    rows = judged(rows, 'verdicts', `vs${i}`, STEP_ID, method);
    rows = judged(rows, 'verdicts', `ve${i}`, none, method);
  }
  if (extra === 'values' && used.reward) {
    rows = judged(rows, 'rewards', 'rs', STEP_ID, used.reward);
    rows = judged(rows, 'rewards', 're', none, used.reward);
  }
  const advantage = comparisonsOf(recipe.where).some(({ field }) => field === 'advantage');
  if ((extra === 'values' || advantage) && used.credit) rows = judged(rows, 'credits', 'k', STEP_ID, used.credit);
  return listed || chosen.all ? rows : rows.where(episodeCondition(recipe).sql);
}

/** For each stage (numbered from 1; 0 is kept) how many rows it was the first to drop, and the first three of them by id. */
export function funnelQuery(
  recipe: Recipe,
  used: UsedMethods,
  chosen: ChosenColumns,
): Statement<{ stage: number; rows: number; examples: string[] | null }> {
  const cases = stagesOf(recipe, used).map(({ sql: met }, i) => sql`when (${met}) is not true then ${sql.lit(i + 1)}`);
  const staged = joins(recipe, used, chosen, 'conditions').select([
    sql<number>`case ${sql.join(cases, sql` `)} else 0 end`.as('stage'),
    sql.raw<string>(ROW_ID).as('id'),
  ]);
  return tables
    .selectFrom(staged.as('r'))
    .select([
      sql<number>`stage`.as('stage'),
      sql<number>`count(*)::float8`.as('rows'),
      sql<string[] | null>`(array_agg(id order by id) filter (where stage > 0))[1:3]`.as('examples'),
    ])
    .groupBy('stage')
    .orderBy('stage');
}

/** A task is in the split in whose share its hash falls; the hash of an episode without a task is that of its own id. */
export function splitCondition(split: TaskSplit, name: SplitName): RawBuilder<SqlBool> {
  const seed = escapeText(`${split.seed}/`);
  const hash = sql`sha256(convert_to(${seed} || coalesce('t/' || e.task_id, 'e/' || e.episode_id), 'UTF8'))`;
  const bits = sql`(('x' || left(encode(${hash}, 'hex'), 8))::bit(32)::bigint & 4294967295)`;
  const bound = (share: number): number => Math.round(share * 2 ** 32);
  const shares = sharesOf(split);
  if (name === 'train') return sql`${bits} >= ${bound(Math.max(...shares.map(({ to }) => to)))}`;
  const { from, to } = shares.find((share) => share.name === name)!;
  return from === 0 ? sql`${bits} < ${bound(to)}` : sql`${bits} >= ${bound(from)} and ${bits} < ${bound(to)}`;
}

/** The parts beside train, and which shares of the tasks they are: those whose hash, as a share of all hashes, lies between. */
export const sharesOf = (split: TaskSplit): readonly { name: SplitName; from: number; to: number }[] =>
  'held_out' in split
    ? [{ name: 'held_out', from: 0, to: split.held_out }]
    : [
        { name: 'validation', from: split.test, to: split.test + split.validation },
        { name: 'test', from: 0, to: split.test },
      ];

export const splitsOf = ({ split }: Recipe): readonly SplitName[] =>
  split === null ? ['train'] : ['train', ...sharesOf(split).map(({ name }) => name)];

const AT = 'coalesce(c.requested_at, c.completed_at)';
/** Inside an episode: as its source counts, else by turn and time, and at last by key. */
export const IN_EPISODE = [
  `${fieldSql('seq')} nulls last`,
  `${fieldSql('turn')} nulls last`,
  `${AT} nulls last`,
  's.call_id',
  's.candidate',
];
const RECORDED = ['e.started_at nulls last', 'e.episode_id'];
/** Of the table that `pass-rates.ts` makes; null, and so last, where the task has no known outcome. */
const PASS_RATE = '(select r.rate from task_rates r where r.task_id = e.task_id)';
const BY_RATE = {
  recorded: [],
  m1: [],
  easy_first: [`${PASS_RATE} desc nulls last`],
  hard_first: [`${PASS_RATE} nulls last`],
} as const;
export const EPISODES = {
  recorded: RECORDED,
  easy_first: [...BY_RATE.easy_first, ...RECORDED],
  hard_first: [...BY_RATE.hard_first, ...RECORDED],
  m1: ['e.task_id nulls last', 'e.attempt nulls last', 'e.started_at nulls last', 'e.episode_id'],
} as const;

const GROUP = `case when e.group_id is null then 'c/' || e.episode_id || '/' || s.call_id else 'g/' || e.group_id end collate "C"`;
const groupOrder = ({ order }: Recipe): readonly string[] => [...BY_RATE[order], 'e.task_id nulls last', GROUP];

/**
 * Text columns behind the dataset's own, for lineage: ids of the row, of the events that made it (a version is `time|id`), and of the
 * dataset that it was replayed of.
 */
export const eventOf = (version: string) => `split_part(substr(${version}, strpos(${version}, '|') + 1), E'\\x01', 1)`;
export const LINEAGE = ['episode_id', 'call_id', 'candidate', 'requested', 'completed', 'replay'] as const;
export const LINEAGE_OF_STEP = [
  ...['e.episode_id', 's.call_id', 's.candidate::text', eventOf('c.requested_version'), eventOf('s.version')],
];
const LINEAGE_OF_EPISODE = [
  ...['e.episode_id', 'null::text', 'null::text', eventOf('e.started_version'), eventOf('e.finished_version')],
];

/** The dataset that a row was replayed of. */
const replayed = ({ replay }: Recipe, column: string): string => (replay === undefined ? 'null::text' : column);

/** The columns of the dataset, in the order of the recipe. */
export const columnsOf = (recipe: Recipe): readonly DatasetColumn[] =>
  recipe.columns.map((name) => [...COLUMNS[recipe.unit], WEIGHT_COLUMN].find((column) => column.name === name)!);

const ordered = (rows: Rows, order: readonly string[]): Rows =>
  order.reduce((sorted, term) => sorted.orderBy(sql.raw(term)), rows);

/** What the methods that a recipe names say of a step. */
export const judgedValues = (used: UsedMethods) => ({
  reward: used.reward ? 'case when rs.step_id is null then re.value else rs.value end' : 'e.reward',
  advantage: used.credit ? 'k.value' : 'null::float8',
  reason: used.credit ? 'k.reason' : 'null::text',
});

/** The weight of a step, or of its episode where the unit is a whole one. */
export function weightOfRow({ weight, unit }: Recipe, used: UsedMethods): string {
  if (weight === undefined) return 'null::float8';
  if (weight !== 'advantage') return weightSql(weight, PASS_RATE);
  const { advantage } = judgedValues(used);
  return isWhole(unit) ? `avg(${advantage})` : unit === 'branch' ? 'b.advantage' : advantage;
}

/** The rows of one split in order, for units other than pairs and branches, as text for COPY: the columns of the recipe, then those of `LINEAGE`. */
export function rowsQuery(recipe: Recipe, used: UsedMethods, chosen: ChosenColumns, split: SplitName): string {
  const values = {
    ...judgedValues(used),
    weight: weightOfRow(recipe, used),
    group_index: `(dense_rank() over (order by ${groupOrder(recipe).join(', ')}) - 1)::integer`,
  };
  const sqlOf = ({ sql }: DatasetColumn) => values[sql as keyof typeof values] ?? sql;
  const source = takenRows(recipe, used, chosen);
  const inSplit = recipe.split === null ? sql<SqlBool>`true` : splitCondition(recipe.split, split);
  const columns = columnsOf(recipe);
  const order = [...EPISODES[recipe.order], ...IN_EPISODE];

  if (isWhole(recipe.unit)) {
    const truth = recipe.columns.includes('ground_truth') ? [sql.raw(TRUTH)] : [];
    const weight = Array.isArray(recipe.weight) ? [sql.raw(values.weight)] : [];
    const grouped = (rows: Rows): Rows =>
      ordered(rows.groupBy([...EPISODE_COLUMNS, ...truth, ...weight]), EPISODES[recipe.order]);
    const steps = (text: string) => {
      const step = text
        .replaceAll('@reward', values.reward)
        .replaceAll('@advantage', values.advantage)
        .replaceAll('@reason', values.reason);
      return `'[' || string_agg(${step}, ',' order by ${IN_EPISODE.join(', ')}) || ']'`;
    };
    const selected = columns.map((column) =>
      sql.raw(column.name === 'steps' ? steps(column.sql) : sqlOf(column)).as(column.name),
    );
    const lineage = [...LINEAGE_OF_EPISODE, replayed(recipe, 'max(picked.replay)')].map((text, i) =>
      sql.raw(text).as(`l${i}`),
    );
    const rows = source.where(inSplit);
    const first = grouped(rows.select('e.episode_id')).limit(sql.lit(recipe.limit ?? 0));
    return literalSql(
      grouped(
        (recipe.limit === null ? rows : rows.where('e.episode_id', 'in', first)).select([...selected, ...lineage]),
      ),
    );
  }

  const isGroup = recipe.unit === 'group';
  const orderBy = isGroup ? [...groupOrder(recipe), ...order] : order;
  const text = columns.map((column) => sql.raw(column.sql === PROMPT ? 'c.context' : sqlOf(column)));
  const names = [...text.map((_, i) => `c${i}`), ...LINEAGE.map((_, i) => `l${i}`)];
  const lineage = [...LINEAGE_OF_STEP, replayed(recipe, 'picked.replay')].map((text, i) => sql.raw(text).as(`l${i}`));
  if (recipe.limit === null && !isGroup) {
    const terms = orderBy.map(orderTerm);
    const rows = source
      .where(inSplit)
      .select([
        ...text.map((one, i) => one.as(`c${i}`)),
        ...lineage,
        ...terms.map(({ value }, i) => sql.raw(value).as(`o${i}`)),
      ]);
    const places = terms.map(({ way }, i) => `o${i}${way}`);
    return literalSql(withPrompts(rows, columns, names, places));
  }
  // Limit and group numbers are over all splits, so they come first and the split after.
  const numbered = source.select([
    ...text.map((one, i) => sql`case when ${inSplit} then ${one} end`.as(`c${i}`)),
    ...lineage,
    sql.raw(`row_number() over (order by ${orderBy.join(', ')})`).as('place'),
    sql.raw(isGroup ? values.group_index : '0').as('place_of_group'),
    inSplit.as('in_split'),
  ]);
  const limit =
    recipe.limit === null ? sql`true` : isGroup ? sql`place_of_group < ${recipe.limit}` : sql`place <= ${recipe.limit}`;
  const kept = tables
    .selectFrom(numbered.as('r'))
    .select([...names, 'place'])
    .where(sql<SqlBool>`in_split and ${limit}`);
  return literalSql(withPrompts(kept, columns, names, ['place']));
}

/** What a term of an order compares, and the way it does. */
function orderTerm(term: string): { readonly value: string; readonly way: string } {
  const [, value, way] = /^(.*?)((?: desc)?(?: nulls last)?)$/s.exec(term)!;
  return { value: value!, way: way! };
}

/**
 * The rows in order, with the prompt where they have the name of its context. It is made once for all answers to a call, and only of rows that
 * are taken: of 2,568 answers to 388 calls it was three quarters of the query when it was made for each.
 */
function withPrompts(
  rows: Rows,
  columns: readonly DatasetColumn[],
  names: readonly string[],
  order: readonly string[],
): Rows {
  const at = columns.findIndex((column) => column.sql === PROMPT);
  if (at < 0) return ordered(tables.selectFrom(rows.as('r')).select(names), order);
  const contexts = sql`(select distinct l0 as episode_id, c${sql.raw(String(at))} as context from taken)`;
  const whole = tables
    .with(
      (table) => table('taken').materialized(),
      () => rows,
    )
    .with(
      (table) => table('prompts').materialized(),
      (q) => q.selectFrom(sql`${contexts}`.as('c')).select(['c.episode_id', 'c.context', sql.raw(PROMPT).as('prompt')]),
    )
    .selectFrom('taken')
    .leftJoin('prompts', (join) => join.onRef('prompts.episode_id', '=', 'l0').onRef('prompts.context', '=', `c${at}`))
    .select(names.map((name, i) => (i === at ? sql.ref('prompts.prompt').as(name) : name)));
  return ordered(whole as unknown as Rows, order);
}

const EPISODE_COLUMNS = [
  'e.task_id',
  'e.episode_id',
  'e.group_id',
  'e.team_id',
  'e.attempt',
  'e.outcome',
  'e.answer',
  'e.reward',
  'e.started_at',
  'e.finished_at',
  'e.started_version',
  'e.finished_version',
];
const TRUTH = 't.ground_truth::text';
