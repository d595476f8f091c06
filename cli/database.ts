/** The database of a project, for commands that only read it: what a log needs is not loaded. */
import { type Config, loadConfig } from '../config.ts';
import { TroupeError } from '../errors.ts';
import { type Database, DEFAULT_PROJECT, openDatabase } from '../store/db/database.ts';
import type { Db } from '../store/db/pool.ts';

export type Opened = {
  readonly config: Config;
  readonly database: Database;
  readonly db: Db;
  readonly now: () => Date;
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
    return await work({ config, database, db: database.db, now: () => new Date() });
  } finally {
    await database.close();
  }
}

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
