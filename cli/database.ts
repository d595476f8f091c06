/** The database of a project, for commands that only read it: what a log needs is not loaded. */

import { type Config, loadConfig } from '../config.ts';
import { TroupeError } from '../errors.ts';
import { type Database, DEFAULT_PROJECT, openDatabase } from '../store/db/database.ts';
import { type Patiently, patiently } from '../store/db/patience.ts';
import type { Db } from '../store/db/pool.ts';
import { openLateDatabase } from '../store/server/late-database.ts';
import { openedOnce } from './opened-once.ts';
import { troubleReporter } from './output.ts';
import { loadOwn } from './own-modules.ts';

export type OpenDatabase = {
  readonly config: Config;
  readonly database: Database;
  readonly db: Db;
  /** The login that reads the views and nothing else, opened when it is first asked for; null where the server lets none be made. */
  readonly reader: () => Promise<Db | null>;
  readonly now: () => Date;
  /** Retries repeatable work until the database, the broker and the disk allow it, at most for the setting patience. */
  readonly patiently: Patiently;
  /** Rejects where a database that was away turns out to be one that cannot be used; never resolves. */
  readonly failed: Promise<never>;
};

/** Where the databases of all projects are. */
export const serverOf = ({ home, database_url: url, database_port: port }: Config) => ({
  home,
  ...(url === null ? {} : { databaseUrl: url }),
  ...(port === 0 ? {} : { embedded: { port } }),
});

export type OpenOptions = {
  /** Makes a project that is not there. */
  readonly create?: boolean;
  /** Goes on where the database is away, and opens it in the background. */
  readonly late?: boolean;
};

/**
 * Opens the database of the project, runs the work, and closes whatever happens. A project that is named and does not exist is refused,
 * unless it is to be created: a misspelt name would otherwise be an empty project.
 */
export async function withDatabase<T>(
  flags: Readonly<Record<string, unknown>>,
  work: (opened: OpenDatabase) => Promise<T>,
  { create = false, late = false }: OpenOptions = {},
): Promise<T> {
  const config = loadConfig(flags, process.env);
  await loadOwn(config);
  const options = {
    ...serverOf(config),
    ...namedProject(config),
    create: create || config.origins.project === 'default' || config.project === DEFAULT_PROJECT,
    applicationName: 'troupe',
  };
  const report = troubleReporter('troupe: Events are taken into the log; what else needs the database');
  const opening = late ? openLateDatabase(options, (error) => report(naming(error, config))) : openDatabase(options);
  const database: OpenDatabase['database'] & { readonly failed?: Promise<never> } = await opening.catch((error) => {
    throw naming(error, config);
  });
  const reader = openedOnce(async () => (await import('../store/db/reader.ts')).openReader(database));
  try {
    const { failed = new Promise<never>(() => {}) } = database;
    return await work({
      config,
      database,
      db: database.db,
      reader: reader.open,
      now: () => new Date(),
      failed,
      patiently: (again) => patiently(again, { forMs: config.patience * 1000, onTrouble: troubleReporter('It') }),
    });
  } finally {
    await reader.close();
    await database.close();
  }
}

/** The project's name where it is a setting; the address of a configured server may have one otherwise. */
export const namedProject = (config: Config): { readonly project?: string } =>
  config.origins.project === 'default' && config.database_url ? {} : { project: config.project };

/** The same database, where a `select` is retried when the environment failed. Not for a process, whose clients must not wait. */
export const patientReads = ({ db, patiently: tried }: OpenDatabase): Db => ({
  ...db,
  query: (sql, params, options) => {
    const ask = () => db.query(sql, params, options);
    return (/^\s*select\b/i.test(sql) ? tried(ask) : ask()) as ReturnType<typeof db.query<never>>;
  },
});

/** The error of a configured server names the origin of its address. */
function naming(error: unknown, { database_url: url, origins }: Config): unknown {
  if (!(error instanceof TroupeError) || url === null || error.message.includes('DATABASE_URL')) return error;
  const origin = { flag: '--database-url', environment: 'DATABASE_URL', 'troupe.yaml': 'troupe.yaml', default: '' };
  return new TroupeError(
    error.code,
    `${error.message} The address is that of ${origin[origins.database_url]}.`,
    error.detail,
  );
}
