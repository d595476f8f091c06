/**
 * Proof that the notebook and the script of `examples/analysis` run as they stand, and that every interface gives the same answer: pandas,
 * polars and DuckDB by the login, Arrow over HTTP, Parquet of a query and of an exported dataset, and the library.
 */
import { execFile } from 'node:child_process';
import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { openProject } from '../cli/open-project.ts';
import { calculatorTeam } from './calculator-team.ts';
import type { Outcome, Proof, Setting } from './proof.ts';
import { findTools } from './tools.ts';
import { runTroupe } from './troupe-process.ts';

const run = promisify(execFile);
const ROOT = join(import.meta.dirname, '..');
const EXAMPLES = join(ROOT, 'examples/analysis');
const TASKS = 5;
// Two attempts at each task, one of them solved, of a solver and a checker with two steps each.
const EXPECTED = ['checker', 'solver'].map((role) => [role, 4 * TASKS, 2 * TASKS, 0.5]);

type Rows = readonly (readonly unknown[])[];
type Answers = Readonly<Record<string, Rows>>;

export const proof: Proof = {
  name: 'analysis-examples-agree',
  needs: [],
  async run({ scratch, say }: Setting): Promise<Outcome> {
    const tools = findTools(process.env);
    if ('missing' in tools) return { ok: true, lines: [], skipped: [tools.missing] };
    const lines: string[] = [];
    const check = (what: string, found: unknown, expected: unknown): void => {
      const fine = JSON.stringify(found) === JSON.stringify(expected);
      lines.push(fine ? `ok  ${what}` : `NOT OK  ${what}: ${JSON.stringify({ found, expected })}`);
      say(lines.at(-1)!);
    };
    const home = join(scratch, 'home');
    const events = join(scratch, 'events.jsonl');
    writeFileSync(events, calculatorTeam(TASKS));
    const project = await openProject({ home });
    await project.import({ paths: [events] });
    await project.close();
    const server = await runTroupe('serve', { home, env: {} });
    try {
      const { DATABASE_URL: _, ...rest } = process.env;
      const env = { ...rest, TROUPE_HOME: home, SERVER: server.url, ...(await prepared(scratch, tools.python)) };
      const script = await run(process.execPath, ['--import', 'tsx', join(EXAMPLES, 'answers.ts'), server.url], {
        cwd: ROOT,
        env,
      });
      const notebook = await run(
        tools.python,
        [join(import.meta.dirname, 'run_notebook.py'), join(EXAMPLES, 'answers.ipynb')],
        { env },
      );
      const { columns, library, dataset_arrow, ...byScript } = JSON.parse(script.stdout) as Answers;
      const { columns: _columns, dataset_parquet, ...byNotebook } = JSON.parse(notebook.stdout) as Answers;
      check('the question has its columns', columns, ['role', 'steps', 'episodes', 'characters', 'solved']);
      check(
        'the library counts what was recorded',
        library!.map(([role, steps, episodes, , solved]) => [role, steps, episodes, solved]),
        EXPECTED,
      );
      for (const [where, answers] of [
        ['script', byScript],
        ['notebook', byNotebook],
      ] as const)
        for (const [how, rows] of Object.entries(answers)) check(`${where}: ${how} gives the same`, rows, library);
      check(
        'the dataset counts the same steps, read as Arrow by the script',
        dataset_arrow,
        library!.map(([role, steps]) => [role, steps]),
      );
      check(
        'and as exported Parquet by the notebook',
        dataset_parquet,
        library!.map(([role, steps, episodes]) => [role, steps, episodes]),
      );
    } finally {
      await server.end('SIGTERM');
    }
    return { ok: lines.every((line) => line.startsWith('ok')), lines };
  },
};

/** An environment with `npx troupe` of this checkout, and a home in which DuckDB finds its extension, so that nothing is downloaded. */
async function prepared(scratch: string, python: string): Promise<Readonly<Record<string, string>>> {
  const bin = join(scratch, 'bin');
  mkdirSync(bin);
  writeFileSync(join(bin, 'npx'), `#!/bin/sh\nshift\nexec ${process.execPath} ${ROOT}/bin/troupe.js "$@"\n`);
  chmodSync(join(bin, 'npx'), 0o755);
  const asked = `import duckdb, importlib.util as u, json
platform = duckdb.sql('pragma platform').fetchone()[0]
print(json.dumps([duckdb.__version__, platform, u.find_spec('duckdb_extension_postgres_scanner').submodule_search_locations[0]]))`;
  const [version, platform, from] = JSON.parse((await run(python, ['-c', asked])).stdout) as string[];
  const extensions = join(scratch, '.duckdb/extensions', `v${version}`, platform!);
  mkdirSync(extensions, { recursive: true });
  const name = 'postgres_scanner.duckdb_extension';
  symlinkSync(join(from!, 'extensions', `v${version}`, name), join(extensions, name));
  return { HOME: scratch, PATH: `${bin}:${process.env.PATH}` };
}
