/** A view that is joined with a few episodes reads their rows and not the table: a condition that reaches it through a join counts as a literal does. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { VIEW_SCHEMAS } from '../../../migrations/views.ts';
import { freshDatabase, type TestDatabase } from '../../support/database.ts';
import { fillWithEpisodes } from './many-episodes.ts';

const EPISODES = 1000;
const CHOSEN = 20;
/** They go through all of one kind of row, which is cheap: lineage as a union from both ends, failures beside all blames, each artifact once. */
const WHOLE = ['traj.lineage', 'report.blame_check', 'traj.artifacts'];
/** Nodes that only pass on what they were given. */
const PASSES = ['Hash', 'Materialize', 'Memoize', 'Append', 'Subquery Scan', 'CTE Scan'];

type Plan = {
  readonly 'Node Type': string;
  readonly 'Relation Name'?: string;
  readonly 'Actual Rows': number;
  readonly 'Actual Loops': number;
  readonly Plans?: readonly Plan[];
};

let fresh: TestDatabase;
beforeAll(async () => {
  fresh = await freshDatabase();
  await fillWithEpisodes(fresh.db, EPISODES);
});
afterAll(() => fresh.close());

/** Rows that were joined, sorted, grouped or made by functions. To read a table once is cheap, to do this for each of its rows is not. */
const worked = (plan: Plan): number =>
  (plan['Relation Name'] !== undefined || PASSES.includes(plan['Node Type'])
    ? 0
    : plan['Actual Rows'] * plan['Actual Loops']) + (plan.Plans ?? []).reduce((sum, part) => sum + worked(part), 0);

async function planOf(sql: string): Promise<Plan> {
  return fresh.db.transaction(async (tx) => {
    await tx.query('set local jit = off');
    const { rows } = await tx.query<{ 'QUERY PLAN': readonly [{ Plan: Plan }] }>(
      `explain (analyze, timing off, format json) ${sql}`,
    );
    return rows[0]!['QUERY PLAN'][0].Plan;
  });
}

it('every view that names episodes has rows of the chosen ones, and works for them alone', async () => {
  const { rows: views } = await fresh.db.query<{ view: string }>(
    `select c.oid::regclass::text as view from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = 'episode_id'
     where c.relkind = 'v' and c.relnamespace::regnamespace::text = any ($1) order by 1`,
    [VIEW_SCHEMAS],
  );
  expect(views.length).toBeGreaterThan(25);
  for (const { view } of views) {
    const chosen = `with chosen as materialized (select 'e' || n * 7 as episode_id from generate_series(1, ${CHOSEN}) n)`;
    const joined = await planOf(`${chosen} select x.* from chosen join ${view} x using (episode_id)`);
    expect.soft(joined['Actual Rows'], view).toBeGreaterThanOrEqual(CHOSEN);
    if (WHOLE.includes(view)) continue;
    // Of 1,000 episodes these are a fiftieth. What a view does for all of them, as the mean size of a method, is a row for each method.
    const whole = worked(await planOf(`select * from ${view}`));
    expect.soft(worked(joined), `${view}: ${whole} rows for all`).toBeLessThan(Math.max(whole / 10, 100 * CHOSEN));
  }
});

it('the messages of the chosen episodes are put together from their contexts alone', async () => {
  const { rows } = await fresh.db.query<{ 'QUERY PLAN': string }>(
    `explain (analyze, timing off, summary off) select m.* from traj.episodes e join traj.messages m using (episode_id) where e.task_id in ('t1', 't2')`,
  );
  const calls = rows
    .map((row) => /Function Scan on messages_shown.*loops=(\d+)/.exec(row['QUERY PLAN'])?.[1])
    .find(Boolean);
  // Two tasks of four episodes of ten calls.
  expect(Number(calls)).toBe(80);
});
