/**
 * A copy of a project in one file, taken while it runs: a gzipped tar of every table as COPY writes it, in one snapshot, and of the files
 * of the home. The tables come first, so every file that they name was complete before it is read.
 */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import { lstat, open, readdir, realpath, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { TroupeError } from '../../../errors.ts';
import { isFullDisk } from '../../db/faults.ts';
import type { Db, Session } from '../../db/pool.ts';
import type { Home } from '../home.ts';
import { whereabouts } from '../moved-home.ts';
import { archiveEnd, entryHead, padding } from './tar.ts';

/** The first entry of a backup. */
export type BackupManifest = {
  readonly format: 1;
  readonly troupe: string;
  readonly made_at: string;
  readonly project: string;
  /** The folder of the home, and those that it had before. */
  readonly home: string;
  readonly former_homes: readonly string[];
  readonly postgresql: string;
  readonly migrations: readonly { readonly number: number; readonly name: string; readonly sha256: string }[];
  /** In an order in which rows may be inserted. */
  readonly tables: readonly { readonly name: string; readonly columns: readonly string[] }[];
  readonly sequences: Readonly<Record<string, { readonly value: string; readonly called: boolean }>>;
};

/** The last entry: what the backup must hold. */
export type BackupSeal = {
  readonly rows: Readonly<Record<string, number>>;
  readonly files: number;
  /** Of the name, the size and the bytes of every entry before. */
  readonly sha256: string;
};

export type BackupReport = {
  readonly file: string;
  readonly bytes: number;
  readonly rows: number;
  readonly files: number;
  /** Folders that the tables name and that are not in the home: elsewhere on this machine, pruned or erased meanwhile, or gone before. */
  readonly missing: readonly string[];
  /** Symbolic links in the folders of the home. Neither they nor what they point to is copied. */
  readonly links: readonly string[];
};

export type BackupOptions = {
  readonly home: Home;
  readonly project: string;
  readonly version: string;
  readonly now: Date;
  /** Called now and then with the bytes that were read. */
  readonly onProgress?: (bytes: number) => void;
};

export const MANIFEST = 'backup.json';
export const SEAL = 'complete.json';
export const TABLES = 'tables/';
export const FILES = 'home/';
/** The folders of a home whose files are copied. */
export const FOLDERS = ['datasets', 'benchmarks', 'checkpoints', 'artifacts', 'archives'] as const;

/** Rows are cut into pieces of about this size, each ending with a row. */
const PIECE_BYTES = 4 * 1024 * 1024;
/** A file up to this size is read at once, so that it cannot change in between. */
const WHOLE_BYTES = 16 * 1024 * 1024;
/** Heartbeats of processes that run now. */
const LEFT_OUT = ['troupe.migrations', 'troupe.processes'];
/** What is being written when the backup comes by. */
const UNFINISHED = /^\.|\.part$|\.removed$/;

/** Where a backup goes. It appears there whole or not at all. */
export type BackupTarget = {
  readonly name: string;
  readonly isThere: () => Promise<boolean>;
  /** Takes the bytes to their end; answers with how many there were. */
  readonly write: (bytes: Readable) => Promise<number>;
};

/** What the disk answers where a file cannot be made. */
const UNWRITABLE = new Set(['ENOENT', 'EACCES', 'EPERM', 'ENOTDIR', 'EROFS', 'EISDIR']);

/** A file. @throws TroupeError `disk_full`, `home_unwritable` where it cannot be made */
export const fileTarget = (file: string): BackupTarget => ({
  name: file,
  isThere: async () => (await lstat(file).catch(() => null)) !== null,
  write: async (bytes) => {
    const partial = `${file}.partial-${process.pid}`;
    try {
      await pipeline(bytes, createWriteStream(partial, { flags: 'wx', mode: 0o600, flush: true }));
      await rename(partial, file);
      return (await lstat(file)).size;
    } catch (error) {
      await rm(partial, { force: true });
      if (!isFullDisk(error)) {
        const { code, message } = error as NodeJS.ErrnoException;
        if (code === undefined || !UNWRITABLE.has(code)) throw error;
        const why = code === 'ENOENT' ? 'the folder does not exist' : message;
        throw new TroupeError('home_unwritable', `The backup ${file} cannot be written: ${why}.`, { cause: error });
      }
      const text = `The disk of ${file} is full; nothing was kept of the backup.`;
      throw new TroupeError('disk_full', text, { cause: error });
    }
  },
});

/** Writes the backup to a place where nothing is. @throws TroupeError `conflict` where something is, and as the place does */
export async function writeBackup(db: Db, target: BackupTarget, options: BackupOptions): Promise<BackupReport> {
  const { name } = target;
  if (await target.isThere())
    throw new TroupeError('conflict', `${name} is there already; a backup never replaces one.`);
  return { file: name, ...(await writeTo(db, target, options)) };
}

async function writeTo(db: Db, target: BackupTarget, options: BackupOptions) {
  const { home, onProgress } = options;
  // Level 1: a quarter of the time of the default, for a file a tenth larger.
  const gzip = createGzip({ level: 1 });
  const written = target.write(gzip);
  written.catch(() => {});
  let bytes = 0;
  const put = async (piece: Buffer): Promise<void> => {
    if (gzip.write(piece)) return;
    await Promise.race([once(gzip, 'drain'), written]);
  };
  const hash = createHash('sha256');
  const begin = async (name: string, size: number): Promise<void> => {
    hash.update(`${name}\n${size}\n`);
    await put(entryHead(name, size));
  };
  const add = async (piece: Buffer): Promise<void> => {
    hash.update(piece);
    await put(piece);
    bytes += piece.length;
    onProgress?.(bytes);
  };
  const entry = async (name: string, content: Buffer): Promise<void> => {
    await begin(name, content.length);
    await add(content);
    await put(padding(content.length));
  };

  try {
    const rows: Record<string, number> = {};
    const named = await inSnapshot(db, async (tx, tables) => {
      await entry(MANIFEST, Buffer.from(JSON.stringify(await manifestOf(tx, tables, options), null, 1)));
      for (const { name, columns } of tables) {
        let piece = 0;
        rows[name] = 0;
        for await (const lines of piecesOf(tx.copyOut(`copy ${name} (${columns.join(', ')}) to stdout`))) {
          await entry(`${TABLES}${name}/${String(++piece).padStart(6, '0')}`, lines);
          // COPY escapes line breaks inside values, so a line break ends a row.
          for (const byte of lines) if (byte === 10) rows[name]++;
        }
      }
      return foldersNamed(tx);
    });
    let files = 0;
    const links: string[] = [];
    for (const folder of FOLDERS) {
      const root = await realpath(home[folder]).catch(() => null);
      if (root === null) continue;
      for await (const path of filesBelow(root, '', links)) {
        if (await addFile(join(root, path), `${FILES}${folder}/${path}`, { begin, add, put })) files++;
      }
    }
    const seal: BackupSeal = { rows, files, sha256: hash.digest('hex') };
    const content = Buffer.from(JSON.stringify(seal));
    await put(entryHead(SEAL, content.length));
    await put(Buffer.concat([content, padding(content.length), archiveEnd()]));
    gzip.end();
    const size = await written;
    const missing: string[] = [];
    for (const path of named)
      if (!path.startsWith(`${home.root}/`) || !(await lstat(path).catch(() => null))) missing.push(path);
    return { bytes: size, rows: Object.values(rows).reduce((sum, n) => sum + n, 0), files, missing, links };
  } catch (error) {
    gzip.destroy(error as Error);
    await written.catch(() => {});
    throw error;
  }
}

type Table = BackupManifest['tables'][number];

/** All tables are locked against a change of their definition before the snapshot is taken: what a rebuild swaps in would look empty in it. */
async function inSnapshot<T>(db: Db, work: (tx: Session, tables: readonly Table[]) => Promise<T>): Promise<T> {
  const names = (await tablesOf(db)).map(({ name }) => name);
  return db.transaction(
    async (tx) => {
      await tx.query(`lock table ${names.join(', ')} in access share mode`);
      return work(tx, await tablesOf(tx));
    },
    { isolation: 'repeatable read', readOnly: true },
  );
}

/** Tables with the columns that are stored, those that others refer to first. */
export async function tablesOf(session: Session): Promise<readonly Table[]> {
  const { rows } = await session.query<Table>(
    `select quote_ident(n.nspname) || '.' || quote_ident(c.relname) as name,
            array(select quote_ident(attname) from pg_attribute
                  where attrelid = c.oid and attnum > 0 and not attisdropped and attgenerated = '' order by attnum) as columns
     from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where n.nspname in ('troupe', 'facts') and c.relkind = 'r' and n.nspname || '.' || c.relname <> all($1::text[])
     order by exists(select from pg_constraint where conrelid = c.oid and contype = 'f'), 1`,
    [LEFT_OUT],
  );
  return rows;
}

async function manifestOf(
  tx: Session,
  tables: readonly Table[],
  { home, project, version, now }: BackupOptions,
): Promise<BackupManifest> {
  const [migrations, server, moved, sequences] = [
    await tx.query<BackupManifest['migrations'][number]>(
      'select number, name, sha256 from troupe.migrations where number > 0 order by number',
    ),
    await tx.query<{ version: string }>(`select current_setting('server_version') as version`),
    await whereabouts(tx),
    await tx.query<{ name: string }>(
      `select quote_ident(schemaname) || '.' || quote_ident(sequencename) as name
       from pg_sequences where schemaname in ('troupe', 'facts') order by 1`,
    ),
  ];
  const values: Record<string, { value: string; called: boolean }> = {};
  for (const { name } of sequences.rows) {
    const { rows } = await tx.query<{ value: string; called: boolean }>(
      `select last_value::text as value, is_called as called from ${name}`,
    );
    values[name] = rows[0]!;
  }
  const { former, root } = moved;
  const formerHomes = new Set([...former, ...(root === null ? [] : [root])]);
  formerHomes.delete(home.root);
  return {
    format: 1,
    troupe: version,
    made_at: now.toISOString(),
    project,
    home: home.root,
    former_homes: [...formerHomes],
    postgresql: server.rows[0]!.version,
    migrations: migrations.rows,
    tables,
    sequences: values,
  };
}

/** Folders that checkpoints and datasets name, those in a bucket and live weights left out: these are replaced all the time. */
async function foldersNamed(tx: Session): Promise<readonly string[]> {
  const { rows } = await tx.query<{ path: string }>(
    `select path from (
       select troupe.path_here(uri) as path from facts.checkpoints where kept is not false
       union select troupe.path_here(uri) from facts.datasets d where not exists (
         select from troupe.erasures, json_array_elements(used::json) u
         where u ->> 'kind' = 'dataset' and u ->> 'id' = d.dataset_id and (u ->> 'removed')::boolean)) named
     where starts_with(path, '/') order by 1`,
  );
  return rows.map(({ path }) => path);
}

/** Whole rows, about `PIECE_BYTES` at a time. */
async function* piecesOf(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer, void, undefined> {
  let held: Buffer[] = [];
  let size = 0;
  for await (const chunk of chunks) {
    const end = chunk.lastIndexOf(10) + 1;
    if (size + chunk.length < PIECE_BYTES || end === 0) {
      held.push(chunk);
      size += chunk.length;
      continue;
    }
    yield Buffer.concat([...held, chunk.subarray(0, end)]);
    held = [chunk.subarray(end)];
    size = chunk.length - end;
  }
  if (size > 0) yield Buffer.concat(held);
}

/** Paths of the files below a folder, in the order of their names. */
async function* filesBelow(root: string, below: string, links: string[]): AsyncGenerator<string, void, undefined> {
  const found = await readdir(join(root, below), { withFileTypes: true }).catch(gone(null));
  for (const one of (found ?? []).sort((a, b) => (a.name < b.name ? -1 : 1))) {
    if (UNFINISHED.test(one.name)) continue;
    const path = join(below, one.name);
    if (one.isDirectory()) yield* filesBelow(root, path, links);
    else if (one.isFile()) yield path;
    else if (one.isSymbolicLink()) links.push(join(root, path));
  }
}

type Writing = {
  readonly begin: (name: string, size: number) => Promise<void>;
  readonly add: (piece: Buffer) => Promise<void>;
  readonly put: (piece: Buffer) => Promise<void>;
};

/** False for a file that was removed since its folder was listed. */
async function addFile(path: string, name: string, { begin, add, put }: Writing): Promise<boolean> {
  const file = await open(path).catch(gone(null));
  if (file === null) return false;
  try {
    const { size } = await file.stat();
    if (size <= WHOLE_BYTES) {
      const content = await file.readFile();
      await begin(name, content.length);
      await add(content);
      await put(padding(content.length));
      return true;
    }
    await begin(name, size);
    let read = 0;
    for await (const piece of file.createReadStream({ end: size - 1, autoClose: false, highWaterMark: 1024 * 1024 })) {
      await add(piece as Buffer);
      read += (piece as Buffer).length;
    }
    if (read !== size)
      throw new TroupeError('conflict', `${path} became shorter while it was copied; make the backup again.`);
    await put(padding(size));
    return true;
  } finally {
    await file.close();
  }
}

const gone =
  <T>(instead: T) =>
  (error: NodeJS.ErrnoException): T => {
    if (error.code === 'ENOENT') return instead;
    throw error;
  };
