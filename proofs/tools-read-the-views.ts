/**
 * Proof that programs of others read the views of the embedded server: psql, pandas through SQLAlchemy and psycopg, and DuckDB through its
 * extension for PostgreSQL, at the Unix socket and at the TCP port that `troupe sql` gives; and that nothing else lets them in there.
 */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { openProject } from '../cli/open-project.ts';
import { calculatorTeam } from './calculator-team.ts';
import type { Outcome, Proof, Setting } from './proof.ts';
import { findTools } from './tools.ts';

const run = promisify(execFile);
const TROUPE = join(import.meta.dirname, '..', 'bin/troupe.js');
const TASKS = 5;

type Report = {
  readonly pandas: { readonly counts: unknown; readonly episodes: number; readonly views: number };
  readonly duckdb: { readonly counts: unknown; readonly episodes: number };
  readonly through: readonly string[];
};

export const proof: Proof = {
  name: 'tools-read-the-views',
  needs: [],
  async run({ scratch, say }: Setting): Promise<Outcome> {
    const tools = findTools(process.env);
    if ('missing' in tools) return { ok: true, lines: [], skipped: [tools.missing] };
    const lines: string[] = [];
    const skipped: string[] = [];
    const check = (what: string, fine: boolean, otherwise: unknown = ''): void => {
      lines.push(fine ? `ok  ${what}` : `NOT OK  ${what}: ${JSON.stringify(otherwise)}`);
      say(lines.at(-1)!);
    };
    const { DATABASE_URL: _, ...env } = process.env;
    const home = join(scratch, 'home');
    const troupe = (...args: string[]) => [TROUPE, '--home', home, ...args];
    const expected = await recorded(scratch, home);
    const port = spawn(process.execPath, troupe('sql', 'listen', '0', '--json'), {
      env,
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    try {
      const [line] = (await once(createInterface({ input: port.stdout }), 'line')) as [string];
      const socket = JSON.parse((await run(process.execPath, troupe('sql', 'url', '--json'), { env })).stdout);
      for (const [where, url] of [
        ['the TCP port', JSON.parse(line).url],
        ['the Unix socket', socket.url],
      ] as const) {
        const program = join(import.meta.dirname, 'tools_read_the_views.py');
        const report = JSON.parse((await run(tools.python, [program, url], { env })).stdout) as Report;
        const { pandas, duckdb } = report;
        const same = (counts: unknown) => JSON.stringify(counts) === JSON.stringify(expected.counts);
        check(`pandas counts steps by role at ${where}`, same(pandas.counts), [pandas.counts, expected.counts]);
        check(`pandas reads traj.episodes at ${where}`, pandas.episodes === expected.episodes, pandas.episodes);
        check(`SQLAlchemy lists the views at ${where}`, pandas.views === expected.views, pandas.views);
        check(`DuckDB counts steps by role at ${where}`, same(duckdb.counts), [duckdb.counts, expected.counts]);
        check(`DuckDB reads traj.episodes at ${where}`, duckdb.episodes === expected.episodes, duckdb.episodes);
        check(`what the login must not do is refused at ${where}`, report.through.length === 0, report.through);
        const psql = await run('psql', [url, '-At', '-c', 'select count(*) from episodes'], { env }).catch(
          (error: NodeJS.ErrnoException) => error,
        );
        if ('code' in psql && psql.code === 'ENOENT') skipped.push(`psql at ${where}: install a PostgreSQL client`);
        else
          check(`psql reads episodes at ${where}`, 'stdout' in psql && Number(psql.stdout) === expected.episodes, psql);
      }
    } finally {
      port.kill('SIGTERM');
      await once(port, 'exit');
    }
    return { ok: lines.every((line) => line.startsWith('ok')), lines, skipped };
  },
};

/** Imports a made-up team's work, and counts it by the library. */
async function recorded(scratch: string, home: string) {
  const events = join(scratch, 'events.jsonl');
  writeFileSync(events, calculatorTeam(TASKS));
  const project = await openProject({ home });
  try {
    await project.import({ paths: [events] });
    const { rows: counts } = await project.sql({ sql: 'select role, count(*) from traj.steps group by 1 order by 1' });
    const { rows } = await project.sql({
      sql: `select count(*)::integer from pg_class where relnamespace in ('traj'::regnamespace, 'report'::regnamespace) and relkind = 'v'`,
    });
    return { episodes: 2 * TASKS, counts, views: rows[0]![0] };
  } finally {
    await project.close();
  }
}
