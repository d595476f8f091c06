/** Real processes for the tests of the embedded server: users that open a database, and what runs on a home. */
import { type ChildProcessByStdio, execFileSync, spawn } from 'node:child_process';
import { chmodSync, chownSync, existsSync, mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import type { DatabaseOptions } from '../../../store/db/database.ts';
import { compiledProgram } from '../../support/program.ts';

export const isRoot = process.getuid?.() === 0;
export const NOBODY = { uid: 65534, gid: 65534 };

export type Opened = { readonly ms: number; readonly url: string; readonly since: string };

export type User = {
  readonly child: ChildProcessByStdio<Writable, Readable, Readable>;
  /** What it printed when its database was open; rejects with what it wrote to stderr when it ended before. */
  readonly opened: Promise<Opened>;
  readonly ended: Promise<number | null>;
  /** Ends its input, upon which it closes its database. */
  leave(): Promise<number | null>;
};

const userProgram = await compiledProgram(join(import.meta.dirname, 'user.ts'));
const loader = pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href;

/** A server that is made fast and stops soon: most tests are about neither durability nor patience. */
export const QUICK = { durable: false, idleMs: 500 } as const;

/**
 * Starts `user.ts` on a database, with `QUICK` by default; `as` runs it as another user,
 * `becoming` makes it one once it is loaded, `from` is another checkout.
 */
export function startUser(
  options: DatabaseOptions,
  how: { as?: typeof NOBODY; becoming?: typeof NOBODY; from?: URL } = {},
): User {
  const program = how.from ? ['--import', loader, new URL('test/store/db/user.ts', how.from).pathname] : [userProgram];
  const child = spawn(
    process.execPath,
    [...program, JSON.stringify({ embedded: QUICK, ...options }), String(how.becoming?.uid ?? 0)],
    {
      ...how.as,
      cwd: '/',
      stdio: ['pipe', 'pipe', 'pipe'],
    },
  );
  child.stdin.on('error', () => {});
  const ended = new Promise<number | null>((resolve) => child.once('close', resolve));
  const stderr = text(child.stderr);
  const opened = new Promise<Opened>((resolve, reject) => {
    let output = '';
    child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
      output += chunk;
      if (output.endsWith('\n')) resolve(JSON.parse(output) as Opened);
    });
    void ended.then(async () => reject(new Error(await stderr)));
  });
  opened.catch(() => {});
  return {
    child,
    opened,
    ended,
    leave: () => {
      child.stdin.end();
      return ended;
    },
  };
}

/** A folder for one test, open to every user so that a home below it can belong to any. */
export function openFolder(owner?: typeof NOBODY): string {
  const folder = mkdtempSync(join(tmpdir(), 'troupe-home-'));
  chmodSync(folder, 0o755);
  if (owner) chownSync(folder, owner.uid, owner.gid);
  return folder;
}

/** Process ids whose command line names the home or the folder its data lie in. */
export function processesOf(home: string, what: RegExp): number[] {
  const data = join(home, 'data');
  const places = [home, existsSync(data) ? realpathSync(data) : home];
  return execFileSync('ps', ['-eo', 'pid=,args='], { encoding: 'utf8' })
    .split('\n')
    .filter((line) => places.some((place) => line.includes(place)) && what.test(line))
    .map((line) => Number.parseInt(line, 10));
}

export const SERVER = /bin\/postgres -D/;
export const POSTMASTER = /^ *\d+ \S*\/bin\/postgres -D/;
export const KEEPER = /keeper\.[tj]s/;

/** Waits until nothing of the home's server runs any more; returns after how many milliseconds. */
export async function untilGone(home: string, patience = 10_000): Promise<number> {
  const start = performance.now();
  while (processesOf(home, SERVER).length > 0 || processesOf(home, KEEPER).length > 0) {
    if (performance.now() - start > patience) {
      throw new Error(`still running after ${patience} ms: ${processesOf(home, /./)}`);
    }
    await sleep(50);
  }
  return performance.now() - start;
}

/** Ends what a failed test has left and removes its folder. */
export async function cleanUp(folder: string, home: string): Promise<void> {
  for (const pid of processesOf(home, /user\.ts|keeper\./)) if (pid !== process.pid) process.kill(pid, 'SIGKILL');
  await untilGone(home);
  rmSync(folder, { recursive: true, force: true });
}
