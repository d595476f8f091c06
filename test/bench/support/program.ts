/** `bench` as a program of its own, on a machine on which no Python has what peers need. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

export const loader = pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href;

/** `empty` is a folder without anything in it; `remove` takes it away. */
export function benchProgram() {
  const empty = mkdtempSync(join(tmpdir(), 'troupe-bench-test-'));
  const { PATH = '', HOME = '' } = process.env;
  const env = { PATH, HOME, XDG_CACHE_HOME: empty, TROUPE_BENCH_PYTHON: join(empty, 'python') };
  const program = join(import.meta.dirname, '../../../bench/run.ts');
  return {
    empty,
    env,
    bench: (...args: string[]) =>
      spawnSync(process.execPath, ['--import', loader, program, ...args], { encoding: 'utf8', env }),
    remove: () => rmSync(empty, { recursive: true }),
  };
}
