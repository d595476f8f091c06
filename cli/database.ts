/** The database of a project, for commands that only read it: what a log needs is not loaded. */
import { type Config, loadConfig } from '../config.ts';
import { TroupeError } from '../errors.ts';
import { type Database, DEFAULT_PROJECT, openDatabase } from '../store/db/database.ts';
import { type Patiently, patiently } from '../store/db/patience.ts';
import type { Db } from '../store/db/pool.ts';
import { tellTrouble } from './output.ts';

export type Opened = {
  readonly config: Config;
  readonly database: Database;
  readonly db: Db;
  readonly now: () => Date;
  /** Runs work that may be run again until the database, the broker and the disk let it, for as long as the setting patience says. */
  readonly patiently: Patiently;
};

/** Where the databases of all projects are. */
export const serverOf = ({ home, database_url: url, database_port: port }: Config) => ({
  home,
  ...(url === null ? {} : { databaseUrl: url }),
  ...(port === 0 ? {} : { embedded: { port } }),
});

/**
 * Opens the database of the project, runs the work, and closes whatever happens. A project that is named and does not exist is refused,
 * unless it is to be created: a misspelt name would otherwise be an empty project.
 */
export async function withDatabase<T>(
  flags: Readonly<Record<string, unknown>>,
  work: (opened: Opened) => Promise<T>,
  { create = false }: { readonly create?: boolean } = {},
): Promise<T> {
  const config = loadConfig(flags, process.env);
  const database = await openDatabase({
    ...serverOf(config),
    ...(config.origins.project === 'default' && config.database_url ? {} : { project: config.project }),
    create: create || config.origins.project === 'default' || config.project === DEFAULT_PROJECT,
    applicationName: 'troupe',
  }).catch((error) => {
    throw naming(error, config);
  });
  try {
    return await work({
      config,
      database,
      db: database.db,
      now: () => new Date(),
      patiently: (again) => patiently(again, { forMs: config.patience * 1000, onTrouble: tellTrouble('It') }),
    });
  } finally {
    await database.close();
  }
}

/** The same database, where a `select` is tried again when the environment failed. Not for a process, whose clients must not wait. */
export const patientReads = ({ db, patiently: tried }: Opened): Db => ({
  ...db,
  query: (sql, params, options) => {
    const ask = () => db.query(sql, params, options);
    return (/^\s*select\b/i.test(sql) ? tried(ask) : ask()) as ReturnType<typeof db.query<never>>;
  },
});

/** Of a server that was configured, an error says where its address came from. */
function naming(error: unknown, { database_url: url, origins }: Config): unknown {
  if (!(error instanceof TroupeError) || url === null || error.message.includes('DATABASE_URL')) return error;
  const origin = { flag: '--database-url', environment: 'DATABASE_URL', 'troupe.yaml': 'troupe.yaml', default: '' };
  return new TroupeError(
    error.code,
    `${error.message} The address is that of ${origin[origins.database_url]}.`,
    error.detail,
  );
}
