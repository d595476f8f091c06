/** Opens the database of a project, on the server that is configured or on the embedded one of the home. */

import { TroupeError } from '../../errors.ts';
import { checkSchema, migrate, type Schema } from '../../migrations/migrate.ts';
import { nearest } from '../../nearest.ts';
import { homeAt, openHome } from '../server/home.ts';
import { noteHome } from '../server/moved-home.ts';
import { type ShareOptions, shareServer } from '../server/share.ts';
import { addressOf, parseAddress, sqlState } from './faults.ts';
import { type Db, openPool } from './pool.ts';

export type DatabaseOptions = {
  /** Folder of the installation; needed, and touched, only when there is no `databaseUrl`. */
  readonly home?: string;
  /** The database's name; by default the one `databaseUrl` names, else `troupe`. */
  readonly project?: string;
  readonly databaseUrl?: string;
  /** False: refuse a schema that is behind, instead of bringing it up to date. */
  readonly migrate?: boolean;
  /** The schema to bring it to, where it is not the newest. */
  readonly schema?: Schema;
  /** False: refuse a project that does not exist, naming the nearest one, instead of creating it. */
  readonly create?: boolean;
  /** How the embedded server is started, where it is. */
  readonly embedded?: ShareOptions;
  readonly max?: number;
  readonly applicationName?: string;
};

export type Database = {
  readonly db: Db;
  readonly project: string;
  /** Address with password: for processes of ours, never for output. */
  readonly url: string;
  readonly embedded: boolean;
  /** Closes the pool and gives up the embedded server, which stops when nobody uses it. */
  close(): Promise<void>;
};

export const DEFAULT_PROJECT = 'troupe';
const OLDEST_SERVER = 150_000;
const BUILTIN_LOCALE_SINCE = 170_000;

/**
 * Opens, creates if missing, and migrates. What it refuses, it leaves unchanged.
 * @throws TroupeError `unreachable`, `busy`, `not_found`, `config_invalid`, `home_unwritable`, `platform_unsupported`,
 * `schema_newer`, `schema_missing`, `conflict`
 */
export async function openDatabase(options: DatabaseOptions): Promise<Database> {
  const embedded = options.databaseUrl === undefined;
  const project = projectOf(options);
  const lease = embedded ? await shareServer(openHome(options.home ?? '.troupe'), options.embedded) : null;
  const server = lease?.url ?? options.databaseUrl!;
  const url = withDatabase(server, project);
  const db = openPool(url, {
    max: options.max ?? 10,
    ...(options.applicationName === undefined ? {} : { applicationName: options.applicationName }),
  });
  const close = async () => {
    await db.close();
    lease?.close();
  };
  try {
    await prepare(db, server, project, {
      bringUpToDate: options.migrate ?? true,
      create: options.create ?? true,
      schema: options.schema,
    });
    if (lease && options.migrate !== false && !options.schema)
      await noteHome(db, homeAt(options.home ?? '.troupe').root);
  } catch (error) {
    await close();
    throw error;
  }
  return { db, project, url, embedded, close };
}

/** The name of the project that these options open. @throws TroupeError `config_invalid` */
export const projectOf = ({ project, databaseUrl }: DatabaseOptions): string =>
  checkName(project ?? databaseIn(databaseUrl) ?? DEFAULT_PROJECT);

const databaseIn = (url: string | undefined): string | undefined =>
  url === undefined ? undefined : addressOf(url).database || undefined;

function withDatabase(url: string, database: string): string {
  const address = parseAddress(url);
  address.pathname = `/${encodeURIComponent(database)}`;
  return address.href;
}

/** @throws TroupeError `config_invalid` for names that a shell, a topic or a path would trip over */
function checkName(project: string): string {
  if (/^[a-z][a-z0-9_-]{0,47}$/i.test(project)) return project;
  throw new TroupeError(
    'config_invalid',
    `"${project}" is not a project name; expected a letter, then up to 47 letters, digits, "_" or "-".`,
    { field: 'project', got: project },
  );
}

type Preparing = {
  readonly bringUpToDate: boolean;
  readonly create: boolean;
  readonly schema: Schema | undefined;
};

async function prepare(db: Db, server: string, project: string, preparing: Preparing): Promise<void> {
  const { bringUpToDate, create, schema } = preparing;
  try {
    await checkServer(db, server);
  } catch (error) {
    if (!(error instanceof TroupeError) || error.code !== 'not_found' || !bringUpToDate) throw error;
    if (!create) throw await unknownProject(server, project);
    await createDatabase(server, project);
  }
  if (bringUpToDate) {
    await migrate(db, schema).catch((error) => {
      throw sqlState(error) === '42501' ? mayNotMigrate(error, server, project) : error;
    });
    return;
  }
  const { state, pending } = await checkSchema(db);
  if (state !== 'behind') return;
  const { at } = addressOf(server);
  const lacks =
    pending[0] === undefined
      ? 'has the views of another version'
      : `lacks ${pending.length} migrations from ${pending[0].number} (${pending[0].name}) on`;
  throw new TroupeError(
    'schema_missing',
    `Database "${project}" at ${at} ${lacks}; start it once with migrations allowed.`,
  );
}

function mayNotMigrate(error: Error, server: string, project: string): TroupeError {
  const { at, user } = addressOf(server);
  const text = `User "${user}" may not make Troupe's tables in database "${project}" at ${at}: ${error.message.split('\n', 1)[0]}. It should own the database; ask for: ALTER DATABASE "${project}" OWNER TO "${user}";`;
  return new TroupeError('config_invalid', text, { field: 'DATABASE_URL', cause: error });
}

async function checkServer(db: Db, server: string): Promise<void> {
  const { rows } = await db.query<{ version: number; encoding: string }>(
    `select current_setting('server_version_num')::int as version, current_setting('server_encoding') as encoding`,
  );
  const { version, encoding } = rows[0]!;
  const { at } = addressOf(server);
  if (version < OLDEST_SERVER) {
    const text = `PostgreSQL at ${at} has version ${Math.floor(version / 10_000)}; Troupe needs 15 or later.`;
    throw new TroupeError('config_invalid', text, { field: 'DATABASE_URL' });
  }
  if (encoding !== 'UTF8') {
    const text = `The database at ${at} has encoding ${encoding}; Troupe needs UTF8.`;
    throw new TroupeError('config_invalid', text, { field: 'DATABASE_URL' });
  }
}

async function unknownProject(server: string, project: string): Promise<TroupeError> {
  const names = await databasesOn(server).catch(() => []);
  const meant = nearest(project, names);
  return new TroupeError(
    'not_found',
    `There is no project "${project}".${meant === null ? '' : ` Did you mean ${meant}?`} Create it with: troupe project create ${project}`,
    { field: 'project', got: project },
  );
}

/** Databases of the server that this user may enter and that are not PostgreSQL's own, by name. */
async function databasesOn(server: string): Promise<string[]> {
  const admin = openPool(withDatabase(server, databaseIn(server) ?? 'postgres'), { max: 1 });
  try {
    const { rows } = await admin.query<{ name: string }>(
      `select datname as name from pg_database where datallowconn and not datistemplate and datname <> 'postgres'
         and has_database_privilege(datname, 'connect') order by 1`,
    );
    return rows.map(({ name }) => name);
  } finally {
    await admin.close();
  }
}

/** The projects of the server: databases with Troupe's tables, by name. */
export async function listProjects(
  options: Pick<DatabaseOptions, 'home' | 'databaseUrl' | 'embedded'>,
): Promise<string[]> {
  const lease =
    options.databaseUrl === undefined ? await shareServer(openHome(options.home ?? '.troupe'), options.embedded) : null;
  try {
    const server = lease?.url ?? options.databaseUrl!;
    const projects: string[] = [];
    for (const name of await databasesOn(server)) {
      const ours = await holdsTroupe(server, name).catch(async (error) => {
        // Dropped since the list was read.
        if ((await databasesOn(server)).includes(name)) throw error;
        return false;
      });
      if (ours) projects.push(name);
    }
    return projects;
  } finally {
    lease?.close();
  }
}

const onlyItsOwn = (project: string): string => `REVOKE CONNECT ON DATABASE "${project}" FROM PUBLIC`;

async function holdsTroupe(server: string, database: string): Promise<boolean> {
  const db = openPool(withDatabase(server, database), { max: 1 });
  const { rows } = await db
    .query<{ ours: boolean }>(`select to_regclass('troupe.events') is not null as ours`)
    .finally(() => db.close());
  return rows[0]!.ours;
}

/** Sorted by code point, wherever it runs. Tries the database the address names, then `postgres`, to run it in. */
async function createDatabase(server: string, project: string): Promise<void> {
  const places = new Set([databaseIn(server) ?? 'postgres', 'postgres']);
  places.delete(project);
  // As each version takes it, where none of these databases can be asked for its version.
  let how = ` TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C'`;
  for (const place of places) {
    const admin = openPool(withDatabase(server, place), { max: 1 });
    try {
      const { rows } = await admin.query<{ version: number }>(
        `select current_setting('server_version_num')::int as version`,
      );
      const locale =
        rows[0]!.version >= BUILTIN_LOCALE_SINCE
          ? `LOCALE_PROVIDER builtin BUILTIN_LOCALE 'C.UTF-8' LOCALE 'C'`
          : `LOCALE 'C'`;
      how = ` TEMPLATE template0 ENCODING 'UTF8' ${locale}`;
      await admin.query(`CREATE DATABASE "${project}"${how}`);
      // The logins for SQL queries of other projects of this server have no business in it.
      await admin.query(onlyItsOwn(project));
      return;
    } catch (error) {
      // 42P04 and 23505: another process has just made it.
      if (['42P04', '23505'].includes(sqlState(error) ?? '')) return;
      // A database to run it in may be missing, or be closed to this user.
      if (error instanceof TroupeError && (error.code === 'not_found' || sqlState(error.cause) === '42501')) continue;
      if (sqlState(error) !== '42501') throw error;
    } finally {
      await admin.close();
    }
  }
  const { at, user } = addressOf(server);
  throw new TroupeError(
    'not_found',
    `PostgreSQL at ${at} has no database "${project}" and user "${user}" may not create it; ask for: CREATE DATABASE "${project}" OWNER "${user}"${how};`,
    { hint: `Where other projects share the server, ask for this too: ${onlyItsOwn(project)};` },
  );
}
