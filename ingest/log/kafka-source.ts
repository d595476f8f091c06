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
  connected,
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

/** A source for the readers of a group, who share the partitions. */
export function kafkaSource(
  kafka: KafkaClient,
  { group, accepts = null }: { readonly group: string; readonly accepts?: number | null },
): LogSource {
  const { topic } = kafka;
  let admin: Promise<Admin> | null = null;
  const asking = (): Promise<Admin> => {
    admin ??= connected(kafka.admin());
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
        const ended = await new Membership(kafka, name, reader).read();
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

/** What ended a membership: a signal, what the reader threw, or a failure of the log. */
type Ending = { readonly thrown?: unknown; readonly trouble?: unknown };

/** One membership in the group, until the signal, a failure of the log, or what the reader throws. */
class Membership {
  readonly #topic: string;
  readonly #consumer: ReturnType<KafkaClient['consumer']>;
  readonly #reader: Reader;
  readonly #ended: Promise<Ending>;
  #end: (ending: Ending) => void = () => {};
  /** Of each partition the next offset, as far as it was taken; none before it was placed. */
  readonly #expected = new Map<number, number>();
  #generation = 0;
  /** The group is being divided anew: what waits for the database gives way. */
  #shaken = false;
  #placed: Promise<void> = Promise.resolve();
  #waiting: { readonly reading: Reading; readonly born: number; readonly done: (taken: boolean) => void }[] = [];
  #working: Promise<void> | null = null;

  constructor(kafka: KafkaClient, group: string, reader: Reader) {
    this.#topic = kafka.topic;
    this.#consumer = kafka.consumer(group);
    this.#reader = reader;
    this.#ended = new Promise((resolve) => {
      this.#end = resolve;
    });
    const { on, events } = this.#consumer;
    const limits = fetchLimits();
    on(events.GROUP_JOIN, ({ payload }) => this.#join(payload.memberAssignment[this.#topic] ?? []));
    on(events.FETCH_START, ({ payload }) => limits.begin(String(payload.nodeId)));
    on(events.CRASH, ({ payload }) => this.#end({ trouble: payload.error }));
    // A fetch may hold nothing but marks of transactions; the client shows such a batch only here.
    on(events.START_BATCH_PROCESS, ({ payload: { partition, batchSize, lastOffset, highWatermark } }) => {
      const from = this.#expected.get(partition);
      const next = Number(lastOffset) + 1;
      if (batchSize > 0 || from === undefined || next <= from) return;
      void this.#hand({ partition, from, next, end: Number(highWatermark), records: [] });
    });
  }

  async read(): Promise<Ending> {
    const { signal } = this.#reader;
    const stop = () => this.#end({});
    signal.addEventListener('abort', stop);
    if (signal.aborted) stop();
    try {
      await Promise.race([this.#ended, this.#run()]);
      return await this.#ended;
    } catch (error) {
      return { trouble: error };
    } finally {
      signal.removeEventListener('abort', stop);
      // What is under way ends first: nothing is taken after this has returned.
      await this.#working;
      this.#generation++;
      await withDeadline(this.#consumer.disconnect(), FACTS_MS, this.#topic).catch(() => {});
    }
  }

  async #run(): Promise<void> {
    await this.#consumer.connect();
    await this.#consumer.subscribe({ topics: [this.#topic], fromBeginning: true });
    await this.#consumer.run({
      autoCommit: false,
      eachBatchAutoResolve: false,
      partitionsConsumedConcurrently: 64,
      eachBatch: (payload) => this.#eachBatch(payload),
    });
  }

  #join(partitions: readonly number[]): void {
    this.#generation++;
    this.#shaken = false;
    this.#expected.clear();
    this.#placed = this.#reader.assigned(partitions).then(
      (offsets) => this.#seek(offsets),
      (error) => this.#end({ thrown: error }),
    );
  }

  #seek(offsets: ReadonlyMap<number, number>): void {
    for (const [partition, offset] of offsets) {
      this.#expected.set(partition, offset);
      this.#consumer.seek({ topic: this.#topic, partition, offset: String(offset) });
    }
  }

  async #eachBatch({ batch, heartbeat, resolveOffset, commitOffsetsIfNecessary }: EachBatchPayload): Promise<void> {
    await this.#placed;
    const { partition } = batch;
    const from = Number((batch as unknown as { readonly fetchedOffset: string }).fetchedOffset);
    const next = Number(batch.lastOffset()) + 1;
    // The member lives as long as it works, also while the database is away.
    const beat = setInterval(() => {
      heartbeat().then(
        () => {
          this.#shaken = false;
        },
        () => {
          this.#shaken = true;
        },
      );
    }, HEARTBEAT_MS);
    try {
      const records = batch.messages.map(recordOf);
      const taken = await this.#hand({ partition, from, next, end: Number(batch.highWatermark), records });
      if (!taken) return;
      resolveOffset(batch.lastOffset());
      await commitOffsetsIfNecessary({
        topics: [{ topic: this.#topic, partitions: [{ partition, offset: String(next) }] }],
      }).catch(() => {});
    } finally {
      clearInterval(beat);
    }
  }

  #hand(reading: Reading): Promise<boolean> {
    return new Promise((done) => {
      this.#waiting.push({ reading, born: this.#generation, done });
      this.#working ??= this.#work();
    });
  }

  /** What came of one fetch is taken together: one transaction for all partitions instead of one for each. */
  async #work(): Promise<void> {
    await new Promise(setImmediate);
    while (this.#waiting.length > 0) {
      const batch = this.#waiting;
      this.#waiting = [];
      const live = batch.filter(({ born }) => born === this.#generation);
      for (const one of batch) if (!live.includes(one)) one.done(false);
      if (live.length === 0) continue;
      try {
        await this.#take(live);
      } catch (error) {
        this.#end({ thrown: error });
        for (const { done } of live) done(false);
      }
    }
    this.#working = null;
  }

  async #take(live: readonly { readonly reading: Reading; readonly done: (taken: boolean) => void }[]): Promise<void> {
    const born = this.#generation;
    const lost = () => this.#shaken || born !== this.#generation || this.#reader.signal.aborted;
    const began = performance.now();
    const elsewhere = await this.#reader.take(
      live.map(({ reading }) => reading),
      lost,
    );
    // While it waited nothing was fetched, so nothing was refused: the last record of each partition is read again.
    const rested = elsewhere !== null && performance.now() - began > REST_MS;
    const again = rested ? await this.#reader.assigned([...this.#expected.keys()]) : null;
    const same = born === this.#generation;
    for (const { reading, done } of live) {
      const applied = elsewhere !== null && !elsewhere.has(reading.partition);
      if (applied && same) this.#expected.set(reading.partition, reading.next);
      done(applied);
    }
    if (elsewhere !== null && same) this.#seek(elsewhere);
    if (again !== null && same) this.#seek(again);
  }
}

const recordOf = (message: EachBatchPayload['batch']['messages'][number]): LogRecord => ({
  offset: Number(message.offset),
  timestamp: message.timestamp,
  key: message.key,
  value: message.value,
  headers: message.headers ?? {},
});
