/** What a command works with: the project's database, its log, its artifacts. Opened once, closed at the end, in the one place where rooms meet. */
import { type Config, loadConfig } from '../config.ts';
import { fileArtifacts } from '../ingest/artifacts.ts';
import type { ArtifactStore, DoorBook, EventLog } from '../ingest/log/log.ts';
import { postgresBook, postgresLog } from '../ingest/log/postgres.ts';
import { createRedactor, type Redactor } from '../ingest/redact.ts';
import { ownRules } from '../ingest/redact-own.ts';
import { redacting } from '../ingest/redact-ports.ts';
import { type Database, openDatabase } from '../store/db/database.ts';
import { type Home, openHome } from '../store/db/home.ts';
import type { Db } from '../store/db/pool.ts';

export type Context = {
  readonly config: Config;
  readonly home: Home;
  readonly database: Database;
  readonly db: Db;
  readonly log: EventLog;
  readonly book: DoorBook;
  readonly artifacts: ArtifactStore;
  /** What log, book and artifacts are behind. */
  readonly redactor: Redactor;
  readonly now: () => Date;
};

export const VERSION = '0.1.0';

/** Opens the project, runs the work, and closes whatever happens. */
export async function withContext<T>(
  flags: Readonly<Record<string, unknown>>,
  work: (context: Context) => Promise<T>,
): Promise<T> {
  const config = loadConfig(flags, process.env);
  const redactor = createRedactor(ownRules(config.redact ?? {}));
  const database = await openDatabase({
    home: config.home,
    ...(config.origins.project === 'default' && config.database_url ? {} : { project: config.project }),
    ...(config.database_url === null ? {} : { databaseUrl: config.database_url }),
    applicationName: 'troupe',
  });
  const { db } = database;
  try {
    // Only now: a server that cannot be reached must leave no folders behind.
    const home = openHome(config.home);
    return await work({
      config,
      home,
      database,
      db,
      ...redacting(
        { log: postgresLog(db), book: postgresBook(db), artifacts: fileArtifacts(home.artifacts) },
        redactor,
      ),
      redactor,
      now: () => new Date(),
    });
  } finally {
    await database.close();
  }
}
