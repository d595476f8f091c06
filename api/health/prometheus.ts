/** What this process counts of itself, and what other processes of ours counted: the only file that imports prom-client. */
import {
  AggregatorRegistry,
  Counter,
  collectDefaultMetrics,
  Gauge,
  Histogram,
  type MetricObjectWithValues,
  type MetricValue,
  Registry,
} from 'prom-client';
import { endedSpan, episodesAmong, MOST_NAMED } from './tracing/spans.ts';

const registry = new Registry();
collectDefaultMetrics({ register: registry });

/** A call of a model takes up to a minute, an append a few milliseconds. */
const REQUEST_SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];
/** A rollout takes hours, the sum of a small group a few milliseconds. */
const WORK_SECONDS = [0.01, 0.05, 0.1, 0.5, 1, 5, 15, 60, 300, 1800, 7200];

const seconds = <Label extends string>(
  name: string,
  help: string,
  labelNames: readonly Label[],
  buckets: number[] = REQUEST_SECONDS,
): Histogram<Label> =>
  new Histogram({
    name: `troupe_${name}_duration_seconds`,
    help,
    labelNames: [...labelNames],
    buckets,
    registers: [registry],
  });

const requests = seconds(
  'http_request',
  'Seconds from the first byte of a request to the last of its response, by route pattern.',
  ['method', 'route'],
);
const responses = new Counter({
  name: 'troupe_http_requests_total',
  help: 'Requests answered by this process, by route pattern.',
  labelNames: ['method', 'route', 'status'],
  registers: [registry],
});
let redactedBy: () => Readonly<Record<string, number>> = () => ({});
new Counter({
  name: 'troupe_redactions_total',
  help: 'Texts in which this process found a secret, by rule.',
  labelNames: ['rule'],
  registers: [registry],
  collect() {
    this.reset();
    for (const [rule, found] of Object.entries(redactedBy())) this.inc({ rule }, found);
  },
});
const batches = seconds('projection_batch', 'Seconds that a projector took to apply a batch of events.', []);
const delays = new Histogram({
  name: 'troupe_projection_delay_seconds',
  help: 'Seconds from the append of the oldest event of a batch until its rows are there.',
  buckets: WORK_SECONDS,
  registers: [registry],
});
const projected = new Counter({
  name: 'troupe_projector_events_total',
  help: 'Events that this process applied.',
  registers: [registry],
});
const judgings = seconds(
  'judge',
  'Seconds that the standing judge took for the episodes of one look.',
  [],
  WORK_SECONDS,
);
const judged = new Counter({
  name: 'troupe_judged_episodes_total',
  help: 'Episodes that the standing judge of this process judged.',
  registers: [registry],
});
const jobs = seconds('job', 'Seconds that this process worked on a job.', ['kind', 'outcome'], WORK_SECONDS);
const samples = seconds('infer_request', 'Seconds from a request to a sampling process to its response.', [
  'operation',
]);
const steps = seconds('training_step', 'Seconds of a training step.', []);

/** Observations of what this process did; each takes seconds. Work that no request waits for is a span too, where there are traces. */
export const observe = {
  /** By route pattern, never by path: the number of series stays small. */
  request: (method: string, route: string, status: number, took: number): void => {
    requests.observe({ method, route }, took);
    responses.inc({ method, route, status });
  },
  batch: (
    { events, keys, delay }: { readonly events: number; readonly keys: Iterable<string>; readonly delay: number },
    took: number,
  ): void => {
    batches.observe(took);
    delays.observe(delay);
    projected.inc(events);
    endedSpan('project', took, { 'troupe.events': events, ...episodesAmong(keys) });
  },
  judged: (episodes: readonly string[], took: number): void => {
    judgings.observe(took);
    judged.inc(episodes.length);
    endedSpan('judge', took, {
      'troupe.judged': episodes.length,
      'troupe.episodes': episodes.slice(0, MOST_NAMED),
    });
  },
  job: ({ job_id, kind }: { readonly job_id: string; readonly kind: string }, outcome: string, took: number): void => {
    jobs.observe({ kind, outcome }, took);
    endedSpan(kind, took, { 'troupe.outcome': outcome }, { is: job_id });
  },
  infer: (operation: string, took: number): void => samples.observe({ operation }, took),
  step: (took: number, job: string): void => {
    steps.observe(took);
    endedSpan('train step', took, {}, { of: job });
  },
  /** `found` has how often each rule found a secret so far. */
  redactions: (found: () => Readonly<Record<string, number>>): void => {
    redactedBy = found;
  },
};

/** `process_*`, `nodejs_*`, and what this process counted, in the Prometheus text format. */
export const processMetrics = (): Promise<string> => registry.metrics();

/** The same as plain objects, to be sent to another process. */
export type CounterValues = MetricObjectWithValues<MetricValue<string>>[];
export const processCounts = (): Promise<CounterValues> => registry.getMetricsAsJSON();

export type Role = { readonly role: string; readonly policy?: string };

/**
 * The counts of several processes as one text, with their roles as labels, which no two of them share. `troupe_role_up` is 0 where there
 * are no counts.
 */
export function metricsOfRoles(
  processes: readonly { readonly labels: Role; readonly counts: CounterValues | null }[],
): Promise<string> {
  const up = new Gauge({
    name: 'troupe_role_up',
    help: '1 if the process of this role answers.',
    labelNames: ['role', 'policy'],
    registers: [],
  });
  for (const { labels, counts } of processes) up.set(labels, counts === null ? 0 : 1);
  const labelled = processes.map(({ labels, counts }) =>
    (counts ?? []).map((metric) => ({
      ...metric,
      // Of series that differ in a label nothing is added up or left out.
      aggregator: 'sum',
      values: metric.values.map((value) => ({ ...value, labels: { ...value.labels, ...labels } })),
    })),
  );
  const all = AggregatorRegistry.aggregate(labelled);
  all.registerMetric(up);
  return all.metrics();
}
