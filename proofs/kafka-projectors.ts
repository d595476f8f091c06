/**
 * Proof that projectors share a topic: one, two and four of them bring in the same full backlog. Each costs what its events cost, none waits
 * for a lock of another, one that is killed on the way is taken over, and the tables are the same.
 */
import { randomBytes } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { decodeEnvelope } from '../ingest/events/decode.ts';
import type { Event } from '../ingest/events/events.ts';
import { openKafka } from '../ingest/log/kafka.ts';
import { kafkaLog } from '../ingest/log/kafka-log.ts';
import { type Db, openPool } from '../store/db/pool.ts';
import { reconcile } from '../store/log/reconcile.ts';
import { checksum } from '../store/projecting/rebuilding/checksum.ts';
import { findKafka, startKafka } from './kafka.ts';
import { accessOf, asAdmin } from './kafka-clients.ts';
import { startPostgres } from './postgres.ts';
import { checklist, type Outcome, type Proof, type Setting } from './proof.ts';
import { episodeOf, until } from './sending.ts';
import { runTroupe } from './troupe-process.ts';

export const proof: Proof = { name: 'kafka-projectors', needs: ['kafka'], run };

const TOPIC = `shared-${randomBytes(4).toString('hex')}`;
const PARTITIONS = 16;
/** Of a second, as Linux counts processor time. */
const TICK = 1 / 100;
/** What several may cost more than one. */
const MORE = 1.15;

async function run({ scratch, say, short }: Setting): Promise<Outcome> {
  const found = findKafka(process.env);
  if ('missing' in found) return { ok: true, lines: [], skipped: [found.missing] };
  const { lines, check: tell, passed } = checklist(say);
  const broker = await startKafka(found, join(scratch, 'broker'));
  try {
    const events = await fill(broker.address, short ? 800 : 19_200);
    const rounds = short ? 1 : 5;
    const costs = new Map<number, number[]>();
    const waits: string[] = [];
    let sums = '';
    for (let round = 0; round < rounds; round++) {
      for (const projectors of [1, 2, 4]) {
        const scenario = { scratch: join(scratch, `${round}-${projectors}`), projectors, events, kill: false };
        const one = await bringIn(broker.address, scenario);
        const cost = one.own + one.server;
        costs.set(projectors, [...(costs.get(projectors) ?? []), cost]);
        waits.push(...one.waits);
        sums ||= one.sums;
        say(`${projectors} projectors: ${(events / one.seconds).toFixed(0)} events/s, ${micros(cost)} µs each`);
        if (one.sums !== sums || !one.sound) tell(`${projectors} projectors give the tables of one`, false);
      }
    }
    tell(
      `${events} events by 1, 2 and 4 projectors, ${rounds} times: the same tables, nothing lost or doubled`,
      passed(),
    );
    tell(`no projector waited for a lock of another (seen: ${waits.join(', ') || 'none'})`, waits.length === 0);
    const alone = median(costs.get(1)!);
    const perEvent = [1, 2, 4].map((n) => `${n}: ${micros(median(costs.get(n)!))}`).join(', ');
    // One run beside others says little about time: the thorough form holds it.
    const fine = [2, 4].every((n) => median(costs.get(n)!) <= MORE * alone);
    tell(`processor time of an event in µs, projectors and PostgreSQL together, ${perEvent}`, short || fine);
    const killed = await bringIn(broker.address, {
      scratch: join(scratch, 'killed'),
      projectors: 2,
      events,
      kill: true,
    });
    tell(
      'one of two is killed on the way: the other takes its partitions over, and the tables are the same',
      killed.sums === sums && killed.sound,
    );
    return { ok: passed(), lines };
  } finally {
    await asAdmin(broker.address, (admin) => admin.deleteTopics({ topics: [TOPIC] })).catch(() => {});
    await broker.stop();
  }
}

/** Puts so many episodes into the topic. Returns how many events they are. */
export async function fill(address: string, episodes: number): Promise<number> {
  const client = openKafka({ brokers: address, topic: TOPIC, ...accessOf(process.env) });
  const log = kafkaLog(client, { partitions: PARTITIONS, deadlineMs: 60_000 });
  const all: Event[] = [];
  for (let i = 0; i < episodes; i++)
    for (const envelope of episodeOf(`shared-${i}`)) all.push(decodeEnvelope(envelope as never).event!);
  // A topic that was just made may not be known to its broker yet; what is sent twice is read once.
  for (let from = 0; from < all.length; from += 500) {
    const sent = await until(() => log.append(all.slice(from, from + 500)).then(() => true), 60_000);
    if (!sent) throw new Error(`The topic ${TOPIC} took only ${from} of ${all.length} events.`);
  }
  await log.close();
  return all.length;
}

type Scenario = {
  readonly scratch: string;
  readonly projectors: number;
  readonly events: number;
  /** Whether one is killed when a third is there. */
  readonly kill: boolean;
};
type Brought = {
  readonly seconds: number;
  /** Events a second from when the last projector was ready. */
  readonly rate: number;
  /** Processors that other programs kept busy meanwhile. */
  readonly others: number;
  /** Seconds of processor time that an event costs the projectors once a third is there: until then their code is being compiled. */
  readonly own: number;
  /** The same of the server. */
  readonly server: number;
  /** The lock that somebody waited for, of each sample that saw one. */
  readonly waits: readonly string[];
  readonly sums: string;
  readonly sound: boolean;
};

/** Brings the whole topic into a new database. */
export async function bringIn(address: string, { scratch, projectors, events, kill }: Scenario): Promise<Brought> {
  const database = `shared_${randomBytes(4).toString('hex')}`;
  const postgres = await startPostgres(scratch, database);
  const env = { DATABASE_URL: postgres.url(database), KAFKA_BROKERS: address, KAFKA_TOPIC: TOPIC };
  const db = openPool(postgres.url(database), { max: 2 });
  const home = join(scratch, 'home');
  // The schema is there before anything is measured.
  await (await runTroupe('serve', { home, env })).end('SIGTERM');
  const server = () => serverSeconds(join(scratch, 'cluster'));
  const began = performance.now();
  // Each from when it is ready: what starting costs is no matter of its events.
  const working = await Promise.all(
    Array.from({ length: projectors }, async () => {
      const one = await runTroupe('project', { home, env });
      return { one, started: secondsOf(one.pid()) };
    }),
  );
  const running = working.map(({ one }) => one);
  const own = () => working.map(({ one, started }) => secondsOf(one.pid()) - started).reduce((a, b) => a + b);
  const now = async () => ({ there: (await look(db)).there, own: own(), server: server() });
  const ready = { at: performance.now(), busy: busySeconds(), ...(await now()) };
  const warm: Awaited<ReturnType<typeof now>>[] = [];
  const waits: string[] = [];
  let killed = !kill;
  try {
    const done = await until(async () => {
      const { there, waiting } = await look(db);
      waits.push(...waiting);
      if (there > events / 3 && warm.length === 0) warm.push(await now());
      if (!killed && there > events / 3) {
        killed = true;
        await running[0]!.end('SIGKILL');
      }
      return there === events;
    }, 600_000);
    const seconds = (performance.now() - began) / 1000;
    const since = (performance.now() - ready.at) / 1000;
    const last = await now();
    const ours = last.own + last.server - ready.own - ready.server;
    const others = Math.max(0, busySeconds() - ready.busy - ours) / since;
    const from = warm.find((mark) => mark.there < last.there) ?? ready;
    const each = (of: 'own' | 'server'): number => (last[of] - from[of]) / (last.there - from.there);
    const allApplied = await until(
      async () => (await db.query('select 1 from troupe.pending_changes')).rows.length === 0,
      60_000,
    );
    const sums = JSON.stringify(await checksum(db));
    const rate = (events - ready.there) / since;
    return {
      seconds,
      rate,
      others,
      own: each('own'),
      server: each('server'),
      waits,
      sums,
      sound: done && killed && allApplied && (await reconcile(db)).ok,
    };
  } finally {
    await Promise.all(running.map((one) => one.end('SIGKILL')));
    await db.close().catch(() => {});
    await postgres.stop();
  }
}

async function look(db: Db): Promise<{ readonly there: number; readonly waiting: readonly string[] }> {
  // A file grows under a lock of its own for as long as that takes, whatever rows are written to it.
  const { rows } = await db.query<{ there: number; waiting: string[] }>(
    `select (select coalesce(sum(applied + dead), 0) from troupe.positions where projection = 'facts')::float8 as there,
            array(select wait_event || ' in ' || left(query, 60) from pg_stat_activity
                  where datname = current_database() and wait_event_type = 'Lock' and wait_event <> 'extend') as waiting`,
  );
  return rows[0]!;
}

/** Of all processors of the machine, since some moment. */
const busySeconds = (): number =>
  cpus().reduce((sum, { times: { user, nice, sys, irq } }) => sum + user + nice + sys + irq, 0) / 1000;

/** Of a process, without its children. */
function secondsOf(pid: number, andEnded = false): number {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ');
    const ticks = fields.slice(11, andEnded ? 15 : 13);
    return ticks.reduce((sum, n) => sum + Number(n), 0) * TICK;
  } catch {
    return 0;
  }
}

/** Of a PostgreSQL server: its first process, those it started, and those that have ended. */
function serverSeconds(cluster: string): number {
  const first = Number.parseInt(readFileSync(join(cluster, 'postmaster.pid'), 'utf8'), 10);
  const children = readdirSync('/proc').filter((name) => /^\d+$/.test(name) && parentOf(name) === first);
  return children.reduce((sum, pid) => sum + secondsOf(Number(pid)), secondsOf(first, true));
}

function parentOf(pid: string): number {
  try {
    return Number(readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ')[1]);
  } catch {
    return 0;
  }
}

const median = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[values.length >> 1]!;
const micros = (seconds: number): string => (seconds * 1e6).toFixed(0);
