import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { decodeDraft } from '../../ingest/events/decode.ts';
import { postgresLog } from '../../ingest/log/postgres.ts';
import type { Db } from '../../store/db/pool.ts';
import { projectAll } from '../../store/projecting/projector.ts';
import { registerProcess } from '../../store/queue/jobs/processes.ts';
import { newModelDirectory } from '../../trainer/model/model-directory.ts';
import { wordTokenizer } from '../../trainer/model/tokens/tokenizer.ts';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { builtProgram } from './support/built.ts';
import { chats, lines } from './support/chats.ts';
import { plays, WORDS } from './support/plays.ts';
import { document, type Running, type Shell, shell } from './support/troupe.ts';

/** A signal, and the seconds until the process ended. */
async function end({ child, ended }: Running, signal: NodeJS.Signals) {
  const began = performance.now();
  child.kill(signal);
  return { ...(await ended), seconds: (performance.now() - began) / 1000 };
}

async function until<T>(look: () => Promise<T | undefined | false>): Promise<T> {
  for (let tries = 0; tries < 2400; tries++) {
    const found = await look();
    if (found) return found;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error('it did not come');
}

const model = (dir: string, seed: number) =>
  newModelDirectory(dir, {
    config: {
      model_type: 'llama',
      hidden_size: 16,
      intermediate_size: 32,
      num_hidden_layers: 1,
      num_attention_heads: 2,
      num_key_value_heads: 2,
      vocab_size: WORDS.length + 2,
      max_position_embeddings: 32,
      rms_norm_eps: 1e-6,
      rope_theta: 10_000,
      tie_word_embeddings: true,
      bos_token_id: null,
      pad_token_id: 0,
      eos_token_id: 1,
    },
    tokenizer: wordTokenizer(WORDS, ['<pad>', '<end>'], { pad: '<pad>', eos: '<end>' }),
    chatTemplate: `{% for message in messages %}{{ message.content }} {% endfor %}`,
    seed,
  });

async function tell(db: Db, name: string, id: string, data: object): Promise<void> {
  const decoded = decodeDraft({ name, source: '/test', id, time: '2026-01-01T00:00:00Z', data } as never);
  if (decoded.refusal) throw new Error(JSON.stringify(decoded.refusal));
  await postgresLog(db).append([decoded.event]);
  await projectAll(db);
}

describe('the processes', () => {
  let database: TestDatabase;
  let at: Shell;
  let first: { id: string; dir: string };
  let second: { id: string; dir: string };
  beforeAll(async () => {
    database = await freshDatabase();
    at = shell({ DATABASE_URL: database.url });
    first = await model(join(at.folder, 'first'), 1);
    second = await model(join(at.folder, 'second'), 2);
    for (const { id, dir } of [first, second])
      await tell(database.db, 'checkpoint.saved', id, {
        checkpoint_id: id,
        policy: 'solver',
        uri: dir,
        kept: true,
        sha256: id,
        step: 0,
      });
  });
  afterEach(async () => {
    await database.db.query('delete from troupe.processes');
  });
  afterAll(async () => {
    at.remove();
    await database.close();
  });

  it('P55: each ends with 0 within 10 s of SIGTERM and takes itself off the list', async () => {
    const started = [
      ['serve', '--port', '0'],
      ['ingest', '--port', '0'],
      ['project'],
      ['judge'],
      ['work'],
      ['infer', '--policy', 'solver', '--model', first.dir],
    ].map((args) => at.start(['run', ...args, '--json']));
    const [serving] = started as [Running];
    await Promise.all(started.map((one) => one.waitForOutput(/^\{"role"/m)));
    const { address } = JSON.parse(
      await serving
        .waitForOutput(/^\{"role".*\n/m)
        .then((text) => text.split('\n').find((line) => line.startsWith(`{"role"`))!),
    );
    // Somebody who never finishes what they ask must not hold the process.
    const slow = connect(Number(new URL(address).port), '127.0.0.1').on('error', () => {});
    slow.write(
      'POST /v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n[',
    );
    const { rows } = await database.db.query('select role from troupe.processes order by role');
    expect(rows.map((row) => row.role)).toEqual(['infer', 'ingest', 'judge', 'project', 'serve', 'work']);
    const healthy = await at.run(['doctor', '--role', 'judge']);
    expect([healthy.code, healthy.out]).toEqual([0, expect.stringMatching(/judge-\S+ sent a heartbeat [\d.]+ s ago/)]);
    for (const ended of await Promise.all(started.map((one) => end(one, 'SIGTERM')))) {
      expect(ended).toMatchObject({ code: 0, signal: null });
      expect(ended.seconds).toBeLessThan(10);
      expect(document(ended)).toMatchObject({ role: expect.any(String) });
    }
    slow.destroy();
    expect((await database.db.query('select 1 from troupe.processes')).rows).toEqual([]);
    // One on another machine does not count for this one.
    const leave = await registerProcess(database.db, { processId: `judge-elsewhere-${process.pid}-1`, role: 'judge' });
    const gone = await at.run(['doctor', '--role', 'judge']);
    expect([gone.code, gone.out]).toEqual([1, expect.stringContaining('No process of the role judge runs')]);
    await leave();
  });

  it('P54: a judge whose setting names what is not there does not start, and says which setting', async () => {
    const odd = shell({ DATABASE_URL: database.url, TROUPE_JUDGE: 'grpo_advantages' });
    const ended = await odd.run(['run', 'judge']);
    expect([ended.code, ended.err]).toEqual([2, expect.stringMatching(/TROUPE_JUDGE.*grpo_advantages/)]);
    odd.remove();
  });

  it('P55: a trainer in the middle of a job hands it back, and another takes it at once', async () => {
    writeFileSync(join(at.folder, 'plays.jsonl'), lines(plays(8)));
    writeFileSync(join(at.folder, 'all.json'), JSON.stringify({ name: 'all', unit: 'step', roles: ['solver'] }));
    await at.run(['import', join(at.folder, 'plays.jsonl')]);
    const dataset = document(await at.run(['dataset', 'freeze', join(at.folder, 'all.json'), '--json']));
    const spec = {
      base: first.dir,
      dataset: join(at.folder, 'home/datasets', dataset.dataset_id),
      policy: 'solver',
      seed: 1,
      steps: { solver: 1_000_000 },
      batch: 8,
      learning_rate: 1e-3,
      warmup: 0,
      entropy: 0,
    };
    const { db } = database;
    await tell(db, 'job.requested', 'long', { job_id: 'long', kind: 'sft', spec });
    await db.query(`insert into troupe.job_queue (job_id, kind, spec) values ('long', 'sft', $1)`, [
      JSON.stringify(spec),
    ]);
    const job = async () =>
      (
        await db.query<Record<string, unknown>>(
          `select state, worker, attempts from troupe.job_queue where job_id = 'long'`,
        )
      ).rows[0]!;
    const worker = at.start(['run', 'work']);
    await until(async () => (await job()).state === 'running');
    await until(
      async () =>
        (await db.query(`select 1 from troupe.events where key = 'j/long' and name = 'job.progressed' limit 1`))
          .rows[0],
    );
    const ended = await end(worker, 'SIGTERM');
    expect(ended).toMatchObject({ code: 0 });
    expect(ended.seconds).toBeLessThan(10);
    expect(ended.err).toContain('Job long was handed back');
    expect(await job()).toEqual({ state: 'waiting', worker: null, attempts: 0 });
    const another = at.start(['run', 'work']);
    await until(async () => (await job()).state === 'running');
    expect((await end(another, 'SIGKILL')).signal).toBe('SIGKILL');
    await db.query(`update troupe.job_queue set state = 'finished', outcome = 'cancelled' where job_id = 'long'`);
  });

  it('up runs all of them, serves a policy that is released later, starts what dies again, and ends all with Ctrl-C', async () => {
    const { db } = database;
    const up = at.start(['up', '--port', '0', '--json']);
    const { url } = JSON.parse((await up.waitForOutput(/\}\n/)).split('\n').find((line) => line.startsWith('{'))!);
    expect((await fetch(`${url}/healthz`)).status).toBe(200);
    const running = async (role: string) =>
      (await db.query<{ pid: number }>('select pid from troupe.processes where role = $1', [role])).rows.map(
        (row) => row.pid,
      );
    for (const role of ['project', 'judge', 'work']) await until(async () => (await running(role)).length === 1);
    expect(await running('infer')).toEqual([]);

    const released = await at.run(['release', `solver=${second.id}`, '--reason', 'a test', '--json']);
    expect(document(released)).toMatchObject({ policies: { solver: second.id } });
    await until(async () => (await running('infer')).length === 1);
    const answer = await fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        model: 'policy:solver',
        messages: [{ role: 'user', content: 'what is one' }],
        max_tokens: 3,
      }),
    });
    expect(answer.status).toBe(200);

    const [victim] = await running('project');
    process.kill(victim!, 'SIGKILL');
    await until(async () => (await running('project')).some((pid) => pid !== victim));
    await db.query('delete from troupe.processes where pid = $1', [victim]);

    const pids = await Promise.all(
      ['serve', 'project', 'judge', 'work', 'infer'].map(async (role) => (await running(role))[0]!),
    );
    const ended = await end(up, 'SIGINT');
    expect(ended).toMatchObject({ code: 0 });
    expect(ended.seconds).toBeLessThan(10);
    for (const pid of pids) expect(() => process.kill(pid, 0)).toThrow(/ESRCH/);
    expect((await db.query('select 1 from troupe.processes')).rows).toEqual([]);
  }, 300_000);

  it("a second up on the same home says so and ends, and the first goes on; one that was killed is in nobody's way", async () => {
    const first = at.start(['up', '--port', '0', '--json']);
    const { url } = JSON.parse((await first.waitForOutput(/\}\n/)).split('\n').find((line) => line.startsWith('{'))!);
    const second = await at.run(['up', '--port', '0']);
    expect([second.code, second.out]).toEqual([1, '']);
    expect(second.err).toMatch(/^troupe: Another `troupe up` runs on the home .* already/);
    expect((await fetch(`${url}/healthz`)).status).toBe(200);
    expect((await end(first, 'SIGKILL')).signal).toBe('SIGKILL');
    const third = at.start(['up', '--port', '0']);
    await third.waitForOutput(/is up/);
    expect(await end(third, 'SIGTERM')).toMatchObject({ code: 0 });
  }, 300_000);

  it('the processes of up end with it when it is killed', async () => {
    const up = at.start(['up', '--port', '0']);
    await up.waitForOutput(/is up/);
    const pids = await until(async () => {
      const { rows } = await database.db.query<{ pid: number }>('select pid from troupe.processes');
      return rows.length >= 4 && rows.map((row) => row.pid);
    });
    await end(up, 'SIGKILL');
    const alive = (pid: number) => {
      try {
        process.kill(pid, 0);
        return true;
      } catch {
        return false;
      }
    };
    await until(async () => !pids.some(alive));
  }, 300_000);
});

it('a process whose starter is gone before it listens ends by itself', async () => {
  const at = shell();
  const child = spawn(process.execPath, [builtProgram, 'run', 'project', '--json'], {
    cwd: at.folder,
    env: { PATH: process.env.PATH, HOME: process.env.HOME, TROUPE_HOME: join(at.folder, 'home') },
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
  });
  child.disconnect();
  const [code] = await once(child, 'exit');
  expect(code).toBe(0);
  at.remove();
}, 60_000);

describe('a home of its own', () => {
  const at = shell();
  afterAll(() => at.remove());

  it('is made by the first command, is not removed while in use, and reset leaves what is not its own', async () => {
    const home = join(at.folder, 'home');
    mkdirSync(home);
    writeFileSync(join(home, 'notes.txt'), 'mine');
    writeFileSync(join(at.folder, 'chats.jsonl'), lines(chats(4)));
    expect(document(await at.run(['import', 'chats.jsonl', '--json']))).toMatchObject({ episodes: 2 });
    expect(existsSync(join(home, 'data'))).toBe(true);

    const projector = at.start(['run', 'project', '--json']);
    await projector.waitForOutput(/^\{"role"/m);
    const asked = await at.run(['reset', '--json']);
    expect([asked.code, document(asked).error.code]).toEqual([2, 'usage']);
    const refused = await at.run(['reset', '--yes', '--json']);
    expect([refused.code, document(refused).error.code]).toEqual([1, 'busy']);
    expect(document(await at.run(['episodes', '--json'])).items).toHaveLength(2);
    expect(await end(projector, 'SIGTERM')).toMatchObject({ code: 0 });

    expect(document(await at.run(['reset', '--yes', '--json']))).toEqual({ home, there: true, removed: true });
    expect(existsSync(join(home, 'data'))).toBe(false);
    expect(existsSync(join(home, 'notes.txt'))).toBe(true);
  });
});
