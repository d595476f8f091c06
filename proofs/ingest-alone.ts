/**
 * Proof that `troupe run ingest` on Kafka needs no PostgreSQL, not even to start, and that it takes no other broker for its log: events are
 * acknowledged with the keys that were last read, and refused where an empty broker, or a topic made anew, answers at the same address,
 * until a person adopts it as a new log.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { openPool } from '../store/db/pool.ts';
import { createKey, revokeKey } from '../store/keys/api-keys.ts';
import { type Broker, findKafkaJars, startKafka } from './kafka.ts';
import { clientOf } from './kafka-clients.ts';
import { startPostgres } from './postgres.ts';
import { checklist, type Outcome, type Proof, type Setting } from './proof.ts';
import { runTroupe, type TroupeProcess } from './troupe-process.ts';

const PATIENCE_MS = 240_000;
const TOPIC = 'alone';

export const proof: Proof = {
  name: 'ingest-alone',
  needs: ['kafka'],
  async run({ scratch, say }: Setting): Promise<Outcome> {
    const found = findKafkaJars(process.env);
    if ('missing' in found) return { ok: true, lines: [], skipped: [found.missing] };
    const { lines, check, passed } = checklist(say);
    const processes: TroupeProcess[] = [];
    const postgres = await startPostgres(join(scratch, 'postgres'), TOPIC);
    let broker: Broker = await startKafka(found, join(scratch, 'first'));
    const port = Number(broker.address.split(':')[1]);
    try {
      const env = {
        DATABASE_URL: postgres.url(TOPIC),
        KAFKA_BROKERS: broker.address,
        KAFKA_TOPIC: TOPIC,
        KAFKA_PARTITIONS: '2',
      };
      const start = async (role: string): Promise<TroupeProcess> => {
        const one = await runTroupe(role, { home: join(scratch, 'home'), env });
        processes.push(one);
        return one;
      };
      const [ingest, projector] = [await start('ingest'), await start('project')];
      const db = openPool(postgres.url(TOPIC));
      const make = (name: string) => createKey(db, { name, scopes: ['ingest'], expiresAt: null });
      const [{ text: key }, { text: revoked }] = [await make('agents'), await make('gone')];
      await revokeKey(db, 'gone');
      const taken = async (id: string, by: string | null = key) => (await send(ingest.url, id, by)).status === 200;
      check('an event is taken with a key', await until(() => taken('one')));
      const rows = async () => (await db.query('select 1 from facts.episodes')).rows.length;
      check('and read into the tables', await until(async () => (await rows()) === 1));
      // So that what is sealed holds what was read.
      await sleep(6000);
      await until(() => taken('two'));
      await until(async () => (await rows()) === 2);

      await postgres.kill();
      await ingest.end('SIGKILL');
      await ingest.start();
      check(
        'started while PostgreSQL is away, ingest takes an event with a key that it knew',
        await until(() => taken('three')),
      );
      const refusals = [
        await send(ingest.url, 'four', revoked),
        await send(ingest.url, 'four', null),
        await send(ingest.url, 'four', `${key}x`),
      ];
      check(
        `a revoked key, no key and an unknown key get ${refusals.map(({ status }) => status).join(', ')}`,
        refusals.every(({ status }) => status === 401 || status === 503),
      );
      await sleep(30_000);
      check('after 30 s as well', await taken('five'));

      await broker.stop();
      broker = await startKafka(found, join(scratch, 'second'), { port });
      const replaced = async () => (await send(ingest.url, 'lost', key)).code === 'log_replaced';
      check('an empty broker in its place is refused as log_replaced', await until(replaced));
      await ingest.end('SIGKILL');
      await ingest.start();
      check('by one that was started again too', await until(replaced));
      await postgres.start();
      await sleep(3000);
      check('and with PostgreSQL back', await until(replaced));
      const ready = await fetch(`${ingest.url}/readyz`, {
        headers: {
          authorization: `Bearer ${(await createKey(db, { name: 'reader', scopes: ['read'], expiresAt: null })).text}`,
        },
      });
      const readiness = (await ready.json()) as { log: string };
      check(
        `/readyz answers ${ready.status}, log ${readiness.log}`,
        ready.status === 503 && readiness.log === 'replaced',
      );
      check('nothing was written to the empty broker', (await topicsAt(broker.address)).length === 0);

      await broker.stop();
      broker = await startKafka(found, join(scratch, 'first'), { port });
      check('the right broker again, events are taken again', await until(() => taken('six')));
      await projector.end('SIGKILL');
      await projector.start();
      check('and every acknowledged event is in the tables, once', await until(async () => (await rows()) === 5));

      await broker.stop();
      broker = await startKafka(found, join(scratch, 'second'), { port });
      check('the empty broker again, events are refused again', await until(replaced));
      const adopted = await command(['log', 'adopt', '--yes', '--json'], join(scratch, 'home'), env);
      check(
        `troupe log adopt answers ${adopted.out.trim()}`,
        adopted.code === 0 && /"log":"kafka:alone#1"/.test(adopted.out),
      );
      check('ingest takes events without being started again', await until(() => taken('seven')));
      await projector.end('SIGKILL');
      await projector.start();
      check('and they are in the tables beside what was read before', await until(async () => (await rows()) === 6));
      const logs = (
        await command(
          ['sql', 'select log, count(*) as events from events group by 1 order by 1', '--json'],
          join(scratch, 'home'),
          env,
        )
      ).out;
      check(
        `each event lies in its own log: ${logs.trim()}`,
        /kafka:alone".*5/.test(logs) && /kafka:alone#1".*1/.test(logs),
      );
      const again = await command(['log', 'adopt', '--yes', '--json'], join(scratch, 'home'), env);
      check(`adopted once more: ${again.out.trim()}`, again.code === 0 && /"adopted":false/.test(again.out));
      const counted = await command(['reconcile', '--json'], join(scratch, 'home'), env);
      check('reconcile adds up', counted.code === 0);
      await db.close();
    } catch (error) {
      check(
        `${error instanceof Error ? error.message : error}; ${processes.map((one) => `${one.role}: ${one.output()}`).join('; ')}`,
        false,
      );
    } finally {
      for (const one of processes) await one.end('SIGKILL');
      await broker.stop();
      await postgres.stop();
    }
    return { ok: passed(), lines };
  },
};

async function topicsAt(address: string): Promise<readonly string[]> {
  const admin = clientOf(address).admin();
  await admin.connect();
  const topics = await admin.listTopics();
  await admin.disconnect();
  return topics.filter((name) => !name.startsWith('__'));
}

async function command(args: readonly string[], home: string, env: Readonly<Record<string, string>>) {
  const child = spawn(process.execPath, ['--import', 'tsx', 'cli.ts', ...args, '--home', home], {
    cwd: join(import.meta.dirname, '..'),
    env: { ...process.env, ...env, NO_COLOR: '1' },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let out = '';
  child.stdout.setEncoding('utf8').on('data', (text) => {
    out += text;
  });
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, out };
}

async function until(look: () => Promise<boolean>): Promise<boolean> {
  for (const deadline = performance.now() + PATIENCE_MS; performance.now() < deadline; await sleep(250)) {
    if (await look().catch(() => false)) return true;
  }
  return false;
}

async function send(url: string, episode_id: string, key: string | null) {
  const event = {
    specversion: '1.0',
    type: 'troupe.episode.started.v1',
    source: '/proof',
    id: episode_id,
    data: { episode_id },
  };
  const answer = await fetch(`${url}/v1/events`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...(key === null ? {} : { authorization: `Bearer ${key}` }) },
    body: JSON.stringify([event]),
    signal: AbortSignal.timeout(15_000),
  });
  const { code } = (await answer.json()) as { code?: string };
  return { status: answer.status, code };
}
