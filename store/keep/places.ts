/**
 * Where archives lie. An archive has an address, a folder or `s3://BUCKET/PREFIX`, with its files below it. Here are folders; buckets are
 * handed in, since the client of buckets knows nothing of archives.
 */
import { readdir, readFile, rename, rm, stat } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { TroupeError } from '../../errors.ts';
import { type Draft, draftAt, draftPath } from '../datasets/publish.ts';

/** Last among the files of an archive to come and first to go: without it there is none. */
export const MANIFEST = 'manifest.json';

/** The files of one archive. */
export type ArchiveFiles = {
  readonly uri: string;
  /** Null for a file that is not there. */
  readonly read: (name: string) => Promise<Uint8Array | null>;
};

export type ArchivePlace = {
  readonly at: (uri: string) => ArchiveFiles;
  /** Archives at an address: that of one, of a file in one, or of what holds some. Empty where there is none. */
  readonly find: (address: string) => Promise<readonly string[]>;
  /** Where the files of an archive are written before they are published; null where they are written at its own address. */
  readonly draftOf: (uri: string) => string | null;
  readonly begin: (uri: string, draft: string | null) => Promise<Draft>;
  /** Also of what is not whole. Nothing where there is nothing. */
  readonly remove: (uri: string) => Promise<void>;
};

/** The place that an address is in. */
export type Places = (address: string) => Promise<ArchivePlace>;

/** The address of an archive in the place where its neighbours are. */
export const below = (parent: string, archiveId: string): string => `${parent.replace(/\/+$/, '')}/${archiveId}`;

export const folders: ArchivePlace = {
  at: (uri) => ({
    uri,
    read: (name) =>
      readFile(join(uri, name)).catch((cause: NodeJS.ErrnoException) => {
        if (cause.code === 'ENOENT' || cause.code === 'ENOTDIR') return null;
        throw new TroupeError('dataset_damaged', `${join(uri, name)} cannot be read: ${cause.message}.`, { cause });
      }),
  }),
  async find(address) {
    const path = resolve(address);
    const found = await stat(path).catch(() => null);
    if (found?.isFile()) return folders.find(dirname(path));
    if (found === null) return [];
    if (await isArchive(path)) return [path];
    const inside: string[] = [];
    for (const name of (await readdir(path)).sort())
      if (!name.startsWith('.') && (await isArchive(join(path, name)))) inside.push(join(path, name));
    return inside;
  },
  draftOf: (uri) => draftPath(dirname(uri)),
  begin: (_, draft) => draftAt(draft!),
  /** Gone at once for readers, then from the disk. */
  async remove(path) {
    const aside = `${path}.removed`;
    await rm(aside, { recursive: true, force: true });
    await rename(path, aside).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error;
    });
    await rm(aside, { recursive: true, force: true });
  },
};

/** For those who have no buckets. */
export const inFolders: Places = async () => folders;

/** True where a folder holds an archive, whole or not. */
const isArchive = async (folder: string): Promise<boolean> =>
  (await stat(join(folder, MANIFEST)).catch(() => null)) !== null;
