/**
 * Proof that sampling processes on other machines serve one policy: two of them with homes, ports and copies of the weights of their own meet
 * `serve` over HTTP with a key. One is killed, one is stopped, versions are released, all under load: every call is answered, by the
 * weights that the answer names, and recorded with them.
 */
import { cpSync, mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { recordCheckpoint } from '../api/operations/checkpoints/record.ts';
import { EXIT } from '../errors.ts';
import { postgresLog } from '../ingest/log/postgres.ts';
import { migrate } from '../migrations/migrate.ts';
import { type Db, openPool } from '../store/db/pool.ts';
import { recordRelease, releaseId } from '../store/loop/release/releases.ts';
import { projectAll } from '../store/projecting/projector.ts';
import { freePort } from '../test/support/free-port.ts';
import { tinyConfig, tinyContents } from '../test/trainer/tiny-checkpoint.ts';
import { saveCheckpoint } from '../trainer/model/checkpoints/checkpoint.ts';
import { Policy } from '../trainer/sample/policy.ts';
import { startPostgres } from './postgres.ts';
import { checklist, type Outcome, type Proof, type Setting } from './proof.ts';
import { until } from './sending.ts';
import { runTroupe, type TroupeProcess } from './troupe-process.ts';

const NAME = 'machines';
const KEY = 'the-key-of-the-proof-that-machines-share';
const CONFIG = { ...tinyConfig, max_position_embeddings: 512 };
const LANES = 6;
/** Seeds repeat, so that few answers have to be computed again to compare all. */
const SEEDS = 12;
const PROMPT = [2, 3, 4];
const MAX_TOKENS = 60;

type Answer = {
  readonly seed: number;
  readonly status: number;
  readonly checkpoint: string;
  readonly tokens: string;
  readonly call: string;
  readonly ms: number;
};

export const proof: Proof = {
  name: 'policy-on-machines',
  needs: [],
  async run({ short, scratch, say }: Setting): Promise<Outcome> {
    const { lines, check: tell, passed } = checklist(say);
    const postgres = await startPostgres(join(scratch, 'postgres'), NAME);
    const env = { DATABASE_URL: postgres.url(NAME), TROUPE_INFER_KEY: KEY, KAFKA_BROKERS: '' };
    const db = openPool(env.DATABASE_URL);
    const running: TroupeProcess[] = [];
    try {
      await prove({ short, scratch, env, db, running, tell });
    } catch (error) {
      tell(
        `${(error as Error).message}; ${running.map((one) => `${one.role}: ${one.output().slice(-500)}`).join('; ')}`,
        false,
      );
    } finally {
      await Promise.all(running.map((one) => one.end('SIGKILL')));
      await db.close().catch(() => {});
      await postgres.stop();
    }
    return { ok: passed(), lines };
  },
};

type Asked = {
  readonly short: boolean;
  readonly scratch: string;
  readonly env: Readonly<Record<string, string>>;
  readonly db: Db;
  readonly running: TroupeProcess[];
  readonly tell: (what: string, fine: boolean) => void;
};

async function prove({ short, scratch, env, db, running, tell }: Asked): Promise<void> {
  await migrate(db);
  const log = postgresLog(db);
  const context = { db, log, now: () => new Date(), catchUp: () => projectAll(db) };
  const homes = ['first', 'second'].map((name) => join(scratch, name));
  /** Records a version whose files each machine has below its own home only. */
  const version = async (step: number): Promise<string> => {
    const { id, dir } = await saveCheckpoint(join(scratch, 'trainer'), tinyContents(step, CONFIG));
    await recordCheckpoint(context, dir, 'team');
    for (const home of homes) {
      mkdirSync(join(home, 'checkpoints'), { recursive: true });
      cpSync(dir, join(home, 'checkpoints', id), { recursive: true });
    }
    rmSync(dir, { recursive: true });
    return id;
  };
  const release = async (id: string): Promise<number> => {
    const time = new Date().toISOString();
    const policies = { team: id };
    await recordRelease(log, {
      release_id: releaseId(policies, time),
      policies,
      reason: null,
      by: 'proof',
      source: '/proof',
      time,
    });
    await context.catchUp();
    return performance.now();
  };
  const [one, two, three] = [await version(1), await version(2), await version(3)];
  await release(one);

  const start = async (role: string, home: string, args: readonly string[] = [], more: object = {}) => {
    running.push(await runTroupe(role, { home, env: { ...env, ...more }, args }));
    return running.at(-1)!;
  };
  const inferArgs = async () => ['--policy', 'team', '--port', String(await freePort())];
  const serve = await start('serve', join(scratch, 'gateway'));
  const [first, second] = [
    await start('infer', homes[0]!, await inferArgs()),
    await start('infer', homes[1]!, await inferArgs()),
  ];
  const bare = await runTroupe('infer', {
    home: homes[0]!,
    env: { ...env, TROUPE_INFER_KEY: '' },
    args: await inferArgs(),
  });
  tell('without a key no process listens for other machines', (await bare.ended()) === EXIT.usage);

  const answers: Answer[] = [];
  let going = true;
  const lanes = Array.from({ length: LANES }, async (_, lane) => {
    for (let n = lane; going; n += LANES) answers.push(await call(serve.url, n % SEEDS, n % 2 === 0));
  });
  const load = Promise.all(lanes);
  const more = (count: number) => {
    const before = answers.length;
    return until(async () => answers.length >= before + count, 60_000);
  };
  await more(40);
  const shares = await servedBy(db);
  tell(
    `/readyz and traj.checkpoints show both processes with ${one}`,
    shares.length === 2 && shares.every((id) => id === one) && (await shown(serve.url)).every((id) => id === one),
  );

  const kills = short ? 2 : 10;
  for (let kill = 0; kill < kills; kill++) {
    const victim = kill % 2 === 0 ? first : second;
    await victim.end('SIGKILL');
    await more(30);
    await victim.start();
    await more(10);
  }
  tell(
    `one of two is killed ${kills} times under load: ${answers.length} calls, each answered`,
    answers.every(({ status }) => status === 200),
  );

  for (const [id, name] of [
    [two, 'second'],
    [three, 'third'],
    [two, 'second, again'],
  ] as const) {
    const released = await release(id);
    const reached = await until(async () => (await servedBy(db)).every((now) => now === id), 10_000);
    const ms = performance.now() - released;
    await sleep(1500);
    const from = answers.length;
    await more(30);
    const late = answers.slice(from + LANES).filter(({ checkpoint }) => checkpoint !== id);
    tell(
      `the ${name} version is released: both serve it after ${ms.toFixed(0)} ms, and then nobody gets another`,
      reached && late.length === 0,
    );
  }

  if (!short) {
    first.pause();
    const from = answers.length;
    await more(200);
    first.resume();
    const slowest = Math.max(...answers.slice(from).map(({ ms }) => ms));
    tell(
      `one is stopped: the other answers, the slowest call after ${(slowest / 1000).toFixed(1)} s`,
      answers.every(({ status }) => status === 200) && slowest < 40_000,
    );
  }
  going = false;
  await load;
  tell(
    `none of ${answers.length} calls was lost`,
    answers.every(({ status }) => status === 200),
  );

  const wanted = await expected([one, two, three]);
  const wrong = answers.filter(({ checkpoint, seed, tokens }) => wanted.get(`${checkpoint} ${seed}`) !== tokens);
  const used = new Set(answers.map(({ checkpoint }) => checkpoint));
  tell(
    `each answer is what the version samples that it names (${used.size} versions)`,
    wrong.length === 0 && used.size === 3,
  );
  await projectAll(db);
  const { rows } = await db.query<{ call_id: string; checkpoint_id: string }>(
    'select distinct call_id, checkpoint_id from traj.steps',
  );
  const recorded = new Map(rows.map(({ call_id, checkpoint_id }) => [call_id, checkpoint_id]));
  tell(
    `and is recorded with it: ${recorded.size} calls`,
    answers.every(({ call, checkpoint }) => recorded.get(call) === checkpoint) && recorded.size === answers.length,
  );

  await Promise.all([first.end('SIGKILL'), second.end('SIGKILL')]);
  const nobody = await call(serve.url, 1, false);
  tell(`with neither a call is answered ${nobody.status}`, nobody.status === 503);
  await start('infer', homes[0]!, await inferArgs(), { TROUPE_INFER_KEY: 'another-key-than-that-of-the-gateway' });
  const refused = await (await post(serve.url, 1, false)).text();
  tell('one with another key is not used, and the error says why', refused.includes('refused the key'));
  await first.start();
  tell('one that is back answers again', (await call(serve.url, 1, false)).status === 200);
}

const post = (url: string, seed: number, stream: boolean): Promise<Response> =>
  fetch(`${url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'policy:team', prompt: PROMPT, max_tokens: MAX_TOKENS, seed, stream }),
  });

/** One call, whole or as a stream, whose last chunk has the token ids. */
async function call(url: string, seed: number, stream: boolean): Promise<Answer> {
  const began = performance.now();
  const response = await post(url, seed, stream);
  const text = await response.text();
  const ms = performance.now() - began;
  const bodies =
    stream && response.ok
      ? text.split('\n').flatMap((line) => (line.startsWith('data: {') ? [JSON.parse(line.slice(6))] : []))
      : [JSON.parse(text)];
  const failed = bodies.some((body) => body.error !== undefined);
  const tokens = bodies.flatMap((body) => body.choices?.[0]?.token_ids ?? []);
  const { checkpoint_id = '', call_id = '' } = bodies.findLast((body) => body.troupe !== undefined)?.troupe ?? {};
  return {
    seed,
    status: failed && response.ok ? 500 : response.status,
    checkpoint: checkpoint_id,
    tokens: String(tokens),
    call: call_id,
    ms,
  };
}

/** What each version answers to each seed, sampled here. */
async function expected(ids: readonly string[]): Promise<Map<string, string>> {
  const answers = new Map<string, string>();
  for (const [at, id] of ids.entries()) {
    const policy = await Policy.load(CONFIG, tinyContents(at + 1, CONFIG).weights);
    const requests = Array.from({ length: SEEDS }, (_, seed) => ({
      promptIds: PROMPT,
      n: 1,
      maxTokens: MAX_TOKENS,
      temperature: 1,
      seed,
      stopIds: [1],
    }));
    for (const [seed, [sample]] of (await policy.sample(requests)).entries())
      answers.set(`${id} ${seed}`, String(sample!.tokenIds));
    await policy.close();
  }
  return answers;
}

/** A checkpoint for each process that serves the policy. */
async function servedBy(db: Db): Promise<string[]> {
  const { rows } = await db.query<{ checkpoint_id: string }>(
    `select checkpoint_id from traj.checkpoints cross join json_array_elements(served_by) where policy = 'team'`,
  );
  return rows.map(({ checkpoint_id }) => checkpoint_id);
}

/** What `/readyz` says that each process serves. */
async function shown(url: string): Promise<(string | null)[]> {
  const { serving } = (await (await fetch(`${url}/readyz`)).json()) as { serving: { checkpoint: string | null }[] };
  return serving.map(({ checkpoint }) => checkpoint);
}
