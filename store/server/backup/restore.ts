/**
 * A backup becomes a project again, in a home of any path. Tables are filled in one transaction that commits last, files are written aside
 * and moved into place before: whatever ends the restore, the project is empty still, and the same command starts anew.
 */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdir, open, rename, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { got, TroupeError } from '../../../errors.ts';
import { isRecord, MAX_RECORD_BYTES, parseRecord } from '../../../ingest/events/json.ts';
import { migrate, readSchema, type Schema } from '../../../migrations/migrate.ts';
import { sqlState } from '../../db/faults.ts';
import type { Db, Session } from '../../db/pool.ts';
import type { Home } from '../home.ts';
import { moveHome } from '../moved-home.ts';
import { type BackupManifest, type BackupSeal, FILES, FOLDERS, MANIFEST, SEAL, TABLES, tablesOf } from './backup.ts';
import { damaged, entriesOf, type TarEntry } from './tar.ts';

/** The bytes of a backup from its beginning, each time it is called. */
export type BackupSource = () => AsyncIterable<Uint8Array>;

/** A file. Reading it throws `not_found` where there is none. */
export const fileSource = (file: string): BackupSource =>
  async function* () {
    try {
      yield* createReadStream(file);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
      throw new TroupeError('not_found', `There is no backup ${file}.`, { cause: error });
    }
  };

/** The manifest of a backup, read from its beginning. @throws TroupeError `not_found`, `dataset_damaged`, `schema_newer` */
export async function readManifest(source: BackupSource): Promise<BackupManifest> {
  const entries = entriesIn(source);
  try {
    const { value } = await entries.next();
    return await manifestIn(value ?? null);
  } finally {
    await entries.return();
  }
}

/** The schema of the database whose backup this is, without views. @throws TroupeError `schema_newer`, `conflict` */
export function schemaOf({ migrations }: BackupManifest): Schema {
  const { migrations: known } = readSchema();
  const newer = migrations.find(({ number }) => number > known.length);
  if (newer)
    throw new TroupeError(
      'schema_newer',
      `The backup has schema ${newer.number} (${newer.name}), this Troupe knows up to ${known.length}; restore it with a newer Troupe.`,
    );
  for (const { number, name, sha256 } of migrations)
    if (known[number - 1]!.sha256 !== sha256)
      throw new TroupeError(
        'conflict',
        `Migration ${number} (${name}) of the backup has other text than that of this Troupe; restore it with the Troupe that made it.`,
      );
  return { migrations: known.slice(0, migrations.length), views: null };
}

export type RestoreOptions = {
  readonly home: Home;
  /** What the project is called now. */
  readonly project: string;
  readonly onProgress?: (bytes: number) => void;
};

/**
 * Fills an empty project whose schema is that of the backup, and brings it to the schema of this code.
 * @throws TroupeError `conflict` where the project or the home holds something else, `dataset_damaged` for a backup that is not whole
 */
export async function restoreBackup(db: Db, source: BackupSource, { home, project, onProgress }: RestoreOptions) {
  const aside = join(home.root, `.restoring-${project}`);
  try {
    const report = await db
      .transaction(async (tx) => {
        const hash = createHash('sha256');
        let bytes = 0;
        const onBytes = (piece: Buffer): void => {
          hash.update(piece);
          bytes += piece.length;
          onProgress?.(bytes);
        };
        const entries = entriesIn(source);
        const first = (await entries.next()).value ?? null;
        const manifest = await manifestIn(first, onBytes);
        await makeEmpty(tx, manifest);
        // The lock on the tables keeps others out; what is there is of a restore that was killed.
        await rm(aside, { recursive: true, force: true });

        const columns = new Map(manifest.tables.map((table) => [table.name, table.columns.join(', ')]));
        const rows: Record<string, number> = Object.fromEntries(manifest.tables.map(({ name }) => [name, 0]));
        const files: string[] = [];
        let seal: BackupSeal | null = null;
        for await (const { name, size, content } of entries) {
          if (seal !== null) throw damaged(`${name} stands after its end`);
          if (name === SEAL) {
            seal = sealIn(jsonOf(await bytesOf(content), SEAL));
            continue;
          }
          hash.update(`${name}\n${size}\n`);
          if (name.startsWith(TABLES)) {
            const table = name.slice(TABLES.length, name.lastIndexOf('/'));
            const listed = columns.get(table);
            if (listed === undefined) throw damaged(`it has rows of ${got(table)}, a table that it does not list`);
            rows[table]! += await tx.copyIn(`copy ${table} (${listed}) from stdin`, tee(content, onBytes));
          } else if (isFileName(name)) {
            await writeFile(join(aside, name.slice(FILES.length)), tee(content, onBytes));
            files.push(name.slice(FILES.length));
          } else throw damaged(`it has an entry ${got(name)}`);
        }
        checkSeal(seal, { rows, files: files.length, sha256: hash.digest('hex') });
        await takeState(tx, manifest, home);
        for (const path of files) await moveInto(join(aside, path), join(home.root, path));
        for (const folder of new Set(files.map((path) => dirname(join(home.root, path))))) await syncFolder(folder);
        return {
          project,
          made_at: manifest.made_at,
          rows: Object.values(rows).reduce((sum, n) => sum + n, 0),
          files: files.length,
        };
      })
      .catch((error) => {
        throw asDamage(error);
      });
    await migrate(db);
    // Without statistics the first questions would read whole tables.
    await db.query('analyze');
    return report;
  } finally {
    await rm(aside, { recursive: true, force: true });
  }
}

/**
 * What a backup may unpack to, all its tables and files together: gzip makes a thousand bytes of one, and what Troupe writes, whose every row
 * has ids and hashes, less than fifty of one. The first are for small backups, of much that is alike.
 */
const MOST_UNPACKED = { first: 32 * 1024 * 1024, times: 200 };

function entriesIn(source: BackupSource): AsyncGenerator<TarEntry, void, undefined> {
  const packed = Readable.from(source(), { objectMode: false });
  const gunzip = createGunzip();
  packed.on('error', (error) => gunzip.destroy(error));
  async function* bytes(): AsyncGenerator<Buffer, void, undefined> {
    let unpacked = 0;
    try {
      for await (const piece of packed.pipe(gunzip)) {
        unpacked += piece.length;
        const { first, times } = MOST_UNPACKED;
        if (unpacked > first + times * gunzip.bytesWritten)
          throw damaged(
            `${gunzip.bytesWritten} bytes of it unpack to more than ${unpacked - piece.length}, as no backup does`,
          );
        yield piece;
      }
    } catch (error) {
      if (/^Z_/.test((error as NodeJS.ErrnoException).code ?? '')) throw damaged((error as Error).message);
      throw error;
    } finally {
      packed.destroy();
    }
  }
  return entriesOf(bytes());
}

/** The first entry. `onBytes` gets its bytes, after its name and size. */
async function manifestIn(entry: TarEntry | null, onBytes?: (piece: Buffer) => void): Promise<BackupManifest> {
  if (entry?.name !== MANIFEST) throw damaged(`it should begin with ${MANIFEST}, and begins with ${got(entry?.name)}`);
  const content = await bytesOf(entry.content);
  onBytes?.(Buffer.from(`${entry.name}\n${entry.size}\n`));
  onBytes?.(content);
  const manifest = jsonOf(content, MANIFEST) as unknown as BackupManifest;
  if (!Number.isInteger(manifest.format)) throw damaged(`${MANIFEST} names no format`);
  if (manifest.format !== 1)
    throw new TroupeError(
      'schema_newer',
      `The backup has format ${got(manifest.format)}, this Troupe reads format 1; restore it with the Troupe that made it (${got(manifest.troupe)}).`,
    );
  const { made_at, home, former_homes, migrations, tables, sequences } = manifest;
  const isWhole =
    [made_at, home].every(isText) &&
    isListOf(former_homes, isText) &&
    isListOf(migrations, (one) => isRecord(one) && Number.isInteger(one.number) && isText(one.name)) &&
    isListOf(tables, (one) => isRecord(one) && isText(one.name) && isListOf(one.columns, isText)) &&
    isRecord(sequences) &&
    Object.values(sequences).every((one) => isRecord(one) && isText(one.value) && typeof one.called === 'boolean');
  if (!isWhole) throw damaged(`${MANIFEST} is not one of a backup`);
  return manifest;
}

const isText = (value: unknown): value is string => typeof value === 'string';
const isListOf = (value: unknown, is: (one: unknown) => boolean): boolean => Array.isArray(value) && value.every(is);

/** The object that an entry holds. */
function jsonOf(content: Buffer, name: string): Record<string, unknown> {
  const parsed = parseRecord(content.toString());
  if ('refusal' in parsed) throw damaged(`${name} is no JSON: ${parsed.refusal.got}`);
  if (!isRecord(parsed.value)) throw damaged(`${name} is no object`);
  return parsed.value;
}

function sealIn(seal: Record<string, unknown>): BackupSeal {
  if (!isRecord(seal.rows) || !Number.isInteger(seal.files) || !isText(seal.sha256))
    throw damaged(`${SEAL} is not one of a backup`);
  return seal as unknown as BackupSeal;
}

/** What the database or the disk refuses of a backup, which a whole one does not hold. The environment's failures stay what they are. */
function asDamage(error: unknown): unknown {
  const isData = /^(22|23|42)/.test(sqlState(error) ?? '');
  const isName = ['EEXIST', 'EISDIR', 'ENOTDIR', 'ENAMETOOLONG'].includes(
    String((error as NodeJS.ErrnoException).code),
  );
  return isData || isName ? damaged((error as Error).message.split('\n', 1)[0]!) : error;
}

/**
 * Takes away what the migrations put into the tables, once it is sure that nobody put anything else there. The names in a backup become
 * part of statements, which may run programs of the server's machine: only those of the tables that the migrations made are taken.
 */
async function makeEmpty(tx: Session, { tables }: BackupManifest): Promise<void> {
  const made = new Map((await tablesOf(tx)).map(({ name, columns }) => [name, columns]));
  for (const { name, columns } of tables) {
    const strange = columns.find((column) => !made.get(name)?.includes(column));
    if (!made.has(name)) throw damaged(`it lists ${got(name)}, which is no table of its schema`);
    if (strange !== undefined) throw damaged(`it lists ${got(strange)}, which is no column of ${name}`);
  }
  const names = tables.map(({ name }) => name);
  await tx.query(`lock table ${names.join(', ')} in access exclusive mode`);
  const { rows } = await tx.query<{ name: string }>(
    // Events are stored in `stored_events`; in backups of before migration 23 in `events`.
    ['troupe.events', 'troupe.stored_events', 'troupe.dead_letters', 'troupe.job_queue', 'troupe.api_keys']
      .filter((name) => names.includes(name))
      .map((name) => `select '${name}' as name where exists(select from ${name})`)
      .join(' union all '),
  );
  if (rows.length > 0)
    throw new TroupeError(
      'conflict',
      `The project holds something already (${rows.map(({ name }) => name).join(', ')}); a backup is restored into an empty one: another --home, or another --project.`,
    );
  await tx.query(`truncate ${names.join(', ')}`);
}

/** Sequences go on where they were, and what names the folder of the home names the one of now. */
async function takeState(tx: Session, { sequences, home: before, former_homes }: BackupManifest, home: Home) {
  for (const [name, { value, called }] of Object.entries(sequences))
    await tx.query('select setval($1::regclass, $2::bigint, $3)', [name, value, called]);
  await moveHome(tx, { former: [...former_homes, before], root: home.root });
}

function checkSeal(seal: BackupSeal | null, found: BackupSeal): void {
  if (seal === null) throw damaged('it ends early');
  if (seal.files !== found.files) throw damaged(`it should have ${seal.files} files, and has ${found.files}`);
  for (const [table, rows] of Object.entries(seal.rows))
    if (found.rows[table] !== rows) throw damaged(`${table} should have ${rows} rows, and has ${found.rows[table]}`);
  if (seal.sha256 !== found.sha256) throw damaged(`its SHA-256 should be ${seal.sha256}, and is ${found.sha256}`);
}

/** A file of one of the folders of a home, whose name leads nowhere else. */
const isFileName = (name: string): boolean =>
  FOLDERS.some((folder) => name.startsWith(`${FILES}${folder}/`)) &&
  name.split('/').every((part) => part !== '' && part !== '.' && part !== '..') &&
  !name.includes('\0');

async function writeFile(path: string, content: AsyncIterable<Buffer>): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  const file = await open(path, 'wx', 0o600);
  try {
    for await (const piece of content) await file.writeFile(piece);
    await file.sync();
  } finally {
    await file.close();
  }
}

/** A file that is there with the same bytes is left: an earlier restore may have put it there. */
async function moveInto(from: string, to: string): Promise<void> {
  await mkdir(dirname(to), { recursive: true, mode: 0o700 });
  if (!(await stat(to).catch(() => null))) return rename(from, to);
  if (!(await isSame(from, to)))
    throw new TroupeError(
      'conflict',
      `${to} is there already with other content; restore into a home of its own (--home).`,
    );
}

async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r');
  await folder.sync().finally(() => folder.close());
}

async function isSame(a: string, b: string): Promise<boolean> {
  const [one, other] = await Promise.all([stat(a), stat(b)]);
  if (one.size !== other.size) return false;
  const digest = async (path: string) => {
    const hash = createHash('sha256');
    for await (const piece of createReadStream(path)) hash.update(piece as Buffer);
    return hash.digest('hex');
  };
  return (await digest(a)) === (await digest(b));
}

/** Of manifest and seal, which name tables and columns: a packed archive may hold gigabytes of one. */
async function bytesOf(content: AsyncIterable<Buffer>): Promise<Buffer> {
  const pieces: Buffer[] = [];
  let held = 0;
  for await (const piece of content) {
    held += piece.length;
    if (held > MAX_RECORD_BYTES) throw damaged(`an entry has more than ${MAX_RECORD_BYTES} bytes`);
    pieces.push(piece);
  }
  return Buffer.concat(pieces);
}

async function* tee(content: AsyncIterable<Buffer>, onBytes: (piece: Buffer) => void): AsyncGenerator<Buffer> {
  for await (const piece of content) {
    onBytes(piece);
    yield piece;
  }
}
