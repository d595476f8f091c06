/**
 * Kafka as the log: an append is answered when all replicas that are in sync have it. What is known already is not looked up here: every
 * append is `accepted`, and duplicates and conflicts are separated where the topic is read.
 */
import { type Refusal, TroupeError } from '../../errors.ts';
import type { Event } from '../events/events.ts';
import { fullLength, writtenAs } from '../events/long-context.ts';
import {
  type Admin,
  connected,
  DEFAULT_MAX_BYTES,
  ensureTopic,
  faultOf,
  type KafkaClient,
  kafkaError,
  notAcknowledged,
  type Producer,
  topicAsMade,
  topicNow,
  topicPartitions,
  withDeadline,
} from './kafka.ts';
import { recordBytes, type WrittenRecord, writeRecord } from './kafka-record.ts';
import type { EventLog, LogPartition } from './log.ts';
import { type KnownLog, replacedBy, type TopicNow } from './replaced.ts';

export type KafkaLogOptions = {
  /** Partitions of the topic if it has to be made. */
  readonly partitions: number;
  /** The number of partitions that is accepted where it is another than before, null where none is. */
  readonly accepts?: number | null;
  /** How long an append may take in milliseconds; then it fails and what became of it is unknown. */
  readonly deadlineMs?: number;
  /** What is known of the log, to refuse one that took its place; nothing is compared if omitted. */
  readonly guard?: LogGuard;
};

export type LogGuard = {
  /** What is stored of the log, or was when the database could be asked; null where nothing is. Never throws, never takes long. */
  readonly known: () => Promise<KnownLog | null>;
  /** Compares the records that were read last. @throws TroupeError `log_replaced` */
  readonly compare: (known: KnownLog, now: TopicNow) => Promise<void>;
};

/** How often a topic that is written to, or was refused, is looked at. */
const LOOK_MS = 5000;

/** After a failure others fail at once for so long, instead of each waiting for itself. */
const BREATH_MS = 500;
/** What a batch of records takes besides them. */
const BATCH_OVERHEAD = 100;

/**
 * The topic as an event log. Nothing is connected before the first append.
 * Its errors: `unreachable` when it was not acknowledged within the deadline; such an event is in the log once or not at all, and
 * sending it again makes it present once. `too_large` names the broker's limit; nothing of that append was sent.
 * `log_repartitioned` when the topic has other partitions than when this process began; `log_replaced` when it is not the log that is known.
 */
export function kafkaLog(kafka: KafkaClient, options: KafkaLogOptions): EventLog {
  const writer = new TopicWriter(kafka, options);
  let last: Promise<unknown> = Promise.resolve();
  const append = async (events: readonly Event[]) => {
    if (events.length === 0) return [];
    for (const event of events) {
      const refusal = writer.refuse(event);
      if (refusal) throw tooLarge(event, refusal);
    }
    await writer.send(events.map(writeRecord));
    return events.map(() => 'accepted' as const);
  };
  return {
    name: `kafka:${kafka.topic}`,
    append: (events) => {
      const turn = last.then(() => append(events));
      last = turn.catch(() => {});
      return turn;
    },
    refuse: (event) => writer.refuse(event),
    ...(options.guard === undefined ? {} : { verify: () => writer.verify() }),
    partitions: () => writer.partitions(),
    cleanup: () => writer.cleanup(),
    close: async () => {
      writer.stopLooking();
      await last;
      await writer.close();
    },
  };
}

/** The connections to the topic, and what this process knows of it. */
class TopicWriter {
  readonly #kafka: KafkaClient;
  readonly #options: KafkaLogOptions;
  readonly #deadlineMs: number;
  readonly #watch: NodeJS.Timeout;
  #open: Promise<Producer> | null = null;
  #admin: Promise<Admin> | null = null;
  /** The partitions that this process appends by. */
  #known: number | null = null;
  #limit = DEFAULT_MAX_BYTES;
  #brokenUntil = 0;
  #refused: TroupeError | null = null;
  #looking = false;

  constructor(kafka: KafkaClient, options: KafkaLogOptions) {
    this.#kafka = kafka;
    this.#options = options;
    this.#deadlineMs = options.deadlineMs ?? 5000;
    this.#watch = setInterval(() => this.#lookAgain(), LOOK_MS).unref();
  }

  async send(records: readonly WrittenRecord[]): Promise<void> {
    if (this.#refused !== null) throw this.#refused;
    const { topic } = this.#kafka;
    if (performance.now() < this.#brokenUntil)
      throw notAcknowledged(new TroupeError('unreachable', `The topic ${topic} could not be reached a moment ago.`));
    const fresh = this.#open === null;
    try {
      await this.#inTime(this.#sendNow(records));
    } catch (error) {
      if (isReplaced(error)) this.#refused = error;
      this.#forget();
      this.#brokenUntil = performance.now() + BREATH_MS;
      throw notAcknowledged(kafkaError(error, topic));
    }
    // Whoever answers after a break may hold other records at the same offsets.
    if (fresh) this.verify().catch(() => {});
  }

  async #sendNow(records: readonly WrittenRecord[]): Promise<void> {
    this.#open ??= this.#connect();
    const producer = await this.#open;
    for (const messages of portions(records, this.#limit))
      await producer.send({ topic: this.#kafka.topic, acks: -1, messages: messages as never });
  }

  async #connect(): Promise<Producer> {
    await this.#look();
    const { topic } = this.#kafka;
    const made = await ensureTopic(await this.#asking(), topic, this.#options.partitions);
    this.#limit = made.maxBytes;
    this.#known ??= made.partitions;
    if (this.#known !== made.partitions) throw repartitioned(topic, this.#known, made.partitions);
    const producer = this.#kafka.producer();
    await producer.connect();
    return producer;
  }

  refuse(event: Event): Refusal | null {
    const limit = this.#limit;
    // A text of so many characters has at most three times as many bytes: most need not be counted.
    if (fullLength(writtenAs(event)) * 3 + 8192 < limit) return null;
    const bytes = recordBytes(writeRecord(event)) + BATCH_OVERHEAD;
    if (bytes <= limit) return null;
    const expected = `at most ${limit} bytes, the broker's max.message.bytes`;
    return { code: 'too_large', field: 'data', expected, got: `${bytes}` };
  }

  async verify(): Promise<void> {
    try {
      const seen = await this.#inTime(this.#look());
      if (seen !== null) await this.#options.guard!.compare(seen.known, seen.now);
      // What was adopted meanwhile may have other partitions.
      if (this.#refused !== null) this.#known = null;
      this.#refused = null;
    } catch (error) {
      this.#refuseIfReplaced(error);
      throw kafkaError(error, this.#kafka.topic);
    }
  }

  async partitions(): Promise<readonly LogPartition[]> {
    if (this.#refused !== null) throw this.#refused;
    const { topic } = this.#kafka;
    try {
      const [seen, now] = await this.#inTime(this.#lookAtPartitions());
      // What this process appends by, and what was read, unless the change is accepted.
      const read = seen !== null && this.#options.accepts !== now.length ? seen.known.partitions : null;
      for (const before of [this.#known, read])
        if (before !== null && before !== now.length) throw repartitioned(topic, before, now.length);
      return now;
    } catch (error) {
      this.#dropAdmin();
      // Before the first event there may be no topic.
      if (faultOf(error) === 'UNKNOWN_TOPIC_OR_PARTITION') return [];
      throw kafkaError(error, topic);
    }
  }

  async cleanup(): Promise<string | null> {
    const { topic } = this.#kafka;
    const admin = await this.#asking().catch((error: unknown) => {
      this.#dropAdmin();
      throw kafkaError(error, topic);
    });
    const there = await topicAsMade(admin, topic, ['cleanup.policy']).catch(() => null);
    return there?.settings['cleanup.policy'] ?? null;
  }

  stopLooking(): void {
    clearInterval(this.#watch);
  }

  async close(): Promise<void> {
    const [producing, asking] = [this.#open, this.#admin];
    this.#open = null;
    this.#admin = null;
    await producing?.then((producer) => producer.disconnect()).catch(() => {});
    await asking?.then((client) => client.disconnect()).catch(() => {});
  }

  /** What is known is asked first: it grows while the topic is looked at. */
  async #look(): Promise<{ readonly known: KnownLog; readonly now: TopicNow } | null> {
    const known = (await this.#options.guard?.known()) ?? null;
    if (known === null) return null;
    const { topic } = this.#kafka;
    const now = await topicNow(await this.#asking(), topic);
    const why = replacedBy(topic, known, now);
    if (why !== null) throw why;
    return { known, now };
  }

  async #lookAtPartitions() {
    const seen = await this.#look();
    return [seen, seen?.now.partitions ?? (await topicPartitions(await this.#asking(), this.#kafka.topic))] as const;
  }

  /** A topic that was written to is looked at; one that was refused too, until it is the right one or adopted. */
  #lookAgain(): void {
    const refused = this.#refused !== null;
    // To compare records may take longer than the interval.
    if (this.#options.guard === undefined || this.#looking || (this.#open === null && !refused)) return;
    this.#looking = true;
    const look = refused ? this.verify() : this.#inTime(this.#look());
    look
      .catch((error: unknown) => {
        if (!refused) this.#refuseIfReplaced(error);
      })
      .finally(() => {
        this.#looking = false;
      });
  }

  #refuseIfReplaced(error: unknown): void {
    if (isReplaced(error)) {
      this.#refused = error;
      this.#forget();
    } else this.#dropAdmin();
  }

  #asking(): Promise<Admin> {
    this.#admin ??= connected(this.#kafka.admin());
    return this.#admin;
  }

  #inTime<T>(work: Promise<T>): Promise<T> {
    return withDeadline(work, this.#deadlineMs, this.#kafka.topic);
  }

  /** A producer that failed may be out of step with the broker for ever (kafkajs 598): the next append makes another. */
  #forget(): void {
    const producing = this.#open;
    this.#open = null;
    void producing?.then((producer) => producer.disconnect()).catch(() => {});
    this.#dropAdmin();
  }

  /** A client that failed, or never connected, is not asked again. */
  #dropAdmin(): void {
    const asking = this.#admin;
    this.#admin = null;
    void asking?.then((client) => client.disconnect()).catch(() => {});
  }
}

const isReplaced = (error: unknown): error is TroupeError =>
  error instanceof TroupeError && error.code === 'log_replaced';

/** Records in as many sends as keep every batch of a partition below the limit. */
function* portions(records: readonly WrittenRecord[], limit: number): Generator<readonly WrittenRecord[]> {
  let portion: WrittenRecord[] = [];
  let bytes = BATCH_OVERHEAD;
  for (const record of records) {
    const size = recordBytes(record);
    if (portion.length > 0 && bytes + size > limit) {
      yield portion;
      portion = [];
      bytes = BATCH_OVERHEAD;
    }
    portion.push(record);
    bytes += size;
  }
  if (portion.length > 0) yield portion;
}

const tooLarge = (event: Event, { expected, got }: Refusal): TroupeError =>
  new TroupeError(
    'too_large',
    `The event ${JSON.stringify(event.id)} takes ${got} bytes; the log takes ${expected}. Nothing was sent.`,
    { field: 'data', expected, got },
  );

/** The message where the partitions of a topic are not those that its keys were spread over. */
export const repartitioned = (topic: string, before: number, now: number): TroupeError =>
  new TroupeError(
    'log_repartitioned',
    `Topic ${topic} had ${before} partitions and has ${now} now, so keys go elsewhere and what is about one episode is no longer in one order in the log. Set kafka_partitions to ${now} to accept that and go on, or choose a new name for kafka_topic.`,
  );
