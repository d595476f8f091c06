/** A topic in memory, as a log outside the database: what its brokers hold can be replaced at will. */
import type { Event } from '../../../ingest/events/events.ts';
import { type LogRecord, writeRecord } from '../../../ingest/log/kafka-record.ts';
import { kafkaPartitionOf } from '../../../ingest/log/partition.ts';
import type { LogSource } from '../../../ingest/log/source.ts';

export type MemoryTopic = {
  readonly source: LogSource;
  readonly append: (events: readonly Event[]) => void;
  /** Another topic under the same name: empty, of that cluster; none at all where `partitions` is 0. */
  readonly replace: (cluster: string, partitions: number) => void;
  /** Removes every record, as retention does; offsets go on. */
  readonly expire: () => void;
};

export function memoryTopic(name: string, partitions: number): MemoryTopic {
  let cluster = 'a';
  let kept: LogRecord[][] = [];
  let begins: number[] = [];
  let time = 0;
  const replace = (other: string, count: number): void => {
    cluster = other;
    begins = Array.from({ length: count }, () => 0);
    kept = Array.from({ length: count }, () => []);
  };
  replace(cluster, partitions);
  const source: LogSource = {
    name: `kafka:${name}`,
    accepts: null,
    facts: async () => ({
      cluster,
      partitions: kept.map((records, partition) => ({
        partition,
        begin: begins[partition]!,
        end: records.length,
      })),
    }),
    make: async (count) => {
      if (kept.length === 0) replace(cluster, count);
    },
    read: async ({ signal, assigned, take }) => {
      const next = new Map(await assigned(kept.map((_, partition) => partition)));
      while (!signal.aborted) {
        for (const [partition, from] of [...next]) {
          const all = kept[partition]!;
          if (from >= all.length) continue;
          const records = all.slice(from);
          const reading = { partition, from, next: all.length, end: all.length, records };
          const elsewhere = await take([reading], () => false);
          next.set(partition, elsewhere?.get(partition) ?? all.length);
        }
        await new Promise(setImmediate);
      }
    },
    close: async () => {},
  };
  const append = (events: readonly Event[]): void => {
    for (const event of events) {
      const { key, value, headers } = writeRecord(event);
      const records = kept[kafkaPartitionOf(event.key, kept.length)]!;
      records.push({
        offset: records.length,
        timestamp: String(time++),
        key: Buffer.from(key),
        value: Buffer.from(value),
        headers,
      });
    }
  };
  return {
    source,
    append,
    replace,
    expire: () => {
      begins = kept.map((records) => records.length);
    },
  };
}
