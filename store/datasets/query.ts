/**
 * A recipe as SQL. First the episodes are chosen, then everything else is joined to them by primary key, so that the cost follows
 * what is chosen and not what is stored. The order is total and made of keys and recorded times, never of arrival.
 */
import { type Filter, fieldSql, looksAtTask, quoteText, showSql, splitFilter } from '../select.ts';
import type { ChosenMethod } from './chosen-methods.ts';
import { BODIES, COLUMNS, type Column, PROMPT, PROMPT_FROM_BODIES } from './columns.ts';
import type { Recipe } from './recipe.ts';

/** The methods a recipe names, found in the tables. */
export type MethodsUsed = {
  readonly verdicts: readonly ChosenMethod[];
  readonly reward: ChosenMethod | null;
  readonly credit: ChosenMethod | null;
};

/** One condition a row has to meet, with the name it has in the funnel. */
export type Stage = { readonly name: string; readonly sql: string };

/** Above this many ids the condition is repeated instead of the ids listed; so few are always listed. */
const LISTED_IDS = 20_000;
const FEW_IDS = 1000;

const STEP_ID = fieldSql('step_id');
const andAll = (conditions: readonly string[]): string => conditions.map((sql) => `(${sql})`).join(' and ') || 'true';

/** The condition on whole episodes: the parts of the filter that look at episodes and tasks, and an entry by index where a part on calls has one. */
export function episodeCondition(recipe: Recipe): {
  readonly sql: string;
  readonly readable: string;
  readonly byKey: boolean;
  readonly task: boolean;
} {
  const { episode, step } = splitFilter(recipe.where);
  const entries = step.flatMap(callEntry);
  return {
    sql: andAll([...episode.map(showSql), ...entries]),
    readable: episode.map(showSql).join(' and ') || 'true',
    byKey: entries.length > 0 || episode.some(isKeyed),
    task: episode.some(looksAtTask),
  };
}

const KEYED: readonly string[] = ['episode_id', 'task_id', 'group_id'];
const isKeyed = (filter: Filter): boolean =>
  'field' in filter && KEYED.includes(filter.field) && (filter.op === '=' || filter.op === 'in');

/** calls.checkpoint_id has an index: steps of a checkpoint are found through it. */
function callEntry(filter: Filter): readonly string[] {
  if (!('field' in filter) || filter.field !== 'checkpoint_id' || (filter.op !== '=' && filter.op !== 'in')) return [];
  return [`e.episode_id in (select c.episode_id from facts.calls c where ${showSql(filter)})`];
}

/** One row: the ids that fit, and how many episodes there are, which comes from the same pass; null where a key let us skip it. */
export function episodesQuery(recipe: Recipe): string {
  const { sql, byKey, task } = episodeCondition(recipe);
  const from = `facts.episodes e${task ? ' left join facts.tasks t on t.task_id = e.task_id' : ''}`;
  return byKey
    ? `select array_agg(e.episode_id) as ids, null::float8 as total from ${from} where ${sql}`
    : `select array_agg(e.episode_id) filter (where ${sql}) as ids, count(*)::float8 as total from ${from}`;
}

/** Chosen episodes: by their ids, or all that meet the condition (`all`: every one there is) where listing them would not pay. */
export type Chosen = { readonly ids: readonly string[] | null; readonly all: boolean };

/** `total` is null where it was not counted. Lookups by key beat reading the tables up to about a quarter of them. */
export function chosenOf(ids: readonly string[], total: number | null): Chosen {
  const few = ids.length <= FEW_IDS || (ids.length <= LISTED_IDS && (total === null || ids.length <= total / 4));
  return few ? { ids, all: false } : { ids: null, all: total === ids.length };
}

/** An array literal inside a text literal: constant for the planner, and read much faster than an array constructor. */
const idList = (ids: readonly string[]): string =>
  `${quoteText(`{${ids.map((id) => `"${id.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`).join(',')}}`)}::text[]`;

/** What a row has to meet, beyond its episode being chosen, in the order of the funnel. */
export function stagesOf(recipe: Recipe, used: MethodsUsed): readonly Stage[] {
  return [
    { name: 'not copied from another context', sql: 'c.copied is not true' },
    ...splitFilter(recipe.where).step.map((filter) => ({ name: `where ${showSql(filter)}`, sql: showSql(filter) })),
    ...(recipe.roles === null
      ? []
      : [
          {
            name: `role in ${recipe.roles.join(', ')}`,
            sql: `${fieldSql('role')} in (${recipe.roles.map(quoteText).join(', ') || 'null'})`,
          },
        ]),
    ...recipe.verdicts.map(({ keep }, i) => ({
      name: `${used.verdicts[i]!.method} says ${keep ? 'keep' : 'drop'}`,
      sql: `coalesce(vs${i}.keep, ve${i}.keep) = ${keep}`,
    })),
  ];
}

/**
 * For a transaction whose episodes are listed. Lookups by key are lateral and stay nested loops and index scans; these keep a wrong
 * estimate from making a nested loop of judgements against judgements, or from reading a small partition once for each lookup.
 */
export const LISTED_SETTINGS = 'set local enable_nestloop = off; set local enable_seqscan = off';

/** Goes before every query over chosen episodes. */
const withChosen = ({ ids }: Chosen): string =>
  ids === null ? '' : `with chosen as materialized (select unnest(${idList(ids)}) as id) `;

/**
 * The tables a row is read from. Where the episodes are listed, every table is read by fenced lookups of its primary key (OFFSET 0
 * keeps the planner from joining it earlier), so the cost follows the rows chosen, whatever the statistics say: with plain joins
 * 2,688 of 53,760 steps took 1.3 s, because all steps were read first. Judgements are looked up by episode and hashed, which is
 * three times as fast as a lookup for each step. A verdict on the step itself goes before one on its episode; so does a reward.
 */
function joins(recipe: Recipe, used: MethodsUsed, chosen: Chosen, extra: 'conditions' | 'values'): string {
  const listed = chosen.ids !== null;
  const { step } = splitFilter(recipe.where);
  const joined = (kind: 'join' | 'left join', table: string, alias: string, on: string, more = '') =>
    listed
      ? `${kind} lateral (select ${alias}.*${more} from facts.${table} ${alias} where ${on} offset 0) ${alias} on true`
      : `${kind} ${more ? `(select ${alias}.*${more} from facts.${table} ${alias})` : `facts.${table}`} ${alias} on ${on}`;
  const judged = (table: string, alias: string, stepId: string, method: ChosenMethod) => {
    const key = `method_key = ${quoteText(method.method_key)}`;
    const on = `${alias}.episode_id = s.episode_id and ${alias}.step_id = ${stepId}`;
    if (!listed) return `left join facts.${table} ${alias} on ${on} and ${alias}.${key}`;
    return `left join (select j.* from chosen cross join lateral (select * from facts.${table} where episode_id = chosen.id and ${key} offset 0) j offset 0) ${alias} on ${on}`;
  };
  const prompted = extra === 'values' && recipe.columns.includes('prompt');
  const prompt = !prompted ? '' : `, ${listed ? PROMPT_FROM_BODIES : PROMPT} as prompt`;
  const parts = [
    listed ? `chosen\n    ${joined('join', 'episodes', 'e', 'e.episode_id = chosen.id')}` : 'facts.episodes e',
    ...(prompted && listed ? [BODIES] : []),
    joined('join', 'calls', 'c', 'c.episode_id = e.episode_id', prompt),
    joined('left join', 'agents', 'a', `a.episode_id = c.episode_id and a.agent_id = ${fieldSql('agent_id')}`),
    joined('join', 'steps', 's', 's.episode_id = c.episode_id and s.call_id = c.call_id'),
  ];
  if (step.some(looksAtTask) || (!listed && episodeCondition(recipe).task)) {
    parts.push(joined('left join', 'tasks', 't', 't.task_id = e.task_id'));
  }
  for (const [i, method] of used.verdicts.entries()) {
    parts.push(judged('verdicts', `vs${i}`, STEP_ID, method), judged('verdicts', `ve${i}`, "''", method));
  }
  if (extra === 'values') {
    if (used.reward)
      parts.push(judged('rewards', 'rs', STEP_ID, used.reward), judged('rewards', 're', "''", used.reward));
    if (used.credit) parts.push(judged('credits', 'k', STEP_ID, used.credit));
  }
  return `from ${parts.join('\n    ')}\n    where ${listed || chosen.all ? 'true' : episodeCondition(recipe).sql}`;
}

/** For each stage (numbered from 1; 0 is kept) how many rows it was the first to drop, and the first three of them by id. */
export function funnelQuery(recipe: Recipe, used: MethodsUsed, chosen: Chosen): string {
  const cases = stagesOf(recipe, used).map(({ sql }, i) => `when (${sql}) is not true then ${i + 1}`);
  return `${withChosen(chosen)}select stage, count(*)::float8 as rows, (array_agg(id order by id) filter (where stage > 0))[1:3] as examples
    from (select case ${cases.join(' ')} else 0 end as stage, s.episode_id || ' ' || ${STEP_ID} as id ${joins(recipe, used, chosen, 'conditions')}) r
    group by stage order by stage`;
}

/** Held-out tasks are those whose hash falls below the share; an episode without a task stands for itself. */
function splitCondition(split: NonNullable<Recipe['split']>, name: SplitName): string {
  const hash = `sha256(convert_to(${quoteText(`${split.seed}/`)} || coalesce('t/' || e.task_id, 'e/' || e.episode_id), 'UTF8'))`;
  const bits = `(('x' || left(encode(${hash}, 'hex'), 8))::bit(32)::bigint & 4294967295)`;
  return `${bits} ${name === 'held_out' ? '<' : '>='} ${Math.round(split.held_out * 2 ** 32)}`;
}

export type SplitName = 'train' | 'held_out';
export const splitsOf = (recipe: Recipe): readonly SplitName[] =>
  recipe.split === null ? ['train'] : ['train', 'held_out'];

const AT = 'coalesce(c.requested_at, c.completed_at)';
/** Inside an episode: as its source counts, else by turn and time, and at last by key. */
const IN_EPISODE = [
  `${fieldSql('seq')} nulls last`,
  `${fieldSql('turn')} nulls last`,
  `${AT} nulls last`,
  's.call_id',
  's.candidate',
];
const EPISODES = {
  recorded: ['e.started_at nulls last', 'e.episode_id'],
  m1: ['e.task_id nulls last', 'e.attempt nulls last', 'e.started_at nulls last', 'e.episode_id'],
} as const;

const GROUP = `case when e.group_id is null then 'c/' || e.episode_id || '/' || s.call_id else 'g/' || e.group_id end collate "C"`;
const GROUP_ORDER = ['e.task_id nulls last', GROUP];

/** Text columns behind the dataset's own, for lineage: ids of the row and of the events that made it (a version is `time|id`). */
const eventOf = (version: string) => `split_part(substr(${version}, strpos(${version}, '|') + 1), E'\\x01', 1)`;
export const LINEAGE = ['episode_id', 'call_id', 'candidate', 'requested', 'completed'] as const;
const LINEAGE_SQL = {
  step: ['e.episode_id', 's.call_id', 's.candidate::text', eventOf('c.requested_version'), eventOf('s.version')],
  episode: ['e.episode_id', 'null::text', 'null::text', eventOf('e.started_version'), eventOf('e.finished_version')],
} as const;

/** The columns of the dataset, in the order of the recipe. */
export const columnsOf = (recipe: Recipe): readonly Column[] =>
  recipe.columns.map((name) => COLUMNS[recipe.unit].find((column) => column.name === name)!);

/** The rows of one split in order: the columns of the recipe, then those of `LINEAGE`. */
export function rowsQuery(recipe: Recipe, used: MethodsUsed, chosen: Chosen, split: SplitName): string {
  const conditions = andAll(stagesOf(recipe, used).map(({ sql }) => sql));
  const values = {
    reward: used.reward ? 'case when rs.step_id is null then re.value else rs.value end' : 'e.reward',
    advantage: used.credit ? 'k.value' : 'null::float8',
    reason: used.credit ? 'k.reason' : 'null::text',
    group_index: `(dense_rank() over (order by ${GROUP_ORDER.join(', ')}) - 1)::integer`,
  };
  const sqlOf = ({ sql }: Column) => values[sql as keyof typeof values] ?? sql;
  const source = `${joins(recipe, used, chosen, 'values')} and ${conditions}`;
  const inSplit = recipe.split === null ? 'true' : splitCondition(recipe.split, split);
  const columns = columnsOf(recipe);
  const order = [...EPISODES[recipe.order], ...IN_EPISODE];

  if (recipe.unit === 'episode') {
    const grouped = [
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
    const steps = (sql: string) => {
      const step = sql
        .replaceAll('@reward', values.reward)
        .replaceAll('@advantage', values.advantage)
        .replaceAll('@reason', values.reason);
      return `'[' || string_agg(${step}, ',' order by ${IN_EPISODE.join(', ')}) || ']'`;
    };
    const selected = columns.map(
      (column) => `${column.name === 'steps' ? steps(column.sql) : sqlOf(column)} as "${column.name}"`,
    );
    const where =
      recipe.limit === null
        ? inSplit
        : `${inSplit} and e.episode_id in (
      select e.episode_id ${source} group by ${grouped.join(', ')} order by ${EPISODES[recipe.order].join(', ')} limit ${recipe.limit})`;
    return `${withChosen(chosen)}select ${[...selected, ...LINEAGE_SQL.episode].join(', ')} ${source} and ${where}
      group by ${grouped.join(', ')} order by ${EPISODES[recipe.order].join(', ')}`;
  }

  const isGroup = recipe.unit === 'group';
  const orderBy = isGroup ? [...GROUP_ORDER, ...order] : order;
  if (recipe.limit === null && !isGroup) {
    return `${withChosen(chosen)}select ${[...columns.map(sqlOf), ...LINEAGE_SQL.step].join(', ')} ${source} and ${inSplit} order by ${orderBy.join(', ')}`;
  }
  // Limit and group numbers are over all splits, so they come first and the split after.
  const selected = columns.map((column, i) => `${sqlOf(column)} as c${i}`);
  const lineage = LINEAGE_SQL.step.map((sql, i) => `${sql} as l${i}`);
  const inner = `select ${[...selected, ...lineage].join(', ')}, row_number() over (order by ${orderBy.join(', ')}) as place,
      ${isGroup ? values.group_index : '0'} as place_of_group, ${inSplit} as in_split ${source}`;
  const limit =
    recipe.limit === null ? 'true' : isGroup ? `place_of_group < ${recipe.limit}` : `place <= ${recipe.limit}`;
  const names = [...columns.map((_, i) => `c${i}`), ...LINEAGE_SQL.step.map((_, i) => `l${i}`)];
  return `${withChosen(chosen)}select ${names.join(', ')} from (${inner}) r where in_split and ${limit} order by place`;
}
