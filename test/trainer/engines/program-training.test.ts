import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { decodeEnvelope } from '../../../ingest/events/decode.ts';
import { postgresLog } from '../../../ingest/log/postgres.ts';
import { freeze } from '../../../store/datasets/freeze.ts';
import { projectAll } from '../../../store/projecting/projector.ts';
import { type JobContext, requestJob, waitForJob } from '../../../store/queue/jobs/jobs.ts';
import { runJobs } from '../../../store/queue/jobs/worker.ts';
import { findEngine, readEngines } from '../../../trainer/engines/engines.ts';
import { programTraining } from '../../../trainer/engines/program-training.ts';
import { closeLearner, openLearner } from '../../../trainer/learn/learner.ts';
import { adapterFiles, openAdapter } from '../../../trainer/model/adapter-directory.ts';
import { verifyCheckpoint } from '../../../trainer/model/checkpoints/checkpoint.ts';
import { initialAdapter, mergeAdapter } from '../../../trainer/model/lora.ts';
import { newModelDirectory, openModelForIds } from '../../../trainer/model/model-directory.ts';
import { wordTokenizer } from '../../../trainer/model/tokens/tokenizer.ts';
import { plays, WORDS } from '../../cli/support/plays.ts';
import { freshDatabase, type TestDatabase } from '../../support/database.ts';
import { tinyConfig } from '../tiny-checkpoint.ts';

const ADAPTER = { r: 2, alpha: 4, targets: ['q_proj'] };
const shell = (script: string) => ['/bin/sh', '-c', script];

const ENGINES = readEngines({
  copies: {
    command: shell(`
      echo "training $(cat "$TROUPE_PARAMS" | tr -d '\\n ') with seed $TROUPE_SEED and $SHARED, not $SECRET"
      test -f "$TROUPE_DATASET/train.arrow" && cp "$TROUPE_BASE"/* "$TROUPE_OUT"
      echo '{"step":1,"loss":2.5}' >>"$TROUPE_METRICS"
      echo 'no JSON' >>"$TROUPE_METRICS"
      echo '{"step":2,"loss":1.5,"accuracy":null}' >>"$TROUPE_METRICS"`),
    env: ['SHARED'],
  },
  fails: { command: shell('echo half way; echo "no memory left" >&2; exit 3') },
  models: {
    command: shell(
      'cp "$TROUPE_BASE"/config.json "$TROUPE_BASE"/model.safetensors "$TROUPE_OUT"; echo "{}" >"$TROUPE_OUT"/generation_config.json',
    ),
  },
  adapts: { command: shell('cp "$ADAPTER"/* "$TROUPE_OUT"'), env: ['ADAPTER'] },
  misfits: {
    command: shell(`
      sed 's/"r": 2/"r": 3/' "$ADAPTER"/adapter_config.json >"$TROUPE_OUT"/adapter_config.json
      cp "$ADAPTER"/*.safetensors "$TROUPE_OUT"`),
    env: ['ADAPTER'],
  },
  nests: { command: shell('mkdir "$TROUPE_OUT"/checkpoint-10; cp "$TROUPE_BASE"/* "$TROUPE_OUT"/checkpoint-10') },
  empties: { command: shell('true') },
  sleeps: { command: shell('sleep 30 & echo $! >"$TROUPE_OUT/pid"; wait'), timeout_s: 0.5 },
  waits: { command: shell('echo $$ >"$TROUPE_PARAMS.pid"; sleep 30') },
});

describe('training by a program', () => {
  const home = mkdtempSync(join(tmpdir(), 'troupe-engines-'));
  let fresh: TestDatabase;
  let context: JobContext;
  let common: { base: string; dataset: string; policy: string; seed: number };
  let base: string;
  const stop = new AbortController();
  const working: Promise<unknown>[] = [];
  const work = (worker: string, leaseMs: number, within: string) =>
    working.push(
      runJobs(context, {
        worker,
        within,
        leaseMs,
        pollMs: 20,
        signal: stop.signal,
        handlers: {
          program: programTraining(context, {
            engines: ENGINES,
            env: { ...process.env, SHARED: 'a shared variable', SECRET: 'a secret', ADAPTER: join(home, 'peft') },
            checkpoints: join(home, 'checkpoints'),
            work: join(home, 'work'),
            codeVersion: 'test',
            signal: stop.signal,
          }),
        },
      }),
    );
  const request = (job_id: string, engine: string, params = {}) =>
    requestJob(context, { job_id, kind: 'program', spec: { ...common, engine, params } });
  const done = async (engine: string, params = {}) => {
    await request(`all/${engine}`, engine, params);
    return (await waitForJob(context.db, `all/${engine}`)) as Record<string, unknown>;
  };

  beforeAll(async () => {
    fresh = await freshDatabase({ max: 8 });
    const log = postgresLog(fresh.db);
    context = { db: fresh.db, log, now: () => new Date() };
    await log.append(
      plays(2).map((envelope) => {
        const decoded = decodeEnvelope(envelope);
        if (decoded.refusal) throw new Error(JSON.stringify(decoded.refusal));
        return decoded.event;
      }),
    );
    await projectAll(fresh.db);
    const made = await newModelDirectory(join(home, 'model'), {
      config: { ...tinyConfig, vocab_size: WORDS.length + 2, bos_token_id: null },
      tokenizer: wordTokenizer(WORDS, ['<pad>', '<end>'], { eos: '<end>', pad: '<pad>' }),
      chatTemplate: null,
      seed: 3,
    });
    base = made.id;
    mkdirSync(join(home, 'peft'));
    const { config } = await openModelForIds(made.dir);
    const matrices = new Map(
      [...initialAdapter(config, ADAPTER, 5)].map(([name, { shape, data }]) => [
        name,
        { shape, data: data.map((_, i) => ((i % 7) - 3) / 10) },
      ]),
    );
    for (const [name, bytes] of adapterFiles(ADAPTER, matrices, { baseModel: 'a name of a hub' }))
      writeFileSync(join(home, 'peft', name), bytes);
    const frozen = await freeze(
      fresh.db,
      { name: 'all' },
      { directory: join(home, 'datasets'), codeVersion: 't', log },
    );
    common = { base: made.dir, dataset: frozen.directory, policy: 'team', seed: 11 };
    work('w', 30_000, 'all');
  });
  afterAll(async () => {
    stop.abort();
    await Promise.all(working);
    await fresh.close();
    rmSync(home, { recursive: true, force: true });
  });

  it('gets dataset, base, parameters and seed, and what it leaves becomes a checkpoint with its lineage and metrics', async () => {
    const result = await done('copies', { epochs: 2 });
    expect(result).toMatchObject({ metrics: { loss: 1.5 }, metrics_refused: 1 });
    const log = readFileSync(String(result.log), 'utf8');
    expect(log).toBe('training {"epochs":2} with seed 11 and a shared variable, not \n');
    const { id, meta } = await verifyCheckpoint(String(result.directory));
    expect(id).toBe(result.checkpoint_id);
    expect(meta).toMatchObject({ parent: base, step: 2, seed: 11, metrics: { loss: 1.5 } });
    await projectAll(fresh.db);
    const saved = await fresh.db.query(
      'select parent_id, policy, job_id from facts.checkpoints where checkpoint_id = $1',
      [id],
    );
    expect(saved.rows).toEqual([{ parent_id: base, policy: 'team', job_id: 'all/copies' }]);
    const { rows } = await fresh.db.query(
      `select step::integer as step, name, value from facts.job_metrics where job_id = 'all/copies' order by step`,
    );
    expect(rows).toEqual([
      { step: 1, name: 'loss', value: 2.5 },
      { step: 2, name: 'loss', value: 1.5 },
    ]);
  });

  it('fails with its code and the end of its log, with what is no model, or after its time, and publishes nothing', async () => {
    await expect(done('fails')).rejects.toThrow(/ended with 3\..*half way\\nno memory left/s);
    await expect(done('empties')).rejects.toThrow(/no model that can be used.* It left nothing\./);
    await expect(done('nests')).rejects.toThrow(/It left checkpoint-10\./);
    await expect(done('sleeps')).rejects.toThrow(/ended after 0\.5 s/);
    await expect(done('nobody')).rejects.toThrow(/no engine .*copies, fails/);
    await projectAll(fresh.db);
    const { rows } = await fresh.db.query(
      `select job_id from facts.checkpoints where job_id not in ('all/copies', 'all/adapts')`,
    );
    expect(rows).toEqual([]);
  });

  it('a program that leaves the model alone, without a tokenizer, has that of the base', async () => {
    const { directory } = await done('models');
    const { tokenizer, sideFiles } = await openModelForIds(String(directory));
    expect(tokenizer.encode('two')).toHaveLength(1);
    expect(JSON.parse(sideFiles['generation_config.json']!)).toEqual({});
  });

  it('an adapter that a program leaves is a checkpoint with it folded in, and lies beside it over the base', async () => {
    const result = await done('adapts');
    expect(result).toMatchObject({ adapter: { base, ...ADAPTER } });
    const [below, folded, beside] = await Promise.all([
      openModelForIds(common.base),
      openModelForIds(String(result.directory)),
      openAdapter(`${result.directory}-adapter`),
    ]);
    expect(folded.weights).toEqual(mergeAdapter(below.config, below.weights, beside.adapter, beside.weights));
    expect(folded.weights).not.toEqual(below.weights);
    expect(folded.meta).toMatchObject({ parent: base, adapter: { base, ...ADAPTER } });
    expect([beside.adapter, beside.baseModel]).toEqual([ADAPTER, common.base]);
    await expect(done('misfits')).rejects.toThrow(/no model that can be used/);
    // Whoever trains on goes on with that adapter.
    const learner = await openLearner(String(result.directory), { adapter: ADAPTER, bases: [common.base] });
    expect(learner.model.trained).toEqual(beside.weights);
    await closeLearner(learner);
  });

  it('a program that ran out of time is gone with everything it started', async () => {
    const pid = Number(readFileSync(join(home, 'work', 'all_sleeps-1', 'model', 'pid'), 'utf8'));
    expect(alive(pid)).toBe(false);
  });

  it('P31: the program of a worker whose job went to another is ended', async () => {
    work('slow', 600, 'mine');
    await request('mine/waits', 'waits');
    const file = join(home, 'work', 'mine_waits-1', 'params.json.pid');
    const until = Date.now() + 20_000;
    while (!existsSync(file) && Date.now() < until) await sleep(20);
    const pid = Number(readFileSync(file, 'utf8'));
    expect(alive(pid)).toBe(true);
    await fresh.db.query(
      `update troupe.job_queue set token = token + 1, state = 'finished', outcome = 'cancelled' where job_id = 'mine/waits'`,
    );
    while (alive(pid) && Date.now() < until) await sleep(20);
    expect(alive(pid)).toBe(false);
  });
});

describe('the setting engines', () => {
  it('names the field that does not fit, and the engines that there are', () => {
    for (const [setting, expected] of [
      [{ trl: { comand: ['x'] } }, 'comand'],
      [{ trl: { command: 'python train.py' } }, 'engines.trl.command'],
      [{ trl: { command: ['x'], env: ['A=1'] } }, 'engines.trl.env'],
      [{ trl: { command: ['x'], timeout_s: 0 } }, 'engines.trl.timeout_s'],
      [{ trl: { command: ['x'], elsewhere: 'yes' } }, 'engines.trl.elsewhere'],
      [{ 'a b': { command: ['x'] } }, 'a b'],
    ] as const)
      expect(() => readEngines(setting)).toThrow(expected);
    expect(() => findEngine(readEngines({ trl: { command: ['x'] } }), 'tlr')).toThrow('trl');
    expect(() => findEngine([], 'trl')).toThrow('the setting engines is empty');
  });
});

function alive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    // A dead child of somebody else stays as a zombie until it is waited for.
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
}
