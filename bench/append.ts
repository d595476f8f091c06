/**
 * `bench append`: events acknowledged over HTTP in batches of 100, by the API as a process of its own, against a Kafka client that
 * produces prebuilt buffers with the same acknowledgement. Both logs; what each side says it wrote is counted where it was written.
 */
import { Agent, request } from 'node:http';
import { join } from 'node:path';
import kafkajs from 'kafkajs';
import { type Broker, findKafkaJars, startKafka } from '../proofs/kafka.ts';
import { clientOf } from '../proofs/kafka-clients.ts';
import { runTroupe, type TroupeProcess } from '../proofs/troupe-process.ts';
import type { Bench, Settings } from './bench.ts';
import { cpuSecondsOf } from './cpu-seconds.ts';
import { compared, interleave, type Result, type Side, unmeasured } from './harness.ts';
import { type BenchServer, startBenchServer } from './server.ts';
import type { Measured } from './statistics.ts';

const BATCH = 100;
const BATCHES = 100;
const LANES = 8;
const PARTITIONS = 4;
/** Characters of each event's text: about 1 KiB with the envelope. */
const TEXT = 800;

export const bench: Bench = {
  name: 'append',
  about: 'events acknowledged over HTTP in batches of 100, both logs, against a Kafka client with prebuilt buffers',
  async run(settings) {
    const found = findKafkaJars(process.env);
    if ('missing' in found) return [unmeasured('append', { skipped: found.missing })];
    const broker = await startKafka(found, join(settings.scratch, 'broker'));
    const server = await startBenchServer(settings.scratch);
    const env = { DATABASE_URL: server.url, KAFKA_PARTITIONS: String(PARTITIONS) };
    const results: Result[] = [];
    try {
      for (const log of ['kafka', 'embedded'] as const) {
        const brokers = log === 'kafka' ? broker.address : '';
        const api = await runTroupe('ingest', {
          home: join(settings.scratch, 'home'),
          env: { ...env, KAFKA_BROKERS: brokers, KAFKA_TOPIC: 'ours' },
        });
        try {
          results.push(await appendTo(log, { api, broker, server }, settings));
        } finally {
          await api.end('SIGTERM');
        }
      }
      return results;
    } finally {
      await Promise.all([broker.stop(), server.close()]);
    }
  },
};

type Started = { readonly api: TroupeProcess; readonly broker: Broker; readonly server: BenchServer };

async function appendTo(
  log: 'kafka' | 'embedded',
  { api, broker, server: { db, pid } }: Started,
  { rounds, say }: Settings,
): Promise<Result> {
  const { address } = broker;
  const admin = clientOf(address).admin();
  const producer = clientOf(address).producer({
    idempotent: true,
    maxInFlightRequests: 1,
    createPartitioner: kafkajs.Partitioners.DefaultPartitioner,
  });
  const topic = `peer-${log}`;
  await Promise.all([admin.connect(), producer.connect()]);
  await admin.createTopics({ topics: [{ topic, numPartitions: PARTITIONS }], waitForLeaders: true });
  const inTopic = async (name: string): Promise<number> =>
    (await admin.fetchTopicOffsets(name)).reduce((sum, { high }) => sum + Number(high), 0);
  const written = async (): Promise<number> => {
    if (log === 'kafka') return inTopic('ours');
    const { rows } = await db.query<{ n: number }>('select count(*)::integer as n from troupe.events');
    return rows[0]!.n;
  };
  const agent = new Agent({ keepAlive: true, maxSockets: LANES });
  const timed = async (work: number, task: () => Promise<void>): Promise<Measured> => {
    const theirs = () => [api.pid(), pid, broker.node?.pid() ?? 0].reduce((sum, one) => sum + cpuSecondsOf(one), 0);
    const [own, before, began] = [process.cpuUsage(), theirs(), performance.now()];
    await task();
    const seconds = (performance.now() - began) / 1000;
    const { user, system } = process.cpuUsage(own);
    return { work, seconds, cpuSeconds: (user + system) / 1e6 + theirs() - before };
  };
  let sent = 0;
  const ours = (round: number): Promise<Measured> => {
    const bodies = Array.from({ length: BATCHES }, (_, n) =>
      Buffer.from(JSON.stringify(envelopes(`${log}-${round}-${n}`))),
    );
    sent += BATCHES * BATCH;
    return timed(BATCHES * BATCH, () => inLanes(bodies, (body) => postBody(agent, api.url, body)));
  };
  let produced = 0;
  const other = (round: number): Promise<Measured> => {
    const batches = Array.from({ length: BATCHES }, (_, n) =>
      envelopes(`${log}-${round}-${n}`).map(({ data, ...attributes }) => ({
        key: Buffer.from(`e/${data.episode_id}`),
        value: Buffer.from(JSON.stringify(data)),
        headers: Object.fromEntries(
          Object.entries(attributes).map(([name, text]) => [`ce_${name}`, Buffer.from(text)]),
        ),
      })),
    );
    produced += BATCHES * BATCH;
    return timed(BATCHES * BATCH, async () => {
      for (const messages of batches) await producer.send({ topic, acks: -1, messages });
    });
  };
  try {
    // Both sides once before it counts: connections, plans, compiled code.
    await ours(-1);
    await other(-1);
    const sides: Side[] = [
      { name: 'HTTP', round: ours },
      { name: 'kafkajs', round: other },
    ];
    const { measured, disturbed } = await interleave(sides, {
      rounds,
      onRound: (line) => say(`append ${log}: ${line}`),
    });
    const [there, theirs] = [await written(), await inTopic(topic)];
    return compared(
      {
        case: `${log} log`,
        unit: 'events/s',
        disturbed,
        more: { work: `${BATCHES} batches of ${BATCH} events of about 1 KiB, ${LANES} connections` },
      },
      measured[0]!,
      { what: 'kafkajs, prebuilt buffers, batches of 100, acks=all, idempotent', measured: measured[1]! },
      {
        equal: there === sent && theirs === produced,
        how: `${there} of ${sent} events in our log, ${theirs} of ${produced} in the other topic`,
      },
    );
  } finally {
    agent.destroy();
    await Promise.all([admin.disconnect(), producer.disconnect()]);
  }
}

const envelopes = (batch: string) =>
  Array.from({ length: BATCH }, (_, i) => ({
    specversion: '1.0',
    id: `${batch}-${i}`,
    source: '/bench',
    type: 'troupe.message.sent.v1',
    data: { episode_id: `${batch}-${i % 4}`, message_id: `${i}`, role: 'user', content: `${i} `.padEnd(TEXT, 'x') },
  }));

async function inLanes<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  let next = 0;
  const lane = async (): Promise<void> => {
    while (next < items.length) await work(items[next++]!);
  };
  await Promise.all(Array.from({ length: LANES }, lane));
}

const postBody = (agent: Agent, url: string, body: Buffer): Promise<void> =>
  new Promise((resolve, reject) => {
    const headers = { 'content-type': 'application/json', 'content-length': body.length };
    const out = request(`${url}/v1/events`, { method: 'POST', agent, headers }, (answer) => {
      answer.resume();
      answer.on('end', () =>
        answer.statusCode === 200 ? resolve() : reject(new Error(`An append was answered with ${answer.statusCode}.`)),
      );
    });
    out.on('error', reject);
    out.end(body);
  });
