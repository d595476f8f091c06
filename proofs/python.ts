/** The Python that proofs run beside Troupe: finding it, or saying how to get it. */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';

const REQUIREMENTS = join(import.meta.dirname, 'requirements.txt');

export type Found = { readonly python: string } | { readonly missing: string };

/** `TROUPE_PYTHON` if it is set, else the environment that `.ci/run` makes. A module that is missing is named, and how to get it. */
export function findPython(env: Readonly<Record<string, string | undefined>>): Found {
  const named = env.TROUPE_PYTHON;
  const made = join(cacheFolder(env), 'bin', 'python');
  if (!named && !existsSync(made)) return { missing: `no Python with torch; ${howTo(made)}` };
  const python = named || made;
  const modules = readFileSync(REQUIREMENTS, 'utf8').match(/^[a-z0-9_-]+(?===)/gm) ?? [];
  const look = `import importlib.util as u\nprint(*[m for m in ${JSON.stringify(modules)} if u.find_spec(m) is None])`;
  const { status, stdout, error } = spawnSync(python, ['-c', look], { encoding: 'utf8' });
  if (status !== 0)
    return { missing: `${python} cannot be run (${error?.message ?? `exit code ${status}`}); ${howTo(made)}` };
  const lacking = stdout.trim();
  return lacking === ''
    ? { python }
    : { missing: `${python} lacks ${lacking}; say: ${python} -m pip install -r proofs/requirements.txt` };
}

/** Where `.ci/run` keeps it: a folder named by the requirements, so that a change of them makes another. */
function cacheFolder(env: Readonly<Record<string, string | undefined>>): string {
  const digest = createHash('sha256').update(readFileSync(REQUIREMENTS)).digest('hex').slice(0, 12);
  return join(env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'troupe-ci', `venv-${digest}`);
}

function howTo(made: string): string {
  const folder = join(made, '..', '..');
  return `say: python3 -m venv ${folder} && ${folder}/bin/pip install -r proofs/requirements.txt (about 6 GB), or set TROUPE_PYTHON`;
}
