/**
 * The whole loop, small: a team plays over HTTP, the log and the tables carry everything to the judge, the dataset and the trainer, and
 * nothing goes behind their backs.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { buildApp } from '../api/http/app.ts';
import { openKeyRing } from '../api/http/key-ring.ts';
import { serve } from '../api/http/serve.ts';
import { MODEL_SPEC } from '../examples/coder-verifier/model-spec.ts';
import { play } from '../examples/coder-verifier/play.ts';
import { sampleTask, TRAINING_MIX } from '../examples/coder-verifier/splits.ts';
import { taskLine } from '../examples/coder-verifier/task-line.ts';
import { openGateway } from '../examples/lib/gateway.ts';
import { createRandom } from '../examples/lib/random.ts';
import { playAll } from '../examples/lib/worker.ts';
import { fileArtifacts } from '../ingest/log/artifacts.ts';
import { postgresBook, postgresLog } from '../ingest/log/postgres.ts';
import { createRecorder } from '../ingest/recorder/recorder.ts';
import { datasetDiff } from '../store/datasets/diff.ts';
import { openDataset } from '../store/datasets/read.ts';
import { openPool } from '../store/db/pool.ts';
import { judgeAgain } from '../store/evaluate/judging/judge.ts';
import { projectAll } from '../store/projecting/projector.ts';
import { checksum } from '../store/projecting/rebuilding/checksum.ts';
import { rebuild } from '../store/projecting/rebuilding/rebuild.ts';
import { storeHandlers } from '../store/queue/jobs/handlers.ts';
import type { Job, JobContext } from '../store/queue/jobs/jobs.ts';
import { trainerHandlers } from '../trainer/loop/jobs/handlers.ts';
import { newModelDirectory, openModel } from '../trainer/model/model-directory.ts';
import { wordTokenizer } from '../trainer/model/tokens/tokenizer.ts';
import { Policy } from '../trainer/sample/policy.ts';
import { event } from './store/support/events.ts';
import { freshDatabase, type TestDatabase } from './support/database.ts';

const METHODS = [
  { method: 'cosigned_rewards', params: { trust: 0.2 } },
  { method: 'floored_advantage', reads: 'cosigned_rewards' },
];
const RL = {
  policy: 'team',
  roles: [
    { role: 'coder', groups: 8, learning_rate: 1e-3, entropy: 0.01 },
    { role: 'verifier', groups: 8, learning_rate: 1e-3, entropy: 0.01 },
  ],
  clip_low: 0.2,
  clip_high: 0.28,
  warmup: 1,
  seed: 5,
  reset_optimizer: true,
  keep: true,
};

describe('the loop', () => {
  const home = mkdtempSync(join(tmpdir(), 'troupe-loop-'));
  let fresh: TestDatabase;
  let model: string;
  let episodes: readonly string[];

  /** A stage as a process of its own would be: nothing in memory from the stage before, only the log and the tables. */
  async function stage<T>(kind: string, spec: Record<string, unknown>): Promise<T> {
    const db = openPool(fresh.url, { max: 3 });
    try {
      const context: JobContext = { db, log: postgresLog(db), now: () => new Date() };
      await projectAll(db);
      const handlers = {
        ...storeHandlers(context, { datasets: join(home, 'datasets'), codeVersion: 'test' }),
        ...trainerHandlers(context, { checkpoints: join(home, 'checkpoints'), threads: 1, codeVersion: 'test' }),
      };
      const job: Job = { job_id: `job-${kind}-${counter++}`, kind, spec, token: 1 };
      // As a worker holds it.
      await db.query(
        `insert into troupe.job_queue (job_id, kind, spec, state, worker, token) values ($1, $2, $3, 'running', 'test', 1)`,
        [job.job_id, kind, JSON.stringify(spec)],
      );
      const result = await handlers[kind]!(job, async () => {}, new AbortController().signal);
      await projectAll(db);
      return result as T;
    } finally {
      await db.close();
    }
  }
  let counter = 0;

  const freeze = () =>
    stage<{ directory: string; content_sha256: string; rows: { train: number } }>('freeze', {
      recipe: {
        name: 'loop',
        where: { field: 'episode_id', op: 'in', value: episodes },
        unit: 'step',
        roles: ['coder', 'verifier'],
        reward: { method: 'cosigned_rewards', params: { trust: 0.2 } },
        credit: 'floored_advantage',
      },
    });
  const train = async (dataset: string) => {
    const trained = await stage<{ checkpoint_id: string; directory: string }>('rl', { ...RL, base: model, dataset });
    const { files } = JSON.parse(readFileSync(join(trained.directory, 'troupe.json'), 'utf8'));
    return { ...trained, weights: files['model.safetensors'].sha256 as string };
  };

  beforeAll(async () => {
    fresh = await freshDatabase();
    const spec = MODEL_SPEC;
    const made = await newModelDirectory(join(home, 'model'), {
      config: {
        ...spec.config,
        hidden_size: 32,
        intermediate_size: 64,
        num_hidden_layers: 1,
        bos_token_id: null,
        eos_token_id: spec.special_tokens.indexOf(spec.eos_token),
        pad_token_id: spec.special_tokens.indexOf(spec.pad_token),
      },
      tokenizer: wordTokenizer(spec.words, spec.special_tokens, { eos: spec.eos_token, pad: spec.pad_token }),
      chatTemplate: spec.chat_template,
      seed: 3,
    });
    model = made.dir;
    const opened = await openModel(model);
    const policy = await Policy.load(opened.config, opened.weights);
    const { db } = fresh;
    const policyServers = {
      models: async () => ['policy:team'],
      prompt: () => Promise.reject(new Error('nobody asks for prompts')),
      sample: async (
        _: unknown,
        ask: {
          messages?: readonly { role: string; content?: unknown }[];
          n?: number;
          max_tokens?: number;
          temperature?: number;
          seed?: number;
        },
      ) => {
        const promptIds = opened.template!.promptIds(ask.messages!, { addGenerationPrompt: true });
        const [samples] = await policy.sample([
          {
            promptIds,
            n: ask.n ?? 1,
            maxTokens: ask.max_tokens ?? 8,
            temperature: ask.temperature ?? 1,
            seed: ask.seed ?? 0,
            stopIds: opened.eosIds,
          },
        ]);
        const choices = samples!.map((sample) => ({
          token_ids: sample.tokenIds,
          logprobs: sample.logprobs,
          text: opened.tokenizer.decode(sample.tokenIds.filter((id) => !opened.eosIds.includes(id))),
          finish_reason: sample.finish,
        }));
        const completion = choices.reduce((sum, choice) => sum + choice.token_ids.length, 0);
        return {
          choices,
          prompt_token_ids: promptIds,
          model: 'team',
          checkpoint: opened.id,
          usage: { prompt_tokens: promptIds.length, completion_tokens: completion },
        };
      },
    };
    const app = await buildApp({
      db,
      log: postgresLog(db),
      book: postgresBook(db),
      artifacts: fileArtifacts(join(home, 'artifacts')),
      policyServers,
      keys: openKeyRing(db),
      project: 'test',
      version: 'test',
    });
    const { url, close } = await serve(app, { host: '127.0.0.1', port: 0 });
    const gateway = openGateway(url);
    const recorder = createRecorder({ baseUrl: url, source: '/test/team' });
    const random = createRandom(11);
    const attempts = Array.from({ length: 8 }, (_, i) => {
      const inputs = i < 4 ? 2 : 0;
      const task = taskLine(sampleTask('train', random, TRAINING_MIX), { programs: 6, inputs, tests_per_input: 2 });
      const of = { rollout_id: 'loop', group_id: `loop/${i}` };
      return { ...of, attempt_id: `loop/${i}`, token: 1, episode_id: `loop/${i}`, task, seed: 46 + i };
    });
    episodes = attempts.map(({ episode_id }) => episode_id);
    // What a rollout records for its attempts.
    for (const { episode_id, task } of attempts) {
      recorder.task({ task_id: task.task_id, query: task.prompt, ground_truth: task.answer });
      recorder.episode({ episode_id, task_id: task.task_id, group_id: episode_id, group_size: 1 });
    }
    const models = { policy: 'policy:team' };
    for (const report of await playAll(attempts, { gateway, recorder, models }, play))
      recorder.finish({ episode_id: report.attempt_id, outcome: 'unknown' });
    await recorder.flush();
    gateway.close();
    await close();
    await policy.close();
    await stage('judge', { methods: METHODS, episodes });
  });
  afterAll(async () => {
    await fresh.close();
    rmSync(home, { recursive: true, force: true });
  });

  it('records the answers of the gateway with tokens, log-probabilities and the checkpoint that generated them', async () => {
    const { rows } = await fresh.db.query(
      `select count(*)::integer as steps, bool_and(cardinality(token_ids) = cardinality(logprobs)) as whole, count(distinct checkpoint_id)::integer as checkpoints,
              bool_and(prompt_token_ids is not null) as prompts from traj.steps`,
    );
    expect(rows).toEqual([{ steps: 8 * 6 + 4 * 4, whole: true, checkpoints: 1, prompts: true }]);
  });

  it('shows a row for each cell of an execution matrix', async () => {
    const { rows } = await fresh.db.query(
      `select count(*)::integer as cells, count(*) filter (where ground_truth)::integer as truth from traj.executions`,
    );
    // 6 programs and the reference; 4 tests and the truth, or the truth alone where no verifier worked.
    expect(rows).toEqual([{ cells: 4 * 7 * 5 + 4 * 7 * 1, truth: 8 * 7 }]);
  });

  it('trains the same weights when every stage starts anew', async () => {
    const data = await freeze();
    expect(data.rows.train).toBe(8 * 6 + 4 * 4);
    const first = await train(data.directory);
    const second = await train(data.directory);
    expect(second.weights).toBe(first.weights);
    const before = JSON.parse(readFileSync(join(model, 'troupe.json'), 'utf8')).files['model.safetensors'].sha256;
    expect(first.weights).not.toBe(before);
  });

  it('lists the episodes that trained a checkpoint and the checkpoint that generated each step', async () => {
    const data = await freeze();
    const { checkpoint_id } = await train(data.directory);
    const { rows } = await fresh.db.query<{ episode_id: string }>(
      `select distinct episode_id from traj.lineage where checkpoint_id = $1 and relation = 'trained on' order by 1`,
      [checkpoint_id],
    );
    expect(rows.map((row) => row.episode_id)).toEqual([...episodes].sort());
    const { rows: generatedSteps } = await fresh.db.query(
      `select count(*)::integer as n from traj.lineage where relation = 'spoke'`,
    );
    expect(generatedSteps).toEqual([{ n: 8 * 6 + 4 * 4 }]);
  });

  it('trains other weights when a token id or a credit in the tables was edited', async () => {
    const honest = await train((await freeze()).directory);
    const edit = async (sql: string, undo: string) => {
      const { count } = await fresh.db.query(sql);
      expect(count).toBe(1);
      const edited = await train((await freeze()).directory);
      expect(edited.weights).not.toBe(honest.weights);
      await fresh.db.query(undo);
    };
    const { rows: steps } = await fresh.db.query<{ episode_id: string; call_id: string; candidate: number }>(
      // One that teaches: a step whose group has no signal is left out of training.
      `select s.episode_id, s.call_id, s.candidate from facts.steps s
       join facts.credits c on c.episode_id = s.episode_id and c.step_id = s.call_id || '/' || s.candidate
       where cardinality(token_ids) > 1 and abs(c.value) > 0.1 order by 1, 2, 3 limit 1`,
    );
    const { episode_id, call_id, candidate } = steps[0]!;
    const step = `episode_id = '${episode_id}' and call_id = '${call_id}' and candidate = ${candidate}`;
    await edit(
      `update facts.steps set token_ids[1] = (token_ids[1] + 1) % 90 where ${step}`,
      `update facts.steps set token_ids[1] = (token_ids[1] + 89) % 90 where ${step}`,
    );
    const { rows: credits } = await fresh.db.query<{ episode_id: string; step_id: string; value: number }>(
      'select episode_id, step_id, value from facts.credits where abs(value) > 0.1 order by 1, 2 limit 1',
    );
    const credited = `episode_id = '${credits[0]!.episode_id}' and step_id = '${credits[0]!.step_id}'`;
    await edit(
      `update facts.credits set value = ${credits[0]!.value + 1} where ${credited}`,
      `update facts.credits set value = ${credits[0]!.value} where ${credited}`,
    );
    expect((await train((await freeze()).directory)).weights).toBe(honest.weights);
  });

  it('changes exactly the rows of one group when one execution cell is amended', async () => {
    const before = await openDataset((await freeze()).directory);
    // A cell whose change changes a reward: the truth of a program that was run.
    const { rows } = await fresh.db.query<{
      source: string;
      id: string;
      key: string;
      program: number;
      test: number;
      pass: boolean;
    }>(
      `select e.source, e.id, e.key, x.program, x.test, x.pass from traj.executions x
       join troupe.events e on e.key = 'e/' || x.episode_id and e.name = 'feedback.recorded' and e.data ->> 'feedback_id' = x.feedback_id
       where x.ground_truth and not x.reference and x.pass is not null order by x.episode_id, x.program limit 1`,
    );
    const { source, id, key, program, test, pass } = rows[0]!;
    await postgresLog(fresh.db).append([
      event('record.amended', {
        key,
        target: { source, id },
        op: 'set',
        set: [{ path: `/matrix/pass/${program}/${test}`, value: pass ? 0 : 1 }],
        reason: 'counted wrong',
      }),
    ]);
    await stage('judge', { methods: METHODS, episodes });
    const frozen = await freeze();
    const after = await openDataset(frozen.directory);
    expect(after.manifest.content_sha256).not.toBe(before.manifest.content_sha256);
    const diff = datasetDiff(before, after);
    const changed = new Set([...diff.changed, ...diff.added, ...diff.removed].map((row) => row.episode_id));
    expect([...changed]).toEqual([key.slice(2)]);
    expect(diff.added.length + diff.removed.length).toBe(0);
  });

  it('P15: gives the same tables again from the log alone, judgements included', async () => {
    await projectAll(fresh.db);
    const before = await checksum(fresh.db);
    await rebuild(fresh.db, { judge: judgeAgain });
    expect(await checksum(fresh.db)).toEqual(before);
  });
});
