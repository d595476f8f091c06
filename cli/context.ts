/** What a command works with: the project's database, its log, its artifacts. Opened once, closed at the end, in the one place where rooms meet. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ChangeContext } from '../api/operations/operation.ts';
import type { Config } from '../config.ts';
import { TroupeError } from '../errors.ts';
import { createRedactor, type Redactor } from '../ingest/events/redact.ts';
import { ownRules } from '../ingest/events/redact-own.ts';
import { fileArtifacts } from '../ingest/log/artifacts.ts';
import type { ArtifactStore, EventLog, IngestLedger, Originals } from '../ingest/log/log.ts';
import { postgresBook, postgresLog } from '../ingest/log/postgres.ts';
import { redacting } from '../ingest/log/redact-ports.ts';
import type { KnownLog } from '../ingest/log/replaced.ts';
import type { LogSource } from '../ingest/log/source.ts';
import { type EpisodeRule, readEpisodeRules } from '../ingest/traces/otlp/episode-rules.ts';
import { patiently } from '../store/db/patience.ts';
import type { Db } from '../store/db/pool.ts';
import { originalsIn } from '../store/log/originals.ts';
import type { Topic } from '../store/log/reconcile.ts';
import { projectAll } from '../store/projecting/projector.ts';
import { type Home, homeAt, openHome } from '../store/server/home.ts';
import { sealedFile } from '../store/server/sealed.ts';
import { type OpenDatabase, type OpenOptions, patientReads, serverOf, withDatabase } from './database.ts';
import { kafkaAccess } from './kafka-access.ts';
import { troubleReporter } from './output.ts';
import { VERSION } from './version.ts';

export type Context = OpenDatabase & {
  readonly home: Home;
  readonly log: EventLog;
  /** Where the log is read, if it lies outside the database. */
  readonly source: LogSource | null;
  /** Brings the tables up to what the log holds now. Returns how many events were applied. */
  readonly catchUp: (...options: Parameters<ChangeContext['catchUp']>) => Promise<number>;
  readonly book: IngestLedger;
  readonly artifacts: ArtifactStore;
  /** What imports recorded of the runs whose other parts are imported now. */
  readonly originals: Originals;
  /** What log, book and artifacts are behind. */
  readonly redactor: Redactor;
  /** Which spans of a program belong together, besides what they say themselves. */
  readonly episodes: readonly EpisodeRule[];
  /** What seals facts that are kept beside the database: its address or password; null while that is not known. */
  readonly sealSecret: () => string | null;
};

/** Opens the project with its log, runs the work, and closes whatever happens. */
export function withContext<T>(
  flags: Readonly<Record<string, unknown>>,
  work: (context: Context) => Promise<T>,
  options: OpenOptions = {},
): Promise<T> {
  return withDatabase(flags, (opened) => withLog(opened, work), options);
}

/** The same on a database that is open already. */
export async function withLog<T>(opened: OpenDatabase, work: (context: Context) => Promise<T>): Promise<T> {
  const { config, database, db } = opened;
  const redactor = createRedactor(ownRules(config.redact ?? {}));
  const episodes = readEpisodeRules(config.spans);
  const sealSecret = () => config.database_url ?? passwordOf(homeAt(config.home));
  const kafka =
    config.kafka_brokers === null ? null : await openKafkaLog(config, { project: database.project, db, sealSecret });
  try {
    const source = kafka?.source ?? null;
    // Only now: a server that cannot be reached must leave no folders behind.
    const home = openHome(config.home);
    const retrying = { forMs: config.patience * 1000, onTrouble: troubleReporter('It') };
    return await work({
      ...opened,
      home,
      ...redacting(
        { log: kafka?.log ?? postgresLog(db), book: postgresBook(db), artifacts: fileArtifacts(home.artifacts) },
        redactor,
      ),
      originals: originalsIn(db),
      redactor,
      episodes,
      sealSecret,
      source,
      catchUp: ({ signal, onApplied } = {}) =>
        patiently(
          async () => {
            if (source !== null) {
              const { bringIn } = await import('../store/log/follow.ts');
              await bringIn(db, source, signal ? { signal } : {});
            }
            const { replayNewer } = await import('../store/log/replay-newer.ts');
            const watched = (events: number) => {
              onApplied?.(events);
              if (!signal?.aborted) return;
              const text =
                'Interrupted: everything is in the log, and the tables are not all written; the next command goes on.';
              throw new TroupeError('interrupted', text);
            };
            return (await replayNewer(db)) + (await projectAll(db, { onApplied: watched }));
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

/** The same for operations, whose long work may run until the process ends. */
export const operationContext = (context: Context, by: string): ChangeContext => ({
  ...context,
  project: context.database.project,
  settings: context.config,
  server: async () => ({ ...serverOf(context.config), project: context.database.project }),
  inProject: async (ask) => {
    await context.catchUp();
    return ask(context.db);
  },
  env: process.env,
  version: VERSION,
  by,
  topic: () => topicOf(context),
  progress: () => {},
  say: () => {},
  isHere: true,
  workOnRun: async (run, of) => (await import('./processes/plan-worker.ts')).workOnRun(context, run, of),
  signal: new AbortController().signal,
});

/** What the topic records of itself, where that is the log. */
export const topicOf = async ({ source }: Pick<Context, 'source'>): Promise<Topic | undefined> =>
  source === null ? undefined : { name: source.name, ...(await source.facts()) };

/** Of the embedded server; null where there is none yet. */
function passwordOf(home: Home): string | null {
  try {
    return readFileSync(join(home.data, 'password'), 'utf8');
  } catch {
    return null;
  }
}

/** The project's topic, as a log and as its source. The client is loaded only where it is used. */
async function openKafkaLog(
  config: Config,
  { project, db, sealSecret }: { readonly project: string; readonly db: Db; readonly sealSecret: () => string | null },
): Promise<{ log: EventLog; source: LogSource }> {
  const [{ openKafka }, { kafkaLog }, { kafkaSource }, { guardOf }] = await Promise.all([
    import('../ingest/log/kafka.ts'),
    import('../ingest/log/kafka-log.ts'),
    import('../ingest/log/kafka-source.ts'),
    import('../store/log/known-log.ts'),
  ]);
  const topic = config.kafka_topic ?? project;
  const kafka = openKafka({
    brokers: config.kafka_brokers ?? '',
    topic,
    ...kafkaAccess(config),
  });
  const accepts = config.origins.kafka_partitions === 'default' ? null : config.kafka_partitions;
  const source = kafkaSource(kafka, { group: `troupe-${project}`, accepts });
  const seal = sealedFile<KnownLog>(join(homeAt(config.home).sealed, `log-${project}`), sealSecret);
  const guard = guardOf(db, source, seal);
  return { log: kafkaLog(kafka, { partitions: config.kafka_partitions, accepts, guard }), source };
}
