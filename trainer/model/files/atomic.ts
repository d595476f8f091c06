/**
 * Publishing: a file or a directory is either not there or there completely, whenever the process or the machine dies.
 * Written beside its place, flushed, renamed into it, and the folder flushed. The order is the whole point of this file.
 */
import { createHash, randomUUID } from 'node:crypto';
import { readdir, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { TroupeError } from '../../../errors.ts';
import { type Disk, disk, type FileParts } from './disk.ts';

/**
 * `durable: false` leaves out the flushes: a crash of the process still shows all or nothing, a crash of the machine may
 * lose or tear what was published. For weights that the next iteration replaces anyway.
 */
export type PublishOptions = { readonly durable?: boolean; readonly disk?: Disk };

/** What was written or read of one file. */
export type FileFacts = { readonly bytes: number; readonly sha256: string };

export type FilesFacts = Readonly<Record<string, FileFacts>>;

export type Files = ReadonlyMap<string, Uint8Array>;

const TEMPORARY = /^\.tmp-(\d+)-([0-9a-f]{8})-/;
/** Distinguishes this process's temporaries from those of an earlier process with the same number (every container starts at 1). */
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
    await on.writeFile(temporary, [bytes], durable);
    await on.rename(temporary, path);
    if (durable) await on.flushFolder(dirname(path));
  });
}

/** What a directory is called and what is written into it last, once the other files are known. */
export type Seal = { readonly name: string; readonly files: Files };

/**
 * Publishes a directory of files in `folder`, which is made where missing. The files are hashed while they are written;
 * `seal` then answers the directory's name, which may follow from the hashes, and the files that vouch for the others.
 * Where `seal` answers null nothing is published and what was written is removed.
 * Throws `conflict` where the name is taken by a directory with something in it, `training_failed` with the reason else.
 */
export async function publishDirectory(
  folder: string,
  files: ReadonlyMap<string, FileParts>,
  seal: (facts: FilesFacts) => Promise<Seal | null> | Seal | null,
  options: PublishOptions = {},
): Promise<void> {
  const { durable = true, disk: on = disk } = options;
  await publish(join(folder, 'new'), on, async (temporary) => {
    await on.makeFolder(folder, durable);
    await on.makeFolder(temporary, false);
    const facts: Record<string, FileFacts> = {};
    const writing: Promise<void>[] = [];
    const write = (name: string, parts: FileParts): Promise<void> => {
      const written = on.writeFile(join(temporary, name), parts, durable);
      writing.push(written);
      return written;
    };
    // A file's hash is known when its last part was asked for, while the device is still at work on it.
    const known = [...files].map(
      ([name, parts]) =>
        new Promise<void>((resolve, reject) => {
          const done = (found: FileFacts): void => {
            facts[name] = found;
            resolve();
          };
          write(name, hashed(parts, done)).catch(reject);
        }),
    );
    const sealing = together(known).then(async () => {
      const sealed = await seal(facts);
      await together([...(sealed?.files ?? [])].map(([name, bytes]) => write(name, [bytes])));
      return sealed;
    });
    const sealed = await sealing.finally(() => together(writing));
    if (sealed === null) return on.remove(temporary);
    if (durable) await on.flushFolder(temporary);
    await on.rename(temporary, join(folder, sealed.name));
    if (durable) await on.flushFolder(folder);
  });
}

/**
 * Publishes a directory that `make` fills file by file, each flushed by `make` itself, as `folder/<name>`.
 * Throws as `publishDirectory` does, and what `make` throws.
 */
export async function publishMade(
  folder: string,
  name: string,
  make: (temporary: string) => Promise<void>,
  { disk: on = disk }: Pick<PublishOptions, 'disk'> = {},
): Promise<void> {
  await publish(join(folder, name), on, async (temporary) => {
    await on.makeFolder(folder, true);
    await on.makeFolder(temporary, false);
    await make(temporary);
    await on.flushFolder(temporary);
    await on.rename(temporary, join(folder, name));
    await on.flushFolder(folder);
  });
}

/** Waits for all, also where one fails, and then throws what failed first: what still ran would outlive its purpose. */
export async function together(work: readonly Promise<void>[]): Promise<void> {
  const done = await Promise.allSettled(work);
  const failed = done.find((result) => result.status === 'rejected');
  if (failed) throw failed.reason;
}

/** The same parts, counted and hashed as they pass; `done` is called when the last one did. */
function* hashed(parts: FileParts, done: (facts: FileFacts) => void): Generator<Uint8Array> {
  const hash = createHash('sha256');
  let bytes = 0;
  for (const part of parts) {
    hash.update(part);
    bytes += part.length;
    yield part;
  }
  done({ bytes, sha256: hash.digest('hex') });
}

async function publish(path: string, on: Disk, steps: (temporary: string) => Promise<void>): Promise<void> {
  const temporary = temporaryBeside(path);
  try {
    await steps(temporary);
  } catch (cause) {
    await on.remove(temporary).catch(() => {});
    if (cause instanceof TroupeError) throw cause;
    const { code, message } = cause as NodeJS.ErrnoException;
    if (code === 'ENOTEMPTY' || code === 'EEXIST') {
      throw new TroupeError('conflict', `The name in ${dirname(path)} is taken already and nothing is replaced.`, {
        cause,
      });
    }
    throw new TroupeError(
      'training_failed',
      `${dirname(path)} could not be written: ${message}. What was there stays.`,
      {
        hint: 'Make room on the disk or repair it, then run the job again: it resumes from the last checkpoint.',
        cause,
      },
    );
  }
}

/**
 * Takes a directory away in one step, then frees its space: nobody sees a half of it. Where `unless` answers true once
 * the name is free, the directory is put back as it was. Answers whether it was removed.
 */
export async function removeWhole(
  path: string,
  { disk: on = disk, unless }: { readonly disk?: Disk; readonly unless?: () => Promise<boolean> } = {},
): Promise<boolean> {
  const temporary = temporaryBeside(path);
  await on.rename(path, temporary);
  if (await unless?.()) {
    await on.rename(temporary, path);
    return false;
  }
  await on.remove(temporary);
  return true;
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
