/**
 * What Troupe needs at a size, from what an event costs: pure. Two parts: a simulation of projectors that share processors with each other
 * and with PostgreSQL, and the sums of a deployment (processes, nodes, bytes, money). Every number that they start from is an assumption.
 */
import { kafkaPartitionOf } from '../ingest/log/partition.ts';

/** Times are microseconds of one processor for an event; money is US dollars a month. */
export const DEFAULTS = {
  // The demo: what comes in when it runs once a day (docs/demo.md).
  events_a_day: 204_067,
  events_an_episode: 11,
  /** The busiest second over the mean of the day. */
  peak: 5,
  // Measured on the 2 cores of docs/benchmarks.md: append and ingest with Kafka, storage of the demo's home.
  ingest_us: 60,
  project_us: 90,
  postgres_us: 42,
  /** Of what a projector computes, the part that it does while PostgreSQL takes the rows. */
  overlap: 0.3,
  batch_events: 1000,
  record_bytes: 1500,
  stored_bytes: 3450,
  archived_bytes: 790,
  // Chosen.
  partitions: 16,
  hot_days: 30,
  kafka_days: 3,
  archive_days: 365,
  /** Of a processor, so that a peak above the expected one is caught up with. */
  use: 0.6,
  cores_a_node: 16,
  disk_gb_a_node: 8_000,
  kafka_mb_a_second_a_broker: 50,
  // Prices, roughly those of a large cloud.
  core_month: 30,
  disk_gb_month: 0.1,
  bucket_gb_month: 0.023,
};

export type Assumptions = { readonly [K in keyof typeof DEFAULTS]: number };

export type Backlog = { readonly projectors: number; readonly cores: number; readonly events: number };

/**
 * Events a second with which projectors bring in a backlog, all of them and PostgreSQL on the same processors. Episodes lie in the
 * partitions that their keys give; a projector has every n-th partition and works through it in batches: it computes, then the server
 * writes while the projector computes the rest. A processor that more want than there are is shared evenly.
 */
export function simulate(given: Assumptions, { projectors, cores, events }: Backlog): number {
  const left = Array.from({ length: projectors }, () => 0);
  for (let at = 0; at < events; at += given.events_an_episode)
    left[kafkaPartitionOf(`e/simulated-${at}`, given.partitions) % projectors]! += given.events_an_episode;
  const all = left.reduce((sum, n) => sum + n, 0);
  /** Of each worker the tasks that run now, in microseconds that are left, and those that follow. */
  const now: number[][] = left.map(() => []);
  const then: number[][] = left.map(() => []);
  for (let us = 0; ; ) {
    for (const worker of left.keys()) {
      if (now[worker]!.length > 0) continue;
      now[worker] = then[worker]!;
      then[worker] = [];
      const batch = Math.min(given.batch_events, left[worker]!);
      if (now[worker]!.length > 0 || batch === 0) continue;
      left[worker]! -= batch;
      const own = batch * given.project_us;
      now[worker] = [own * (1 - given.overlap)];
      then[worker] = [own * given.overlap, batch * given.postgres_us];
    }
    const tasks = now.flat();
    if (tasks.length === 0) return all / (us / 1e6);
    const speed = Math.min(1, cores / tasks.length);
    const done = Math.min(...tasks);
    us += done / speed;
    for (const worker of left.keys())
      now[worker] = now[worker]!.map((task) => task - done).filter((task) => task > 1e-6);
  }
}

export type Deployment = {
  readonly times: number;
  readonly events_a_day: number;
  readonly events_a_second_at_peak: number;
  readonly gb_a_day: { readonly log: number; readonly tables: number; readonly archives: number };
  readonly ingest: number;
  readonly projectors: number;
  readonly partitions: number;
  /** 0: the log is a table. */
  readonly brokers: number;
  readonly postgres: { readonly nodes: number; readonly cores: number; readonly disk_gb: number };
  readonly bucket_gb: number;
  readonly dollars_a_month: number;
};

/** What so many times the demo needs, its events spread over the day with one peak. */
export function deploy(given: Assumptions, times: number): Deployment {
  const events = given.events_a_day * times;
  const peak = (events / 86_400) * given.peak;
  const busy = (us: number): number => (peak * us) / 1e6 / given.use;
  const gb = (bytes: number): number => (events * bytes) / 1e9;
  const [ingest, projectors] = [given.ingest_us, given.project_us].map((us) => Math.max(1, Math.ceil(busy(us))));
  const cores = busy(given.postgres_us);
  const disk = gb(given.stored_bytes) * given.hot_days;
  const nodes = Math.max(1, Math.ceil(cores / given.cores_a_node), Math.ceil(disk / given.disk_gb_a_node));
  // One projector is enough while the log is a table; several share a topic.
  const shared = projectors! > 1 || ingest! > 1;
  const brokers = shared
    ? Math.max(3, Math.ceil((peak * given.record_bytes * 3) / 1e6 / given.kafka_mb_a_second_a_broker))
    : 0;
  const partitions = Math.max(given.partitions, 2 ** Math.ceil(Math.log2(2 * projectors!)));
  const bucket = gb(given.archived_bytes) * given.archive_days;
  const topic = shared ? gb(given.record_bytes) * given.kafka_days * 3 : 0;
  // Brokers have two processors each; a machine of its own has two at least.
  const processors = Math.max(2, ingest! + projectors! + cores) + 2 * brokers;
  const dollars = processors * given.core_month + (disk + topic) * given.disk_gb_month + bucket * given.bucket_gb_month;
  return {
    times,
    events_a_day: events,
    events_a_second_at_peak: peak,
    gb_a_day: { log: gb(given.record_bytes), tables: gb(given.stored_bytes), archives: gb(given.archived_bytes) },
    ingest: ingest!,
    projectors: projectors!,
    partitions,
    brokers,
    postgres: { nodes, cores, disk_gb: disk },
    bucket_gb: bucket,
    dollars_a_month: dollars,
  };
}
