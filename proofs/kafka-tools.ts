/**
 * Proof that programs of others write to the topic as docs/kafka.md says: `troupe log create-topic` makes it, kcat, compressed in each
 * way, and Kafka Connect run with the lines that are printed there, and values behind the frame of a schema registry are read, or refused
 * by the number of their schema.
 */
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Db, openPool } from '../store/db/pool.ts';
import { freePort } from '../test/support/free-port.ts';
import { findKafkaJars, startKafka } from './kafka.ts';
import { asAdmin, clientOf } from './kafka-clients.ts';
import { startPostgres } from './postgres.ts';
import { checklist, type Outcome, type Proof, type Setting } from './proof.ts';
import { episodeOf, until } from './sending.ts';
import { runTroupe } from './troupe-process.ts';

const ROOT = join(import.meta.dirname, '..');
const TOPIC = 'others';

export const proof: Proof = {
  name: 'kafka-tools',
  needs: ['kafka'],
  async run({ scratch, say }: Setting): Promise<Outcome> {
    const found = findKafkaJars(process.env);
    if ('missing' in found) return { ok: true, lines: [], skipped: [found.missing] };
    const { lines, check, passed } = checklist(say);
    const skipped: string[] = [];
    const [broker, postgres] = await Promise.all([
      startKafka(found, join(scratch, 'broker')),
      startPostgres(join(scratch, 'postgres'), TOPIC),
    ]);
    const env = { DATABASE_URL: postgres.url(TOPIC), KAFKA_BROKERS: broker.address, KAFKA_TOPIC: TOPIC };
    const { DATABASE_URL: _, ...withoutDatabase } = env;
    const db = openPool(env.DATABASE_URL);
    const stop: (() => Promise<unknown>)[] = [];
    try {
      for (const [what, fine, detail] of await makesTopic(broker.address, withoutDatabase, scratch))
        check(what, fine, detail);
      const projector = await runTroupe('project', { home: join(scratch, 'home'), env });
      stop.push(() => projector.end('SIGKILL'));

      if (spawnSync('kcat', ['-V']).status === 0) {
        const [write, read] = printed('sh')
          .find((text) => text.startsWith('kcat'))!
          .trim()
          .split('\n') as [string, string];
        writeFileSync(join(scratch, 'events.jsonl'), asLines('by-kcat'));
        const wrote = shell(write, scratch, env);
        check(
          'what kcat writes with the line of docs/kafka.md is an episode',
          await closed(db, 'by-kcat'),
          wrote.stderr,
        );
        const listed = shell(read, scratch, env);
        const records = listed.stdout
          .split('\n')
          .filter((line) => /^others\/\d\/\d+ e\/by-kcat {2}\d+ bytes$/.test(line));
        check(`and it reads ${records.length} of 5 records again`, records.length === 5, listed.stdout + listed.stderr);
        for (const codec of ['gzip', 'snappy', 'lz4', 'zstd']) {
          writeFileSync(join(scratch, 'events.jsonl'), asLines(`by-${codec}`));
          const detail = shell(`${write.replace('by-kcat', `by-${codec}`)} -z ${codec}`, scratch, env);
          check(`what it compresses with ${codec} is an episode`, await closed(db, `by-${codec}`), detail.stderr);
        }
      } else skipped.push('no kcat; install it, for instance with: apt-get install kcat');

      if (existsSync(join(found.jars, 'connect-file-4.3.1.jar'))) {
        writeFileSync(join(scratch, 'events.jsonl'), asLines('by-connect'));
        stop.push(await connect(found.jars, scratch, broker.address));
        check(
          'what Kafka Connect reads from a file, with the settings of docs/kafka.md, is an episode',
          await closed(db, 'by-connect', 60_000),
        );
      } else skipped.push(`no Kafka Connect at ${found.jars}; say: rm -r ${found.jars}, and install it again`);

      for (const [what, fine, detail] of await framed(db, broker.address)) check(what, fine, detail);
      return { ok: passed(), lines, skipped };
    } finally {
      await Promise.all(stop.map((one) => one()));
      await db.close().catch(() => {});
      await Promise.all([broker.stop(), postgres.stop()]);
    }
  },
};

type Check = readonly [what: string, fine: boolean, detail?: string];

/** Whether `doctor` names the setting of a topic that somebody else made. */
async function doctorOfCompacted(address: string, env: Env, scratch: string): Promise<readonly [boolean, string]> {
  const topic = `${TOPIC}-compacted`;
  const configEntries = [{ name: 'cleanup.policy', value: 'compact,delete' }];
  await asAdmin(address, (admin) =>
    admin.createTopics({ waitForLeaders: true, topics: [{ topic, numPartitions: 1, configEntries }] }),
  );
  const { stdout } = spawnSync(
    process.execPath,
    ['--import', 'tsx', 'cli.ts', 'doctor', '--home', join(scratch, 'looked-at')],
    { cwd: ROOT, env: { ...process.env, ...env, KAFKA_TOPIC: topic, NO_COLOR: '1' }, encoding: 'utf8' },
  );
  return [/✗ kafka: .*cleanup\.policy=compact,delete.* Set it to delete/.test(stdout), stdout];
}

async function makesTopic(address: string, env: Env, scratch: string): Promise<Check[]> {
  const say = (more: readonly string[], and: Env = {}) =>
    spawnSync(
      process.execPath,
      ['--import', 'tsx', 'cli.ts', 'log', 'create-topic', ...more, '--home', join(scratch, 'none')],
      { cwd: ROOT, env: { ...process.env, ...env, ...and, NO_COLOR: '1' }, encoding: 'utf8' },
    );
  const tooMany = say(['--replication', '3']);
  const made = say(['--set', 'retention.ms=604800000', '--json'], { KAFKA_PARTITIONS: '3' });
  const again = say([]);
  const other = say(['--set', 'retention.ms=1'], { KAFKA_PARTITIONS: '4' });
  const [partitions, retention] = await asAdmin(address, async (admin) => {
    const { topics } = await admin.fetchTopicMetadata({ topics: [TOPIC] });
    const { resources } = await admin.describeConfigs({
      includeSynonyms: false,
      resources: [{ type: 2, name: TOPIC, configNames: ['retention.ms'] }],
    });
    return [topics[0]!.partitions.length, resources[0]!.configEntries[0]!.configValue];
  });
  const compacted = await doctorOfCompacted(address, env, scratch);
  return [
    ['troupe doctor calls a compacted topic wrong, and says how to set it', ...compacted],
    [
      'troupe log create-topic asks one broker for 3 copies, and says that it refuses',
      tooMany.status === 2 && /INVALID_REPLICATION_FACTOR/.test(tooMany.stderr),
      tooMany.stderr,
    ],
    [
      `it makes the topic, without a database: ${partitions} partitions, retention.ms ${retention}`,
      made.status === 0 && JSON.parse(made.stdout).created === true && partitions === 3 && retention === '604800000',
      made.stderr,
    ],
    [
      'again it changes nothing',
      again.status === 0 && /there already: 3 partitions/.test(again.stdout),
      again.stdout + again.stderr,
    ],
    [
      'asked for another number of partitions and another retention it ends with 1 and names both',
      other.status === 1 &&
        /partitions 3 instead of 4/.test(other.stderr) &&
        /retention\.ms 604800000 instead of 1\b/.test(other.stderr),
      other.stdout + other.stderr,
    ],
  ];
}

/** A worker as `connect-standalone.sh` starts it. Resolves with what ends it. */
async function connect(jars: string, folder: string, address: string): Promise<() => Promise<void>> {
  const [worker, source] = printed('properties') as [string, string];
  // Its own server for requests would take a port that others may have.
  const own = `${worker.replace('kafka-1:9092', address)}listeners=http://127.0.0.1:${await freePort()}\n`;
  writeFileSync(join(folder, 'worker.properties'), own);
  writeFileSync(join(folder, 'events.properties'), source.replace('topic=troupe', `topic=${TOPIC}`));
  const java = ['-Xmx256m', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1', '-cp', join(jars, '*')];
  const program = ['org.apache.kafka.connect.cli.ConnectStandalone', 'worker.properties', 'events.properties'];
  const child = spawn('java', [...java, ...program], { cwd: folder, stdio: 'ignore' });
  const gone = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  return async () => {
    child.kill('SIGKILL');
    await gone;
  };
}

/** What serializers of a registry write: a byte 0 and the number of a schema, then JSON, Avro or Protobuf. */
async function framed(db: Db, address: string): Promise<Check[]> {
  const head = Buffer.from([0, 0, 0, 2, 0]);
  const json = episodeOf('framed').map((event) => Buffer.concat([head, Buffer.from(JSON.stringify(event))]));
  const avro = Buffer.concat([head, Buffer.from([6]), Buffer.from('why')]);
  const producer = clientOf(address).producer();
  await producer.connect();
  await producer.send({ topic: TOPIC, messages: [avro, ...json].map((value) => ({ key: 'e/framed', value })) });
  await producer.disconnect();
  const read = await closed(db, 'framed');
  const { rows } = await db.query<{ code: string; got: string }>(
    `select code, got from troupe.dead_letters where endpoint = 'kafka'`,
  );
  return [
    ['events behind the 5 bytes of a schema registry are read', read],
    [
      `one in Avro is a dead letter: ${rows.map(({ code, got }) => `${code}, ${got}`).join('; ')}`,
      rows.length === 1 && /schema 512 of a registry, in Avro or Protobuf/.test(rows[0]!.got),
    ],
  ];
}

type Env = Readonly<Record<string, string>>;

/** The blocks of docs/kafka.md in one language. */
const printed = (language: string): string[] =>
  [...readFileSync(join(ROOT, 'docs/kafka.md'), 'utf8').matchAll(/^```(\w+)\n(.*?)^```$/gms)].flatMap(
    ([, name, text]) => (name === language ? [text!] : []),
  );

const shell = (line: string, cwd: string, env: Env) =>
  spawnSync('bash', ['-c', line], { cwd, env: { ...process.env, ...env }, encoding: 'utf8' });

const asLines = (id: string): string =>
  episodeOf(id)
    .map((event) => `${JSON.stringify(event)}\n`)
    .join('');

/** Whether the episode with both its steps is in the tables in time. */
const closed = (db: Db, id: string, ms = 20_000): Promise<boolean> =>
  until(async () => {
    const { rows } = await db.query(
      'select 1 from traj.episodes e join traj.steps using (episode_id) where e.closed and e.episode_id = $1',
      [id],
    );
    return rows.length === 2;
  }, ms);
