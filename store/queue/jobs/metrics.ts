/** The numbers that a job reported, thinned to what a plot can show. */
import type { Session } from '../../db/pool.ts';
import { firstOf, query, rowsOf, type SqlBool, sql } from '../../db/query.ts';

/** Points of a curve at most: more than a plot has pixels for. */
export const POINTS = 500;

/** One number over the steps of a job; a value that was not a number is null, a gap. */
export type Curve = {
  readonly name: string;
  readonly steps: readonly number[];
  readonly values: readonly (number | null)[];
};

/** A curve for each number, by name. Of a long job every so many steps, the same ones for all of its numbers, and the last one. */
export async function curvesOf(db: Session, job: string): Promise<readonly Curve[]> {
  const reported = query.selectFrom('facts.job_metrics').where('job_id', '=', job);
  const range = await firstOf(
    db,
    reported.select((all) => [all.fn.min('step').as('first'), all.fn.max('step').as('last')]),
  );
  if (range === undefined || range.first === null) return [];
  const [first, last] = [Number(range.first), Number(range.last)];
  const every = Math.ceil((last - first + 1) / POINTS);
  return rowsOf(
    db,
    reported
      .select(['name', sql<number[]>`json_agg(step order by step)`.as('steps')])
      .select(sql<(number | null)[]>`json_agg(value order by step)`.as('values'))
      .where(sql<SqlBool>`(step = ${last} or (step - ${first}) % ${every} = 0)`)
      .groupBy('name')
      .orderBy('name'),
  );
}
