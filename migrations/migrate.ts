/**
 * Brings a database to the schema of this code: numbered SQL files, rolled forward, each applied once; then the views, made again.
 *
 * One transaction does all that is missing. It first takes an advisory lock and then looks again, so of two migrators at once one
 * does the work and the other finds it done, and one that fails or is killed leaves the database as it was.
 */
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { TroupeError } from '../errors.ts';
import { sqlState } from '../store/db/faults.ts';
import type { Db, Session } from '../store/db/pool.ts';
import { makeViews, readViews, takeDownViews, type Views } from './views.ts';

export type Migration = {
  readonly number: number;
  readonly name: string;
  readonly sha256: string;
  readonly sql: string;
  /** The oldest code that works with a database that has it, by the last migration that this code knows; null: none older than itself. */
  readonly works_with: number | null;
};

/** The numbered files and the views after them; null where a folder has no views. */
export type Schema = { readonly migrations: readonly Migration[]; readonly views: Views | null };

export type AppliedMigration = Pick<Migration, 'number' | 'name' | 'sha256' | 'works_with'>;

/**
 * `current`: nothing to do. `behind`: `pending` names the files that are missing, or the views are of another version. `compatible`: newer
 * code migrated the database, and says that this code works with it; `why` says so in a sentence.
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

/** The row of the views in the list of what was applied. */
const VIEWS = 0;

const BOOKKEEPING = `
create schema if not exists troupe;
create table if not exists troupe.migrations (
  number     integer primary key,
  name       varchar(200) not null,
  sha256     varchar(64) not null,
  applied_at timestamptz not null default now(),
  works_with integer
);
comment on table troupe.migrations is 'Which schema files were applied, with the digest of their text; number 0 are the views.';`;

/** The folder with this name beside the package.json that this file belongs to, in a checkout as in a built package. */
export function packageFolder(name: string): string {
  for (let folder = dirname(fileURLToPath(import.meta.url)); ; folder = dirname(folder)) {
    if (existsSync(join(folder, 'package.json'))) return join(folder, name);
    if (dirname(folder) === folder) throw new TroupeError('internal', 'No package.json above the code.');
  }
}

export const migrationsFolder = (): string => packageFolder('migrations');

/** The schema that a folder describes. */
export const readSchema = (folder: string = migrationsFolder()): Schema => ({
  migrations: readMigrations(folder),
  views: readViews(join(folder, 'views')),
});

/** The files `NNNN_name.sql` of a folder by number. The name is the header line `--! name` if there is one, else the file's; a line `--! works with N` is its `works_with`. */
function readMigrations(folder: string): readonly Migration[] {
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
    sql,
    works_with: Number(/^--! works with (\d+)$/m.exec(sql)?.[1] ?? Number.NaN) || null,
  };
}

async function appliedIn(session: Session): Promise<readonly AppliedMigration[]> {
  const { rows } = await session.query<{ there: boolean }>(
    `select to_regclass('troupe.migrations') is not null as there`,
  );
  if (!rows[0]!.there) return [];
  // The first databases have no works_with.
  const applied = await session.query<AppliedMigration>(
    `select number, name, sha256, (to_jsonb(m) ->> 'works_with')::integer as works_with from troupe.migrations m order by number`,
  );
  return applied.rows;
}

/**
 * Compares without changing anything.
 * @throws TroupeError `schema_newer`; `conflict` for a file changed after it was applied, and for a database made before these files
 */
export function compareSchema(applied: readonly AppliedMigration[], { migrations: known, views }: Schema): SchemaState {
  const newest = known.at(-1)?.number ?? 0;
  const viewsThere = applied.find(({ number }) => number === VIEWS);
  const numbered = applied.filter(({ number }) => number !== VIEWS);
  const done = new Set<number>();
  const newer: AppliedMigration[] = [];
  for (const there of numbered) {
    const file = known.find((migration) => migration.number === there.number);
    if (file === undefined && there.works_with !== null && there.works_with <= newest) newer.push(there);
    else if (file === undefined) {
      throw new TroupeError(
        'schema_newer',
        `The database has schema ${numbered.at(-1)!.number}, this Troupe knows up to ${newest} and does not work with migration ${there.number} (${there.name}); run a newer Troupe. Nothing was changed.`,
        { expected: `schema up to ${newest}`, got: String(numbered.at(-1)!.number) },
      );
    } else if (file.sha256 !== there.sha256) {
      if (views !== null && viewsThere === undefined) {
        throw new TroupeError(
          'conflict',
          'The database was made by a Troupe up to commit b6a62b64, whose schema this one does not know: export it with that one and import it into a new home, as docs/upgrading.md shows. Nothing was changed.',
        );
      }
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
  // The views of newer code stay: this code reads them too.
  if (pending.length === 0 && last !== undefined) {
    const why = `The database has schema ${last.number} (${last.name}), this Troupe knows up to ${newest}, and they work together; run the newer Troupe here too.`;
    return { state: 'compatible', pending, why };
  }
  const behind = pending.length > 0 || (views !== null && viewsThere?.sha256 !== views.sha256);
  return { state: behind ? 'behind' : 'current', pending, why: null };
}

/** What a migration would do, read only. @throws TroupeError as `compareSchema`. */
export async function checkSchema(db: Session, known: Schema = readSchema()): Promise<SchemaState> {
  return compareSchema(await appliedIn(db), known);
}

/**
 * Does what is missing and returns the numbers of the files applied by this call.
 * @throws TroupeError as `compareSchema`, before anything is changed; `busy` when a table stays locked by others; `conflict` where a view
 * of other people cannot be made again
 */
export async function migrate(db: Db, known: Schema = readSchema()): Promise<readonly number[]> {
  const { state } = await checkSchema(db, known);
  // Long waits for a table lock would stall everybody behind us, so a wait is cut short and the whole tried again.
  for (let attempt = 1; state === 'behind'; attempt++) {
    try {
      return await db.transaction((tx) => apply(tx, known));
    } catch (error) {
      if (sqlState(error) !== '55P03') throw error;
      if (attempt === ATTEMPTS) {
        const text = `The database could not be migrated: its tables stayed locked in ${ATTEMPTS} attempts; stop what holds them and start again.`;
        throw new TroupeError('busy', text, { cause: error });
      }
      await sleep(250 * attempt);
    }
  }
  return [];
}

async function apply(tx: Session, known: Schema): Promise<readonly number[]> {
  await tx.query(`set local lock_timeout = 0; set local statement_timeout = 0;
    select pg_advisory_xact_lock(${LOCK}); set local lock_timeout = '${LOCK_TIMEOUT}'`);
  await tx.query(BOOKKEEPING);
  const { state, pending } = compareSchema(await appliedIn(tx), known);
  if (state !== 'behind') return [];
  const down = known.views === null ? [] : await takeDownViews(tx);
  for (const migration of pending) {
    await tx.query(migration.sql);
    await note(tx, migration);
  }
  if (known.views !== null) {
    await makeViews(tx, known.views, down);
    await note(tx, { number: VIEWS, name: 'views', sha256: known.views.sha256, works_with: null });
  }
  return pending.map(({ number }) => number);
}

async function note(tx: Session, { number, name, sha256, works_with }: AppliedMigration): Promise<void> {
  await tx.query(
    `insert into troupe.migrations (number, name, sha256, works_with) values ($1, $2, $3, $4)
     on conflict (number) do update set sha256 = excluded.sha256, applied_at = excluded.applied_at`,
    [number, name, sha256, works_with],
  );
}
