/** The Python that peers run in: one that has the packages a benchmark compares with, or the line that says how to get it. */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';

export type Found = { readonly python: string } | { readonly missing: string };

type Environment = Readonly<Record<string, string | undefined>>;

/** Where it is looked for when nobody names one, and where the hint says to make it. */
export const benchFolder = (env: Environment): string =>
  join(env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'troupe-bench', 'venv');

/**
 * `TROUPE_BENCH_PYTHON` if it is set, and nothing else then; otherwise the environment of the benchmarks, or that of the
 * proofs (`TROUPE_PYTHON`), the first that has all `modules`.
 */
export function findPython(modules: readonly string[], env: Environment): Found {
  const folder = benchFolder(env);
  const candidates = env.TROUPE_BENCH_PYTHON
    ? [env.TROUPE_BENCH_PYTHON]
    : [join(folder, 'bin', 'python'), env.TROUPE_PYTHON].filter((path) => path !== undefined && existsSync(path));
  const howTo = `say: python3 -m venv ${folder} && ${folder}/bin/pip install -r bench/requirements.txt (about 6 GB), or set TROUPE_BENCH_PYTHON`;
  const lacks: string[] = [];
  for (const python of candidates as string[]) {
    const lacking = missingFrom(python, modules);
    if (lacking === '') return { python };
    lacks.push(lacking);
  }
  return { missing: `${lacks[0] ?? `no Python with ${modules.join(', ')}`}; ${howTo}` };
}

/** Empty when all modules are there, else a phrase that says what is wrong. */
function missingFrom(python: string, modules: readonly string[]): string {
  const look = `import importlib.util as u\nprint(*[m for m in ${JSON.stringify(modules)} if u.find_spec(m) is None])`;
  const { status, stdout, error } = spawnSync(python, ['-c', look], { encoding: 'utf8' });
  if (status !== 0) return `${python} cannot be run (${error?.message ?? `exit code ${status}`})`;
  const lacking = stdout.trim();
  return lacking === '' ? '' : `${python} lacks ${lacking.replaceAll(' ', ', ')}`;
}
