/** A Kafka broker for proofs: yours, or nodes on this machine over an empty folder, one or a cluster, to be killed and paused. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { freePort } from '../test/support/free-port.ts';
import { clientOf } from './kafka-clients.ts';

export const KAFKA_VERSION = '4.3.1';

type Env = Readonly<Record<string, string | undefined>>;

/** Where a broker is, or what starts one. */
export type FoundKafka = { readonly brokers: string } | { readonly jars: string };

/** `KAFKA_BROKERS`, or else the jars of a node. */
export const findKafka = (env: Env): FoundKafka | { readonly missing: string } =>
  env.KAFKA_BROKERS ? { brokers: env.KAFKA_BROKERS } : findKafkaJars(env);

/** `TROUPE_KAFKA_JARS` if it is set, else what `.ci/run` installs. Says how to get them, or Java, where they are missing. */
export function findKafkaJars(env: Env): { readonly jars: string } | { readonly missing: string } {
  if (spawnSync('java', ['-version'], { stdio: 'ignore' }).status !== 0)
    return {
      missing: 'no Java; install a JRE of version 17 or later, for instance with: apt-get install default-jre-headless',
    };
  const cache = join(env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'troupe-ci');
  const jars = env.TROUPE_KAFKA_JARS || join(cache, `kafka-${KAFKA_VERSION}`);
  if (existsSync(join(jars, 'complete'))) return { jars };
  const install = `mvn -q -B -f proofs/kafka/pom.xml dependency:copy-dependencies -DoutputDirectory=${jars} && touch ${jars}/complete`;
  return { missing: `no Kafka at ${jars}; say: ${install} (44 MB), or set TROUPE_KAFKA_JARS` };
}

/** For the slowest machine, with everything else that a proof runs; idle it takes 5 s. */
const PATIENCE_MS = 300_000;

/** A broker that is ours to kill. */
export type Node = {
  readonly pid: () => number;
  readonly kill: () => Promise<void>;
  readonly pause: () => void;
  readonly resume: () => void;
  /** Starts it again over what it kept, and waits until it answers. */
  readonly start: () => Promise<void>;
};

export type Broker = {
  /** `host:port`, several with commas between; the same after a restart. */
  readonly address: string;
  /** Null for yours: nobody else's broker is killed. */
  readonly node: Node | null;
  readonly stop: () => Promise<void>;
};

/** The line that a proof says for what it leaves alone. */
export const NOT_OURS =
  'the broker of KAFKA_BROKERS is not killed, paused or set otherwise; leave it out to prove that too';

export type Ports = {
  /** The one that it answers at; any free one if omitted. */
  readonly port?: number;
  /** The one that its clients use; the same if omitted. */
  readonly advertised?: number;
};

export async function startKafka(found: FoundKafka, folder: string, ports: Ports = {}): Promise<Broker> {
  if ('brokers' in found) return { address: found.brokers, node: null, stop: async () => {} };
  const broker = await makeNode(found.jars, folder, ports);
  await broker.node.start();
  return broker;
}

export type Cluster = {
  /** Of all its nodes. */
  readonly address: string;
  readonly nodes: readonly Node[];
  readonly stop: () => Promise<void>;
};

/** Starts so many nodes, each broker and controller, that keep a copy each of everything; of an append two must have it. */
export async function startCluster(jars: string, folder: string, size: number): Promise<Cluster> {
  const control: number[] = [];
  for (let i = 0; i < size; i++) control.push(await freePort());
  const cluster = clusterId();
  const brokers: Awaited<ReturnType<typeof makeNode>>[] = [];
  for (const i of control.keys())
    brokers.push(await makeNode(jars, join(folder, String(i + 1)), {}, { id: i + 1, control, cluster }));
  const nodes = brokers.map(({ node }) => node);
  const stop = async (): Promise<void> => void (await Promise.all(brokers.map((broker) => broker.stop())));
  try {
    // Each waits for the others: controllers elect one among most of them.
    await Promise.all(nodes.map((node) => node.start()));
  } catch (error) {
    await stop();
    throw error;
  }
  return { address: brokers.map(({ address }) => address).join(','), nodes, stop };
}

/** Which of the nodes of a cluster, counted from 1, and the ports of all their controllers. */
type Member = { readonly id: number; readonly control: readonly number[]; readonly cluster: string };

/** Formats a node in `folder`, where there is none yet. Starting it throws with its last words where it does not come up. */
async function makeNode(
  jars: string,
  folder: string,
  ports: Ports,
  given?: Member,
): Promise<Broker & { readonly node: Node }> {
  const port = ports.port ?? (await freePort());
  mkdirSync(folder, { recursive: true });
  const member = given ?? { id: 1, control: [await freePort()], cluster: clusterId() };
  const address = `127.0.0.1:${port}`;
  const [settings, logging] = [join(folder, 'server.properties'), join(folder, 'log4j2.properties')];
  writeFileSync(settings, properties(folder, { port, advertised: ports.advertised ?? port }, member));
  writeFileSync(logging, LOGGING);
  const java = ['-Xmx256m', '-Xms64m', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1', '-cp', join(jars, '*')];
  const options = [...java, `-Dlog4j2.configurationFile=${logging}`];
  if (!existsSync(join(folder, 'data', 'meta.properties'))) format(options, settings, member.cluster);

  let child: ChildProcess | null = null;
  let output = '';
  const ended = async (signal: NodeJS.Signals): Promise<void> => {
    const running = child;
    child = null;
    if (running === null || running.exitCode !== null || running.signalCode !== null) return;
    const gone = once(running, 'exit');
    running.kill(signal);
    // A paused process reacts to nothing else.
    if (signal !== 'SIGKILL') running.kill('SIGCONT');
    await gone;
  };
  const start = async (): Promise<void> => {
    const fresh = spawn('java', [...options, 'kafka.Kafka', settings], { stdio: ['ignore', 'ignore', 'pipe'] });
    child = fresh;
    fresh.stderr.setEncoding('utf8').on('data', (text) => {
      output = `${output}${text}`.slice(-3000);
    });
    for (const deadline = performance.now() + PATIENCE_MS; performance.now() < deadline; ) {
      if (fresh.exitCode !== null) break;
      if (await answers(address)) return;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    await ended('SIGKILL');
    throw new Error(`The broker did not come up within ${PATIENCE_MS / 1000} s: ${output.trim()}`);
  };
  return {
    address,
    node: {
      pid: () => child?.pid ?? 0,
      kill: () => ended('SIGKILL'),
      pause: () => void child?.kill('SIGSTOP'),
      resume: () => void child?.kill('SIGCONT'),
      start,
    },
    stop: () => ended('SIGKILL'),
  };
}

const clusterId = (): string => Buffer.from(randomUUID().replaceAll('-', ''), 'hex').toString('base64url');

function format(options: readonly string[], settings: string, cluster: string): void {
  const formatted = spawnSync(
    'java',
    // One identifier in 64 begins with "-": as a word of its own it would be read as an option.
    [...options, 'kafka.tools.StorageTool', 'format', `--cluster-id=${cluster}`, '-c', settings],
    { encoding: 'utf8' },
  );
  if (formatted.status !== 0)
    throw new Error(`The broker's folder was not formatted: ${formatted.stderr.slice(-1000)}`);
}

async function answers(address: string): Promise<boolean> {
  const admin = clientOf(address).admin({ retry: { retries: 0 } });
  try {
    await admin.connect();
    await admin.listTopics();
    return true;
  } catch {
    return false;
  } finally {
    await admin.disconnect().catch(() => {});
  }
}

function properties(folder: string, { port, advertised }: Required<Ports>, { id, control }: Member): string {
  const [copies, insync] = [control.length, Math.ceil(control.length / 2)];
  return Object.entries({
    'process.roles': 'broker,controller',
    'node.id': id,
    'controller.quorum.voters': control.map((one, i) => `${i + 1}@127.0.0.1:${one}`).join(','),
    listeners: `PLAINTEXT://127.0.0.1:${port},CONTROLLER://127.0.0.1:${control[id - 1]}`,
    'advertised.listeners': `PLAINTEXT://127.0.0.1:${advertised}`,
    'controller.listener.names': 'CONTROLLER',
    'listener.security.protocol.map': 'PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT',
    'log.dirs': join(folder, 'data'),
    'default.replication.factor': copies,
    'min.insync.replicas': insync,
    'offsets.topic.replication.factor': copies,
    'offsets.topic.num.partitions': 2,
    'transaction.state.log.replication.factor': copies,
    'transaction.state.log.min.isr': insync,
    'transaction.state.log.num.partitions': 2,
    'share.coordinator.state.topic.replication.factor': copies,
    'share.coordinator.state.topic.min.isr': insync,
    'group.initial.rebalance.delay.ms': 0,
    'auto.create.topics.enable': false,
    'log.cleaner.dedupe.buffer.size': 16_777_216,
    // So that what retention removes is removed while a proof looks.
    'log.retention.check.interval.ms': 500,
    'log.segment.delete.delay.ms': 0,
  })
    .map(([name, value]) => `${name}=${value}\n`)
    .join('');
}

const LOGGING = `rootLogger.level=warn
rootLogger.appenderRef.console.ref=console
status=error
appender.console.type=Console
appender.console.name=console
appender.console.target=SYSTEM_ERR
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%d{HH:mm:ss} %p %c{1} %m%n
`;
