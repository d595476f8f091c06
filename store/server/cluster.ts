/**
 * The folder of the embedded database: `cluster/` as initdb makes it and `password` beside it (0600). Both are made
 * in a fresh folder that is renamed into place, so a cluster is there whole with its own password or not at all, and
 * of two that make one at once, one wins and both use it.
 */
import { spawn, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import {
  chmodSync,
  chownSync,
  existsSync,
  lstatSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { TroupeError } from '../../errors.ts';
import { fullDiskIn } from '../db/faults.ts';
import { type Binaries, claimBase, type Identity } from './binaries.ts';
import { nameHome } from './elsewhere.ts';

export const SUPERUSER = 'troupe';

/** The server's whole environment: nothing of ours (PGPORT, TZ, LANG …) may change what it does. */
export const SERVER_ENV = { PATH: process.env.PATH ?? '/usr/bin:/bin', LC_ALL: 'C', TZ: 'UTC' } as const;

export type Cluster = { readonly folder: string; readonly password: string };

const HALF = '.making-';
/** Behind the path of a cluster: the one that an upgrade made of it, which takes its place in the next moment. */
export const UPGRADED = '.upgraded';
const ABANDONED_MS = 10 * 60_000;

/**
 * The cluster at `path`, made if missing. Where the server's user cannot reach `path` (a checkout of root below a
 * 0700 folder) the cluster is made in the base folder, names the home, and `path` is a link to it.
 * @throws TroupeError `platform_unsupported` when initdb fails, `conflict` for a cluster of another major version
 */
export async function ensureCluster(binaries: Binaries, path: string, durable: boolean): Promise<Cluster> {
  if (!isThere(path) && isThere(`${path}${UPGRADED}`)) renameSync(`${path}${UPGRADED}`, path);
  if (!isThere(path)) {
    sweep(path);
    const { identity } = binaries;
    if (identity) admit(dirname(path), identity);
    if (!identity || reaches(identity, dirname(path))) await makeAt(binaries, path, durable);
    else await makeElsewhere(binaries, path, durable);
  }
  return readCluster(binaries, path);
}

/** Deletes the cluster at `path`, also where `path` is only the link to it. No server may be running on it. */
export function removeCluster(path: string): void {
  if (!isThere(path)) return;
  if (lstatSync(path).isSymbolicLink() && existsSync(path))
    rmSync(realpathSync(path), { recursive: true, force: true });
  rmSync(path, { recursive: true, force: true });
}

const isThere = (path: string): boolean => lstatSync(path, { throwIfNoEntry: false }) !== undefined;

function readCluster(binaries: Binaries, path: string): Cluster {
  let folder: string;
  let major: string;
  let password: string;
  try {
    folder = realpathSync(path);
    major = readFileSync(join(folder, 'cluster', 'PG_VERSION'), 'utf8').trim();
    password = readFileSync(join(folder, 'password'), 'utf8').trim();
  } catch (error) {
    throw new TroupeError(
      'conflict',
      `${path} is not a whole database of Troupe (${(error as NodeJS.ErrnoException).code}: ${basename((error as NodeJS.ErrnoException).path ?? path)}); restore it, or move it away to start empty.`,
      { cause: error },
    );
  }
  if (major !== binaries.version.split('.')[0]) {
    throw new TroupeError(
      'conflict',
      `${path} was made by PostgreSQL ${major}, this Troupe brings ${binaries.version}; move it with \`troupe upgrade\`, use the Troupe that made it, or move it away to start empty.`,
      { expected: binaries.version, got: major },
    );
  }
  if (lstatSync(path).isSymbolicLink()) nameHome(folder, realpathSync(dirname(path)));
  return { folder, password };
}

/** Lets the server's group pass through the folder of root, without letting it list or write there. */
function admit(folder: string, identity: Identity): void {
  chownSync(folder, 0, identity.gid);
  chmodSync(folder, 0o710);
}

const reaches = (identity: Identity, folder: string): boolean =>
  spawnSync('/bin/sh', ['-c', 'test -x "$0"', folder], { ...identity, cwd: '/', stdio: 'ignore' }).status === 0;

async function makeAt(binaries: Binaries, path: string, durable: boolean): Promise<void> {
  const fresh = await make(binaries, path, durable);
  try {
    renameSync(fresh, path);
  } catch {
    rmSync(fresh, { recursive: true, force: true });
  }
}

async function makeElsewhere(binaries: Binaries, path: string, durable: boolean): Promise<void> {
  const beside = join(claimBase(binaries.base), 'data');
  sweep(beside);
  const made = await make(binaries, beside, durable);
  const folder = made.replace(HALF, '-');
  renameSync(made, folder);
  try {
    symlinkSync(folder, path);
  } catch {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function make(binaries: Binaries, beside: string, durable: boolean): Promise<string> {
  const { bin, identity } = binaries;
  const folder = mkdtempSync(`${beside}${HALF}`);
  const passwordFile = join(folder, 'password');
  writeFileSync(passwordFile, `${randomBytes(24).toString('base64url')}\n`, { mode: 0o600 });
  if (identity) for (const own of [folder, passwordFile]) chownSync(own, identity.uid, identity.gid);
  const failure = await runInitdb(
    join(bin, 'initdb'),
    [
      ...['-D', join(folder, 'cluster'), '-U', SUPERUSER, '--auth=scram-sha-256', `--pwfile=${passwordFile}`],
      ...['--encoding=UTF8', '--locale=C', '--locale-provider=builtin', '--builtin-locale=C.UTF-8', '--data-checksums'],
      ...(durable ? [] : ['--no-sync']),
    ],
    identity,
  );
  if (failure === null) return folder;
  rmSync(folder, { recursive: true, force: true });
  const full = fullDiskIn(failure, dirname(folder));
  if (full !== null) throw full;
  const reason = /could not look up effective user ID/.test(failure)
    ? `user ${process.getuid!()} has no entry in /etc/passwd, which initdb needs`
    : `initdb failed: ${failure.trim().split('\n').at(-1)}`;
  throw new TroupeError(
    'platform_unsupported',
    `The embedded PostgreSQL cannot be set up: ${reason}. Set DATABASE_URL to a PostgreSQL server instead.`,
    { got: failure },
  );
}

function runInitdb(program: string, args: readonly string[], identity: Identity | null): Promise<string | null> {
  return new Promise((resolve) => {
    const child = spawn(program, args, { ...identity, cwd: '/', env: SERVER_ENV, stdio: ['ignore', 'ignore', 'pipe'] });
    let output = '';
    child.stderr.on('data', (chunk: Buffer) => {
      output += chunk;
    });
    child.once('error', (error) => resolve(error.message));
    child.once('close', (code) => resolve(code === 0 ? null : output || `exit code ${code}`));
  });
}

/** Removes what a maker that was killed has left beside `path`. */
function sweep(path: string): void {
  const folder = dirname(path);
  for (const name of readdirSync(folder)) {
    if (!name.startsWith(`${basename(path)}${HALF}`)) continue;
    const half = join(folder, name);
    if (Date.now() - (lstatSync(half, { throwIfNoEntry: false })?.mtimeMs ?? Date.now()) < ABANDONED_MS) continue;
    rmSync(half, { recursive: true, force: true });
  }
}
