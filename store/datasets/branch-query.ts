/** The rows of branches as SQL: each is the row of its last answer, with the answers that are learnt beside it. */
import { literalSql, type SqlBool, sql } from '../db/query.ts';
import type { SplitName } from './columns.ts';
import { LEARNT } from './columns.ts';
import {
  type ChosenColumns,
  columnsOf,
  eventOf,
  judgedValues,
  LINEAGE_OF_STEP,
  type Rows,
  splitCondition,
  tables,
  takenRows,
  type UsedMethods,
  weightOfRow,
} from './query.ts';
import type { Recipe } from './recipe.ts';
import { WEIGHT_COLUMN } from './weights.ts';

/** The rows of one split in order, as text for COPY: the columns of the recipe, those of `LINEAGE`, and the earlier answers as JSON, the last first. */
export function branchRowsQuery(recipe: Recipe, used: UsedMethods, chosen: ChosenColumns, split: SplitName): string {
  const inSplit = recipe.split === null ? sql<SqlBool>`true` : splitCondition(recipe.split, split);
  const weight = weightOfRow(recipe, used);
  const selected = columnsOf(recipe).map((column) => (column === WEIGHT_COLUMN ? weight : column.sql));
  const rows = takenRows(recipe, used, chosen)
    .innerJoin(together(recipe, used, chosen).as('b'), 'b.place', 'picked.place')
    .where(sql<SqlBool>`picked.last and ${inSplit} and ${nth(recipe)}`);
  const texts = [...selected, ...LINEAGE_OF_STEP, 'null::text', 'b.earlier::text'];
  return literalSql(rows.select(texts.map((text, i) => sql.raw(text).as(`c${i}`))).orderBy('picked.place'));
}

/** Is the branch among so many as the recipe takes? */
const nth = ({ limit }: Recipe) => {
  const first = tables
    .selectFrom('picked as n')
    .select('n.place')
    .distinct()
    .orderBy('n.place')
    .limit(sql.lit(limit ?? 0));
  return limit === null ? sql<SqlBool>`true` : sql<SqlBool>`picked.place in (${first})`;
};

const IN_BRANCH = 'partition by picked.place order by picked.step';
const FROM = 'cardinality(c.prompt_token_ids)';
/** Tokens since the answer before it, which are not learnt. */
const BEFORE = `array[${FROM} - coalesce(lag(${FROM} + cardinality(s.token_ids)) over (${IN_BRANCH}), 0)]`;
const OWN = 'array[cardinality(s.token_ids)]';
/** The value of each token since the answer before it, as the text of an array without its braces; null where tokens are not known. */
const since = (before: string, values: string, otherwise: string): string =>
  `case when c.prompt_token_ids is not null and s.token_ids is not null then
    nullif(array_to_string(array_fill(${before}, ${BEFORE}) || coalesce(${values}, array_fill(${otherwise}, ${OWN})), ',', 'NULL'), '') end`;
const inOrder = (text: string, type: string): string =>
  `('{' || string_agg(${text}, ',' order by step) || '}')::${type}`;

/** For each branch (`place`) its answers as JSON, with masks and log-probabilities over all its tokens, and what its rows are known by. */
function together(recipe: Recipe, used: UsedMethods, chosen: ChosenColumns): Rows {
  const { reward, advantage, reason } = judgedValues(used);
  const learnt = LEARNT.replaceAll('@reward', reward).replaceAll('@advantage', advantage).replaceAll('@reason', reason);
  const step = `json_build_array(s.episode_id, s.call_id, s.candidate::text, ${eventOf('c.requested_version')}, ${eventOf('s.version')}, null)`;
  const steps = takenRows({ ...recipe, columns: [] }, used, chosen).select(
    Object.entries({
      place: 'picked.place',
      step: 'picked.step',
      last: 'picked.last',
      learnt,
      mask: since('0::smallint', 's.loss_mask', '1::smallint'),
      logprob: since('null::real', 's.logprobs', 'null::real'),
      sampled: 's.logprobs is not null',
      advantage,
      key: step,
    }).map(([name, text]) => sql.raw(text).as(name)),
  );
  return tables
    .selectFrom(steps.as('x'))
    .groupBy('place')
    .select(
      Object.entries({
        place: 'place',
        answers: `'[' || string_agg(learnt, ',' order by step) || ']'`,
        loss_mask: inOrder('mask', 'smallint[]'),
        logprobs: `case when bool_or(sampled) then ${inOrder('logprob', 'real[]')} end`,
        advantage: 'avg(advantage)',
        earlier: 'json_agg(key order by step desc) filter (where not last)',
      }).map(([name, text]) => sql.raw(text).as(name)),
    ) as unknown as Rows;
}
