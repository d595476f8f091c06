/**
 * Proof that the table "Lost database, lost topic" of docs/operations.md holds, on a real broker: PostgreSQL is lost and Kafka kept, with a
 * backup and without one; then Kafka is lost and PostgreSQL kept. And that a PostgreSQL of the system's packages is copied while events
 * come in, and made again, by the lines printed there for pg_dump and pgBackRest.
 */
import { execFile } from 'node:child_process';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { openPool } from '../store/db/pool.ts';
import { judgeAgain } from '../store/evaluate/judging/judge.ts';
import { reconcile } from '../store/log/reconcile.ts';
import { checksum } from '../store/projecting/rebuilding/checksum.ts';
import { rebuild } from '../store/projecting/rebuilding/rebuild.ts';
import { randomStream } from '../trainer/tensor/random.ts';
import { check, type Found, type History, openHistory, type Seen } from './history.ts';
import { type Broker, findKafkaJars, startKafka } from './kafka.ts';
import { startLoad } from './kept.ts';
import { startPostgres } from './postgres.ts';
import { checklist, type Outcome, type Proof, type Setting } from './proof.ts';
import { episodeOf, post, until } from './sending.ts';
import { type CommandResult, findSystemPostgres, startSystemPostgres } from './system-postgres.ts';
import { runTroupe, type TroupeProcess } from './troupe-process.ts';

const ROOT = join(import.meta.dirname, '..');
const NAME = 'lost';
const REST_MS = 40;

type Check = readonly [what: string, fine: boolean, output?: string];
type Env = Readonly<Record<string, string>>;

export const proof: Proof = {
  name: 'lost-database',
  needs: ['kafka'],
  async run({ scratch, say, short }: Setting): Promise<Outcome> {
    const kafka = findKafkaJars(process.env);
    if ('missing' in kafka) return { ok: true, lines: [], skipped: [kafka.missing] };
    const { lines, check, passed } = checklist(say);
    const skipped: string[] = [];
    const ms = short ? 1500 : 20_000;
    for await (const one of eitherLost(kafka.jars, scratch, ms)) check(...one);
    const system = findSystemPostgres();
    if ('missing' in system) skipped.push(system.missing);
    else for await (const one of copiedByTools(system.bin, join(scratch, 'system'), ms)) check(...one);
    return { ok: passed(), lines, skipped };
  },
};

async function* eitherLost(jars: string, scratch: string, ms: number): AsyncGenerator<Check> {
  const first = await startPostgres(join(scratch, 'postgres'), NAME);
  let broker: Broker = await startKafka({ jars }, join(scratch, 'broker'));
  const kafka = { KAFKA_BROKERS: broker.address, KAFKA_TOPIC: NAME, KAFKA_PARTITIONS: '3' };
  const env = { ...kafka, DATABASE_URL: first.url(NAME) };
  const running: TroupeProcess[] = [];
  const start = async (role: string, at: Env, home: string): Promise<TroupeProcess> => {
    running.push(await runTroupe(role, { home: join(scratch, home), env: at }));
    return running.at(-1)!;
  };
  let postgres = first;
  try {
    const home = 'home';
    const [ingest, projector] = [await start('ingest', env, home), await start('project', env, home)];
    const history = openHistory(join(scratch, 'history.jsonl'));
    const load = startLoad(ingest.url, history, randomStream(1).uniform, { restMs: REST_MS });
    await sleep(ms);
    const backup = await troupe(['backup', join(scratch, 'backup.tar.gz')], env, join(scratch, home));
    const position = load.acknowledged();
    await sleep(ms);
    await load.stop();
    const whole = await stateOf(env.DATABASE_URL, NAME, history);
    await Promise.all([ingest.end('SIGTERM'), projector.end('SIGTERM')]);

    await postgres.kill();
    rmSync(join(scratch, 'postgres'), { recursive: true });
    postgres = await startPostgres(join(scratch, 'another'), NAME);
    const restored = { ...kafka, DATABASE_URL: postgres.url(NAME) };
    const restore = await troupe(['restore', join(scratch, 'backup.tar.gz')], restored, join(scratch, 'restored'));
    const held = await eventsIn(restored.DATABASE_URL);
    const follower = await start('project', restored, 'restored');
    const back = await stateOf(restored.DATABASE_URL, NAME, history);
    yield [
      `PostgreSQL lost, Kafka kept: the backup holds ${held} of ${whole.events} events, a projector reads on from there, and all ${back.acknowledged} acknowledged events and the tables are as before`,
      backup.ok && restore.ok && position > 0 && held < whole.events && back.whole && back.sums === whole.sums,
      `${backup.output} ${restore.output} ${back.output}`,
    ];
    const empty = { ...kafka, DATABASE_URL: postgres.url('anew') };
    const reader = await start('project', empty, 'anew');
    const anew = await stateOf(empty.DATABASE_URL, NAME, history);
    yield [
      'with no backup an empty database reads the topic from its beginning: the same events, the same tables',
      anew.whole && anew.sums === whole.sums,
      anew.output,
    ];
    await reader.end('SIGTERM');

    // Nobody reads, so what is acknowledged now goes with the topic.
    await follower.end('SIGTERM');
    const taker = await start('ingest', restored, 'restored');
    const unread = startLoad(taker.url, history, randomStream(2).uniform, { name: 'unread', restMs: REST_MS });
    await sleep(ms);
    await unread.stop();
    await broker.stop();
    broker = await startKafka({ jars }, join(scratch, 'empty'), { port: Number(broker.address.split(':')[1]) });
    const refused = await until(async () => {
      const { log } = (await (await fetch(`${taker.url}/readyz`)).json()) as { log: string };
      return log === 'replaced';
    }, 30_000);
    const adopted = await troupe(['log', 'adopt', '--yes', '--json'], restored, join(scratch, 'restored'));
    await start('project', restored, 'restored');
    const kept = await eventsIn(restored.DATABASE_URL);
    yield [
      `Kafka lost, PostgreSQL kept: what was read stays (${kept} events), the empty topic is refused until \`troupe log adopt\``,
      kept === whole.events && refused && adopted.ok && /"log":"kafka:lost#1"/.test(adopted.output),
      adopted.output,
    ];
    const again = await sentAgain(taker.url, history);
    const end = await stateOf(restored.DATABASE_URL, `${NAME}#1`, history);
    yield [
      `${again} episodes sent again bring back what nobody had read, and repeat nothing: ${end.acknowledged} acknowledged events, each once`,
      end.whole && end.acknowledged > whole.events,
      end.output,
    ];
  } finally {
    await Promise.all(running.map((one) => one.end('SIGKILL')));
    await Promise.all([broker.stop(), postgres.stop().catch(() => {})]);
  }
}

/** The lines for pg_dump and pgBackRest, on the embedded log in a PostgreSQL with both. */
async function* copiedByTools(bin: string, folder: string, ms: number): AsyncGenerator<Check> {
  const config = join(folder, 'pgbackrest.conf');
  const postgres = await startSystemPostgres(bin, folder, config);
  const [dump, restore, backup, recover] = printed();
  const env = { DATABASE_URL: postgres.url(NAME), CONFIG: config };
  const running: TroupeProcess[] = [];
  try {
    writeFileSync(config, settingsOf(postgres));
    const stanza = await postgres.run('pgbackrest --config=$CONFIG --stanza=troupe stanza-create', env);
    for (const role of ['ingest', 'project']) running.push(await runTroupe(role, { home: join(folder, 'home'), env }));
    const history = openHistory(join(folder, '..', 'tools.jsonl'));
    const load = startLoad(running[0]!.url, history, randomStream(3).uniform, { restMs: REST_MS });
    await sleep(ms);
    const began = performance.now();
    const dumped = await postgres.run(dump!, env);
    const backedUp = await postgres.run(backup!, env);
    await sleep(ms);
    await load.stop();
    const whole = await stateOf(env.DATABASE_URL, null, history);
    for (const one of running) await one.end('SIGTERM');

    const copy = postgres.url('copy');
    const filled = await postgres.run(`createdb -h 127.0.0.1 -p ${postgres.port} -U troupe copy && ${restore}`, {
      ...env,
      NEW_DATABASE_URL: copy,
    });
    // What was not in the tables yet at its moment is read by the first command.
    const opened = await troupe(['checksum'], { DATABASE_URL: copy }, join(folder, 'copy'));
    // What was acknowledged later may be in it or not.
    const known = history.requests.map((one): Seen => (one.ended < began ? one : { ...one, outcome: 'unknown' }));
    const copied = await stateOf(copy, null, { ...history, requests: known });
    yield [
      `pg_dump under load, restored: ${copied.events} of ${whole.events} events, with the ${copied.acknowledged} acknowledged before it began, and the tables that a rebuild gives`,
      dumped.ok &&
        filled.ok &&
        opened.ok &&
        copied.whole &&
        copied.acknowledged > 0 &&
        (await rebuiltSums(copy)) === copied.sums,
      `${dumped.output} ${filled.output} ${copied.output}`,
    ];
    // The log up to here is archived when its segment is.
    const switched = await postgres.run(`psql -qAt -c 'select pg_walfile_name(pg_switch_wal())' "$DATABASE_URL"`, env);
    const archived = await until(async () => {
      const { output } = await postgres.run(
        `psql -qAt -c 'select last_archived_wal from pg_stat_archiver' "$DATABASE_URL"`,
        env,
      );
      return output >= switched.output && output !== '';
    }, 30_000);
    await postgres.lose();
    const recovered = await postgres.run(recover!, env);
    if (recovered.ok) await postgres.start();
    const back = recovered.ok ? await stateOf(env.DATABASE_URL, null, history) : null;
    yield [
      `pgBackRest under load, the cluster removed and made again with the archived log: all ${back?.acknowledged} acknowledged events, the same tables`,
      stanza.ok && backedUp.ok && archived && back?.whole === true && back.sums === whole.sums,
      `${stanza.output} ${backedUp.output} ${recovered.output} ${back?.output}`,
    ];
  } finally {
    await Promise.all(running.map((one) => one.end('SIGKILL')));
    await postgres.stop();
  }
}

const settingsOf = ({ folder, data, port }: { folder: string; data: string; port: number }): string => `[global]
repo1-path=${join(folder, 'repository')}
log-path=${folder}
lock-path=${folder}
start-fast=y
[troupe]
pg1-path=${data}
pg1-port=${port}
pg1-socket-path=${folder}
pg1-user=troupe
pg1-database=postgres
`;

/** The lines of the page that a person copies, one for each step. */
const printed = (): string[] =>
  [...readFileSync(join(ROOT, 'docs/operations.md'), 'utf8').matchAll(/^```bash\n(.*?)^```$/gms)].flatMap(([, text]) =>
    text!.split('\n').filter((line) => /^pg(_|backrest)/.test(line)),
  );

async function troupe(words: readonly string[], env: Env, home: string): Promise<CommandResult> {
  const program = ['--import', 'tsx', 'cli.ts', ...words, '--home', home];
  const options = { cwd: ROOT, env: { ...process.env, ...env, NO_COLOR: '1' } };
  try {
    const { stdout, stderr } = await promisify(execFile)(process.execPath, program, options);
    return { ok: true, output: `${stdout}${stderr}`.trim() };
  } catch (error) {
    return { ok: false, output: (error as Error).message };
  }
}

async function eventsIn(url: string): Promise<number> {
  const db = openPool(url, { max: 1 });
  const { rows } = await db
    .query<{ n: number }>('select count(*)::integer as n from troupe.events')
    .finally(() => db.close());
  return rows[0]!.n;
}

/** Waits until the log is read, and holds the database against what clients saw. */
async function stateOf(url: string, topic: string | null, history: History) {
  const db = openPool(url);
  try {
    const expected = new Set(history.requests.filter(({ outcome }) => outcome === 'ok').flatMap(({ ids }) => ids));
    const read = async () => {
      const { rows } = await db.query<Found>(
        `select id, key, partition, position::float8 as position from troupe.events where source = '/proof'`,
      );
      return rows;
    };
    const drained = await until(async () => {
      const there = new Set((await read()).map(({ id }) => id));
      return [...expected].every((id) => there.has(id)) && (await reconcile(db)).tables.lag === 0;
    }, 60_000);
    const rows = await read();
    const verdict = check(
      history,
      topic?.includes('#') ? rows.map((row) => ({ ...row, partition: 0, position: 0 })) : rows,
    );
    // In two logs an event has no place before another.
    const disordered = topic?.includes('#') ? [] : verdict.disordered;
    const faults = { lost: verdict.lost, doubled: verdict.doubled, invented: verdict.invented, disordered };
    return {
      events: rows.length,
      acknowledged: verdict.acknowledged,
      whole: drained && Object.values(faults).every((ids) => ids.length === 0),
      output: Object.entries(faults)
        .map(([kind, ids]) => `${ids.length} ${kind}`)
        .join(', '),
      sums: JSON.stringify(await checksum(db)),
    };
  } finally {
    await db.close();
  }
}

/** The checksums of the tables as a rebuild makes them. */
async function rebuiltSums(url: string): Promise<string> {
  const db = openPool(url);
  try {
    await rebuild(db, { judge: judgeAgain });
    return JSON.stringify(await checksum(db));
  } finally {
    await db.close();
  }
}

/** Every episode that was begun is sent again whole, as its sender would after a loss. */
async function sentAgain(url: string, history: History): Promise<number> {
  const episodes = new Set(history.requests.map(({ key }) => key.slice('e/'.length)));
  for (const id of episodes) {
    const events = episodeOf(id);
    const end = history.invoke(
      `e/${id}`,
      events.map((event) => event.id),
    );
    const taken = await until(async () => (await post(url, events)).status === 200, 60_000);
    end(taken ? 'ok' : 'unknown');
  }
  return episodes.size;
}
