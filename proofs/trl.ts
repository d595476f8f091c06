/** The Python with TRL that exported datasets are proved with. */
import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';

const REQUIREMENTS = join(import.meta.dirname, 'trl', 'requirements.txt');

/** As `trl/install` makes it, or how to get it. `torch` is the Python that proofs run beside Troupe. */
export function findTrl(
  env: Readonly<Record<string, string | undefined>>,
  torch: string,
): { readonly python: string } | { readonly missing: string } {
  const digest = createHash('sha256').update(readFileSync(REQUIREMENTS)).digest('hex').slice(0, 12);
  const venv = join(env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'troupe-ci', `trl-${digest}`);
  return existsSync(join(venv, 'complete'))
    ? { python: join(venv, 'bin', 'python') }
    : { missing: `no Python with TRL; say: proofs/trl/install ${torch} (about 1 minute, 300 MB)` };
}
