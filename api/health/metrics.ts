/** Prometheus metrics of the project, from the database. The small format is written by hand. */
import { TroupeError } from '../../errors.ts';
import type { EventLog } from '../../ingest/log/log.ts';
import { isTransient } from '../../store/db/faults.ts';
import type { Db } from '../../store/db/pool.ts';
import { query, rowsOf, type SqlBool, scalarOf, sql, typed } from '../../store/db/query.ts';
import { lag, oldestWaiting, partitionLags } from '../../store/projecting/positions.ts';
import { REBUILDING } from '../../store/projecting/rebuilding/rebuild.ts';
import { servingNow } from '../../trainer/loop/release/serving.ts';
import { within } from '../http/within.ts';

type Sample = { readonly labels: Readonly<Record<string, string>>; readonly value: number };
type Metric = {
  readonly name: string;
  readonly kind: 'counter' | 'gauge';
  readonly about: string;
  readonly samples: readonly Sample[];
};

/** A server that is stopped holds its connections and says nothing; Prometheus gives up after 10 s. */
const PATIENCE_MS = 5000;

const up = (value: 0 | 1): Metric => gauge('troupe_database_up', '1 if the database answers.', [{ labels: {}, value }]);

/** Whether this process reaches the database: what a process without a project's metrics says of it. */
export const databaseMetrics = async (db: Db): Promise<readonly Metric[]> => [
  up((await within(scalarOf(db, sql<number>`1`), PATIENCE_MS).catch(() => null)) === null ? 0 : 1),
];

/** Metrics of the project from the database; if it does not answer, only that. */
export async function projectMetrics(db: Db, eventLog: EventLog): Promise<readonly Metric[]> {
  try {
    const found = await within(
      Promise.all([eventMetrics(db, eventLog), queueMetrics(db), sizeMetrics(db), servingMetrics(db)]),
      PATIENCE_MS,
    );
    return found === null ? [up(0)] : [up(1), ...found.flat()];
  } catch (error) {
    if (isTransient(error) || (error instanceof TroupeError && error.code === 'unreachable')) return [up(0)];
    throw error;
  }
}

async function eventMetrics(db: Db, eventLog: EventLog): Promise<readonly Metric[]> {
  const [endpoints, log, projections, letters, behind, outer] = await Promise.all([
    rowsOf(
      db,
      query
        .selectFrom('troupe.ingest_counters')
        .select(['endpoint', 'received', 'acknowledged', 'duplicates', 'rejected'])
        .orderBy('endpoint'),
    ),
    rowsOf(
      db,
      query
        .selectFrom(
          query
            .selectFrom('troupe.log_partitions')
            .select('next_position as given')
            .unionAll(
              query
                .selectFrom('troupe.positions')
                .select(sql<number>`applied + dead`.as('given'))
                .where('projection', '=', 'facts')
                .where('log', '<>', 0),
            )
            .as('places'),
        )
        .select(sql<number>`coalesce(sum(given), 0)::float8`.as('events')),
    ),
    rowsOf(
      db,
      query
        .selectFrom('troupe.positions')
        .select([
          'projection',
          sql<number>`sum(applied)::float8`.as('applied'),
          sql<number>`sum(duplicates)::float8`.as('duplicates'),
          sql<number>`sum(dead)::float8`.as('dead'),
        ])
        .groupBy('projection')
        .orderBy('projection'),
    ),
    rowsOf(
      db,
      query
        .selectFrom('troupe.dead_letters')
        .select(['endpoint', 'code', sql<number>`count(*)::float8`.as('letters')])
        .where('replayed_at', 'is', null)
        .groupBy(['endpoint', 'code'])
        .orderBy('endpoint')
        .orderBy('code'),
    ),
    lag(db),
    outerLags(db, eventLog),
  ]);
  const kinds = ['received', 'acknowledged', 'duplicates', 'rejected'] as const;
  const outcomes = ['applied', 'duplicates', 'dead'] as const;
  return [
    counter(
      'troupe_ingest_events_total',
      'Events at each ingestion endpoint; received = acknowledged + duplicates + rejected.',
      endpoints.flatMap((row) => kinds.map((kind) => ({ labels: { endpoint: row.endpoint, kind }, value: row[kind] }))),
    ),
    counter('troupe_log_events_total', 'Events in the log.', log[0]!.events),
    counter(
      'troupe_projected_events_total',
      'Events that a projection consumed; consumed = applied + duplicates + dead.',
      projections.flatMap((row) =>
        outcomes.map((outcome) => ({ labels: { projection: row.projection, outcome }, value: row[outcome] })),
      ),
    ),
    gauge('troupe_projection_lag_events', 'Events in the log that are not in the tables yet.', behind),
    ...(outer === null
      ? []
      : [
          gauge(
            'troupe_log_lag_records',
            'Records of a partition of the log that were not read yet; below 0, more was read than it holds.',
            outer.map(({ partition, end, position }) => ({
              labels: { log: eventLog.name, partition: String(partition) },
              value: end - position,
            })),
          ),
        ]),
    gauge(
      'troupe_dead_letters',
      'Rejected records that were not replayed.',
      letters.map(({ endpoint, code, letters }) => ({ labels: { endpoint, code }, value: letters })),
    ),
  ];
}

/** Jobs that are not finished, and how long the oldest event has waited to be in the tables. */
async function queueMetrics(db: Db): Promise<readonly Metric[]> {
  const [jobs, oldest] = await Promise.all([
    rowsOf(
      db,
      query
        .selectFrom('troupe.job_queue')
        .select([
          'kind',
          'state',
          sql<number>`count(*)::float8`.as('jobs'),
          sql<number>`extract(epoch from clock_timestamp() - min(requested_at))::float8`.as('seconds'),
        ])
        .where('state', '<>', 'finished')
        // A schedule, and a receiver of notifications, is a row of the queue that never finishes.
        .where('kind', 'not in', ['schedule', 'notify'])
        .groupBy(['kind', 'state'])
        .orderBy('kind')
        .orderBy('state'),
    ),
    oldestWaiting(db),
  ]);
  const labelled = (of: 'jobs' | 'seconds') =>
    jobs.map((row) => ({ labels: { kind: row.kind, state: row.state }, value: row[of] }));
  return [
    gauge('troupe_jobs', 'Jobs that are not finished.', labelled('jobs')),
    gauge('troupe_oldest_job_seconds', 'Seconds since the oldest of them was requested.', labelled('seconds')),
    gauge(
      'troupe_oldest_unprojected_seconds',
      'Seconds since the oldest event was recorded that is not in the tables yet; 0 if there is none.',
      oldest,
    ),
  ];
}

/** Sampling processes by the version that they answer with. */
async function servingMetrics(db: Db): Promise<readonly Metric[]> {
  const processes = await servingNow(db);
  const counts = new Map<string, { labels: Record<string, string>; value: number }>();
  for (const { policy, checkpoint, released } of processes) {
    const labels = { policy, checkpoint: checkpoint ?? '', released: String(checkpoint === released) };
    const key = JSON.stringify(labels);
    counts.set(key, { labels, value: (counts.get(key)?.value ?? 0) + 1 });
  }
  return [
    gauge('troupe_serving_processes', 'Sampling processes, by policy and the checkpoint that they answer with.', [
      ...counts.values(),
    ]),
    gauge(
      'troupe_serving_late',
      'Sampling processes that do not serve the release of more than 30 s ago.',
      [...new Set(processes.map(({ policy }) => policy))].map((policy) => ({
        labels: { policy },
        value: processes.filter((one) => one.policy === policy && one.late).length,
      })),
    ),
  ];
}

/** Disk usage of the project, database connections, and a rebuild that runs over one of them. */
async function sizeMetrics(db: Db): Promise<readonly Metric[]> {
  const [tables, connections, rebuilt, wal] = await Promise.all([
    rowsOf(
      db,
      query
        .selectFrom(sql<{ relid: number; name: string }>`pg_stat_user_tables`.as<'t'>(sql`t`))
        .select([
          sql<string>`schemaname || '.' || relname`.as('name'),
          sql<number>`pg_total_relation_size(relid)::float8`.as('bytes'),
        ])
        .where(sql<SqlBool>`schemaname in ('troupe', 'facts')`)
        .orderBy('name'),
    ),
    rowsOf(
      db,
      query
        .selectFrom(sql<{ state: string | null }>`pg_stat_activity`.as<'a'>(sql`a`))
        .select([sql<string>`coalesce(state, 'unknown')`.as('state'), sql<number>`count(*)::float8`.as('connections')])
        .where(sql<SqlBool>`datname = current_database()`)
        .groupBy('state')
        .orderBy('state'),
    ),
    scalarOf(
      db,
      sql<
        number | null
      >`(select max(substring(application_name from ${typed(`^${REBUILDING}(\\d+) %$`, 'text')})::float8 / 100)
        from pg_stat_activity where datname = current_database())`,
    ),
    // Only a superuser and pg_monitor may ask; for anybody else the size is unknown.
    scalarOf(db, sql<number>`(select sum(size)::float8 from pg_ls_waldir())`).catch(() => null),
  ]);
  return [
    gauge(
      'troupe_table_bytes',
      'Disk that a table takes with its indexes.',
      tables.map(({ name, bytes }) => ({ labels: { table: name }, value: bytes })),
    ),
    gauge(
      'troupe_database_connections',
      'Connections to the database of the project, by state.',
      connections.map(({ state, connections }) => ({ labels: { state }, value: connections })),
    ),
    ...(rebuilt === null
      ? []
      : [
          gauge(
            'troupe_rebuild_progress',
            'Share of the events that a rebuild has applied; absent where none runs.',
            rebuilt,
          ),
        ]),
    ...(wal === null ? [] : [gauge('troupe_wal_bytes', "Disk that the server's write-ahead log takes.", wal)]),
  ];
}

/** Null where the log is the database, or does not answer. */
async function outerLags(db: Db, log: EventLog) {
  const partitions = await log.partitions?.().catch(() => null);
  return partitions ? partitionLags(db, log.name, partitions) : null;
}

/** A metric of samples, or of one number without labels. */
const metricOf =
  (kind: Metric['kind']) =>
  (name: string, about: string, samples: number | readonly Sample[]): Metric => ({
    name,
    kind,
    about,
    samples: typeof samples === 'number' ? [{ labels: {}, value: samples }] : samples,
  });
const counter = metricOf('counter');
const gauge = metricOf('gauge');

/** The Prometheus text format, version 0.0.4. */
export function prometheusText(metrics: readonly Metric[]): string {
  return metrics
    .flatMap(({ name, kind, about, samples }) => [
      `# HELP ${name} ${about}`,
      `# TYPE ${name} ${kind}`,
      ...samples.map(({ labels, value }) => `${name}${writeLabels(labels)} ${value}`),
    ])
    .map((line) => `${line}\n`)
    .join('');
}

function writeLabels(labels: Readonly<Record<string, string>>): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${escapeLabel(value)}"`);
  return pairs.length === 0 ? '' : `{${pairs.join(',')}}`;
}

const escapeLabel = (text: string): string =>
  text.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');
