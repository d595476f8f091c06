/** What a command works with: the project's database, its log, its artifacts. Opened once, closed at the end, in the one place where rooms meet. */
import { type Config, loadConfig } from '../config.ts';
import { TroupeError } from '../errors.ts';
import { fileArtifacts } from '../ingest/artifacts.ts';
import type { ArtifactStore, DoorBook, EventLog } from '../ingest/log/log.ts';
import { postgresBook, postgresLog } from '../ingest/log/postgres.ts';
import type { LogSource } from '../ingest/log/source.ts';
import { createRedactor, type Redactor } from '../ingest/redact.ts';
import { ownRules } from '../ingest/redact-own.ts';
import { redacting } from '../ingest/redact-ports.ts';
import { type Database, openDatabase } from '../store/db/database.ts';
import { type Home, openHome } from '../store/db/home.ts';
import { type Patiently, patiently } from '../store/db/patience.ts';
import type { Db } from '../store/db/pool.ts';
import { projectAll } from '../store/projecting/projector.ts';
import { kafkaAccess } from './kafka-access.ts';
import { tellTrouble } from './output.ts';

export type Context = {
  readonly config: Config;
  readonly home: Home;
  readonly database: Database;
  readonly db: Db;
  readonly log: EventLog;
  /** Where the log is read, if it lies outside the database. */
  readonly source: LogSource | null;
  /** Brings the tables up to what the log holds now. Returns how many events were applied. */
  readonly catchUp: (options?: { readonly signal?: AbortSignal }) => Promise<number>;
  /** Runs work that may be run again until the database, the broker and the disk let it, for as long as the setting patience says. */
  readonly patiently: Patiently;
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
    ...(config.database_port === 0 ? {} : { embedded: { port: config.database_port } }),
    applicationName: 'troupe',
  }).catch((error) => {
    throw naming(error, config);
  });
  const { db } = database;
  let kafka: Awaited<ReturnType<typeof openKafkaLog>> | null = null;
  try {
    if (config.kafka_brokers !== null) kafka = await openKafkaLog(config, database.project);
    const source = kafka?.source ?? null;
    // Only now: a server that cannot be reached must leave no folders behind.
    const home = openHome(config.home);
    const retrying = { forMs: config.patience * 1000, onTrouble: tellTrouble('It') };
    return await work({
      config,
      home,
      database,
      db,
      ...redacting(
        { log: kafka?.log ?? postgresLog(db), book: postgresBook(db), artifacts: fileArtifacts(home.artifacts) },
        redactor,
      ),
      redactor,
      source,
      catchUp: ({ signal } = {}) =>
        patiently(
          async () => {
            if (source !== null) {
              const { bringIn } = await import('../store/log/follow.ts');
              await bringIn(db, source, signal ? { signal } : {});
            }
            return projectAll(db);
          },
          { ...retrying, ...(signal ? { signal } : {}) },
        ),
      patiently: (again) => patiently(again, retrying),
      now: () => new Date(),
    });
  } finally {
    await kafka?.log.close();
    await kafka?.source.close();
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

/** The project's topic, as a log and as its source. The client is loaded only where it is used. */
async function openKafkaLog(config: Config, project: string): Promise<{ log: EventLog; source: LogSource }> {
  const [{ openKafka }, { kafkaLog }, { kafkaSource }] = await Promise.all([
    import('../ingest/log/kafka.ts'),
    import('../ingest/log/kafka-log.ts'),
    import('../ingest/log/kafka-source.ts'),
  ]);
  const topic = config.kafka_topic ?? project;
  const door = openKafka({
    brokers: config.kafka_brokers ?? '',
    topic,
    ...kafkaAccess(config),
  });
  return {
    log: kafkaLog(door, { partitions: config.kafka_partitions }),
    source: kafkaSource(door, {
      group: `troupe-${project}`,
      accepts: config.origins.kafka_partitions === 'default' ? null : config.kafka_partitions,
    }),
  };
}
