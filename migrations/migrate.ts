/**
 * Brings a database to the schema of this code: numbered SQL files, rolled forward, each applied once.
 *
 * Each file runs in one transaction that first takes an advisory lock and then looks again, so of two migrators at
 * once one applies a file and the other finds it applied, and a killed migrator leaves no half file behind.
 */
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { TroupeError } from '../errors.ts';
import { sqlState } from '../store/db/faults.ts';
import type { Db, Session } from '../store/db/pool.ts';

export type Migration = {
  readonly number: number;
  readonly name: string;
  readonly sha256: string;
  readonly sql: string;
  /** The oldest code that works with a database that has it, by the last migration that this code knows; null: none older than itself. */
  readonly works_with: number | null;
};

export type Applied = Pick<Migration, 'number' | 'name' | 'sha256' | 'works_with'>;

/**
 * `current`: nothing to do. `behind`: `pending` names what is missing. `compatible`: newer code migrated the database, and says that this
 * code works with it; `why` says so in a sentence.
 */
export type SchemaState = {
  readonly state: 'current' | 'behind' | 'compatible';
  readonly pending: readonly Migration[];
  readonly why: string | null;
};

/** Any number, the same for every Troupe: it serialises migrators of one database. */
const LOCK = 7_407_867_001;
const LOCK_TIMEOUT = '2s';
const ATTEMPTS = 12;

const BOOKKEEPING = `
create schema if not exists troupe;
create table if not exists troupe.migrations (
  number     integer primary key,
  name       varchar(200) not null,
  sha256     varchar(64) not null,
  applied_at timestamptz not null default now()
);
alter table troupe.migrations add column if not exists works_with integer;
comment on table troupe.migrations is 'Which schema files were applied, with the digest of their text.';`;

/** The folder with this name beside the package.json that this file belongs to, in a checkout as in a built package. */
export function packageFolder(name: string): string {
  for (let folder = dirname(fileURLToPath(import.meta.url)); ; folder = dirname(folder)) {
    if (existsSync(join(folder, 'package.json'))) return join(folder, name);
    if (dirname(folder) === folder) throw new TroupeError('internal', 'No package.json above the code.');
  }
}

export const migrationsFolder = (): string => packageFolder('migrations');

/** The files `NNNN_name.sql` of a folder by number. The name is the header line `--! name` if there is one, else the file's; a line `--! works with N` is its `works_with`. */
export function readMigrations(folder: string = migrationsFolder()): readonly Migration[] {
  const migrations = readdirSync(folder)
    .filter((file) => /^\d+_.*\.sql$/.test(file))
    .map((file) => readMigration(join(folder, file)))
    .sort((a, b) => a.number - b.number);
  for (const [i, migration] of migrations.entries()) {
    if (migration.number === i + 1) continue;
    throw new TroupeError(
      'internal',
      `Migrations in ${folder} are not numbered 1, 2, 3 …: ${i + 1} is not there once.`,
    );
  }
  return migrations;
}

function readMigration(path: string): Migration {
  const sql = readFileSync(path, 'utf8').replaceAll('\r\n', '\n');
  const file = basename(path, '.sql');
  return {
    number: Number.parseInt(file, 10),
    name: /^--! *(.+)/.exec(sql)?.[1]?.trim() ?? file,
    sha256: createHash('sha256').update(sql).digest('hex'),
    sql: withoutPartitions(sql),
    works_with: Number(/^--! works with (\d+)$/m.exec(sql)?.[1] ?? Number.NaN) || null,
  };
}

/**
 * The first files made sixteen hash partitions of each table, which 0014_plain_tables.sql takes away. A new database never has them:
 * making and dropping 1,200 relations would cost it a second of processor time. The digest is still that of the file.
 */
const withoutPartitions = (sql: string): string =>
  sql
    .replaceAll(/ partition by hash \(\w+\);/g, ';')
    .replaceAll(/^do \$\$(?:(?!\$\$;).)* partition of .*?\$\$;\n/gms, '');

async function appliedIn(session: Session): Promise<readonly Applied[]> {
  const { rows } = await session.query<{ there: boolean }>(
    `select to_regclass('troupe.migrations') is not null as there`,
  );
  if (!rows[0]!.there) return [];
  // Databases of before have no such column.
  const applied = await session.query<Applied>(
    `select number, name, sha256, (to_jsonb(m) ->> 'works_with')::integer as works_with from troupe.migrations m order by number`,
  );
  return applied.rows;
}

/** Compares without changing anything. @throws TroupeError `schema_newer`, or `conflict` for a file changed after it was applied. */
export function compareSchema(applied: readonly Applied[], known: readonly Migration[]): SchemaState {
  const newest = known.at(-1)?.number ?? 0;
  const done = new Set<number>();
  const newer: Applied[] = [];
  for (const there of applied) {
    const file = known.find((migration) => migration.number === there.number);
    if (file === undefined && there.works_with !== null && there.works_with <= newest) newer.push(there);
    else if (file === undefined) {
      throw new TroupeError(
        'schema_newer',
        `The database has schema ${applied.at(-1)!.number}, this Troupe knows up to ${newest} and does not work with migration ${there.number} (${there.name}); run a newer Troupe. Nothing was changed.`,
        { expected: `schema up to ${newest}`, got: String(applied.at(-1)!.number) },
      );
    } else if (file.sha256 !== there.sha256) {
      throw new TroupeError(
        'conflict',
        `Migration ${there.number} (${there.name}) was changed after it was applied; restore the file and add a new one. Nothing was changed.`,
        { expected: there.sha256, got: file.sha256 },
      );
    }
    done.add(there.number);
  }
  const pending = known.filter((migration) => !done.has(migration.number));
  const last = newer.at(-1);
  if (pending.length > 0 || last === undefined)
    return { state: pending.length === 0 ? 'current' : 'behind', pending, why: null };
  const why = `The database has schema ${last.number} (${last.name}), this Troupe knows up to ${newest}, and they work together; run the newer Troupe here too.`;
  return { state: 'compatible', pending, why };
}

/** What a migration would do, read only. @throws TroupeError as `compareSchema`. */
export async function checkSchema(db: Session, known: readonly Migration[] = readMigrations()): Promise<SchemaState> {
  return compareSchema(await appliedIn(db), known);
}

/**
 * Applies what is missing and returns the numbers applied by this call.
 * @throws TroupeError as `compareSchema`, before anything is changed; `busy` when a table stays locked by others.
 */
export async function migrate(db: Db, known: readonly Migration[] = readMigrations()): Promise<readonly number[]> {
  const { pending } = await checkSchema(db, known);
  const applied: number[] = [];
  for (const migration of pending) {
    if (await applyPatiently(db, migration, known)) applied.push(migration.number);
  }
  return applied;
}

/** Long waits for a table lock would stall everybody behind us, so a wait is cut short and the file tried again. */
async function applyPatiently(db: Db, migration: Migration, known: readonly Migration[]): Promise<boolean> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await db.transaction((tx) => apply(tx, migration, known));
    } catch (error) {
      if (sqlState(error) !== '55P03') throw error;
      if (attempt === ATTEMPTS) {
        const text = `Migration ${migration.number} (${migration.name}) could not lock its tables in ${ATTEMPTS} attempts; stop what holds them and start again.`;
        throw new TroupeError('busy', text, { cause: error });
      }
      await sleep(250 * attempt);
    }
  }
}

async function apply(tx: Session, migration: Migration, known: readonly Migration[]): Promise<boolean> {
  await tx.query(`set local lock_timeout = 0; set local statement_timeout = 0;
    select pg_advisory_xact_lock(${LOCK}); set local lock_timeout = '${LOCK_TIMEOUT}'`);
  await tx.query(BOOKKEEPING);
  const { pending } = compareSchema(await appliedIn(tx), known);
  if (!pending.includes(migration)) return false;
  await tx.query(migration.sql);
  const { number, name, sha256, works_with } = migration;
  await tx.query('insert into troupe.migrations (number, name, sha256, works_with) values ($1, $2, $3, $4)', [
    ...[number, name, sha256, works_with],
  ]);
  return true;
}
