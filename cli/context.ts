/** What a command works with: the project's database, its log, its artifacts. Opened once, closed at the end, in the one place where rooms meet. */
import type { Config } from '../config.ts';
import { fileArtifacts } from '../ingest/artifacts.ts';
import type { ArtifactStore, DoorBook, EventLog } from '../ingest/log/log.ts';
import { postgresBook, postgresLog } from '../ingest/log/postgres.ts';
import type { LogSource } from '../ingest/log/source.ts';
import { createRedactor, type Redactor } from '../ingest/redact.ts';
import { ownRules } from '../ingest/redact-own.ts';
import { redacting } from '../ingest/redact-ports.ts';
import { type Home, openHome } from '../store/db/home.ts';
import { patiently } from '../store/db/patience.ts';
import { projectAll } from '../store/projecting/projector.ts';
import { type Opened, patientReads, withDatabase } from './database.ts';
import { kafkaAccess } from './kafka-access.ts';
import { tellTrouble } from './output.ts';

export type Context = Opened & {
  readonly home: Home;
  readonly log: EventLog;
  /** Where the log is read, if it lies outside the database. */
  readonly source: LogSource | null;
  /** Brings the tables up to what the log holds now. Returns how many events were applied. */
  readonly catchUp: (options?: { readonly signal?: AbortSignal }) => Promise<number>;
  readonly book: DoorBook;
  readonly artifacts: ArtifactStore;
  /** What log, book and artifacts are behind. */
  readonly redactor: Redactor;
};

/** Opens the project with its log, runs the work, and closes whatever happens. */
export function withContext<T>(
  flags: Readonly<Record<string, unknown>>,
  work: (context: Context) => Promise<T>,
  options: { readonly create?: boolean } = {},
): Promise<T> {
  return withDatabase(flags, (opened) => withLog(opened, work), options);
}

async function withLog<T>(opened: Opened, work: (context: Context) => Promise<T>): Promise<T> {
  const { config, database, db } = opened;
  const redactor = createRedactor(ownRules(config.redact ?? {}));
  const kafka = config.kafka_brokers === null ? null : await openKafkaLog(config, database.project);
  try {
    const source = kafka?.source ?? null;
    // Only now: a server that cannot be reached must leave no folders behind.
    const home = openHome(config.home);
    const retrying = { forMs: config.patience * 1000, onTrouble: tellTrouble('It') };
    return await work({
      ...opened,
      home,
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
    });
  } finally {
    await kafka?.log.close();
    await kafka?.source.close();
  }
}

/** The same for a command that runs to its end: what it appends, reports and selects is tried again. */
export function enduring(context: Context): Context {
  const { log, book, patiently: tried } = context;
  return {
    ...context,
    db: patientReads(context),
    log: { ...log, append: (events) => tried(() => log.append(events)) },
    book: { ...book, report: (report) => tried(() => book.report(report)) },
  };
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
