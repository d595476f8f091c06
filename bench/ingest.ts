/**
 * `bench ingest`: events from the log to rows that can be asked, by the projector as it runs, against a COPY of the same rows into
 * the same tables with the same indexes. Both sides find the tables empty and the write-ahead log flushed.
 */
import { join } from 'node:path';
import { openKafka } from '../ingest/log/kafka.ts';
import { type WrittenRecord, writeRecord } from '../ingest/log/kafka-record.ts';
import { kafkaSource } from '../ingest/log/kafka-source.ts';
import { findKafkaJars, startKafka } from '../proofs/kafka.ts';
import { clientOf } from '../proofs/kafka-clients.ts';
import { bringIn } from '../store/log/follow.ts';
import { projectAll } from '../store/projecting/projector.ts';
import type { Bench, Settings } from './bench.ts';
import { compared, interleave, type Result, type Side, unmeasured } from './harness.ts';
import { type BenchServer, startBenchServer } from './server.ts';
import { oneCount } from './sizes.ts';
import { type Copies, copiesOf, copyBack, emptyArchive, emptyFacts, fillLog, sameTables, sumsOf } from './tables.ts';
import { teamEvents } from './team-events.ts';

const EVENTS = 100_000;
const PARTITIONS = 4;
/** One event of so many is in the topic twice. */
const TWICE = 100;

export const bench: Bench = {
  name: 'ingest',
  about: 'events from the log to rows, both logs, against COPY of the same rows into the same tables',
  async run(settings) {
    const events = oneCount(settings.sizes, EVENTS, 'events');
    const server = await startBenchServer(settings.scratch);
    try {
      await fillLog(server.db, events);
      const embedded = await againstCopy(server, settings, {
        log: 'embedded',
        events,
        empty: () => emptyFacts(server.db),
        bring: () => projectAll(server.db),
      });
      return [embedded, await kafkaCase(server, settings, events)];
    } finally {
      await server.close();
    }
  },
};

type Case = {
  readonly log: string;
  readonly events: number;
  readonly empty: () => Promise<void>;
  /** From the log to rows; how many events were applied. */
  readonly bring: () => Promise<number>;
  /** Tables that are written besides those of facts. */
  readonly more?: readonly string[];
  readonly about?: string;
  /** Processes that work for it, besides the server. */
  readonly processes?: readonly number[];
};

async function againstCopy(
  server: BenchServer,
  { rounds, say }: Settings,
  { log, events, empty, bring, more = [], about, processes = [] }: Case,
): Promise<Result> {
  let copies: Copies = [];
  const sums: Record<string, Readonly<Record<string, string>>> = {};
  const side = (name: string, work: () => Promise<unknown>): Side => ({
    name,
    round: async (round) => {
      await empty();
      const measured = await server.measure(events, async () => void (await work()), processes);
      if (round === -1 || round === rounds - 1) sums[name] = await sumsOf(server.db);
      return measured;
    },
  });
  const ours = side('projector', async () => {
    const applied = await bring();
    if (applied !== events) throw new Error(`${applied} of ${events} events were applied.`);
  });
  const other = side('COPY', () => copyBack(server.db, copies));
  await ours.round(-1);
  copies = await copiesOf(server.db, more);
  await other.round(-1);
  const { measured, disturbed } = await interleave([ours, other], {
    rounds,
    onRound: (line) => say(`ingest ${log}: ${line}`),
  });
  const bytes = copies.reduce((sum, copy) => sum + copy.bytes.length, 0);
  return compared(
    {
      case: `${log} log, ${events.toLocaleString('en')} events`,
      unit: 'events/s',
      disturbed,
      more: {
        rows_an_event: copies.reduce((sum, copy) => sum + copy.rows, 0) / events,
        bytes_of_rows_an_event: bytes / events,
        ...(about ? { about } : {}),
      },
    },
    measured[0]!,
    { what: 'COPY binary of the same rows from prebuilt buffers', measured: measured[1]! },
    sameTables(sums.projector!, sums.COPY!),
  );
}

async function kafkaCase(server: BenchServer, settings: Settings, events: number): Promise<Result> {
  const found = findKafkaJars(process.env);
  if ('missing' in found) return unmeasured('Kafka log', { skipped: found.missing });
  const broker = await startKafka(found, join(settings.scratch, 'broker'));
  const topic = 'ingest';
  try {
    const duplicates = await produce(broker.address, topic, events);
    const client = openKafka({ brokers: broker.address, topic, tls: false, sasl: null });
    let readers = 0;
    return await againstCopy(server, settings, {
      log: 'Kafka',
      events,
      empty: () => emptyArchive(server.db),
      bring: async () => {
        const source = kafkaSource(client, { group: `ingest-${readers++}` });
        const applied = await bringIn(server.db, source).finally(() => source.close());
        const { rows } = await server.db.query<{ n: number }>(
          `select sum(duplicates)::integer as n from troupe.positions where projection = 'archive'`,
        );
        if (rows[0]!.n !== duplicates) throw new Error(`${rows[0]!.n} of ${duplicates} duplicates were found.`);
        return applied;
      },
      more: ['troupe.stored_events', 'troupe.bodies', 'troupe.blobs'],
      processes: broker.node ? [broker.node.pid()] : [],
      about: `${PARTITIONS} partitions; with the archive of events, ${duplicates} duplicates found, and joining the topic`,
    });
  } finally {
    await broker.stop();
  }
}

/** Fills a topic; returns how many events are in it a second time. */
async function produce(address: string, topic: string, count: number): Promise<number> {
  const client = clientOf(address);
  const [admin, producer] = [client.admin(), client.producer()];
  await Promise.all([admin.connect(), producer.connect()]);
  await admin.createTopics({ topics: [{ topic, numPartitions: PARTITIONS }], waitForLeaders: true });
  let messages: WrittenRecord[] = [];
  let duplicates = 0;
  let n = 0;
  const send = async () => void (await producer.send({ topic, acks: -1, messages }));
  for (const event of teamEvents(count)) {
    const record = writeRecord(event);
    messages.push(record);
    if (++n % TWICE === 0) {
      messages.push(record);
      duplicates++;
    }
    if (messages.length < 500) continue;
    await send();
    messages = [];
  }
  await send();
  await Promise.all([admin.disconnect(), producer.disconnect()]);
  return duplicates;
}
