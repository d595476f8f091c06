/**
 * Databases that lie outside their home, in the base folder (`makeElsewhere` in `cluster.ts`). Beside `cluster` such a folder has the file
 * `home` with the path of its home, so that a database whose home was deleted can be found. Nothing here deletes.
 */
import { existsSync, lstatSync, readdirSync, readFileSync, realpathSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { defaultBase } from './binaries.ts';

/** A database that no home is known to use. */
export type LeftBehind = {
  readonly folder: string;
  /** Where its home was; null where the folder is older than the file that says so. */
  readonly home: string | null;
  /** Size on the disk. */
  readonly bytes: number;
  /** Process id of a server that still runs on it. */
  readonly server: number | null;
};

/** Says in the folder which home it belongs to; a home that was moved says it again when it is opened. */
export function nameHome(folder: string, home: string): void {
  try {
    if (homeOf(folder) !== home) writeFileSync(join(folder, 'home'), `${home}\n`, { mode: 0o600 });
  } catch {
    // A full disk must not keep the database from starting; the next start says it.
  }
}

/** The folders of databases in the base folder, each with its home. Only root has any. */
export function madeElsewhere(
  base: string = defaultBase(),
): { readonly folder: string; readonly home: string | null }[] {
  return namesIn(base)
    .filter((name) => name.startsWith('data-'))
    .map((name) => join(base, name))
    .map((folder) => ({ folder, home: homeOf(folder) }));
}

/** None in a folder that is missing or another user's. */
function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

/**
 * Those of them whose home is gone or has no link to them, and those of unknown home that `own` does not link to and no server runs on:
 * an older Troupe may have one open.
 */
export function leftBehind(own: string, base: string = defaultBase()): LeftBehind[] {
  return madeElsewhere(base)
    .filter(({ folder, home }) => ![own, home].some((at) => at !== null && linksTo(at, folder)))
    .map(({ folder, home }) => ({ folder, home, bytes: sizeOf(folder), server: serverOn(folder) }))
    .filter(({ home, server }) => home !== null || server === null);
}

const homeOf = (folder: string): string | null => textOf(join(folder, 'home'))?.trim() ?? null;

function textOf(file: string): string | null {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}

/** `data`, and `data-17` that an upgrade left. */
const linksTo = (home: string, folder: string): boolean =>
  namesIn(home)
    .filter((name) => name.startsWith('data'))
    .map((name) => join(home, name))
    .some((link) => existsSync(link) && realpathSync(link) === realpathSync(folder));

function sizeOf(path: string): number {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found === undefined) return 0;
  const below = found.isDirectory() ? namesIn(path).map((name) => sizeOf(join(path, name))) : [];
  return below.reduce((sum, bytes) => sum + bytes, found.blocks * 512);
}

function serverOn(folder: string): number | null {
  const pid = Number.parseInt(textOf(join(folder, 'cluster', 'postmaster.pid')) ?? '', 10);
  return existsSync(`/proc/${pid}`) ? pid : null;
}
