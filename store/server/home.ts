/** Where one installation keeps what is its own: the folder `TROUPE_HOME`, by default `.troupe`. */
import { rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { TroupeError } from '../../errors.ts';
import { makeFolder } from '../../ingest/files/make-folder.ts';
import { isFullDisk } from '../db/faults.ts';

export type Home = {
  readonly root: string;
  /** The embedded database; a link when it has to lie elsewhere. */
  readonly data: string;
  readonly artifacts: string;
  readonly datasets: string;
  /** Files that datasets must share no text with; made by whoever puts one there. */
  readonly benchmarks: string;
  readonly checkpoints: string;
  /** Pruned episodes; made by the first prune. */
  readonly archives: string;
  /** What a process must know while the database is away, as last read from it. */
  readonly sealed: string;
  /** Sockets, locks and logs of what runs now; may be deleted when nothing runs. */
  readonly run: string;
};

/** The layout below `dir`, made absolute. Touches nothing. */
export function homeAt(dir: string): Home {
  const root = resolve(dir);
  return {
    root,
    data: join(root, 'data'),
    artifacts: join(root, 'artifacts'),
    datasets: join(root, 'datasets'),
    benchmarks: join(root, 'benchmarks'),
    checkpoints: join(root, 'checkpoints'),
    archives: join(root, 'archives'),
    sealed: join(root, 'sealed'),
    run: join(root, 'run'),
  };
}

const REASONS: Readonly<Record<string, string>> = {
  EACCES: 'permission denied',
  EPERM: 'permission denied',
  EROFS: 'the file system is read-only',
  ENOSPC: 'the disk is full',
  EDQUOT: 'the disk quota is used up',
  ENOTDIR: 'a file is in the way',
  EEXIST: 'a file is in the way',
  ENOENT: 'no folder can be made there',
};

/**
 * Makes the folders that are missing, for this user only (0700), and proves that they can be written.
 * @throws TroupeError `home_unwritable`, naming the folder and the reason.
 */
export function openHome(dir: string): Home {
  const home = homeAt(dir);
  try {
    for (const folder of [home.root, home.artifacts, home.datasets, home.checkpoints, home.run]) {
      makeFolder(folder, 0o700);
    }
    const proof = join(home.run, `.writable-${process.pid}`);
    writeFileSync(proof, '');
    rmSync(proof);
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? '';
    throw new TroupeError(
      isFullDisk(error) ? 'disk_full' : 'home_unwritable',
      `Cannot write the home ${home.root}: ${REASONS[code] ?? code}. Set TROUPE_HOME or --home to a folder this user can write.`,
      { field: 'TROUPE_HOME', got: code, cause: error },
    );
  }
  return home;
}
