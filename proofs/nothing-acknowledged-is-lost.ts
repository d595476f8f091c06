/**
 * Proof of P1–P3: under load, every process in turn is ended by kill -9 at random moments: the broker, the API, the projector and
 * PostgreSQL. In the end every event that a client holds a 2xx for is there once, every other that it sent once or not at all.
 * Run on the embedded log and on Kafka. `TROUPE_SEED` replays a run's choices.
 */
import { randomBytes, randomInt } from 'node:crypto';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { openPool } from '../store/db/pool.ts';
import { randomStream } from '../trainer/tensor/random.ts';
import { openHistory } from './history.ts';
import { type FoundKafka, findKafka, NOT_OURS, startKafka } from './kafka.ts';
import { asAdmin } from './kafka-clients.ts';
import { type Check, judged, startLoad } from './kept.ts';
import { startPostgres } from './postgres.ts';
import type { Outcome, Proof, Setting } from './proof.ts';
import { until } from './sending.ts';
import { runTroupe } from './troupe-process.ts';

type Victim = { readonly name: string; readonly kill: () => Promise<unknown>; readonly start: () => Promise<void> };

const SHORT = { embedded: 5, kafka: 10 };
const FULL = { embedded: 200, kafka: 200 };
/** Of this run: a broker that others use can be proved against. */
const TOPIC = `kept-${randomBytes(4).toString('hex')}`;
const DATABASE = TOPIC.replace('-', '_');

export const proof: Proof = {
  name: 'nothing-acknowledged-is-lost',
  needs: ['kafka'],
  async run({ scratch, say, short }: Setting): Promise<Outcome> {
    const found = findKafka(process.env);
    if ('missing' in found) return { ok: true, lines: [], skipped: [found.missing] };
    const seed = process.env.TROUPE_SEED === undefined ? randomInt(2 ** 31) : Number(process.env.TROUPE_SEED);
    say(`   replay: TROUPE_SEED=${seed} npm run proofs -- nothing-acknowledged-is-lost${short ? '' : ' --full'}`);
    const lines: string[] = [];
    let ok = true;
    for (const log of ['embedded', 'kafka'] as const) {
      const folder = join(scratch, log);
      mkdirSync(folder);
      for (const [what, fine] of await prove({
        log,
        folder,
        kills: (short ? SHORT : FULL)[log],
        seed,
        found,
        say,
      })) {
        ok &&= fine;
        lines.push(`${fine ? 'ok' : 'NOT OK'}  ${log}: ${what}`);
        say(lines.at(-1)!);
      }
    }
    return { ok, lines, skipped: 'brokers' in found ? [NOT_OURS] : [] };
  },
};

type Asked = {
  readonly log: 'embedded' | 'kafka';
  readonly folder: string;
  readonly kills: number;
  readonly seed: number;
  readonly found: FoundKafka;
  readonly say: (line: string) => void;
};

async function prove({ log, folder, kills, seed, found, say }: Asked): Promise<Check[]> {
  const postgres = await startPostgres(join(folder, 'postgres'), DATABASE);
  const broker = log === 'kafka' ? await startKafka(found, join(folder, 'broker')) : null;
  const env = {
    DATABASE_URL: postgres.url(DATABASE),
    KAFKA_BROKERS: broker?.address ?? '',
    KAFKA_TOPIC: TOPIC,
    KAFKA_PARTITIONS: '4',
  };
  const settings = { home: join(folder, 'home'), env };
  const ingest = await runTroupe('ingest', settings);
  const project = await runTroupe('project', settings);
  const db = openPool(postgres.url(DATABASE));
  const history = openHistory(join(folder, 'history.jsonl'));
  const victims: Victim[] = [
    { name: 'api', kill: () => ingest.end('SIGKILL'), start: ingest.start },
    { name: 'projector', kill: () => project.end('SIGKILL'), start: project.start },
    { name: 'postgres', kill: postgres.kill, start: postgres.start },
    ...(broker?.node ? [{ name: 'broker', ...broker.node }] : []),
  ];
  const random = randomStream(seed).uniform;
  try {
    const load = startLoad(ingest.url, history, randomStream(seed + 1).uniform);
    // First without a fault: what cannot pass that proves nothing.
    await sleep(1500);
    for (let n = 0; n < kills; n++) {
      const victim = victims[n < victims.length ? n : Math.floor(random() * victims.length)]!;
      await sleep(100 + 900 * random());
      history.kill(victim.name);
      await victim.kill();
      await sleep(500 * random());
      await victim.start();
      // A system that is down all the time would prove little: somebody must have been answered before the next kill.
      const answered = load.acknowledged();
      await until(async () => load.acknowledged() > answered, 30_000);
      if ((n + 1) % 20 === 0) say(`   ${log}: ${n + 1} kills, ${load.acknowledged()} requests acknowledged`);
    }
    await sleep(500);
    await load.stop();
    return await judged({ db, history, kafka: broker && { address: broker.address, topic: TOPIC }, kills });
  } finally {
    await Promise.all([ingest.end('SIGKILL'), project.end('SIGKILL')]);
    await db.close().catch(() => {});
    if (broker?.node === null) await asAdmin(broker.address, (admin) => admin.deleteTopics({ topics: [TOPIC] }));
    await Promise.all([broker?.stop(), postgres.stop()]);
  }
}
