/** The wrapper of the Kafka client: the only file that imports it. Everything else sees `KafkaClient` and the client's types by way of it. */
import kafkajs, { type Admin, type Consumer, type EachBatchPayload, type Producer, type SASLOptions } from 'kafkajs';
import { TroupeError } from '../../errors.ts';
import { INFLATERS, inflatedInFetch } from './batch-limit.ts';
import type { LogPartition } from './log.ts';
import type { TopicNow } from './replaced.ts';

export type { Admin, EachBatchPayload, Producer };

export type KafkaOptions = {
  /** Addresses `host:port`, with commas between. */
  readonly brokers: string;
  readonly topic: string;
  readonly tls: boolean;
  readonly sasl: {
    readonly mechanism: 'plain' | 'scram-sha-256' | 'scram-sha-512';
    readonly username: string;
    readonly password: string;
  } | null;
};

export type Topic = {
  readonly partitions: number;
  /** Bytes of the largest batch of records that the broker takes for this topic. */
  readonly maxBytes: number;
};

export type KafkaClient = {
  readonly topic: string;
  readonly producer: () => Producer;
  readonly consumer: (groupId: string) => Consumer;
  readonly admin: () => Admin;
};

/** The client knows gzip alone, without a limit, and others choose how they compress: kcat by `-z`, franz-go by Snappy if nothing is set. */
for (const [type, inflate] of Object.entries(INFLATERS))
  kafkajs.CompressionCodecs[Number(type) as keyof typeof INFLATERS] = () => ({
    decompress: async (bytes: Buffer) => inflatedInFetch(bytes, inflate),
  });

/** A broker whose limits cannot be read has most likely kept this one. */
export const DEFAULT_MAX_BYTES = 1_048_588;
const CONNECT_MS = 900;
const REQUEST_MS = 4000;
/** Of a fetch, as the broker holds it, often compressed. A partition's share is a quarter of it, so that one that is far behind does not keep the others out. */
const FETCH_BYTES = 4 * 1024 * 1024;
/** How long a reader may be silent before its partitions go to others; the least that brokers allow by default. */
const SESSION_MS = 6000;
/** How long dividing the partitions anew waits for a member that does not come: a batch takes much less. */
const REBALANCE_MS = 15_000;

/** Opens nothing yet: each client connects when it is asked to. @throws TroupeError `config_invalid` for brokers that are no addresses. */
export function openKafka({ brokers, topic, tls, sasl }: KafkaOptions): KafkaClient {
  const addresses = brokers.split(',').map((text) => text.trim());
  const wrong = addresses.find((text) => !/^[^\s:/]+:\d+$|^\[[0-9a-f:]+\]:\d+$/i.test(text));
  if (wrong !== undefined)
    throw new TroupeError(
      'config_invalid',
      `kafka_brokers should be host:port, several with commas between, but it has ${JSON.stringify(wrong)}.`,
      { field: 'kafka_brokers' },
    );
  if (!/^[A-Za-z0-9._-]{1,249}$/.test(topic))
    throw new TroupeError(
      'config_invalid',
      `kafka_topic should be 1 to 249 letters, digits, dots, underscores and hyphens, but it is ${JSON.stringify(topic)}.`,
      { field: 'kafka_topic' },
    );
  const retry = { initialRetryTime: 20, maxRetryTime: 200, retries: 2 };
  const client = new kafkajs.Kafka({
    clientId: 'troupe',
    brokers: addresses,
    ssl: tls,
    ...(sasl === null ? {} : { sasl: sasl as SASLOptions }),
    connectionTimeout: CONNECT_MS,
    requestTimeout: REQUEST_MS,
    retry,
    logLevel: kafkajs.logLevel.NOTHING,
  });
  return {
    topic,
    producer: () =>
      client.producer({
        idempotent: true,
        maxInFlightRequests: 1,
        allowAutoTopicCreation: false,
        createPartitioner: kafkajs.Partitioners.DefaultPartitioner,
        retry,
      }),
    consumer: (groupId) =>
      client.consumer({
        groupId,
        sessionTimeout: SESSION_MS,
        rebalanceTimeout: REBALANCE_MS,
        heartbeatInterval: 1000,
        allowAutoTopicCreation: false,
        maxBytes: FETCH_BYTES,
        maxBytesPerPartition: FETCH_BYTES / 4,
        maxWaitTimeInMs: 100,
        // Whatever ends it, the reader begins anew by itself.
        retry: { ...retry, restartOnFailure: async () => false },
      }),
    admin: () => client.admin({ retry }),
  };
}

export async function connected(admin: Admin): Promise<Admin> {
  await admin.connect();
  return admin;
}

/** What a topic is made with. */
export type NewTopic = {
  readonly partitions: number;
  /** Copies of each partition; the broker's own number if null. */
  readonly replication: number | null;
  /** Settings of the topic by Kafka's names, such as `min.insync.replicas`. */
  readonly settings: Readonly<Record<string, string>>;
};

/** The topic, made where it is missing. */
export async function ensureTopic(admin: Admin, topic: string, partitions: number): Promise<Topic> {
  if (!(await admin.listTopics()).includes(topic))
    await makeTopic(admin, topic, { partitions, replication: null, settings: {} });
  const { topics } = await admin.fetchTopicMetadata({ topics: [topic] });
  return { partitions: topics[0]?.partitions.length ?? 0, maxBytes: await maxBytesOf(admin, topic) };
}

/**
 * Makes the topic: kept by time and size, never compacted, since every event counts. False where it is there already.
 * @throws TroupeError `config_invalid` where the brokers refuse what is asked
 */
export async function makeTopic(
  admin: Admin,
  topic: string,
  { partitions, replication, settings }: NewTopic,
): Promise<boolean> {
  const configEntries = Object.entries({ 'cleanup.policy': 'delete', ...settings }).map(([name, value]) => ({
    name,
    value,
  }));
  try {
    return await admin.createTopics({
      topics: [{ topic, numPartitions: partitions, replicationFactor: replication ?? -1, configEntries }],
      waitForLeaders: true,
    });
  } catch (error) {
    const [fault = error] = (error as { readonly errors?: readonly unknown[] }).errors ?? [];
    const type = faultOf(fault);
    if (!REFUSED.has(type ?? '')) throw error;
    throw new TroupeError(
      'config_invalid',
      `The brokers refuse to make topic ${topic} with ${partitions} partitions${replication === null ? '' : `, ${replication} copies of each`} and ${configEntries.map(({ name, value }) => `${name}=${value}`).join(', ')}: ${type}. ${REFUSED.get(type!)}`,
      { cause: error, got: type! },
    );
  }
}

const REFUSED: ReadonlyMap<string, string> = new Map([
  ['INVALID_REPLICATION_FACTOR', 'Ask for at most as many copies as there are brokers.'],
  ['INVALID_PARTITIONS', 'Ask for another number of partitions.'],
  ['INVALID_CONFIG', 'They do not know one of these settings, or not this value of it.'],
  ['INVALID_REQUEST', 'Their log says what they do not take of it.'],
  ['POLICY_VIOLATION', 'The brokers have a policy for new topics; ask their operator.'],
  ['TOPIC_AUTHORIZATION_FAILED', 'This login may not create it; let the operator of the brokers create it.'],
  ['CLUSTER_AUTHORIZATION_FAILED', 'This login may not create topics; let the operator of the brokers create it.'],
]);

/** What of {@link NewTopic} a topic that is there has; of its settings those that are named. */
export async function topicAsMade(admin: Admin, topic: string, names: readonly string[]): Promise<NewTopic> {
  const { topics } = await admin.fetchTopicMetadata({ topics: [topic] });
  const partitions = topics[0]?.partitions ?? [];
  const resources = [{ type: kafkajs.ConfigResourceTypes.TOPIC as number, name: topic, configNames: [...names] }];
  const described =
    names.length === 0 ? [] : (await admin.describeConfigs({ resources, includeSynonyms: false })).resources;
  return {
    partitions: partitions.length,
    replication: Math.min(...partitions.map(({ replicas }) => replicas.length)),
    settings: Object.fromEntries(
      (described[0]?.configEntries ?? []).map(({ configName, configValue }) => [configName, configValue]),
    ),
  };
}

async function maxBytesOf(admin: Admin, topic: string): Promise<number> {
  const resources = [
    { type: kafkajs.ConfigResourceTypes.TOPIC as number, name: topic, configNames: ['max.message.bytes'] },
  ];
  // Describing may be forbidden where writing is not.
  const described = await admin.describeConfigs({ resources, includeSynonyms: false }).catch(() => null);
  return Number(described?.resources[0]?.configEntries[0]?.configValue) || DEFAULT_MAX_BYTES;
}

/** First and next offset of each partition. */
export async function topicPartitions(admin: Admin, topic: string): Promise<readonly LogPartition[]> {
  const offsets = await admin.fetchTopicOffsets(topic);
  return offsets
    .map(({ partition, low, high }) => ({ partition, begin: Number(low), end: Number(high) }))
    .sort((a, b) => a.partition - b.partition);
}

/** The topic and its cluster as they are now; a topic that is not there has no partitions. */
export async function topicNow(admin: Admin, topic: string): Promise<TopicNow> {
  const { clusterId } = await admin.describeCluster();
  const there = (await admin.listTopics()).includes(topic);
  return { cluster: clusterId, partitions: there ? await topicPartitions(admin, topic) : [] };
}

/** The protocol's name of a fault, such as UNKNOWN_TOPIC_OR_PARTITION, however deep the client has wrapped it; null for others. */
export function faultOf(error: unknown): string | null {
  for (let at = error as { readonly type?: unknown; readonly cause?: unknown } | null; at; at = at.cause as typeof at) {
    if (typeof at.type === 'string') return at.type;
  }
  return null;
}

/** What failed in the client, as one line of ours that names the topic, and the settings to look at, and never a password. */
export function kafkaError(error: unknown, topic: string): TroupeError {
  if (error instanceof TroupeError) return error;
  const type = faultOf(error);
  const detail = { cause: error, got: type ?? String((error as Error).message).split('\n', 1)[0]! };
  if (type === 'MESSAGE_TOO_LARGE')
    return new TroupeError('too_large', `A record is larger than the broker takes for topic ${topic}.`, detail);
  const advice = SETTINGS_BY_FAULT.find(([fault]) => fault.test(detail.got))?.[1];
  return new TroupeError(
    'unreachable',
    `The topic ${topic} cannot be reached now (${detail.got})${advice === undefined ? '' : `; ${advice}`}.`,
    detail,
  );
}

/** What to look at, by the words of the client for settings that do not fit the brokers, or brokers that are not there; the first match counts. */
const SETTINGS_BY_FAULT: readonly (readonly [RegExp, string])[] = [
  [/authentication failed/i, 'check kafka_sasl_mechanism, kafka_username and kafka_password'],
  [/certificate/i, 'check the certificates of the brokers; NODE_EXTRA_CA_CERTS names the file of another authority'],
  // A broker closes the connection of a client that does not use its TLS, or sends no login.
  [/^Closed connection|secure TLS connection|SSL|SASL/, 'check kafka_tls and kafka_sasl_mechanism'],
  [/^Connection|ENOTFOUND|EAI_AGAIN/, 'check the setting kafka_brokers, and whether they run'],
];

/** The same of an append, whose sender still has its events. */
export function notAcknowledged(error: TroupeError): TroupeError {
  if (error.code !== 'unreachable') return error;
  return new TroupeError(
    'unreachable',
    `${error.message} Nothing of this was acknowledged. Send it again.`,
    error.detail,
  );
}

/** The work's answer, or `unreachable` after so many milliseconds: what it does then is not known. */
export async function withDeadline<T>(work: Promise<T>, ms: number, topic: string): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(
      () => reject(new TroupeError('unreachable', `No broker answered for topic ${topic} within ${ms / 1000} s.`)),
      ms,
    );
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
    work.catch(() => {});
  }
}
