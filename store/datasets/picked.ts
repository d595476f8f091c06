/**
 * The rows that meet a recipe's conditions, as a table of the transaction, from which its caps take rows away. It holds ids and what
 * decides, no text. A row is a step, or all steps of an episode where the unit is a whole one.
 */
import type { Session } from '../db/pool.ts';
import { literalSql, type RawBuilder, rowsOf, type SqlBool, sql } from '../db/query.ts';
import { fieldSql } from '../filter-fields.ts';
import { isWhole } from './columns.ts';
import type { FunnelStage } from './manifest.ts';
import {
  andAll,
  type Chosen,
  chosenOf,
  EPISODES,
  IN_EPISODE,
  joins,
  judgedValues,
  type MethodsUsed,
  ROW_ID,
  stagesOf,
  tables,
} from './query.ts';
import type { Recipe } from './recipe.ts';
import { type Cap, capText } from './thinning.ts';

/** Does something take rows away after the conditions? Caps of pairs do not: they count pairs. */
export const isThinned = ({ unit, caps }: Recipe): boolean => caps !== undefined && unit !== 'pair';

/** Makes the table, takes rows away, and returns what is left and what each step took. */
export async function pickRows(
  tx: Session,
  recipe: Recipe,
  used: MethodsUsed,
  chosen: Chosen,
): Promise<{ readonly chosen: Chosen; readonly stages: readonly FunnelStage[] }> {
  const table = pickedRows(recipe, used, chosen);
  await tx.query(literalSql(sql`create temp table picked on commit drop as ${table}`));
  await tx.query('analyze picked');
  const stages: FunnelStage[] = [];
  const of = isWhole(recipe.unit) ? 'episodes' : 'steps';
  let before = await countRows(tx);
  for (const cap of recipe.caps ?? []) {
    const dropped = await remove(tx, beyond(cap));
    stages.push({ name: capText(cap), of, before, after: before - dropped.rows, dropped: dropped.ids });
    before -= dropped.rows;
  }
  return { chosen: await chosenAmong(tx), stages };
}

function pickedRows(recipe: Recipe, used: MethodsUsed, chosen: Chosen) {
  const whole = isWhole(recipe.unit);
  const { reward, advantage } = judgedValues(used);
  const worth = `coalesce(${advantage}, ${reward})`;
  const place = whole
    ? `dense_rank() over (order by ${EPISODES[recipe.order].join(', ')})`
    : `row_number() over (order by ${[...EPISODES[recipe.order], ...IN_EPISODE].join(', ')})`;
  return joins({ ...recipe, unit: 'step', columns: [] }, used, chosen, 'values')
    .where(andAll(stagesOf(recipe, used).map(({ sql: met }) => met)))
    .select(['e.episode_id', 's.call_id', 's.candidate'])
    .select([
      sql.raw(place).as('place'),
      sql.raw(whole ? 'e.episode_id' : ROW_ID).as('id'),
      sql.raw(CAP_KEYS.task('e')).as('task'),
      sql.raw(CAP_KEYS.group('e')).as('group'),
      sql.raw(fieldSql('role')).as('role'),
      sql.raw(whole ? `avg(${worth}) over (partition by e.episode_id)` : worth).as('worth'),
    ]);
}

/** What rows are counted by; an episode without a task or group stands for itself. */
export const CAP_KEYS = {
  task: (alias: string) => `coalesce('t/' || ${alias}.task_id, 'e/' || ${alias}.episode_id)`,
  group: (alias: string) => `coalesce('g/' || ${alias}.group_id, 'e/' || ${alias}.episode_id)`,
  role: (alias: string) => `${alias}.role`,
} as const;

/** The order in which a cap takes rows, ids last, so that it is total. */
export const capOrder = ({ take, seed }: Cap, worth: string, id: string): string => {
  const chance = `md5(${literalSql(sql`${sql.lit(`${seed}/`)}`)} || ${id})`;
  return [...(take === 'best' ? [`${worth} desc nulls last`] : []), chance, id].join(', ');
};

/** Rows that come after the first `rows` of their kind. */
function beyond(cap: Cap): RawBuilder<SqlBool> {
  const order = sql.raw(capOrder(cap, 'worth', 'id'));
  const rows = tables.selectFrom('picked').select(['place', 'id', cap.of, 'worth']).distinct();
  const numbered = tables
    .selectFrom(rows.as('r'))
    .select(['place', sql<number>`row_number() over (partition by ${sql.ref(cap.of)} order by ${order})`.as('number')]);
  const late = tables.selectFrom(numbered.as('n')).select('place').where('number', '>', cap.rows);
  return sql<SqlBool>`picked.place in (${late})`;
}

/** Takes rows away; how many, and the first three by id. */
async function remove(
  tx: Session,
  which: RawBuilder<SqlBool>,
): Promise<{ readonly rows: number; readonly ids: readonly string[] }> {
  const [gone] = await rowsOf(
    tx,
    tables
      .with('gone', (q) => q.deleteFrom('picked').where(which).returning('id'))
      .selectFrom('gone')
      .select([
        sql<number>`count(distinct id)::float8`.as('rows'),
        sql<string[] | null>`(array_agg(distinct id order by id))[1:3]`.as('ids'),
      ]),
  );
  return { rows: gone!.rows, ids: gone!.ids ?? [] };
}

const countRows = async (tx: Session): Promise<number> => {
  const [counted] = await rowsOf(
    tx,
    tables.selectFrom('picked').select(sql<number>`count(distinct place)::float8`.as('rows')),
  );
  return counted!.rows;
};

/** The episodes of the rows that are left. */
async function chosenAmong(tx: Session): Promise<Chosen> {
  const [found] = await rowsOf(
    tx,
    tables.selectFrom('picked').select(sql<string[] | null>`array_agg(distinct episode_id)`.as('ids')),
  );
  return { ...chosenOf(found!.ids ?? [], null), all: true, picked: true };
}
