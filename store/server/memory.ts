/** The memory that one process of the embedded server may take, held by the system: the program `prlimit` of util-linux sets it. */
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import { TroupeError } from '../../errors.ts';
import { serverIdentity } from './binaries.ts';

const run = promisify(execFile);

/** True where `limitMemory` has an effect: on Linux with `prlimit`. */
export async function canLimitMemory(): Promise<boolean> {
  if (process.platform !== 'linux') return false;
  return run('prlimit', ['--version']).then(
    () => true,
    () => false,
  );
}

/**
 * From here on the backend gets no memory of its own beyond `bytes`, shared buffers not counted: a statement that asks for more fails
 * with "out of memory" (53200), and the backend and the server go on. Nothing happens where `canLimitMemory` is false.
 * @throws TroupeError `sql_refused` where `pid` is not a backend of `role` on this machine, or the limit cannot be set
 */
export async function limitMemory(pid: number, role: string, bytes: number): Promise<void> {
  if (process.platform !== 'linux') return;
  try {
    // A number from another container would be another process here.
    if (!(await isBackendOf(pid, role))) throw new Error(`process ${pid} is not a backend of ${role}`);
    // A process of the same user may set it; root in a container often lacks the right to set it for others.
    await run('prlimit', ['--pid', String(pid), `--data=${bytes}`], { ...serverIdentity(), cwd: '/' });
  } catch (error) {
    const { code, path, message } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' && path === 'prlimit') return;
    throw new TroupeError('sql_refused', `The memory of the query's process could not be limited: ${message}.`, {
      cause: error,
    });
  }
}

/** True where that process of this machine works for `role`, or beside one that does; false also where /proc does not show it. */
export const isBackendOf = (pid: number, role: string): Promise<boolean> =>
  readFile(`/proc/${pid}/cmdline`, 'latin1').then(
    (title) => title.startsWith(`postgres: ${role} `) || title.startsWith('postgres: parallel worker for PID '),
    () => false,
  );
