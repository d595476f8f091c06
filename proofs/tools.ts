/** The Python with pandas, polars, DuckDB and a notebook's kernel that the views are read with. */
import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';

const REQUIREMENTS = join(import.meta.dirname, 'tools', 'requirements.txt');

/** As `tools/install` makes it, or how to get it. */
export function findTools(
  env: Readonly<Record<string, string | undefined>>,
): { readonly python: string } | { readonly missing: string } {
  const digest = createHash('sha256').update(readFileSync(REQUIREMENTS)).digest('hex').slice(0, 12);
  const venv = join(env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'troupe-ci', `tools-${digest}`);
  return existsSync(join(venv, 'complete'))
    ? { python: join(venv, 'bin', 'python') }
    : { missing: 'no Python with pandas, polars and DuckDB; say: proofs/tools/install (about 1 minute, 800 MB)' };
}
