/**
 * Proof of P1–P3: under load, every process in turn is ended by kill -9 at random moments: the broker, the API, the projector and
 * PostgreSQL. In the end every event that a client holds a 2xx for is there once, every other that it sent once or not at all.
 * Run on the embedded log and on Kafka. `TROUPE_SEED` replays a run's choices.
 */
import { randomBytes, randomInt } from 'node:crypto';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Db, openPool } from '../store/db/pool.ts';
import { judgeAgain } from '../store/judging/judge.ts';
import { reconcile } from '../store/log/reconcile.ts';
import { checksum } from '../store/rebuilding/checksum.ts';
import { rebuild } from '../store/rebuilding/rebuild.ts';
import { randomStream } from '../trainer/random.ts';
import { check, type Found, type History, openHistory } from './history.ts';
import { type FoundKafka, findKafka, NOT_OURS, startKafka } from './kafka.ts';
import { asAdmin } from './kafka-clients.ts';
import { startPostgres } from './postgres.ts';
import type { Outcome, Proof, Setting } from './proof.ts';

import { episodeOf, post, until } from './sending.ts';
import { runTroupe } from './troupe-process.ts';

type Check = readonly [what: string, fine: boolean];
type Victim = { readonly name: string; readonly kill: () => Promise<unknown>; readonly start: () => Promise<void> };

const SHORT = { embedded: 5, kafka: 10 };
const FULL = { embedded: 200, kafka: 200 };
const LANES = 4;
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
    return await judged({ db, history, log, address: broker?.address ?? null, kills });
  } finally {
    await Promise.all([ingest.end('SIGKILL'), project.end('SIGKILL')]);
    await db.close().catch(() => {});
    if (broker?.node === null) await asAdmin(broker.address, (admin) => admin.deleteTopics({ topics: [TOPIC] }));
    await Promise.all([broker?.stop(), postgres.stop()]);
  }
}

/** Lanes of clients. One that got no acknowledgement sends the same again, or leaves it at that. */
function startLoad(url: string, history: History, random: () => number) {
  let going = true;
  let acknowledged = 0;
  const send = async (key: string, events: ReturnType<typeof episodeOf>): Promise<boolean> => {
    const end = history.invoke(
      key,
      events.map(({ id }) => id),
    );
    const { status } = await post(url, events);
    end(status === 200 ? 'ok' : 'unknown');
    if (status === 200) acknowledged++;
    return status === 200;
  };
  const lane = async (k: number): Promise<void> => {
    for (let n = 0; going; n++) {
      const events = episodeOf(`kept-${k}-${n}`);
      const key = `e/kept-${k}-${n}`;
      const cut = 1 + Math.floor(random() * 4);
      for (const part of [events.slice(0, cut), events.slice(cut)]) {
        const again = random() < 0.7;
        while (!(await send(key, part)) && again && going) await sleep(50 + 100 * random());
      }
    }
  };
  const lanes = Promise.all(Array.from({ length: LANES }, (_, k) => lane(k)));
  return {
    acknowledged: () => acknowledged,
    stop: async (): Promise<void> => {
      going = false;
      await lanes;
    },
  };
}

type Judged = {
  readonly db: Db;
  readonly history: History;
  readonly log: Asked['log'];
  readonly address: string | null;
  readonly kills: number;
};

async function judged({ db, history, log, address, kills }: Judged): Promise<Check[]> {
  const topic = async () => {
    if (address === null) return undefined;
    const offsets = await asAdmin(address, (admin) => admin.fetchTopicOffsets(TOPIC));
    const partitions = offsets.map(({ partition, low, high }) => ({
      partition,
      begin: Number(low),
      end: Number(high),
    }));
    return { name: `kafka:${TOPIC}`, partitions };
  };
  const began = performance.now();
  const drained = await until(async () => {
    const { tables, topics } = await reconcile(db, await topic());
    return tables.lag === 0 && topics.every(({ lag }) => lag === 0);
  }, 120_000);
  const seconds = ((performance.now() - began) / 1000).toFixed(1);
  const { rows } = await db.query<Found>(
    `select id, key, partition, position::float8 as position from troupe.events where source = '/proof'`,
  );
  const verdict = check(history, rows);
  const counts = new Map<string, number>();
  for (const { victim } of history.kills) counts.set(victim, (counts.get(victim) ?? 0) + 1);
  const killed = [...counts].map(([victim, n]) => `${victim} ${n}`).join(', ');
  const { ok, dead_letters } = await reconcile(db, await topic());
  const before = await checksum(db);
  const { events } = await rebuild(db, { judge: judgeAgain });
  const after = await checksum(db);
  const faults = (['lost', 'doubled', 'invented', 'disordered'] as const).flatMap((kind) =>
    verdict[kind].length === 0 ? [] : [`${verdict[kind].length} ${kind}: ${verdict[kind].slice(0, 3).join(' ')}`],
  );
  return [
    [
      `P1, P2: after ${kills} kills (${killed}) all ${verdict.acknowledged} acknowledged events are there once, each key in order${faults.length > 0 ? `; but ${faults.join('; ')}` : ''}`,
      faults.length === 0 && verdict.acknowledged > 200 && history.kills.length === kills,
    ],
    [
      `P3: of ${verdict.unknown} events that nobody acknowledged ${verdict.present} are there, once`,
      verdict.doubled.length === 0,
    ],
    [`at ${Math.round(100 * verdict.inFlight)} % of the kills requests were under way`, verdict.inFlight >= 0.3],
    [
      `P8, P10: read to the end within ${seconds} s, positions without holes, ${dead_letters} dead letters`,
      drained && ok && dead_letters === 0,
    ],
    [
      `P15: tables made again from ${events} events have the same checksums`,
      log !== null && JSON.stringify(before) === JSON.stringify(after),
    ],
  ];
}
