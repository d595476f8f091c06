/**
 * Proof that Kafka is a log like the embedded one: on a broker that is paused, killed and tampered with, beside a database that is, with
 * processes as people start them. Nothing is answered before the broker has it, and nothing is skipped without a word.
 */
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { type Db, openPool } from '../store/db/pool.ts';
import { judgeAgain } from '../store/evaluate/judging/judge.ts';
import { reconcile } from '../store/log/reconcile.ts';
import { checksum } from '../store/projecting/rebuilding/checksum.ts';
import { rebuild } from '../store/projecting/rebuilding/rebuild.ts';
import { findKafka, NOT_OURS, type Node, startKafka } from './kafka.ts';
import { asAdmin } from './kafka-clients.ts';
import { tampering } from './kafka-tampering.ts';
import type { Check } from './kept.ts';
import { startPostgres } from './postgres.ts';
import type { Outcome, Proof, Setting } from './proof.ts';
import { type Answer, episodeOf, loadOn, post, until } from './sending.ts';
import { runTroupe, type TroupeProcess } from './troupe-process.ts';

export const proof: Proof = { name: 'kafka-log', needs: ['kafka'], run };

/** Names of this run, so that a broker that others use can be proved against. The group of the readers is named after the database. */
const RUN = randomBytes(4).toString('hex');
const [TOPIC, DATABASE] = [`proved-${RUN}`, `proved_${RUN}`];
const ROOT = join(import.meta.dirname, '..');

async function run({ scratch, say, short }: Setting): Promise<Outcome> {
  const found = findKafka(process.env);
  if ('missing' in found) return { ok: true, lines: [], skipped: [found.missing] };
  if (!existsSync(join(import.meta.dirname, 'kafka-client', 'node_modules')))
    return { ok: true, lines: [], skipped: ['no client of another make; say: npm ci --prefix proofs/kafka-client'] };
  const lines: string[] = [];
  let ok = true;
  const tell = (...checks: readonly Check[]): void => {
    for (const [what, fine] of checks) {
      ok &&= fine;
      lines.push(`${fine ? 'ok' : 'NOT OK'}  ${what}`);
      say(lines.at(-1)!);
    }
  };
  const [broker, postgres] = await Promise.all([
    startKafka(found, join(scratch, 'broker')),
    startPostgres(join(scratch, 'postgres'), DATABASE),
  ]);
  const env = {
    DATABASE_URL: postgres.url(DATABASE),
    KAFKA_BROKERS: broker.address,
    KAFKA_TOPIC: TOPIC,
    KAFKA_PARTITIONS: '4',
  };
  const started: TroupeProcess[] = [];
  const troupe = async (role: string): Promise<TroupeProcess> => {
    started.push(await runTroupe(role, { home: join(scratch, 'home'), env }));
    return started.at(-1)!;
  };
  const db = openPool(postgres.url(DATABASE));
  try {
    tell(contract(broker.address));
    const ingest = await troupe('ingest');
    const [serve, projector] = await Promise.all([troupe('serve'), troupe('project')]);
    tell(...(await written(db, ingest)));
    if (broker.node !== null) {
      tell(...(await paused(db, ingest, broker.node)));
      tell(...(await brokerAway(db, ingest, serve, broker.node)));
    }
    tell(...(await databaseAway(db, ingest, postgres)));
    tell(...(await outsider(db, broker.address)));
    tell(...(await tampering.poison(db, broker.address, TOPIC, projector)));
    tell(...(await twoProjectors(db, ingest, projector, await troupe('project'), short)));
    tell(await backlog(db, ingest, projector, short));
    for (const one of started) await one.end('SIGTERM');
    tell(
      ...(await tampering.lostGroup(db, broker.address, { topic: TOPIC, group: `troupe-${DATABASE}` }, () =>
        troupe('project'),
      )),
    );
    tell(...(await endState(db, broker.address)));
    for (const one of started) await one.end('SIGTERM');
    tell(...(await tampering.stops(db, broker, RUN)));
    tell(...(await tampering.repartitioned(broker.address, TOPIC, () => troupe('project'))));
    return { ok, lines, skipped: broker.node === null ? [NOT_OURS] : [] };
  } finally {
    broker.node?.resume();
    await Promise.all(started.map((one) => one.end('SIGKILL')));
    await db.close().catch(() => {});
    await asAdmin(broker.address, (admin) => admin.deleteTopics({ topics: [TOPIC] })).catch(() => {});
    await Promise.all([broker.stop(), postgres.stop()]);
  }
}

/** The suite of every log, run against this broker by the tests' own runner. */
function contract(address: string): Check {
  const suite = ['--config', 'vitest.proofs.config.ts', 'test/ingest/log-contract.kafka.ts'];
  const { status, stdout } = spawnSync(process.execPath, ['node_modules/vitest/vitest.mjs', 'run', ...suite], {
    cwd: ROOT,
    env: { ...process.env, TROUPE_PROOF_BROKERS: address, NO_COLOR: '1' },
    encoding: 'utf8',
  });
  const passed = /Tests\s+(\d+) passed \(\d+\)/.exec(stdout)?.[1];
  return [
    `the contract of every log holds on Kafka (${passed ?? 'no'} tests)${status === 0 ? '' : `: ${stdout.slice(-1500)}`}`,
    status === 0 && Number(passed) >= 8,
  ];
}

async function written(db: Db, { url }: TroupeProcess): Promise<Check[]> {
  const [first, again] = [await post(url, episodeOf('first')), await post(url, episodeOf('first'))];
  const read = await until(async () => (await stepsOf(db, 'first')) === 2);
  const [small] = episodeOf('large') as [ReturnType<typeof episodeOf>[number]];
  const wide = { ...small, id: 'wide', data: { episode_id: 'large', tags: { x: 'y'.repeat(1_100_000) } } };
  const large = [small, wide];
  const { status, body } = await post(url, large);
  const item = body?.items?.[0];
  return [
    [
      `what was posted stands in traj.steps, once, also when it was posted twice`,
      first.status === 200 && again.status === 200 && read,
    ],
    [
      `a record over the broker's limit is refused as ${item?.code} (${item?.expected}), the one beside it is kept`,
      status === 207 && item?.code === 'too_large' && /\d{7}/.test(item?.expected ?? '') && body?.accepted === 1,
    ],
  ];
}

/** P6: a broker that takes connections and never answers. */
async function paused(db: Db, { url }: TroupeProcess, broker: Node): Promise<Check[]> {
  broker.pause();
  const sent: Promise<Answer>[] = [];
  for (let i = 0; i < 8; i++) {
    sent.push(post(url, episodeOf(`paused-${i}`), 30_000));
    await new Promise((resolve) => setTimeout(resolve, 700));
  }
  const answers = await Promise.all(sent);
  broker.resume();
  const slowest = Math.max(...answers.map(({ ms }) => ms));
  const back = await until(async () => (await post(url, episodeOf('paused-0'))).status === 200, 20_000);
  for (let i = 1; i < 8; i++) await post(url, episodeOf(`paused-${i}`));
  const all = await until(async () => (await episodesLike(db, 'paused-%')) === 8);
  const statuses = [...new Set(answers.map(({ status }) => status))];
  return [
    [
      `P6: with the broker stopped ${answers.length} requests got ${statuses.join(', ')} and no 2xx, the slowest after ${(slowest / 1000).toFixed(1)} s`,
      statuses.every((status) => status === 503) && slowest < 11_000,
    ],
    ['P3, P6: when it goes on, the same requests are taken, and each event is there once', back && all],
  ];
}

/** P56, second half. */
async function brokerAway(db: Db, { url }: TroupeProcess, serve: TroupeProcess, broker: Node): Promise<Check[]> {
  await broker.kill();
  const answers: Answer[] = [];
  for (let i = 0; i < 6; i++) answers.push(await post(url, episodeOf('away')));
  const reads = await fetch(`${serve.url}/v1/episodes`);
  const ready = await fetch(`${url}/readyz`);
  const slowest = Math.max(...answers.map(({ ms }) => ms));
  await broker.start();
  const began = performance.now();
  const back = await until(async () => (await post(url, episodeOf('away'))).status === 200, 30_000);
  const seconds = (performance.now() - began) / 1000;
  const there = await until(async () => (await episodesLike(db, 'away')) === 1, 30_000);
  return [
    [
      `P56: with the broker killed requests got ${[...new Set(answers.map(({ status }) => status))].join(', ')} with Retry-After, the slowest after ${Math.round(slowest)} ms`,
      answers.every(({ status, retryAfter }) => status === 503 && retryAfter !== null) && slowest < 1000,
    ],
    [
      `P56: reads go on (${reads.status}), and the process says it is not ready (${ready.status})`,
      reads.status === 200 && ready.status === 503,
    ],
    [
      `the same process takes events ${seconds.toFixed(1)} s after the broker answers again, and they are read`,
      back && there,
    ],
  ];
}

/** P56, first half. */
async function databaseAway(
  db: Db,
  { url }: TroupeProcess,
  postgres: { kill(): Promise<void>; start(): Promise<void> },
): Promise<Check[]> {
  const before = await receivedAt(db);
  await postgres.kill();
  const good: Answer[] = [];
  for (let i = 0; i < 5; i++) good.push(await post(url, episodeOf(`without-${i}`)));
  const odd = await post(url, [{ ...episodeOf('odd')[0]!, data: 7 }, episodeOf('odd')[1]!]);
  const ready = await fetch(`${url}/readyz`);
  const state = (await ready.json()) as { status: string; database: string };
  await postgres.start();
  const there = await until(async () => (await episodesLike(db, 'without-%')) === 5, 30_000);
  const counted = await until(async () => (await receivedAt(db)) - before === 5 * episodeOf('x').length + 2, 20_000);
  const { rows } = await db.query(`select 1 from troupe.dead_letters where endpoint = 'http' and code = 'bad_type'`);
  return [
    [
      `P56: with PostgreSQL killed ingest keeps accepting (${good.map(({ status }) => status).join(', ')}) and answers ${odd.status} for a bad record; it is ${state.status}, its database ${state.database}`,
      good.every(({ status }) => status === 200) &&
        odd.status === 207 &&
        ready.status === 200 &&
        state.database === 'unreachable',
    ],
    [
      'when it is back, everything is read, and the counts and the refused record of that time are kept',
      there && counted && rows.length === 1,
    ],
  ];
}

/** Anybody may write to the topic: here a client of another make. */
async function outsider(db: Db, address: string): Promise<Check[]> {
  const { status, stderr } = spawnSync(
    process.execPath,
    ['proofs/kafka-client/produce.mjs', address, TOPIC, 'outside'],
    {
      cwd: ROOT,
      encoding: 'utf8',
    },
  );
  const named = await until(async () => {
    const { rows } = await db.query<{ agent: string; role: string }>(
      `select a.agent, a.role from traj.steps s join traj.agents a using (episode_id, agent_id) where s.episode_id = 'outside'`,
    );
    return rows.length === 1 && rows[0]!.agent === 'Outsider' && rows[0]!.role === 'solver';
  });
  return [
    [
      `what @platformatic/kafka wrote, in binary and structured mode, is a row of traj.steps that names its agent${status === 0 ? '' : `: ${stderr.slice(-500)}`}`,
      status === 0 && named,
    ],
  ];
}

/** P11, P12: one of two is stopped past its session, the other takes over; then the first wakes up; then one of them goes. */
async function twoProjectors(
  db: Db,
  { url }: TroupeProcess,
  a: TroupeProcess,
  b: TroupeProcess,
  short: boolean,
): Promise<Check[]> {
  const load = loadOn(url, 'moved', 3);
  await new Promise((resolve) => setTimeout(resolve, short ? 2000 : 10_000));
  a.pause();
  const during = load.acknowledged();
  // Its partitions are another's when what came after it was stopped is in the tables.
  const taken = await until(async () => (await episodesLike(db, 'moved-%')) > during, 40_000);
  await new Promise((resolve) => setTimeout(resolve, 7000));
  a.resume();
  await new Promise((resolve) => setTimeout(resolve, short ? 2000 : 10_000));
  await b.end('SIGTERM');
  const acknowledged = await load.stop();
  const all = await until(async () => (await episodesLike(db, 'moved-%')) === acknowledged, 90_000);
  const { ok, topics } = await reconcile(db);
  const duplicates = topics.reduce((sum, one) => sum + one.duplicates, 0);
  return [
    [
      `P11, P12: under load a projector was stopped past its session and woken, another came and went: ${acknowledged} episodes acknowledged, in the tables ${taken ? 'while it was stopped' : 'not while it was stopped'}, and in the end ${all ? 'all' : 'not all'} read, each ${ok ? 'once' : 'not once'} (${duplicates} duplicates, which were sent twice)`,
      taken && all && ok && acknowledged > 20,
    ],
  ];
}

/** P57: nobody reads for a while, at full load; then somebody does, while the load goes on. */
async function backlog(db: Db, { url }: TroupeProcess, projector: TroupeProcess, short: boolean): Promise<Check> {
  const seconds = short ? 30 : 600;
  await projector.end('SIGTERM');
  const load = loadOn(url, 'late', 3);
  await new Promise((resolve) => setTimeout(resolve, seconds * 1000));
  const waiting = load.acknowledged();
  const began = performance.now();
  await projector.start();
  const read = await until(async () => (await episodesLike(db, 'late-%')) >= waiting, 1000 * (60 + seconds));
  const took = (performance.now() - began) / 1000;
  const all = await load.stop();
  const end = await until(async () => (await episodesLike(db, 'late-%')) === all, 60_000);
  const each = episodeOf('x').length;
  return [
    `P57: ${each * waiting} events that came in ${seconds} s without a projector were in the tables ${took.toFixed(1)} s after it was started, while ${each * (all - waiting)} more came`,
    read && end && took < 10 + 2 * seconds,
  ];
}

async function endState(db: Db, address: string): Promise<Check[]> {
  const before = await checksum(db);
  const { events } = await rebuild(db, { judge: judgeAgain });
  const after = await checksum(db);
  const offsets = await tampering.partitionsOf(address, TOPIC);
  const { ok, topics, dead_letters } = await reconcile(db, { name: `kafka:${TOPIC}`, partitions: offsets });
  const sum = (name: 'accepted' | 'duplicates' | 'dead' | 'gaps' | 'position') =>
    topics.reduce((all, one) => all + one[name], 0);
  return [
    [
      `P8, P10: ${sum('position')} offsets read = ${sum('accepted')} accepted + ${sum('duplicates')} duplicates + ${sum('dead')} dead + ${sum('gaps')} without an event; ${dead_letters} dead letters kept`,
      ok && sum('gaps') > 0 && topics.every(({ lag }) => lag === 0),
    ],
    [
      `P15: the tables made again from ${events} events have the same checksums`,
      JSON.stringify(before) === JSON.stringify(after),
    ],
  ];
}

const stepsOf = (db: Db, episode: string): Promise<number> =>
  counted(db, 'select count(*)::integer as n from traj.steps where episode_id = $1', episode);
const episodesLike = (db: Db, pattern: string): Promise<number> =>
  counted(db, 'select count(*)::integer as n from traj.episodes where closed and episode_id like $1', pattern);
const receivedAt = async (db: Db): Promise<number> =>
  counted(
    db,
    `select coalesce(sum(received), 0)::integer as n from troupe.ingest_counters where endpoint = $1`,
    'http',
  );

async function counted(db: Db, sql: string, value: string): Promise<number> {
  const { rows } = await db.query<{ n: number }>(sql, [value]);
  return rows[0]!.n;
}
