/**
 * A topic as its reader sees it. Where reading begins is the reader's own knowledge; the offset that is committed to the group is a hint
 * for people's tools and is never read.
 */
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { TroupeError } from '../../errors.ts';
import { fetchLimits } from './batch-limit.ts';
import {
  type Admin,
  type EachBatchPayload,
  ensureTopic,
  faultOf,
  type KafkaClient,
  kafkaError,
  topicPartitions,
  withDeadline,
} from './kafka.ts';
import type { LogRecord } from './kafka-record.ts';
import type { LogSource, Reader, Reading } from './source.ts';

const FACTS_MS = 5000;
const MAKE_MS = 15_000;
const HEARTBEAT_MS = 1000;
const PATIENCE_MS = { least: 200, most: 5000 };
/** A topic that was not asked for so long may be another one, made anew and filled. Making one takes some 300 ms. */
const REST_MS = 200;

export type KafkaSourceOptions = {
  /** Name of the group in which readers share the partitions. */
  readonly group: string;
  readonly accepts?: number | null;
};

export function kafkaSource(kafka: KafkaClient, { group, accepts = null }: KafkaSourceOptions): LogSource {
  const { topic } = kafka;
  let admin: Promise<Admin> | null = null;
  const asking = (): Promise<Admin> => {
    admin ??= (async () => {
      const client = kafka.admin();
      await client.connect();
      return client;
    })();
    return admin;
  };
  const leave = async (): Promise<void> => {
    const client = admin;
    admin = null;
    await client?.then((one) => one.disconnect()).catch(() => {});
  };

  return {
    name: `kafka:${topic}`,
    accepts,
    facts: async () => {
      try {
        return await withDeadline(
          asking().then(async (client) => ({
            cluster: (await client.describeCluster()).clusterId,
            partitions: await topicPartitions(client, topic),
          })),
          FACTS_MS,
          topic,
        );
      } catch (error) {
        void leave();
        if (faultOf(error) === 'UNKNOWN_TOPIC_OR_PARTITION')
          throw new TroupeError('not_found', `There is no topic ${topic}.`, { cause: error });
        throw kafkaError(error, topic);
      }
    },
    make: async (partitions) => {
      try {
        await withDeadline(
          asking().then((client) => ensureTopic(client, topic, partitions)),
          MAKE_MS,
          topic,
        );
      } catch (error) {
        void leave();
        throw kafkaError(error, topic);
      }
    },
    read: async (reader) => {
      const name = reader.alone ? `${group}-alone-${randomBytes(6).toString('hex')}` : group;
      for (let pause = PATIENCE_MS.least; !reader.signal.aborted; pause = Math.min(PATIENCE_MS.most, pause * 2)) {
        const began = performance.now();
        const ended = await readOnce(kafka, name, reader);
        if (ended.thrown !== undefined) throw ended.thrown;
        if (reader.signal.aborted) break;
        reader.onTrouble(ended.trouble);
        if (performance.now() - began > 60_000) pause = PATIENCE_MS.least;
        await sleep(pause, undefined, { signal: reader.signal }).catch(() => {});
      }
      if (reader.alone)
        await asking()
          .then((client) => client.deleteGroups([name]))
          .catch(() => {});
    },
    close: leave,
  };
}

type Ending = { readonly thrown?: unknown; readonly trouble?: unknown };

/** One membership in the group, until the signal, a failure of the log, or what the reader throws. */
async function readOnce(kafka: KafkaClient, group: string, reader: Reader): Promise<Ending> {
  const { topic } = kafka;
  const consumer = kafka.consumer(group);
  let end: (ended: Ending) => void = () => {};
  const ended = new Promise<Ending>((resolve) => {
    end = resolve;
  });
  const stop = () => end({});
  reader.signal.addEventListener('abort', stop);
  if (reader.signal.aborted) stop();

  /** Of each partition the next offset, as far as it was taken; none before it was placed. */
  const expected = new Map<number, number>();
  let generation = 0;
  /** The group is being divided anew: what waits for the database gives way. */
  let shaken = false;
  let placed: Promise<void> = Promise.resolve();
  const seek = (offsets: ReadonlyMap<number, number>): void => {
    for (const [partition, offset] of offsets) {
      expected.set(partition, offset);
      consumer.seek({ topic, partition, offset: String(offset) });
    }
  };
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    generation++;
    shaken = false;
    expected.clear();
    placed = reader.assigned(payload.memberAssignment[topic] ?? []).then(seek, (error) => end({ thrown: error }));
  });
  const limits = fetchLimits();
  consumer.on(consumer.events.FETCH_START, ({ payload }) => limits.begin(String(payload.nodeId)));
  consumer.on(consumer.events.CRASH, ({ payload }) => end({ trouble: payload.error }));

  type Waiting = { readonly reading: Reading; readonly born: number; readonly done: (taken: boolean) => void };
  let waiting: Waiting[] = [];
  let working: Promise<void> | null = null;
  /** What came of one fetch is taken together: one transaction for all partitions instead of one for each. */
  const work = async (): Promise<void> => {
    await new Promise(setImmediate);
    while (waiting.length > 0) {
      const batch = waiting;
      waiting = [];
      const live = batch.filter(({ born }) => born === generation);
      for (const one of batch) if (!live.includes(one)) one.done(false);
      if (live.length === 0) continue;
      const born = generation;
      const lost = () => shaken || born !== generation || reader.signal.aborted;
      try {
        const began = performance.now();
        const elsewhere = await reader.take(
          live.map(({ reading }) => reading),
          lost,
        );
        // While it waited nothing was fetched, so nothing was refused: the last record of each partition is read again.
        const rested = elsewhere !== null && performance.now() - began > REST_MS;
        const again = rested ? await reader.assigned([...expected.keys()]) : null;
        const same = born === generation;
        for (const { reading, done } of live) {
          const applied = elsewhere !== null && !elsewhere.has(reading.partition);
          if (applied && same) expected.set(reading.partition, reading.next);
          done(applied);
        }
        if (elsewhere !== null && same) seek(elsewhere);
        if (again !== null && same) seek(again);
      } catch (error) {
        end({ thrown: error });
        for (const { done } of live) done(false);
      }
    }
    working = null;
  };
  const hand = (reading: Reading): Promise<boolean> =>
    new Promise((done) => {
      waiting.push({ reading, born: generation, done });
      working ??= work();
    });

  // A fetch may hold nothing but marks of transactions; the client shows such a batch only here.
  consumer.on(
    consumer.events.START_BATCH_PROCESS,
    ({ payload: { partition, batchSize, lastOffset, highWatermark } }) => {
      const from = expected.get(partition);
      const next = Number(lastOffset) + 1;
      if (batchSize > 0 || from === undefined || next <= from) return;
      void hand({ partition, from, next, end: Number(highWatermark), records: [] });
    },
  );

  const eachBatch = async ({ batch, heartbeat, resolveOffset, commitOffsetsIfNecessary }: EachBatchPayload) => {
    await placed;
    const from = Number((batch as unknown as { readonly fetchedOffset: string }).fetchedOffset);
    const next = Number(batch.lastOffset()) + 1;
    // The member lives as long as it works, also while the database is away.
    const beat = setInterval(() => {
      heartbeat().then(
        () => {
          shaken = false;
        },
        () => {
          shaken = true;
        },
      );
    }, HEARTBEAT_MS);
    try {
      const taken = await hand({
        partition: batch.partition,
        from,
        next,
        end: Number(batch.highWatermark),
        records: batch.messages.map(recordOf),
      });
      if (!taken) return;
      resolveOffset(batch.lastOffset());
      await commitOffsetsIfNecessary({
        topics: [{ topic, partitions: [{ partition: batch.partition, offset: String(next) }] }],
      }).catch(() => {});
    } finally {
      clearInterval(beat);
    }
  };

  try {
    await Promise.race([
      ended,
      (async () => {
        await consumer.connect();
        await consumer.subscribe({ topics: [topic], fromBeginning: true });
        await consumer.run({
          autoCommit: false,
          eachBatchAutoResolve: false,
          partitionsConsumedConcurrently: 64,
          eachBatch,
        });
      })(),
    ]);
    return await ended;
  } catch (error) {
    return { trouble: error };
  } finally {
    reader.signal.removeEventListener('abort', stop);
    // What is under way ends first: nothing is taken after this has returned.
    await working;
    generation++;
    await withDeadline(consumer.disconnect(), FACTS_MS, topic).catch(() => {});
  }
}

const recordOf = (message: EachBatchPayload['batch']['messages'][number]): LogRecord => ({
  offset: Number(message.offset),
  timestamp: message.timestamp,
  key: message.key,
  value: message.value,
  headers: message.headers ?? {},
});
