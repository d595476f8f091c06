/**
 * How much processor time each view of the schemas traj and report takes, whole and for one episode: `tsx bench/views.ts HOME PROJECT [VIEWS]`, VIEWS a
 * regular expression. Milliseconds that the backend of an embedded server was on a processor (/proc/PID/schedstat, Linux) for
 * `explain (analyze, timing off)` without parallel workers; the episode is the one with most rows in the view. Prints JSON lines, slowest first.
 */
import { readFileSync } from 'node:fs';
import { VIEW_SCHEMAS } from '../migrations/views.ts';
import { openDatabase } from '../store/db/database.ts';

const [home = '.troupe', project = 'troupe', only] = process.argv.slice(2);
const { db, close } = await openDatabase({ home, project, applicationName: 'troupe bench views' });
try {
  const { rows: views } = await db.query<{ view: string; columns: string[] }>(
    `select c.relnamespace::regnamespace || '.' || c.relname as view, array_agg(a.attname::text) as columns from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0
     where c.relnamespace::regnamespace::text = any ($1) and c.relkind = 'v' group by 1 order by 1`,
    [VIEW_SCHEMAS],
  );
  const measured = [];
  for (const { view, columns } of views) {
    if (only !== undefined && !view.match(`^(${only})$`)) continue;
    const whole = await timeOf(`select * from ${view}`);
    const longest = columns.includes('episode_id') ? await longestIn(view) : null;
    const one = longest === null ? null : await timeOf(`select * from ${view} where episode_id = '${longest}'`);
    measured.push({
      view,
      rows: whole.rows,
      whole_ms: whole.ms,
      one_episode_rows: one?.rows ?? null,
      one_episode_ms: one?.ms ?? null,
    });
  }
  measured.sort((a, b) => b.whole_ms - a.whole_ms);
  for (const line of measured) console.log(JSON.stringify(line));
} finally {
  await close();
}

/** The episode with most rows; null where no row has one. */
async function longestIn(view: string): Promise<string | null> {
  const { rows } = await db.query<{ episode_id: string }>(
    `select episode_id from ${view} where episode_id is not null group by 1 order by count(*) desc, 1 limit 1`,
  );
  return rows[0]?.episode_id ?? null;
}

/** Nanoseconds on a processor so far. */
function onProcessor(pid: number): number {
  return Number(readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ')[0]);
}

/** Planning and execution in milliseconds of processor time; -1 where it ran past two minutes. */
async function timeOf(sql: string): Promise<{ ms: number; rows: number }> {
  return db
    .transaction(
      async (tx) => {
        await tx.query(
          'set local statement_timeout = 120000; set local max_parallel_workers_per_gather = 0; set local jit = off',
        );
        const { rows: session } = await tx.query<{ pid: number }>('select pg_backend_pid() as pid');
        const before = onProcessor(session[0]!.pid);
        const { rows } = await tx.query<{ 'QUERY PLAN': [{ Plan: { 'Actual Rows': number } }] }>(
          `explain (analyze, timing off, format json) ${sql}`,
        );
        const ms = Math.round((onProcessor(session[0]!.pid) - before) / 1e6);
        return { ms, rows: rows[0]!['QUERY PLAN'][0].Plan['Actual Rows'] };
      },
      { readOnly: true },
    )
    .catch((error: unknown) => {
      if ((error as { code?: string }).code === '57014') return { ms: -1, rows: -1 };
      throw error;
    });
}
