/** What Prometheus reads: counts of this process, and of the project as the database knows them. Written by hand, it is a small format. */
import type { EventLog } from '../ingest/log/log.ts';
import type { Redactor } from '../ingest/redact.ts';
import type { Db } from '../store/db/pool.ts';
import { query, rowsOf, sql } from '../store/db/query.ts';
import { lag, partitionLags } from '../store/projecting/positions.ts';

type Sample = { readonly labels: Readonly<Record<string, string>>; readonly value: number };
type Metric = {
  readonly name: string;
  readonly kind: 'counter' | 'gauge';
  readonly about: string;
  readonly samples: readonly Sample[];
};

export type RequestCounts = {
  readonly add: (method: string, route: string, status: number, seconds: number) => void;
  readonly read: () => readonly Metric[];
};

/** Counts requests by route pattern, never by path: the number of series stays small. */
export function requestCounts(): RequestCounts {
  const seen = new Map<string, { labels: Record<string, string>; count: number; seconds: number }>();
  return {
    add: (method, route, status, seconds) => {
      const key = `${method} ${route} ${status}`;
      const entry = seen.get(key) ?? { labels: { method, route, status: String(status) }, count: 0, seconds: 0 };
      entry.count++;
      entry.seconds += seconds;
      seen.set(key, entry);
    },
    read: () => {
      const entries = [...seen.values()];
      return [
        counter(
          'troupe_http_requests_total',
          'Requests answered by this process.',
          entries.map(({ labels, count }) => ({ labels, value: count })),
        ),
        counter(
          'troupe_http_request_seconds_total',
          'Seconds spent on them.',
          entries.map(({ labels, seconds }) => ({ labels, value: seconds })),
        ),
      ];
    },
  };
}

/** What the database knows of the project. */
export async function projectMetrics(db: Db, eventLog: EventLog): Promise<readonly Metric[]> {
  const [doors, log, projections, letters, behind, outer] = await Promise.all([
    rowsOf(
      db,
      query
        .selectFrom('troupe.door_counts')
        .select(['door', 'received', 'acknowledged', 'duplicates', 'rejected'])
        .orderBy('door'),
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
        .select(['door', 'code', sql<number>`count(*)::float8`.as('letters')])
        .where('replayed_at', 'is', null)
        .groupBy(['door', 'code'])
        .orderBy('door')
        .orderBy('code'),
    ),
    lag(db),
    outerLags(db, eventLog),
  ]);
  const kinds = ['received', 'acknowledged', 'duplicates', 'rejected'] as const;
  const outcomes = ['applied', 'duplicates', 'dead'] as const;
  return [
    counter(
      'troupe_door_events_total',
      'Events at each door; received = acknowledged + duplicates + rejected.',
      doors.flatMap((row) => kinds.map((kind) => ({ labels: { door: row.door, kind }, value: row[kind] }))),
    ),
    counter('troupe_log_events_total', 'Events in the log.', [{ labels: {}, value: log[0]!.events }]),
    counter(
      'troupe_projected_events_total',
      'Events that a projection consumed; consumed = applied + duplicates + dead.',
      projections.flatMap((row) =>
        outcomes.map((outcome) => ({ labels: { projection: row.projection, outcome }, value: row[outcome] })),
      ),
    ),
    gauge('troupe_projection_lag_events', 'Events in the log that are not in the tables yet.', [
      { labels: {}, value: behind },
    ]),
    ...(outer === null
      ? []
      : [
          gauge(
            'troupe_log_lag_records',
            'Records of a partition of the log that were not read yet.',
            outer.map(({ partition, lag }) => ({
              labels: { log: eventLog.name, partition: String(partition) },
              value: lag,
            })),
          ),
        ]),
    gauge(
      'troupe_dead_letters',
      'Refused records that were not replayed.',
      letters.map(({ door, code, letters }) => ({ labels: { door, code }, value: letters })),
    ),
  ];
}

/** What this process took out before the log. */
export const redactionMetrics = (redactor: Redactor | null): readonly Metric[] =>
  redactor === null
    ? []
    : [
        counter(
          'troupe_redactions_total',
          'Texts in which this process found a secret, by rule.',
          Object.entries(redactor.found()).map(([rule, value]) => ({ labels: { rule }, value })),
        ),
      ];

/** Null where the log is the database, or does not answer. */
async function outerLags(db: Db, log: EventLog) {
  const partitions = await log.partitions?.().catch(() => null);
  return partitions ? partitionLags(db, log.name, partitions) : null;
}

const counter = (name: string, about: string, samples: readonly Sample[]): Metric => ({
  name,
  kind: 'counter',
  about,
  samples,
});
const gauge = (name: string, about: string, samples: readonly Sample[]): Metric => ({
  name,
  kind: 'gauge',
  about,
  samples,
});

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
