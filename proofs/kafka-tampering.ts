/** What people and programs do to a topic behind Troupe's back, for the proof of the Kafka log: each ends as documented. */
import kafkajs from 'kafkajs';
import { openKafka } from '../ingest/log/kafka.ts';
import { kafkaLog } from '../ingest/log/kafka-log.ts';
import { kafkaSource } from '../ingest/log/kafka-source.ts';
import type { LogPartition } from '../ingest/log/log.ts';
import type { Db } from '../store/db/pool.ts';
import { adopt, lookToAdopt } from '../store/log/adopt.ts';
import { bringIn, followLog } from '../store/log/follow.ts';
import { anEpisode } from '../test/store/support/events.ts';

import type { Broker } from './kafka.ts';
import { accessOf, asAdmin, clientOf } from './kafka-clients.ts';
import type { Check } from './kept.ts';
import { episodeOf, until } from './sending.ts';
import type { TroupeProcess } from './troupe-process.ts';

export const tampering = { poison, lostGroup, stops, repartitioned, partitionsOf };

async function partitionsOf(address: string, topic: string): Promise<readonly LogPartition[]> {
  const offsets = await asAdmin(address, (admin) => admin.fetchTopicOffsets(topic));
  return offsets.map(({ partition, low, high }) => ({ partition, begin: Number(low), end: Number(high) }));
}

/** Each kind of poison with the code it is refused under, null where it is applied. */
const POISON: readonly (readonly [kafkajs.Message, string | null])[] = [
  [{ value: null }, 'bad_shape'],
  [{ value: null, key: 'e/tomb' }, 'bad_shape'],
  [{ value: '' }, 'bad_json'],
  [{ value: '{"specversion":"1.0"' }, 'bad_json'],
  [{ value: Buffer.from([0xff, 0xfe, 0x00]) }, 'bad_json'],
  [{ value: '[]' }, 'bad_shape'],
  [{ value: '"text"', headers: { 'content-type': 'application/cloudevents+json' } }, 'bad_shape'],
  [
    { value: JSON.stringify({ specversion: '1.0', id: 'u', source: '/p', type: 'com.example.v1', data: {} }) },
    'unknown_event',
  ],
  [
    { value: JSON.stringify({ specversion: '1.0', id: 'u', source: '/p', type: 'troupe.task.defined.v9', data: {} }) },
    'unknown_event',
  ],
  [
    {
      value: '{"task_id": 7}',
      headers: { ce_specversion: '1.0', ce_id: 'w', ce_source: '/p', ce_type: 'troupe.task.defined.v1' },
    },
    'bad_type',
  ],
  [
    {
      value: '{}',
      headers: {
        ce_specversion: '1.0',
        ce_id: Buffer.from([0xff]),
        ce_source: '/p',
        ce_type: 'troupe.task.defined.v1',
      },
    },
    'bad_shape',
  ],
  [{ value: `${'['.repeat(5000)}${']'.repeat(5000)}` }, 'too_deep'],
  [
    {
      value:
        '{"specversion":"1.0","id":"n","source":"/p","type":"troupe.task.defined.v1","data":{"task_id":"n","x":1e999}}',
    },
    'bad_number',
  ],
  [{ ...structured('hundred'), headers: { ...hundred(), 'content-type': 'application/cloudevents+json' } }, null],
  [{ ...structured('old'), timestamp: '0' }, null],
  [{ ...structured('keyless'), key: null }, null],
];

function structured(id: string): kafkajs.Message {
  return { key: Buffer.from([0, 255]), value: JSON.stringify(episodeOf(`poison-${id}`)[0]) };
}

function hundred(): Record<string, string> {
  return Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`h${i}`, 'x'.repeat(50)]));
}

/** P10, P21–P23: bad bytes among good ones, and transactions of other producers, one of them aborted. */
async function poison(db: Db, address: string, topic: string, projector: TroupeProcess): Promise<Check[]> {
  const client = clientOf(address);
  const producer = client.producer({ createPartitioner: kafkajs.Partitioners.DefaultPartitioner });
  await producer.connect();
  const began = performance.now();
  for (const partition of [0, 1, 2, 3]) {
    const mixed = POISON.flatMap(([message], i) => [
      { ...message, partition },
      { value: JSON.stringify(episodeOf(`beside-${partition}-${i}`)[0]), partition },
    ]);
    await producer.send({ topic, messages: mixed });
  }
  await producer.disconnect();
  const careful = client.producer({
    transactionalId: `careful-${topic}`,
    maxInFlightRequests: 1,
    idempotent: true,
    createPartitioner: kafkajs.Partitioners.DefaultPartitioner,
    retry: { initialRetryTime: 20 },
  });
  await careful.connect();
  for (const [id, end] of [
    ['kept', 'commit'],
    ['gone', 'abort'],
    ['kept-too', 'commit'],
  ] as const) {
    const transaction = await careful.transaction();
    const messages = episodeOf(`transaction-${id}`).map((event) => ({ key: 'e/t', value: JSON.stringify(event) }));
    await transaction.send({ topic, messages });
    await transaction[end]();
  }
  await careful.disconnect();
  const named = async (pattern: string): Promise<number> => {
    const { rows } = await db.query<{ n: number }>(
      'select count(*)::integer as n from traj.episodes where episode_id like $1',
      [pattern],
    );
    return rows[0]!.n;
  };
  const applied = await until(
    async () => (await named('beside-%')) === POISON.length * 4 && (await named('poison-%')) === 3,
  );
  const ms = Math.round(performance.now() - began);
  const transactions = await until(async () => (await named('transaction-%')) === 2);
  const { rows } = await db.query<{ code: string }>(
    `select code from troupe.dead_letters where endpoint = 'kafka' and place like $1 order by dead_letter_id`,
    [`${topic}/%`],
  );
  const codes = new Set(rows.map(({ code }) => code));
  const wanted = new Set(POISON.flatMap(([, code]) => code ?? []));
  const alive = await Promise.race([
    projector.ended().then(() => false),
    new Promise<boolean>((resolve) => setTimeout(() => resolve(true), 50)),
  ]);
  return [
    [
      `P21: ${POISON.length * 4} odd records among ${POISON.length * 4} good ones: all good ones are in the tables after ${ms} ms, and the projector lives`,
      applied && alive,
    ],
    [
      `P22: the bad ones are dead letters with place, bytes and reason (${[...codes].join(', ')})`,
      [...wanted].every((code) => codes.has(code)),
    ],
    [
      'P10: committed transactions are read, an aborted one is not, and their marks stall nothing',
      transactions && (await named('transaction-gone')) === 0 && (await caughtUp(db, address, topic)),
    ],
  ];
}

const caughtUp = (db: Db, address: string, topic: string): Promise<boolean> =>
  until(async () => {
    const ends = await partitionsOf(address, topic);
    const { rows } = await db.query<{ partition: number; position: number }>(
      `select partition, position::integer as position from troupe.positions where projection = 'archive' and log = (select log from troupe.logs where name = $1)`,
      [`kafka:${topic}`],
    );
    return ends.every(({ partition, end }) => rows.find((row) => row.partition === partition)?.position === end);
  });

/** P13: the group, and with it every committed offset, is gone. */
async function lostGroup(
  db: Db,
  address: string,
  { topic, group }: { readonly topic: string; readonly group: string },
  start: () => Promise<TroupeProcess>,
): Promise<Check[]> {
  const state = async () => {
    const { rows } = await db.query(
      `select partition, position, applied, duplicates, dead from troupe.positions where projection = 'archive' and log = (select log from troupe.logs where name = $1) order by partition`,
      [`kafka:${topic}`],
    );
    return JSON.stringify(rows);
  };
  const before = await state();
  await asAdmin(address, (admin) => admin.deleteGroups([group]));
  await start();
  const client = clientOf(address).producer({ createPartitioner: kafkajs.Partitioners.DefaultPartitioner });
  await client.connect();
  const messages = Array.from({ length: 40 }, (_, i) => ({
    key: `e/after-${i}`,
    value: JSON.stringify(episodeOf(`after-${i}`)[0]),
  }));
  const unchanged = await state();
  await client.send({ topic, messages });
  await client.disconnect();
  const read = await caughtUp(db, address, topic);
  const { rows } = await db.query<{ n: number }>(
    `select count(*)::integer as n from traj.episodes where episode_id like 'after-%'`,
  );
  return [
    [
      `P13: after the group ${group} was deleted reading went on where the tables were, and nothing was read twice`,
      unchanged === before && read && rows[0]!.n === 40,
    ],
  ];
}

type Change = (admin: kafkajs.Admin, topic: string, fill: (name: string) => Promise<void>) => Promise<unknown>;

/** P14: what is gone is named, and nothing is skipped. */
async function stops(db: Db, { address, node }: Broker, run: string): Promise<Check[]> {
  const checks: Check[] = [];
  const opened = (topic: string) => {
    const client = openKafka({ brokers: address, topic, ...accessOf(process.env) });
    const fill = async (name: string): Promise<void> => {
      const log = kafkaLog(client, { partitions: 1 });
      await log.append(anEpisode(`${topic}-${name}`));
      await log.close();
    };
    return { source: kafkaSource(client, { group: topic }), fill };
  };
  const positionOf = async (topic: string): Promise<number> => {
    const { rows } = await db.query<{ position: number }>(
      `select position::integer as position from troupe.positions where projection = 'archive' and log = (select log from troupe.logs where name = $1)`,
      [`kafka:${topic}`],
    );
    return rows[0]?.position ?? 0;
  };
  const make = async (topic: string, change: Change) => {
    const { source, fill } = opened(topic);
    await fill('first');
    await bringIn(db, source);
    await asAdmin(address, (admin) => change(admin, topic, fill));
    const failed = await bringIn(db, source).then(
      () => ({ code: 'nothing', message: 'it went on' }),
      (error) => error as { code: string; message: string },
    );
    const position = await positionOf(topic);
    const { known } = await lookToAdopt(db, source);
    await until(() => adopt(db, source, { known, partitions: 1 }).then(() => true));
    await bringIn(db, source);
    await fill('adopted');
    const read = await bringIn(db, source);
    await source.close();
    return { ...failed, message: failed.message, position, read };
  };
  const anew = async (admin: kafkajs.Admin, topic: string): Promise<void> => {
    await admin.deleteTopics({ topics: [topic] });
    await until(async () => !(await admin.listTopics()).includes(topic));
    // The client's own waiting fails where the node does not know yet what its controller has made.
    await admin.createTopics({ topics: [{ topic, numPartitions: 1 }], waitForLeaders: false });
    await until(async () => (await admin.listTopics()).includes(topic));
  };
  const kinds: Record<string, readonly [what: string, error: RegExp, change: Change]> = {
    emptied: ['deleted and made anew, empty', /read up to offset 12, and ends at 0 now/, anew],
    refilled: [
      'deleted and made anew with more in it than before',
      /is not the one that was read there/,
      async (admin, topic, fill) => {
        await anew(admin, topic);
        await fill('second');
        await fill('third');
      },
    ],
    gone: ['deleted', /is gone/, (admin, topic) => admin.deleteTopics({ topics: [topic] })],
  };
  // How soon a broker looks for what its retention removes is set for the node of ours: elsewhere that takes minutes.
  if (node !== null)
    kinds.retained = [
      'shortened by retention before it was read',
      /12 offsets were removed by retention/,
      async (admin, topic, fill) => {
        await fill('unread');
        const configEntries = [{ name: 'retention.ms', value: '1' }];
        await admin.alterConfigs({
          validateOnly: false,
          resources: [{ type: kafkajs.ConfigResourceTypes.TOPIC as number as never, name: topic, configEntries }],
        });
        await until(async () => Number((await admin.fetchTopicOffsets(topic))[0]!.low) === 24, 30_000);
      },
    ];
  for (const [kind, [how, says, change]] of Object.entries(kinds)) {
    const topic = `${kind}-${run}`;
    const { code, message, position, read } = await make(topic, change);
    await asAdmin(address, (admin) => admin.deleteTopics({ topics: [topic] })).catch(() => {});
    const fine =
      code === (kind === 'retained' ? 'log_truncated' : 'log_replaced') && says.test(message) && position === 12;
    checks.push([
      `P14: a topic that was ${how} stops reading with ${code}, and the position stays at ${position}${fine ? '' : `: ${message}`}`,
      fine,
    ]);
    checks.push([`and once it is adopted the 12 events that are appended to it are read (${read})`, read === 12]);
  }

  // While a reader waits for the database it fetches nothing, so no answer of the broker shows it.
  const topic = `awaited-${run}`;
  const { source, fill } = opened(topic);
  await fill('first');
  const done = new AbortController();
  const following = followLog(db, source, { signal: done.signal }).then(
    () => 'nothing',
    (error) => (error as { code: string }).code,
  );
  await until(async () => (await positionOf(topic)) === 12, 30_000);
  await db.transaction(async (tx) => {
    await tx.query('lock table troupe.positions in access exclusive mode');
    await fill('waits');
    await new Promise((resolve) => setTimeout(resolve, 1000));
    await asAdmin(address, (admin) => anew(admin, topic));
    for (const name of ['second', 'third', 'fourth']) await fill(name);
  });
  const code = await Promise.race([following, new Promise((resolve) => setTimeout(() => resolve('nothing'), 30_000))]);
  const position = await positionOf(topic);
  done.abort();
  await source.close();
  await asAdmin(address, (admin) => admin.deleteTopics({ topics: [topic] })).catch(() => {});
  checks.push([
    `P14: a topic that was made anew while its reader waited for the database stops it with ${code}, at ${position}`,
    code === 'log_replaced' && position === 24,
  ]);
  return checks;
}

/** Keys are spread over the partitions, so more of them would part what belongs together. */
async function repartitioned(address: string, topic: string, start: () => Promise<TroupeProcess>): Promise<Check[]> {
  await asAdmin(address, (admin) => admin.createPartitions({ topicPartitions: [{ topic, count: 8 }] }));
  const projector = await start();
  const code = await Promise.race([
    projector.ended(),
    new Promise<null>((resolve) => setTimeout(() => resolve(null), 20_000)),
  ]);
  return [
    [
      `a projector refuses a topic of 4 partitions that has 8 now (exit ${code}): ${projector.output().trim().split('\n').at(-1)?.slice(0, 120)}…`,
      code === 1 && /had 4 partitions and has 8 now/.test(projector.output()),
    ],
  ];
}
