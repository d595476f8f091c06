/**
 * Publishing: a file or a directory is either not there or there completely, whenever the process or the machine dies.
 * Written beside its place, flushed, renamed into it, and the folder flushed. The order is the whole point of this file.
 */
import { randomUUID } from 'node:crypto';
import { mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { TroupeError } from '../errors.ts';

/** The calls a publication is made of, so that a test can let each of them fail in turn. */
export type Disk = {
  /** Makes a folder and its parents; where `flush` is true the folders that name the new ones are flushed. */
  makeFolder(path: string, flush: boolean): Promise<void>;
  /** Creates the file, which must not exist, and writes all of it; flushed to the device where `flush` is true. */
  writeFile(path: string, bytes: Uint8Array, flush: boolean): Promise<void>;
  /** Flushes a folder's entries to the device. */
  flushFolder(path: string): Promise<void>;
  rename(from: string, to: string): Promise<void>;
  remove(path: string): Promise<void>;
};

export const disk: Disk = {
  async makeFolder(path, flush) {
    const first = await mkdir(path, { recursive: true });
    if (!flush || first === undefined) return;
    for (let at = path; at.length >= first.length; at = dirname(at)) await disk.flushFolder(dirname(at));
  },
  async writeFile(path, bytes, flush) {
    const file = await open(path, 'wx');
    try {
      await file.writeFile(bytes);
      // Once only: after a failed flush the kernel may have dropped the pages and would call a second one a success.
      if (flush) await file.sync();
    } finally {
      await file.close();
    }
  },
  async flushFolder(path) {
    const folder = await open(path, 'r');
    try {
      await folder.sync();
    } finally {
      await folder.close();
    }
  },
  rename,
  remove: (path) => rm(path, { recursive: true, force: true }),
};

/**
 * `durable: false` leaves out the flushes: a crash of the process still shows all or nothing, a crash of the machine may
 * lose or tear what was published. For weights that the next iteration replaces anyway.
 */
export type PublishOptions = { readonly durable?: boolean; readonly disk?: Disk };

export type Files = ReadonlyMap<string, Uint8Array>;

const TEMPORARY = /^\.tmp-(\d+)-([0-9a-f]{8})-/;
/** Tells this process's temporaries from those of an earlier process with the same number (every container starts at 1). */
const PROCESS_MARK = randomUUID().slice(0, 8);
const ABANDONED_AFTER_MS = 60 * 60 * 1000;

/** A name beside `path`, on the same device by construction, that readers skip and `sweepTemporary` recognises. */
const temporaryBeside = (path: string): string =>
  join(dirname(path), `.tmp-${process.pid}-${PROCESS_MARK}-${randomUUID().slice(0, 8)}-${basename(path)}`);

/**
 * Publishes one file, replacing the one of that name in a single step. The folder must exist.
 * Throws `training_failed` with the reason. What is visible then is the file before or the whole new one, and the
 * temporary is gone.
 */
export async function publishFile(path: string, bytes: Uint8Array, options: PublishOptions = {}): Promise<void> {
  const { durable = true, disk: on = disk } = options;
  await publish(path, on, async (temporary) => {
    await on.writeFile(temporary, bytes, durable);
    await on.rename(temporary, path);
    if (durable) await on.flushFolder(dirname(path));
  });
}

/**
 * Publishes a directory of files under a name that is free; its parents are made where missing.
 * Throws `conflict` where the name is taken by a directory with something in it, `training_failed` with the reason else.
 */
export async function publishDirectory(path: string, files: Files, options: PublishOptions = {}): Promise<void> {
  const { durable = true, disk: on = disk } = options;
  await publish(path, on, async (temporary) => {
    await on.makeFolder(dirname(path), durable);
    await on.makeFolder(temporary, false);
    const written = await Promise.allSettled(
      [...files].map(([name, bytes]) => on.writeFile(join(temporary, name), bytes, durable)),
    );
    const failed = written.find((result) => result.status === 'rejected');
    if (failed) throw failed.reason;
    if (durable) await on.flushFolder(temporary);
    await on.rename(temporary, path);
    if (durable) await on.flushFolder(dirname(path));
  });
}

async function publish(path: string, on: Disk, steps: (temporary: string) => Promise<void>): Promise<void> {
  const temporary = temporaryBeside(path);
  try {
    await steps(temporary);
  } catch (cause) {
    await on.remove(temporary).catch(() => {});
    const { code, message } = cause as NodeJS.ErrnoException;
    if (code === 'ENOTEMPTY' || code === 'EEXIST') {
      throw new TroupeError('conflict', `${path} is there already and is not replaced.`, { cause });
    }
    throw new TroupeError('training_failed', `${path} could not be written: ${message}. What was there before stays.`, {
      hint: 'Make room on the disk or repair it, then run the job again: it resumes from the last checkpoint.',
      cause,
    });
  }
}

/** Takes a directory away in one step, then frees its space: nobody sees a half of it. */
export async function removeWhole(path: string): Promise<void> {
  const temporary = temporaryBeside(path);
  await disk.rename(path, temporary);
  await disk.remove(temporary);
}

/**
 * Removes what processes that died while publishing left in `folder`; answers the names removed. What a living process is
 * writing stays, unless it is older than an hour.
 */
export async function sweepTemporary(folder: string): Promise<string[]> {
  const names = await readdir(folder).catch(() => []);
  const removed: string[] = [];
  for (const name of names) {
    const match = TEMPORARY.exec(name);
    if (match && (await isAbandoned(join(folder, name), Number(match[1]), match[2]!))) {
      await disk.remove(join(folder, name));
      removed.push(name);
    }
  }
  return removed;
}

async function isAbandoned(path: string, pid: number, mark: string): Promise<boolean> {
  if (pid === process.pid) return mark !== PROCESS_MARK;
  try {
    process.kill(pid, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return true;
  }
  const facts = await stat(path).catch(() => null);
  return facts !== null && Date.now() - facts.mtimeMs > ABANDONED_AFTER_MS;
}
