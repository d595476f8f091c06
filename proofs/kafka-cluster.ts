/**
 * Proof that a log of three brokers survives them: replication 3, two copies for an acknowledgement. Under load a broker is killed and comes
 * back, projectors join and die, two brokers at once are gone. Nothing acknowledged is lost, nothing is doubled, nobody takes a new leader
 * for another topic.
 */
import { join } from 'node:path';
import { type Db, openPool } from '../store/db/pool.ts';
import { reconcile } from '../store/log/reconcile.ts';
import { type Cluster, findKafkaJars, startCluster } from './kafka.ts';
import { asAdmin } from './kafka-clients.ts';
import { startPostgres } from './postgres.ts';
import { checklist, type Outcome, type Proof, type Setting } from './proof.ts';
import { episodeOf, loadOn, post, until } from './sending.ts';
import { runTroupe, type TroupeProcess } from './troupe-process.ts';

export const proof: Proof = { name: 'kafka-cluster', needs: [], run };

const [TOPIC, DATABASE] = ['cluster', 'cluster'];
const EVENTS = episodeOf('x').length;
const pause = (seconds: number) => new Promise((resolve) => setTimeout(resolve, 1000 * seconds));

async function run({ scratch, say, short }: Setting): Promise<Outcome> {
  const found = findKafkaJars(process.env);
  if ('missing' in found) return { ok: true, lines: [], skipped: [found.missing] };
  const { lines, check: tell, passed } = checklist(say);
  const [brokers, postgres] = await Promise.all([
    startCluster(found.jars, join(scratch, 'brokers'), 3),
    startPostgres(join(scratch, 'postgres'), DATABASE),
  ]);
  const env = {
    DATABASE_URL: postgres.url(DATABASE),
    KAFKA_BROKERS: brokers.address,
    KAFKA_TOPIC: TOPIC,
    KAFKA_PARTITIONS: '6',
  };
  const started: TroupeProcess[] = [];
  const troupe = async (role: string): Promise<TroupeProcess> => {
    started.push(await runTroupe(role, { home: join(scratch, 'home'), env }));
    return started.at(-1)!;
  };
  const db = openPool(postgres.url(DATABASE));
  try {
    const [ingest, first] = [await troupe('ingest'), await troupe('project')];
    const load = loadOn(ingest.url, 'load', 3);
    tell(
      'the topic has three copies of each partition',
      await until(async () => (await copies(brokers)) === 3, 60_000),
    );
    const projectors = [first, await troupe('project')];

    for (let round = 0; round < (short ? 1 : 6); round++) {
      const node = brokers.nodes[round % 3]!;
      await pause(3);
      await node.kill();
      const went = await goesOn(load.acknowledged);
      // The partitions are divided anew while a broker is gone and the load goes on.
      projectors.push(await troupe('project'));
      await pause(short ? 2 : 10);
      await projectors.shift()!.end('SIGKILL');
      const read = await catchesUp(db, load.acknowledged());
      await node.start();
      const whole = await until(async () => (await inSync(brokers)) === 3, 60_000);
      tell(
        `broker ${(round % 3) + 1} is killed under load: the first acknowledgement after ${went.toFixed(1)} s; a projector joins, another is killed, all is read ${read ? '' : 'not '}meanwhile; back, it has every copy again`,
        went < 60 && read && whole,
      );
    }

    await Promise.all([brokers.nodes[0]!.kill(), brokers.nodes[1]!.kill()]);
    await pause(1);
    const answers = await Promise.all([0, 1, 2].map((i) => post(ingest.url, episodeOf(`alone-${i}`), 20_000)));
    tell(
      `with one of three left nothing is acknowledged (${answers.map(({ status }) => status).join(', ')})`,
      answers.every(({ status }) => status === 503),
    );
    await Promise.all([brokers.nodes[0]!.start(), brokers.nodes[1]!.start()]);
    const went = await goesOn(load.acknowledged);
    tell(`with all of them back it goes on by itself after ${went.toFixed(1)} s`, went < 60);

    await pause(2);
    const acknowledged = await load.stop();
    const all = await catchesUp(db, acknowledged);
    const there = await counts(db);
    tell(
      `${acknowledged} episodes acknowledged: each is in the tables once with its steps (${there.episodes}, ${there.steps} steps, ${there.events} events)`,
      all &&
        there.episodes === acknowledged &&
        there.steps === 2 * acknowledged &&
        there.events === EVENTS * acknowledged,
    );
    const { ok: sound, topics } = await reconcile(db);
    const sum = (name: 'duplicates' | 'dead') => topics.reduce((total, one) => total + one[name], 0);
    tell(
      `everything adds up: ${sum('duplicates')} duplicates, which were sent twice, ${sum('dead')} dead letters`,
      sound && sum('dead') === 0,
    );
    const dead = started.filter((one) => /log_replaced|log_truncated/.test(one.output()));
    tell('nobody took a new leader for another topic', dead.length === 0);
    return { ok: passed(), lines };
  } finally {
    await Promise.all(started.map((one) => one.end('SIGKILL')));
    await db.close().catch(() => {});
    await Promise.all([brokers.stop(), postgres.stop()]);
  }
}

/** Seconds until something more is acknowledged. */
async function goesOn(acknowledged: () => number): Promise<number> {
  const [before, began] = [acknowledged(), performance.now()];
  await until(async () => acknowledged() > before + 3, 90_000);
  return (performance.now() - began) / 1000;
}

const catchesUp = (db: Db, episodes: number): Promise<boolean> =>
  until(async () => (await counts(db)).episodes >= episodes, 90_000);

/** Of the load alone: what was refused with one broker left may be there or not. */
async function counts(db: Db) {
  const { rows } = await db.query<{ episodes: number; steps: number; events: number }>(
    `select (select count(*) from traj.episodes where closed and episode_id like 'load-%')::integer as episodes,
            (select count(*) from traj.steps where episode_id like 'load-%')::integer as steps,
            (select count(*) from troupe.events where key like 'e/load-%')::integer as events`,
  );
  return rows[0]!;
}

const topicOf = ({ address }: Cluster) =>
  asAdmin(address, async (admin) => (await admin.fetchTopicMetadata({ topics: [TOPIC] })).topics[0]!.partitions);
const copies = async (brokers: Cluster): Promise<number> =>
  Math.min(...(await topicOf(brokers)).map(({ replicas }) => replicas.length));
const inSync = async (brokers: Cluster): Promise<number> =>
  Math.min(...(await topicOf(brokers)).map(({ isr }) => isr.length));
