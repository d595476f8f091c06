/**
 * The pass rate of each task: solved episodes of those with a known outcome, among the episodes that a recipe names. It is the table
 * `task_rates` of the transaction, which the order of rows reads, too. A task without a known outcome has no row there.
 */
import type { Session } from '../db/pool.ts';
import { literalSql, rowsOf, type SqlBool, sql } from '../db/query.ts';
import { filterText } from '../filter/filter-text.ts';
import { looksAtTask, lowerFilter } from '../filter/select.ts';
import { type Rows, tables } from './query.ts';
import type { PassRate } from './thinning.ts';

/** Teams and weights that a warning names. */
const MOST_NAMED = 5;

/**
 * Makes the table. What counts as solved is what `report.outcomes` says.
 * @returns the words for the pool in the funnel, and a warning where it has episodes of several teams or weights
 */
export async function makePassRates(
  tx: Session,
  { of }: PassRate,
): Promise<{ readonly pool: string; readonly warnings: readonly string[] }> {
  const named = tables
    .selectFrom('facts.episodes as e')
    .$if(looksAtTask(of), (all) => all.leftJoin('facts.tasks as t', 't.task_id', 'e.task_id') as unknown as typeof all)
    .where(lowerFilter(of)) as unknown as Rows;
  const known = tables
    .selectFrom('report.outcomes as o')
    .where('o.episode_id', 'in', named.select('e.episode_id'))
    .where(sql<SqlBool>`o.solved is not null and o.task_id is not null`) as unknown as Rows;
  const rates = known
    .groupBy('o.task_id')
    .select(['o.task_id', sql<number>`avg(o.solved::integer)::float8`.as('rate')]);
  await tx.query(literalSql(sql`create temp table task_rates on commit drop as ${rates}`));
  await tx.query('create unique index on task_rates (task_id); analyze task_rates');
  const players = await rowsOf(
    tx,
    known
      .groupBy(['o.team_id', 'o.weights'])
      .orderBy(sql`o.team_id collate "C" nulls last`)
      .orderBy(sql`o.weights collate "C" nulls last`)
      .select([
        sql<string | null>`o.team_id`.as('team'),
        sql<string | null>`o.weights`.as('weights'),
        sql<number>`count(*)::float8`.as('episodes'),
      ]),
  );
  const episodes = players.reduce((sum, player) => sum + player.episodes, 0);
  const pool = `over ${episodes} episodes with a known outcome where ${filterText(of)}`;
  if (players.length <= 1) return { pool, warnings: [] };
  const list = players
    .slice(0, MOST_NAMED)
    .map(({ team, weights, episodes: n }) => `${weights ?? 'unknown weights'}${team ? ` in team ${team}` : ''} (${n})`);
  const more = players.length > MOST_NAMED ? `, and ${players.length - MOST_NAMED} more` : '';
  return {
    pool: `${pool}, of ${players.length} teams or weights together`,
    warnings: [
      `The pass rates pool episodes of ${players.length} teams or weights: ${list.join(', ')}${more}. To count those of one alone, name it in pass_rate.of, such as: count(steps where checkpoint_id = ID) > 0.`,
    ],
  };
}
