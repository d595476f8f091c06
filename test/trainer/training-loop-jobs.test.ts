import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { decodeEnvelope } from '../../ingest/events/decode.ts';
import { postgresLog } from '../../ingest/log/postgres.ts';
import { recordRelease } from '../../store/loop/release/releases.ts';
import { waitProjected } from '../../store/projecting/positions.ts';
import { runProjector } from '../../store/projecting/projector.ts';
import { storeHandlers } from '../../store/queue/jobs/handlers.ts';
import { cancelJob, type JobContext, requestJob, waitForJob } from '../../store/queue/jobs/jobs.ts';
import { runJobs } from '../../store/queue/jobs/worker.ts';
import { trainerHandlers } from '../../trainer/loop/jobs/handlers.ts';
import { openAdapter } from '../../trainer/model/adapter-directory.ts';
import { mergeAdapter } from '../../trainer/model/lora.ts';
import { newModelDirectory, openModelForIds } from '../../trainer/model/model-directory.ts';
import { wordTokenizer } from '../../trainer/model/tokens/tokenizer.ts';
import { plays, WORDS } from '../cli/support/plays.ts';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { tinyConfig } from './tiny-checkpoint.ts';

describe('training as jobs', () => {
  const home = mkdtempSync(join(tmpdir(), 'troupe-jobs-'));
  let fresh: TestDatabase;
  let context: JobContext;
  let free = 1e12;
  let base: string;
  let dataset: string;
  const stop = new AbortController();
  let working: Promise<unknown>;

  /** Asks for a job, waits for its end, and gives its result and what it reported, by step. */
  async function done(id: string, kind: string, spec: Record<string, unknown>) {
    await requestJob(context, { job_id: id, kind, spec });
    const result = (await waitForJob(context.db, id)) as Record<string, never>;
    await waitProjected(context.db);
    const { rows } = await context.db.query<{ step: string; name: string; value: number }>(
      'select step, name, value from traj.job_metrics where job_id = $1 order by step, name',
      [id],
    );
    return { result, metrics: rows.map((row) => ({ ...row, step: Number(row.step) })) };
  }

  beforeAll(async () => {
    fresh = await freshDatabase();
    const log = postgresLog(fresh.db);
    context = { db: fresh.db, log, now: () => new Date() };
    await log.append(
      plays(6).map((envelope) => {
        const decoded = decodeEnvelope(envelope);
        if (decoded.refusal) throw new Error(JSON.stringify(decoded.refusal));
        return decoded.event;
      }),
    );
    const made = await newModelDirectory(join(home, 'model'), {
      config: { ...tinyConfig, vocab_size: WORDS.length + 2, bos_token_id: null },
      tokenizer: wordTokenizer(WORDS, ['<pad>', '<end>'], { eos: '<end>', pad: '<pad>' }),
      chatTemplate: null,
      seed: 3,
    });
    base = made.dir;
    const work = runJobs(context, {
      worker: 'w',
      signal: stop.signal,
      handlers: {
        ...storeHandlers(context, { datasets: join(home, 'datasets'), codeVersion: 'test' }),
        ...trainerHandlers(context, {
          checkpoints: join(home, 'checkpoints'),
          threads: 1,
          codeVersion: 'test',
          freeMemory: () => free,
        }),
      },
    });
    working = Promise.all([work, runProjector(fresh.db, { signal: stop.signal })]);
    const episodes = Array.from({ length: 24 }, (_, i) => `play-${Math.floor(i / 4)}-${i % 4}`);
    await done('judged', 'judge', { methods: [{ method: 'grpo_advantage' }], episodes });
    const recipe = { name: 'all', unit: 'step', roles: ['solver'], credit: 'grpo_advantage' };
    const { result } = await done('frozen', 'freeze', { recipe });
    dataset = String(result.directory);
  });
  afterAll(async () => {
    stop.abort();
    await working;
    await fresh.close();
    rmSync(home, { recursive: true, force: true });
  });

  it('a job that memory is too small for fails before its first step, with numbers and what a smaller one would take', async () => {
    free = 0;
    const sft = { steps: { solver: 2 }, batch: 4, learning_rate: 0.01, warmup: 1, entropy: 0 };
    const dpo = { steps: 2, batch: 4, learning_rate: 0.005, warmup: 0, beta: 0.1 };
    const roles = [{ role: 'solver', groups: 3, learning_rate: 1e-3, entropy: 0 }];
    const rl = { roles, clip_low: 0.2, clip_high: 0.2, warmup: 1 };
    for (const [kind, spec] of Object.entries({ sft, dpo, rl })) {
      await expect(done(`small ${kind}`, kind, { ...common(), ...spec })).rejects.toThrow(
        /needs about \d+ MB of memory/,
      );
    }
    free = 1e12;
  });

  const common = () => ({ base, dataset, policy: 'team', seed: 1 });

  it('live weights of a policy are kept whatever other policies save, its own oldest ones go, and with a checkpoint that is kept all but the newest that no rollout needs', async () => {
    const saved = async (policy: string, n: number, keep = false) => {
      const sft = { steps: { solver: 1 }, batch: 4, learning_rate: 0.01, warmup: 0, entropy: 0, keep };
      const { result } = await done(`live ${policy} ${n}`, 'sft', { ...common(), ...sft, policy, seed: n });
      return String(result.directory);
    };
    const first = await saved('solver', 1);
    mkdirSync(`${first}-adapter`);
    const others: string[] = [];
    for (const n of [1, 2, 3, 4]) others.push(await saved('critic', n));
    expect([first, `${first}-adapter`].map(existsSync)).toEqual([true, true]);
    expect(others.map((dir) => existsSync(dir))).toEqual([false, true, true, true]);
    for (const n of [2, 3, 4]) await saved('solver', n);
    expect([first, `${first}-adapter`].map(existsSync)).toEqual([false, false]);
    const weights = { critic: { checkpoint_id: basename(others[1]!), directory: others[1] } };
    await fresh.db.query(
      `insert into troupe.job_queue (job_id, kind, spec, state, requested_at) values ('at play', 'rollout', $1, 'waiting', now())`,
      [JSON.stringify({ weights })],
    );
    const kept = await saved('critic', 5, true);
    expect([kept, ...others].map(existsSync)).toEqual([true, false, true, false, true]);
    await fresh.db.query(`delete from troupe.job_queue where job_id = 'at play'`);
  });

  it('live weights that a release, a job or the run of another plan refers to stay, however many others are saved', async () => {
    const sft = { steps: { solver: 1 }, batch: 4, learning_rate: 0.01, keep: false };
    const saved = async (id: string, seed: number) =>
      String((await done(id, 'sft', { ...common(), ...sft, policy: 'shared', seed })).result.directory);
    const queued = (id: string, kind: string, state: string, spec: object, ended: object = {}) =>
      fresh.db.query(
        `insert into troupe.job_queue (job_id, kind, spec, state, outcome, result, requested_at) values ($1, $2, $3, $4, $5, $6, now())`,
        [
          id,
          kind,
          JSON.stringify(spec),
          state,
          state === 'finished' ? 'done' : null,
          state === 'finished' ? JSON.stringify(ended) : null,
        ],
      );
    // The iteration of a run that waits for its next rollout, of one that its budget ended, and of one that is over.
    await queued('other-1', 'plan', 'waiting', {});
    await queued('short-1', 'plan', 'finished', {}, { ended_early: 'The budget is used up.' });
    await queued('over-1', 'plan', 'finished', {}, { ended_early: null });
    const before = await saved('other-1/1/1/train-shared', 1);
    const last = await saved('other-1/1/2/train-shared', 2);
    const short = await saved('short-1/1/1/train-shared', 3);
    const over = await saved('over-1/1/1/train-shared', 4);
    const named = await saved('named', 5);
    const released = await saved('released', 6);
    await queued('a canary', 'canary', 'waiting', { maps: { candidate: { shared: { directory: named } } } });
    await recordRelease(context.log, {
      ...{ release_id: 'by-hand', policies: { shared: basename(released) }, teams: {}, reason: 'a try' },
      ...{ by: 'somebody', source: '/test', time: new Date().toISOString() },
    });
    await waitProjected(context.db);
    for (const n of [7, 8, 9]) await saved(`more ${n}`, n);
    expect([before, last, short, over, named, released].map(existsSync)).toEqual([
      ...[false, true, true, false, true, true],
    ]);
    await fresh.db.query(`delete from troupe.job_queue where job_id in ('other-1', 'short-1', 'over-1', 'a canary')`);
  }, 60_000);

  const sft = { steps: { solver: 3 }, batch: 4, learning_rate: 0.01, warmup: 0, entropy: 0, reset_optimizer: true };
  const lora = { r: 2, alpha: 4, targets: ['q_proj', 'down_proj'] };
  const trained = async (id: string, kind: string, spec: Record<string, unknown>) =>
    String((await done(id, kind, { ...common(), ...spec })).result.directory);
  /** A checkpoint, the adapter beside it, and what both say of the base. */
  const adapted = async (dir: string) => {
    const [model, beside, below] = await Promise.all([
      openModelForIds(dir),
      openAdapter(`${dir}-adapter`),
      openModelForIds(base),
    ]);
    return { ...model, beside, below };
  };

  it('an adapter goes on from job to job over one base, by whichever method, and each checkpoint is that base with it', async () => {
    const before = await openModelForIds(base);
    const first = await trained('adapted', 'sft', { ...sft, lora });
    const second = await trained('adapted again', 'sft', { ...sft, lora, base: first });
    const dpo = { steps: 2, batch: 4, learning_rate: 0.005, warmup: 0, beta: 0.1, reset_optimizer: true };
    const third = await trained('adapted by pairs', 'dpo', { ...dpo, lora, base: second });
    const line = await Promise.all([first, second, third].map(adapted));
    for (const [i, { weights, config, meta, beside, below }] of line.entries()) {
      expect(below.id).toBe(before.id);
      expect(meta).toMatchObject({
        parent: i === 0 ? before.id : line[i - 1]!.id,
        adapter: { ...lora, base: before.id },
      });
      expect(beside).toMatchObject({ baseModel: base, adapter: lora });
      expect(weights).toEqual(mergeAdapter(config, below.weights, beside.adapter, beside.weights));
    }
    const matrices = (name: string) => line.map(({ beside }) => beside.weights.get(name)!.data);
    for (const name of ['lora_A', 'lora_B'])
      expect(new Set(matrices(`model.layers.0.self_attn.q_proj.${name}.weight`).map(String)).size).toBe(3);
    await waitProjected(context.db);
    const { rows } = await context.db.query(
      `select checkpoint_id, parent_id, config -> 'adapter' ->> 'base' as base from traj.checkpoints where checkpoint_id = $1`,
      [line[2]!.id],
    );
    expect(rows).toEqual([{ checkpoint_id: line[2]!.id, parent_id: line[1]!.id, base: before.id }]);
    // Another learner has come between: what was in memory comes from the disk, the moments of the optimizer too.
    const on = { ...sft, lora, base: second, reset_optimizer: false };
    const warm = await trained('goes on warm', 'sft', {
      ...on,
      base: await trained('before it', 'sft', { ...on, seed: 9 }),
    });
    await trained('between', 'sft', sft);
    const cold = await trained('goes on cold', 'sft', {
      ...on,
      base: await trained('before it', 'sft', { ...on, seed: 9 }),
    });
    expect(cold).toBe(warm);
  }, 60_000);

  it('an adapter of other numbers or without its base is refused, and weights without one are trained whole', async () => {
    const first = await trained('adapted', 'sft', { ...sft, lora });
    const other = trained('another rank', 'sft', { ...sft, lora: { ...lora, r: 3 }, base: first });
    await expect(other).rejects.toThrow(/has an adapter with r=2,alpha=4.*cannot be trained with r=3/);
    await expect(trained('no such map', 'sft', { ...sft, lora: { ...lora, targets: ['qkv'] } })).rejects.toThrow(
      /the target .*qkv/,
    );
    const moved = join(home, 'elsewhere', 'a');
    cpSync(first, moved, { recursive: true });
    const lost = { ...sft, lora, base: moved };
    await expect(trained('lost', 'sft', lost)).rejects.toThrow(/lies over the model .* was not found/);
    const wrong = { ...lost, lora_base: first };
    await expect(trained('wrong', 'sft', wrong)).rejects.toThrow(/was not found.* holds /);
    const found = await trained('found', 'sft', { ...lost, lora_base: base });
    expect((await adapted(found)).beside.baseModel).toBe(base);
    const whole = await openModelForIds(await trained('whole', 'sft', { ...sft, base: first }));
    expect([whole.meta.adapter, whole.state]).toEqual([undefined, null]);
    expect(whole.optimizer!.m.has('model.embed_tokens.weight')).toBe(true);
  }, 60_000);

  it('a dpo job learns from the answers that came out best and worst, and its numbers stand in traj.job_metrics', async () => {
    const { result, metrics } = await done('pairs', 'dpo', {
      ...common(),
      ...{ steps: 25, batch: 4, learning_rate: 0.005, warmup: 2, beta: 0.1 },
    });
    expect(result).toMatchObject({ checkpoint_id: expect.any(String), metrics: { accuracy: 1 } });
    const of = (name: string) => metrics.filter((row) => row.name === name);
    expect(of('loss').map(({ step }) => step)).toEqual([10, 20, 25]);
    expect(of('loss').at(-1)!.value).toBeLessThan(Math.LN2);
    for (const name of ['accuracy', 'gradient_norm', 'learning_rate', 'reward_margin', 'share', 'tokens_per_second']) {
      expect(of(name)).toHaveLength(3);
    }
  });

  it('a dpo job cuts its pairs to the context of the model, and says where nothing of them is left', async () => {
    // Five tokens of prompt and two of answer in each row.
    const within = async (context: number) => {
      const { dir } = await newModelDirectory(join(home, `model-${context}`), {
        config: { ...tinyConfig, vocab_size: WORDS.length + 2, bos_token_id: null, max_position_embeddings: context },
        tokenizer: wordTokenizer(WORDS, ['<pad>', '<end>'], { eos: '<end>', pad: '<pad>' }),
        chatTemplate: null,
        seed: 3,
      });
      const numbers = { steps: 2, batch: 4, learning_rate: 0.005, warmup: 0, beta: 0.1 };
      return done(`pairs within ${context}`, 'dpo', { ...common(), base: dir, ...numbers });
    };
    await expect(within(5)).rejects.toThrow(/none of its \d+ rows has anything to learn within the context/);
    const [cut, whole] = [await within(6), await within(7)];
    const loss = ({ metrics }: typeof cut) => metrics.find(({ name }) => name === 'loss')!.value;
    expect(loss(cut)).not.toBe(loss(whole));
    expect(cut.result).toMatchObject({ metrics: { rows_cut: expect.any(Number) } });
    expect(whole.result).not.toMatchObject({ metrics: { rows_cut: expect.any(Number) } });
  }, 60_000);

  it('an sft job reports every tenth step and the last, with token accuracy where asked for', async () => {
    const { metrics } = await done('taught', 'sft', {
      ...common(),
      ...{ steps: { solver: 12 }, batch: 4, learning_rate: 0.01, warmup: 1, entropy: 0, accuracy: true },
    });
    const accuracies = metrics.filter(({ name }) => name === 'accuracy');
    expect(accuracies.map(({ step }) => step)).toEqual([10, 12]);
  });

  it('an rl job can take another loss, with a divergence to its base', async () => {
    const { result, metrics } = await done('played', 'rl', {
      ...common(),
      roles: [{ role: 'solver', groups: 3, learning_rate: 1e-3, entropy: 0.01 }],
      ...{ clip_low: 0.2, clip_high: 0.2, warmup: 1, loss: 'grpo', kl: 0.05, epochs: 2 },
    });
    expect(result).toMatchObject({ metrics: { 'solver.steps': 4 } });
    const names = new Set(metrics.map(({ name }) => name));
    for (const name of ['kl', 'clip_share', 'entropy', 'loss']) expect(names).toContain(name);
  });

  it('an rl job whose rows have no advantage fails, and says where the reasons are', async () => {
    await context.db.query(`update facts.credits set value = null, reason = 'missing_reward'`);
    const recipe = { name: 'unknown', unit: 'step', roles: ['solver'], credit: 'grpo_advantage' };
    const { result } = await done('frozen without', 'freeze', { recipe });
    const roles = [{ role: 'solver', groups: 3, learning_rate: 1e-3, entropy: 0 }];
    const spec = { ...common(), dataset: String(result.directory), roles, clip_low: 0.2, clip_high: 0.2, warmup: 1 };
    await expect(done('unknown', 'rl', spec)).rejects.toThrow(
      /None of the 24 rows has an advantage.+traj\.credits where/,
    );
  });

  it('a value job teaches what answers are worth, whose value a pass then records where methods read it', async () => {
    const value = { steps: 150, batch: 12, learning_rate: 0.01, warmup: 1 };
    const { result, metrics } = await done('critic', 'value', { ...common(), ...value, of: 'answer' });
    expect(metrics.filter(({ name }) => name === 'loss').at(-1)!.value).toBeLessThan(0.2);
    // The advantages of two right and two wrong answers: ±1 over the deviation with ddof 1, √3/2 up to eps.
    const pass = { pass: 'value-of-answer', model: String(result.directory), where: null };
    expect((await done('values', 'pass', pass)).result).toMatchObject({ episodes: 24, steps: 24, recorded: 24 });
    expect((await done('values again', 'pass', pass)).result).toMatchObject({ steps: 24, recorded: 0 });
    const { rows } = await context.db.query<{ right: boolean; least: number; most: number }>(
      `select e.reward > 0 as right, min(f.value)::float8 as least, max(f.value)::float8 as most
       from traj.feedback f join traj.episodes e using (episode_id) where f.name = 'value' group by 1 order by 1`,
    );
    expect(rows.map(({ right }) => right)).toEqual([false, true]);
    expect(rows[0]!.most).toBeLessThan(rows[1]!.least);
    // A language model has no head for values yet: a new one says 0 of every state.
    const untrained = { pass: 'value-of-state', model: base, where: null };
    expect((await done('untrained', 'pass', untrained)).result).toMatchObject({ recorded: 24 });
    const zero = await context.db.query(
      `select distinct value::float8 as value from traj.feedback where name = 'value' and label = 'value-of-state'`,
    );
    expect(zero.rows).toEqual([{ value: 0 }]);
  }, 120_000);

  it('P34: a training that is cancelled stops at a step, saves no checkpoint, and leaves the worker to the next job', async () => {
    const sft = { batch: 4, learning_rate: 0.01, warmup: 1, entropy: 0 };
    const spec = { ...common(), ...sft, steps: { solver: 1_000_000 } };
    await requestJob(context, { job_id: 'endless', kind: 'sft', spec });
    const progressed = async () =>
      (await context.db.query(`select 1 from troupe.events where key = 'j/endless' and name = 'job.progressed'`)).count;
    await expect.poll(progressed, { timeout: 60_000, interval: 50 }).toBeGreaterThan(0);
    expect(await cancelJob(context, 'endless', { by: 'ann', reason: null })).toEqual(['endless']);
    await done('next', 'sft', { ...common(), ...sft, steps: { solver: 2 } });
    const { rows } = await context.db.query('select job_id from traj.checkpoints where job_id = any($1) order by 1', [
      ['endless', 'next'],
    ]);
    expect(rows).toEqual([{ job_id: 'next' }]);
  }, 120_000);
});
