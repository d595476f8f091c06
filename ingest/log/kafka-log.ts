/**
 * Kafka as the log: an append is answered when all replicas that are in sync have it. What is known already is not looked up here: every
 * append is `accepted`, and duplicates and conflicts are separated where the topic is read.
 */
import { type Refusal, TroupeError } from '../../errors.ts';
import type { Event } from '../events/events.ts';
import { fullLength, writtenAs } from '../events/long-context.ts';
import {
  type Admin,
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

type OpenProducer = { readonly producer: Producer; readonly partitions: number };

/**
 * The topic as an event log. Nothing is connected before the first append.
 * Its errors: `unreachable` when it was not acknowledged within the deadline; such an event is in the log once or not at all, and
 * sending it again makes it present once. `too_large` names the broker's limit; nothing of that append was sent.
 * `log_repartitioned` when the topic has other partitions than when this process began; `log_replaced` when it is not the log that is known.
 */
export function kafkaLog(
  kafka: KafkaClient,
  { partitions, accepts = null, deadlineMs = 5000, guard }: KafkaLogOptions,
): EventLog {
  const { topic } = kafka;
  let open: Promise<OpenProducer> | null = null;
  let admin: Promise<Admin> | null = null;
  let known: number | null = null;
  let limit = DEFAULT_MAX_BYTES;
  let brokenUntil = 0;
  let refused: TroupeError | null = null;
  let last: Promise<unknown> = Promise.resolve();

  const connectAdmin = (): Promise<Admin> => {
    admin ??= (async () => {
      const fresh = kafka.admin();
      await fresh.connect();
      return fresh;
    })();
    return admin;
  };
  const isReplaced = (error: unknown): error is TroupeError =>
    error instanceof TroupeError && error.code === 'log_replaced';
  /** What is known is asked first: it grows while the topic is looked at. */
  const look = async (): Promise<{ readonly known: KnownLog; readonly now: TopicNow } | null> => {
    const known = (await guard?.known()) ?? null;
    if (known === null) return null;
    const now = await topicNow(await connectAdmin(), topic);
    const why = replacedBy(topic, known, now);
    if (why !== null) throw why;
    return { known, now };
  };
  const verify = async (): Promise<void> => {
    try {
      const seen = await withDeadline(look(), deadlineMs, topic);
      if (seen !== null) await guard!.compare(seen.known, seen.now);
      // What was adopted meanwhile may have other partitions.
      if (refused !== null) known = null;
      refused = null;
    } catch (error) {
      if (isReplaced(error)) {
        refused = error;
        forget();
      } else dropAdmin();
      throw kafkaError(error, topic);
    }
  };
  /** A topic that was written to is looked at; one that was refused too, until it is the right one or adopted. */
  const lookAgain = async (): Promise<void> => {
    if (refused !== null) return verify();
    try {
      await withDeadline(look(), deadlineMs, topic);
    } catch (error) {
      if (!isReplaced(error)) return dropAdmin();
      refused = error;
      forget();
    }
  };
  let looking = false;
  const watch = setInterval(() => {
    // To compare records may take longer than the interval.
    if (guard === undefined || looking || (open === null && refused === null)) return;
    looking = true;
    lookAgain()
      .catch(() => {})
      .finally(() => {
        looking = false;
      });
  }, LOOK_MS).unref();
  const connect = async (): Promise<OpenProducer> => {
    await look();
    const made = await ensureTopic(await connectAdmin(), topic, partitions);
    limit = made.maxBytes;
    known ??= made.partitions;
    if (known !== made.partitions) throw repartitioned(topic, known, made.partitions);
    const producer = kafka.producer();
    await producer.connect();
    return { producer, partitions: made.partitions };
  };
  /** A producer that failed may be out of step with the broker for ever (kafkajs 598): the next append makes another. */
  const forget = (): void => {
    const producing = open;
    open = null;
    void producing?.then(({ producer }) => producer.disconnect()).catch(() => {});
    dropAdmin();
  };
  /** A client that failed, or never connected, is not asked again. */
  const dropAdmin = (): void => {
    const asking = admin;
    admin = null;
    void asking?.then((client) => client.disconnect()).catch(() => {});
  };

  const send = async (records: readonly WrittenRecord[]): Promise<void> => {
    if (refused !== null) throw refused;
    if (performance.now() < brokenUntil) throw notAcknowledged(away(topic));
    const fresh = open === null;
    try {
      await withDeadline(
        (async () => {
          open ??= connect();
          const { producer } = await open;
          for (const messages of portions(records, limit)) {
            await producer.send({ topic, acks: -1, messages: messages as never });
          }
        })(),
        deadlineMs,
        topic,
      );
    } catch (error) {
      if (isReplaced(error)) refused = error;
      forget();
      brokenUntil = performance.now() + BREATH_MS;
      throw notAcknowledged(kafkaError(error, topic));
    }
    // Whoever answers after a break may hold other records at the same offsets.
    if (fresh) verify().catch(() => {});
  };

  const refuse = (event: Event): Refusal | null => {
    // A text of so many characters has at most three times as many bytes: most need not be counted.
    if (fullLength(writtenAs(event)) * 3 + 8192 < limit) return null;
    const bytes = recordBytes(writeRecord(event)) + BATCH_OVERHEAD;
    return bytes <= limit
      ? null
      : {
          code: 'too_large',
          field: 'data',
          expected: `at most ${limit} bytes, the broker's max.message.bytes`,
          got: `${bytes}`,
        };
  };

  return {
    name: `kafka:${topic}`,
    append: (events) => {
      const turn = last.then(async () => {
        if (events.length === 0) return [];
        for (const event of events) {
          const refusal = refuse(event);
          if (refusal) throw tooLarge(event, refusal);
        }
        await send(events.map(writeRecord));
        return events.map(() => 'accepted' as const);
      });
      last = turn.catch(() => {});
      return turn;
    },
    refuse,
    ...(guard === undefined ? {} : { verify }),
    partitions: () => offsets(),
    cleanup: async () => {
      const admin = await connectAdmin().catch((error: unknown) => {
        dropAdmin();
        throw kafkaError(error, topic);
      });
      const there = await topicAsMade(admin, topic, ['cleanup.policy']).catch(() => null);
      return there?.settings['cleanup.policy'] ?? null;
    },
    close: async () => {
      clearInterval(watch);
      await last;
      const [producing, asking] = [open, admin];
      open = null;
      admin = null;
      await producing?.then(({ producer }) => producer.disconnect()).catch(() => {});
      await asking?.then((client) => client.disconnect()).catch(() => {});
    },
  };

  async function offsets(): Promise<readonly LogPartition[]> {
    if (refused !== null) throw refused;
    try {
      const [seen, now] = await withDeadline(
        look().then(
          async (seen) => [seen, seen?.now.partitions ?? (await topicPartitions(await connectAdmin(), topic))] as const,
        ),
        deadlineMs,
        topic,
      );
      // What this process appends by, and what was read, unless the change is accepted.
      const read = seen !== null && accepts !== now.length ? seen.known.partitions : null;
      for (const before of [known, read])
        if (before !== null && before !== now.length) throw repartitioned(topic, before, now.length);
      return now;
    } catch (error) {
      dropAdmin();
      // Before the first event there may be no topic.
      if (faultOf(error) === 'UNKNOWN_TOPIC_OR_PARTITION') return [];
      throw kafkaError(error, topic);
    }
  }
}

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

const away = (topic: string): TroupeError =>
  new TroupeError('unreachable', `The topic ${topic} could not be reached a moment ago.`);

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
