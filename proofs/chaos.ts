/**
 * Proof that a whole system recovers by itself from whatever happens to it: `troupe up` on a Kafka broker, under load. Roles, PostgreSQL,
 * its keeper and the broker are killed and stopped, connections are cut and slowed, the disk of the home is filled, the clock of all
 * processes of Troupe is moved, one or two at once.
 * After the last fault everything is up within a minute, and every acknowledged event is there once. `TROUPE_SEED` replays the choices.
 */
import { randomInt } from 'node:crypto';
import { existsSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { openDatabase } from '../store/db/database.ts';
import { openPool } from '../store/db/pool.ts';
import { freePort } from '../test/support/free-port.ts';
import { randomStream } from '../trainer/tensor/random.ts';
import { type Draw, drawing } from './draw.ts';
import { openLine } from './faulty-line.ts';
import { openHistory } from './history.ts';
import { findKafkaJars, startKafka } from './kafka.ts';
import { type Check, judged, startLoad } from './kept.ts';
import { NO_DISK, type OwnDisk, ownDisk } from './own-disk.ts';
import type { Outcome, Proof, Setting } from './proof.ts';
import { keepers, ROLES, rolePids, server, signal, stackTraces, startUp, type Up, until } from './up.ts';

const SECONDS = { short: 120, full: 1800 };
/** How long everything may take to be up again after the last fault. */
const MOST_RECOVERY_S = 60;
/** Of the disk of the home, where one of its own can be made. */
const DISK_MIB = 1024;
const TOPIC = 'chaos';
const LOAD_REST_MS = 10;
/** How far the clock is moved, ahead and back: leases, sessions and the hours of schedules are shorter. */
const HOUR_MS = 3_600_000;

type Fault = { readonly name: string; readonly strike: () => unknown; readonly heal: () => unknown };

export const proof: Proof = {
  name: 'chaos',
  needs: ['kafka'],
  async run({ scratch, say, short }: Setting): Promise<Outcome> {
    const found = findKafkaJars(process.env);
    if ('missing' in found) return { ok: true, lines: [], skipped: [found.missing] };
    const seed = process.env.TROUPE_SEED === undefined ? randomInt(2 ** 31) : Number(process.env.TROUPE_SEED);
    say(`   replay: TROUPE_SEED=${seed} npm run proofs -- chaos${short ? '' : ' --full'}`);
    const home = join(scratch, 'home');
    const disk = ownDisk(home, DISK_MIB);
    const port = await freePort();
    const line = await openLine(port);
    const broker = await startKafka(found, join(scratch, 'broker'), { port, advertised: line.port });
    const env = { KAFKA_BROKERS: `127.0.0.1:${line.port}`, KAFKA_TOPIC: TOPIC, KAFKA_PARTITIONS: '4' };
    const clock = join(scratch, 'clock');
    const up = startUp(home, { ...env, ...underClock(clock) });
    const lines: string[] = [];
    try {
      const url = await embeddedUrl(home, up);
      const faults = faultsOf({ home, broker: broker.node!, line, url, disk, clock });
      const filled: Check = ['the disk that is filled is the one of PostgreSQL too', await isOnDisk(url, home)];
      const checks = await suffer({
        up,
        home,
        faults,
        short,
        seed,
        scratch,
        say,
        kafka: { address: broker.address, topic: TOPIC },
      });
      for (const [what, fine] of disk === null ? checks : [filled, ...checks]) {
        lines.push(`${fine ? 'ok' : 'NOT OK'}  ${what}`);
        say(lines.at(-1)!);
      }
    } catch (error) {
      for (const line of lastWords(home, up)) say(`   ${line}`);
      throw error;
    } finally {
      if (up.lives()) await up.end();
      await broker.stop();
      await line.close();
      for (const pid of [...keepers(home), ...server(home)]) signal(pid, 'SIGKILL');
      disk?.remove();
    }
    const skipped = disk === null ? [NO_DISK] : [];
    return { ok: lines.every((one) => one.startsWith('ok')), lines, skipped };
  },
};

/** The last output of `up` and its roles: the home is gone once the proof has ended. */
const lastWords = (home: string, up: Up): string[] => [
  ...up.output().split('\n').slice(-10),
  ...ROLES.flatMap((role) => {
    const file = join(home, 'run', `${role}.log`);
    return existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n').slice(-10) : [];
  }),
];

/** The address of the embedded server, which stays the same; whoever asks for it here does not keep the server alive. */
async function embeddedUrl(home: string, up: Up): Promise<string> {
  await up.url();
  const { url, close } = await openDatabase({ home });
  await close();
  return url;
}

type Parts = {
  readonly home: string;
  readonly broker: NonNullable<Awaited<ReturnType<typeof startKafka>>['node']>;
  readonly line: Awaited<ReturnType<typeof openLine>>;
  readonly url: string;
  readonly disk: OwnDisk | null;
  /** The file that moves the clock of the processes of Troupe. */
  readonly clock: string;
};

/** Settings of processes whose clock that file moves. */
const underClock = (file: string): Readonly<Record<string, string>> => ({
  PROOF_CLOCK: file,
  NODE_OPTIONS: `${process.env.NODE_OPTIONS ?? ''} --import ${pathToFileURL(join(import.meta.dirname, 'moving-clock.mjs'))}`,
});

/** Whole at once: it is read all the time. */
function setClock(file: string, aheadMs: number): void {
  writeFileSync(`${file}.new`, String(aheadMs));
  renameSync(`${file}.new`, file);
}

function faultsOf({ home, broker, line, url, disk, clock }: Parts): readonly Fault[] {
  const nothing = () => {};
  const each = (pids: () => readonly number[], how: NodeJS.Signals) => () => {
    for (const pid of pids()) signal(pid, how);
  };
  const processes = (name: string, pids: () => readonly number[]): Fault[] => {
    let stopped: readonly number[] = [];
    return [
      { name: `${name} killed`, strike: each(pids, 'SIGKILL'), heal: nothing },
      {
        name: `${name} stopped`,
        strike: () => {
          stopped = pids();
          each(() => stopped, 'SIGSTOP')();
        },
        heal: () => each(() => stopped, 'SIGCONT')(),
      },
    ];
  };
  return [
    ...ROLES.flatMap((role) => processes(role, () => rolePids(home, role))),
    ...processes('PostgreSQL and its keeper', () => [...server(home), ...keepers(home)]),
    { name: 'connections to PostgreSQL ended', strike: () => endBackends(url), heal: nothing },
    { name: 'the broker killed', strike: broker.kill, heal: broker.start },
    { name: 'the broker stopped', strike: broker.pause, heal: broker.resume },
    { name: 'connections to the broker cut', strike: line.cut, heal: line.mend },
    { name: 'connections to the broker slowed', strike: () => line.slow(300), heal: line.mend },
    { name: 'the clock an hour ahead', strike: () => setClock(clock, HOUR_MS), heal: () => setClock(clock, 0) },
    { name: 'the clock an hour back', strike: () => setClock(clock, -HOUR_MS), heal: () => setClock(clock, 0) },
    ...(disk === null ? [] : [{ name: 'the disk filled', strike: disk.fill, heal: disk.free }]),
  ];
}

/** Whether the data folder of this PostgreSQL lies on the disk of that folder. */
async function isOnDisk(url: string, folder: string): Promise<boolean> {
  const db = openPool(url, { max: 1 });
  const { rows } = await db
    .query<{ at: string }>(`select current_setting('data_directory') as at`)
    .finally(() => db.close());
  return statSync(rows[0]!.at).dev === statSync(folder).dev;
}

async function endBackends(url: string): Promise<void> {
  const db = openPool(url, { max: 1, connectTimeoutMs: 2000 });
  const others =
    'select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and datname is not null';
  await db.query(others).catch(() => {});
  await db.close().catch(() => {});
}

type Suffering = {
  readonly up: Up;
  readonly home: string;
  readonly faults: readonly Fault[];
  readonly short: boolean;
  readonly seed: number;
  readonly scratch: string;
  readonly kafka: { readonly address: string; readonly topic: string };
  readonly say: (line: string) => void;
};

async function suffer({ up, home, faults, short, seed, scratch, kafka, say }: Suffering): Promise<Check[]> {
  const draw = drawing(seed);
  const url = await up.url();
  const history = openHistory(join(scratch, 'history.jsonl'));
  const load = startLoad(url, history, randomStream(seed + 1).uniform, { restMs: LOAD_REST_MS });
  let seconds: number;
  const slowest = { name: '', seconds: 0 };
  let kills = 0;
  try {
    await sleep(1500);
    const end = performance.now() + 1000 * (short ? SECONDS.short : SECONDS.full);
    // Each fault once before any of them a second time.
    let waiting: Fault[] = [];
    while (performance.now() < end) {
      if (waiting.length < 2) waiting = [...waiting, ...shuffled(faults, draw)];
      const struck = waiting.splice(0, draw.chance(0.4) ? 2 : 1);
      const name = struck.map((fault) => fault.name).join(' and ');
      for (const fault of struck) history.kill(fault.name);
      kills += struck.length;
      for (const fault of struck) await fault.strike();
      await sleep(draw.integer(200, 4000));
      // At once: the broker is up only when its clients reach it.
      await Promise.all(struck.map((fault) => fault.heal()));
      const began = performance.now();
      const answered = load.acknowledged();
      // A system that is down all the time would prove little: somebody is answered before the next fault.
      await until(async () => load.acknowledged() > answered, `after ${name}: no event is taken`);
      const pause = (performance.now() - began) / 1000;
      if (pause > slowest.seconds) Object.assign(slowest, { name, seconds: pause });
      say(`   ${name}: events are taken again after ${pause.toFixed(1)} s`);
      await sleep(draw.integer(100, 1500));
    }
    const began = performance.now();
    await until(async () => await isWhole(url, home), 'not every role runs, or events wait for the tables');
    seconds = (performance.now() - began) / 1000;
  } finally {
    await load.stop();
  }
  const { db, close } = await openDatabase({ home });
  const kept = await judged({ db, history, kafka, kills }).finally(close);
  const traces = stackTraces(join(home, 'run'));
  return [
    [
      `after the last of ${kills} faults everything is up within ${seconds.toFixed(1)} s (at most ${MOST_RECOVERY_S})`,
      seconds <= MOST_RECOVERY_S,
    ],
    [`the longest pause was ${slowest.seconds.toFixed(1)} s, after ${slowest.name}`, up.lives()],
    ...kept,
    [`the logs of the roles have no stack trace${traces.length === 0 ? '' : `: ${traces[0]}`}`, traces.length === 0],
    ['`up` ends with 0 after SIGTERM', (await up.end()) === 0],
  ];
}

const shuffled = (faults: readonly Fault[], draw: Draw): Fault[] =>
  faults
    .map((fault) => ({ fault, at: draw.uniform() }))
    .sort((a, b) => a.at - b.at)
    .map(({ fault }) => fault);

/** Ready, each role there once, and of what was taken before this look nothing waits for the tables for long. */
async function isWhole(url: string, home: string): Promise<boolean> {
  const answer = await fetch(`${url}/readyz`, { signal: AbortSignal.timeout(10_000) }).catch(() => null);
  if (answer?.status !== 200) return false;
  const { lag_events } = (await answer.json()) as { readonly lag_events: number | null };
  // The load goes on meanwhile: a batch may be on its way.
  return lag_events !== null && lag_events < 200 && ROLES.every((role) => rolePids(home, role).length === 1);
}
