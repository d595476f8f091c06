/**
 * Proof that two versions of Troupe work side by side, as docs/operations.md says: processes of the newest older commit whose schema
 * differs and which works with ours share a database, and a topic, with processes of this checkout, under load. The newer ones migrate,
 * each projector is killed and for a while reads alone, and in the end the older ones go. Nothing acknowledged by either is lost.
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync, rmSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { compareSchema, readSchema } from '../migrations/migrate.ts';
import { type Db, openPool } from '../store/db/pool.ts';
import { randomStream } from '../trainer/tensor/random.ts';
import { openHistory } from './history.ts';
import { type FoundKafka, findKafkaJars, startKafka } from './kafka.ts';
import { type Check, judged, startLoad } from './kept.ts';
import { startPostgres } from './postgres.ts';
import { checklist, type Outcome, type Proof, type Setting } from './proof.ts';
import { until } from './sending.ts';
import { runTroupe, type TroupeProcess } from './troupe-process.ts';

const ROOT = join(import.meta.dirname, '..');
const NAME = 'versions';
/** How many commits that changed migrations are looked at. */
const LOOKED_AT = 40;
/** How long the versions run beside each other between two changes, in milliseconds. */
const BESIDE = { short: 2000, full: 60_000 };
/** A lane's rest between two requests: what is sent is read, rebuilt and compared in the end. */
const REST_MS = 40;

export const proof: Proof = {
  name: 'versions-side-by-side',
  needs: ['kafka'],
  async run({ scratch, say, short }: Setting): Promise<Outcome> {
    const found = findKafkaJars(process.env);
    if ('missing' in found) return { ok: true, lines: [], skipped: [found.missing] };
    if (spawnSync('git', ['rev-parse', 'HEAD'], { cwd: ROOT }).status !== 0)
      return { ok: true, lines: [], skipped: ['no history of this checkout, so no older code; clone the repository'] };
    const { lines, check, passed } = checklist(say);
    const older = checkOut(join(scratch, 'older'));
    if (older === null) {
      const newest = readSchema().migrations.at(-1)!;
      check(`migration ${newest.number} says that no older code works beside it, so none is to be proved`, true);
      return { ok: newest.works_with === null, lines };
    }
    for (const log of short ? (['kafka'] as const) : (['kafka', 'embedded'] as const)) {
      const folder = join(scratch, log);
      mkdirSync(folder);
      const kafka = log === 'kafka' ? found : null;
      for (const [what, fine] of await prove({ folder, older, kafka, ms: short ? BESIDE.short : BESIDE.full }))
        check(`${log}: ${what}`, fine);
    }
    return { ok: passed(), lines };
  },
};

type Older = { readonly root: string; readonly commit: string; readonly schema: number };

/** The newest commit of another schema whose code works with ours, with the modules of this checkout; null where there is none. */
function checkOut(root: string): Older | null {
  const ours = readSchema().migrations;
  const git = (...words: string[]) => spawnSync('git', words, { cwd: ROOT, encoding: 'utf8' }).stdout.trim();
  // What a commit changed in migrations was another way before it.
  for (const commit of git('log', `-${LOOKED_AT}`, '--format=%h^', '--', 'migrations/*.sql').split('\n')) {
    mkdirSync(root);
    spawnSync('bash', ['-c', 'git archive "$0" | tar -x -C "$1"', commit, root], { cwd: ROOT });
    try {
      const theirs = readSchema(join(root, 'migrations'));
      if (compareSchema(ours, theirs).state === 'compatible') {
        symlinkSync(join(ROOT, 'node_modules'), join(root, 'node_modules'));
        return { root, commit: git('rev-parse', '--short', commit), schema: theirs.migrations.length };
      }
    } catch {
      // It does not work with ours.
    }
    rmSync(root, { recursive: true });
  }
  return null;
}

type Asked = {
  readonly folder: string;
  readonly older: Older;
  /** Null on the embedded log. */
  readonly kafka: FoundKafka | null;
  readonly ms: number;
};

async function prove({ folder, older, kafka, ms }: Asked): Promise<Check[]> {
  const postgres = await startPostgres(join(folder, 'postgres'), NAME);
  const broker = kafka && (await startKafka(kafka, join(folder, 'broker')));
  const env = {
    DATABASE_URL: postgres.url(NAME),
    KAFKA_BROKERS: broker?.address ?? '',
    KAFKA_TOPIC: NAME,
    KAFKA_PARTITIONS: '4',
  };
  const running: TroupeProcess[] = [];
  const start = async (role: string, root?: string): Promise<TroupeProcess> => {
    running.push(await runTroupe(role, { home: join(folder, 'home'), env, ...(root ? { root } : {}) }));
    return running.at(-1)!;
  };
  const db = openPool(env.DATABASE_URL);
  const history = openHistory(join(folder, 'history.jsonl'));
  const load = (url: string, name: string) =>
    startLoad(url, history, randomStream(1).uniform, { name, restMs: REST_MS });
  try {
    const [oldServe, oldProject] = [await start('serve', older.root), await start('project', older.root)];
    const before = await schemaOf(db);
    const old = load(oldServe.url, 'old');
    await sleep(ms);
    const [newProject, newIngest] = [await start('project'), await start('ingest')];
    const after = await schemaOf(db);
    const fresh = load(newIngest.url, 'new');
    await sleep(ms);
    const { schema } = (await (await fetch(`${oldServe.url}/readyz`)).json()) as { schema: string };

    /** One projector is killed; the other alone brings in what both kinds of processes take meanwhile. */
    const alone = async (victim: TroupeProcess, name: string): Promise<boolean> => {
      history.kill(name);
      await victim.end('SIGKILL');
      const [byOld, byNew] = [await applied(db, 'old'), await applied(db, 'new')];
      await sleep(ms);
      // Kafka gives the partitions of one that is gone to the other after its session.
      const both = await until(
        async () => (await applied(db, 'old')) > byOld && (await applied(db, 'new')) > byNew,
        30_000,
      );
      await victim.start();
      return both;
    };
    const byNew = await alone(oldProject, 'older projector');
    const byOld = await alone(newProject, 'newer projector');
    await sleep(ms);
    await old.stop();
    const ends = [await oldServe.end('SIGTERM'), await oldProject.end('SIGTERM')];
    await fresh.stop();
    return [
      [
        `commit ${older.commit}, of schema ${older.schema}, made schema ${before}; the newer projector brought it to ${after}, and the older API says of it: ${schema}`,
        before === older.schema && after === readSchema().migrations.length && schema === 'compatible',
      ],
      ['the newer projector alone reads what both versions take', byNew],
      ['the older projector, started again on the newer schema, alone reads what both versions take', byOld],
      [`the older processes end with ${ends.join(' and ')}`, ends.every((code) => code === 0)],
      ...(await judged({ db, history, kafka: broker && { address: broker.address, topic: NAME }, kills: 2 })),
    ];
  } catch (error) {
    const output = running.map((one) => `${one.role}: ${one.output().slice(-600)}`).join('; ');
    return [[`${(error as Error).message}; ${output}`, false]];
  } finally {
    await Promise.all(running.map((one) => one.end('SIGKILL')));
    await db.close().catch(() => {});
    await Promise.all([broker?.stop(), postgres.stop()]);
  }
}

async function schemaOf(db: Db): Promise<number> {
  const { rows } = await db.query<{ number: number }>('select max(number) as number from troupe.migrations');
  return rows[0]!.number;
}

/** Episodes in the tables that were sent by this load. */
async function applied(db: Db, name: string): Promise<number> {
  const { rows } = await db.query<{ n: number }>(
    'select count(*)::integer as n from traj.episodes where closed and episode_id like $1',
    [`${name}-%`],
  );
  return rows[0]!.n;
}
