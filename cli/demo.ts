/**
 * The whole loop on one machine: a coder and a verifier, weights shared, get better at their work because of what was recorded.
 * Every stage is a process of its own that knows only the log and the tables; this file only orders the stages.
 */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { TroupeError } from '../errors.ts';
import { MODEL_SPEC } from '../examples/coder-verifier/model-spec.ts';
import type { Draft } from '../ingest/events.ts';
import { importFiles } from '../ingest/import.ts';
import { ownEvent } from '../ingest/own-event.ts';
import { anyOf, firstOf, type NotNull, query, rowsOf, sql } from '../store/db/query.ts';
import { requestJob, waitForJob } from '../store/jobs/jobs.ts';
import type { Evaluation } from '../store/judging/evaluate.ts';
import { episodesTagged, evaluateEpisodes } from '../store/judging/evaluate.ts';
import { findMethod } from '../store/methods/find.ts';
import { runMethod } from '../store/methods/run.ts';
import { waitProjected } from '../store/projecting/positions.ts';
import { newModelDirectory } from '../trainer/models/model-directory.ts';
import { connectInfer, type InferClient } from '../trainer/sampling/infer-client.ts';
import { wordTokenizer } from '../trainer/tokens/tokenizer.ts';
import {
  addressOf,
  askingLines,
  type Child,
  type RoleSettings,
  runProgram,
  startProgram,
  startRole,
} from './children.ts';
import type { Context } from './context.ts';
import { familySeconds } from './cpu.ts';
import { ITERATIONS, PLAN, POLICY } from './demo-plan.ts';
import type { Bar } from './output.ts';
import { VERSION } from './version.ts';

export type DemoOptions = {
  readonly seed: number;
  readonly rounds: number;
  readonly bar: Bar;
  /** The arguments that make the processes work on this project. */
  readonly settings: RoleSettings;
  /** Ends the demo before its end. */
  readonly signal?: AbortSignal;
  /** Called between two stages; a proof restarts every process there. */
  readonly between?: (stage: string, restart: (how: NodeJS.Signals) => Promise<void>) => Promise<void>;
  /** Called with the episodes of each play, once the team reports that they are recorded. */
  readonly onPlayed?: (episodes: readonly string[]) => void;
  /** Share of the tasks and steps; 1. */
  readonly scale?: number;
  /** Iterations in a round of reinforcement; 30 times the scale. */
  readonly iterations?: number;
  /** How many times the team learns from its own successes before that; 2. */
  readonly own?: number;
};

export type Round = {
  readonly round: number;
  readonly name: string;
  readonly checkpoint: string;
  readonly pass_at_1: number | null;
  readonly best_of_n: number | null;
  readonly majority: number | null;
  readonly hard_pass_at_1: number | null;
  readonly verifier_precision: number | null;
  readonly rejection_rate: number | null;
};

export type DemoResult = {
  readonly rounds: readonly Round[];
  readonly teachers: number | null;
  readonly seed: number;
  readonly events: number;
  readonly episodes: number;
  readonly steps: number;
  readonly dataset: { readonly rows: number; readonly sha256: string };
  readonly funnel: unknown;
  /** Loss of the warm start, every tenth step. */
  readonly warm_start: readonly { readonly step: number; readonly loss: number }[];
  readonly seconds: number;
  /** Of this process, the database and every process of the demo; null where the system does not report it. */
  readonly cpu_seconds: number | null;
};

type Trained = { readonly checkpoint_id: string; readonly directory: string };
type Frozen = {
  readonly dataset_id: string;
  readonly content_sha256: string;
  readonly rows: Record<string, number>;
  readonly funnel: unknown;
  readonly directory: string;
};

export async function runDemo(context: Context, options: DemoOptions): Promise<DemoResult> {
  const { db, log, home, now } = context;
  const { seed, rounds, bar } = options;
  const began = performance.now();
  const cpuBefore = await familySeconds(db);
  let failure: TroupeError | null = null;
  let reject: (error: TroupeError) => void = () => {};
  const died = new Promise<never>((_, no) => {
    reject = no;
  });
  died.catch(() => {});
  const fail = (error: TroupeError) => {
    failure ??= error;
    reject(error);
  };
  const units = 12 + 2 * 14 + rounds * (ITERATIONS + 4);
  let done = 0;
  const advance = (by: number, note: string) => {
    if (failure) throw failure;
    done += by;
    bar.update(Math.min(done, units), units, note);
  };
  advance(0, 'starting');
  options.signal?.addEventListener('abort', () => fail(new TroupeError('interrupted', 'The demo was interrupted.')));

  let children: Child[] = [];
  let team: (question: object) => Promise<Record<string, unknown>> = async () => ({});
  let policyClient: InferClient | null = null;

  const start = async (model: string) => {
    const { settings } = options;
    children = [
      startRole('project', settings, [], fail),
      startRole('judge', settings, [], fail),
      startRole('work', settings, [], fail),
    ];
    const serving = startRole('serve', settings, ['--port', '0'], fail);
    const inferring = startRole('infer', settings, ['--policy', POLICY, '--model', model], fail);
    children.push(serving, inferring);
    const url = await addressOf(db, serving, () => failure);
    policyClient = connectInfer(await addressOf(db, inferring, () => failure));
    const program = startProgram(
      'team',
      [
        ...process.execArgv,
        fileURLToPath(
          new URL(`../examples/coder-verifier/team${import.meta.url.endsWith('.ts') ? '.ts' : '.js'}`, import.meta.url),
        ),
        '--url',
        url,
        '--run',
        `seed-${seed}`,
      ],
      { onDeath: fail, stdin: 'pipe' },
    );
    children.push(program);
    team = askingLines(program.process);
  };
  const stop = async (how: NodeJS.Signals = 'SIGTERM') => {
    policyClient?.close();
    await Promise.all(children.map((child) => child.stop(how)));
    children = [];
  };

  let current = '';
  const after = async (stage: string) =>
    options.between?.(stage, async (how) => {
      await stop(how);
      await start(current);
    });

  /** Asks a stage for work and waits for it; between two stages everything may be restarted. */
  const stage = async <T>(kind: string, id: string, spec: Record<string, unknown>): Promise<T> => {
    const jobId = `demo-${seed}-${id}-${kind}`;
    await requestJob({ db, log, now }, { job_id: jobId, kind, spec });
    const result = await Promise.race([waitForJob(db, jobId), died]);
    await after(kind);
    return result as T;
  };
  const play = async (question: object) => {
    const played = (await Promise.race([team(question), died])) as { episodes: string[] };
    options.onPlayed?.(played.episodes);
    await after('play');
    return played;
  };
  const serve = async ({ directory }: Trained) => {
    current = directory;
    await policyClient!.load(directory, POLICY);
  };
  const record = async (draft: Draft) => {
    await log.append([ownEvent(draft)]);
  };

  const results: Round[] = [];
  /** Held-out tasks with the weights of this moment; the result is recorded as feedback on the checkpoint, and released with it. */
  const evaluate = async (name: string, { checkpoint_id }: { readonly checkpoint_id: string }) => {
    const round = results.length;
    const main = await play({
      cmd: 'evaluate',
      round,
      pool: 'new',
      ...(options.scale ? { tasks: Math.ceil(192 * options.scale) } : {}),
    });
    const hard = await play({
      cmd: 'evaluate',
      round,
      pool: 'hard',
      ...(options.scale ? { tasks: Math.ceil(96 * options.scale) } : {}),
    });
    const scores = await stage<{ new: Evaluation; hard: Evaluation }>('evaluate', `eval-${round}`, {
      sets: { new: { episodes: main.episodes }, hard: { episodes: hard.episodes } },
    });
    const { pass_at_1, best_of_n, majority, verifier_precision, rejection_rate } = scores.new;
    const result = {
      round,
      name,
      checkpoint: checkpoint_id,
      pass_at_1,
      best_of_n,
      majority,
      hard_pass_at_1: scores.hard.pass_at_1,
      verifier_precision,
      rejection_rate,
    };
    results.push(result);
    const metrics = Object.fromEntries(Object.entries(result).filter(([, value]) => typeof value === 'number'));
    await record({
      name: 'policy.released',
      source: '/demo',
      id: `seed-${seed}/round-${round}`,
      time: now().toISOString(),
      data: {
        release_id: `seed-${seed}-round-${round}`,
        policies: { [POLICY]: checkpoint_id },
        reason: name,
        by: 'demo',
        metrics,
      },
    });
    advance(4, `${name}: held-out pass@1 ${percent(pass_at_1)}`);
  };

  const scaled = (n: number) => Math.max(1, Math.ceil(n * (options.scale ?? 1)));
  try {
    const spec = MODEL_SPEC;
    const model = await newModelDirectory(join(home.checkpoints, `new-${seed}`), {
      config: {
        ...spec.config,
        bos_token_id: null,
        eos_token_id: spec.special_tokens.indexOf(spec.eos_token),
        pad_token_id: spec.special_tokens.indexOf(spec.pad_token),
      },
      tokenizer: wordTokenizer(spec.words, spec.special_tokens, { eos: spec.eos_token, pad: spec.pad_token }),
      chatTemplate: spec.chat_template,
      seed: seed * 2 + 1,
      codeVersion: VERSION,
    });
    await record({
      name: 'checkpoint.saved',
      source: '/demo',
      id: `seed-${seed}/new`,
      time: now().toISOString(),
      data: {
        checkpoint_id: model.id,
        policy: POLICY,
        uri: model.dir,
        sha256: model.sha256,
        step: 0,
        kept: true,
        code_version: VERSION,
      },
    });
    current = model.dir;
    await start(model.dir);
    advance(1, 'the teachers demonstrate');

    // Warm start: what faulty teachers showed, filtered.
    const lessons = join(home.run, `lessons-${seed}.jsonl`);
    mkdirSync(home.run, { recursive: true });
    await teach(lessons, seed, options.scale ?? 1);
    const imported = await importFiles([lessons], { log, book: context.book, artifacts: context.artifacts });
    if (imported.events.rejected > 0)
      throw new TroupeError('internal', `Demonstrations were rejected: ${JSON.stringify(imported.errors[0])}`);
    await waitProjected(db, { log });
    const taught = await episodesTagged(db, { phase: 'teach' });
    const teachers = (await evaluateEpisodes(db, await episodesTagged(db, { phase: 'teach', role: 'coder' })))
      .pass_at_1;
    await stage('judge', 'lessons', { methods: PLAN.lessons, episodes: taught });
    const lessonData = await stage<Frozen>('freeze', 'lessons', {
      recipe: {
        name: 'lessons',
        where: { field: 'tags.phase', op: '=', value: 'teach' },
        verdicts: PLAN.lessons,
        unit: 'step',
        roles: ['coder', 'verifier'],
      },
    });
    advance(2, 'warm start');
    const warm = { ...PLAN.warm, steps: { coder: scaled(150), verifier: scaled(220) } };
    let trained = await stage<Trained>('sft', 'lessons', {
      ...warm,
      base: model.dir,
      dataset: lessonData.directory,
      policy: POLICY,
      seed: seed * 1000 + 100,
      keep: true,
    });
    await serve(trained);
    advance(5, 'warm start');
    await evaluate('warm start', trained);

    // Twice by default: play, select the correct outputs, train on them.
    const owns = Array.from({ length: options.own ?? 2 }, (_, i) => i + 1);
    for (const own of owns) {
      const { episodes } = await play({
        cmd: 'play',
        phase: `own-${own}`,
        iteration: 0,
        round: results.length,
        seed: seed * 1000 + 300 + own,
        tasks: scaled(768),
        verified: scaled(768),
        programs: 16,
        inputs: 4,
        tests_per_input: 2,
      });
      advance(4, `own successes ${own}`);
      await stage('judge', `own-${own}`, { methods: PLAN.successes, episodes });
      const data = await stage<Frozen>('freeze', `own-${own}`, {
        recipe: {
          name: `own-successes-${own}`,
          where: { field: 'tags.phase', op: '=', value: `own-${own}` },
          verdicts: PLAN.successes,
          unit: 'step',
          roles: ['coder', 'verifier'],
        },
      });
      const steps = { coder: scaled(90), verifier: scaled(120) };
      // A team that got nothing right has nothing to imitate.
      if ((data.rows.train ?? 0) > 0) {
        trained = await stage<Trained>('sft', `own-${own}`, {
          ...PLAN.own,
          steps,
          base: trained.directory,
          dataset: data.directory,
          policy: POLICY,
          seed: seed * 1000 + 330 + own,
          keep: true,
        });
        await serve(trained);
      }
      advance(6, `own successes ${own}`);
      await evaluate(`own SFT ${own}`, trained);
    }

    // Reinforcement: every iteration plays with the latest weights.
    let trust: number = PLAN.trust;
    let last: Frozen = lessonData;
    const iterations = options.iterations ?? scaled(ITERATIONS);
    for (let round = 1; round <= rounds; round++) {
      for (let i = 0; i < iterations; i++) {
        const iteration = (round - 1) * iterations + i;
        const { episodes } = await play({
          cmd: 'play',
          phase: 'rl',
          iteration,
          round: results.length,
          seed: seed * 1000 + 555,
          tasks: scaled(128),
          verified: scaled(64),
          programs: 16,
          inputs: 4,
          tests_per_input: 2,
        });
        // The trust in the verifier is fixed for an iteration and recorded with the judging.
        await stage('judge', `rl-${iteration}`, {
          methods: [
            { method: 'cosigned_rewards', params: { trust } },
            { method: 'floored_advantage', reads: 'cosigned_rewards' },
          ],
          episodes,
        });
        last = await stage<Frozen>('freeze', `rl-${iteration}`, {
          recipe: {
            name: `rl-${iteration}`,
            where: { field: 'episode_id', op: 'in', value: episodes },
            unit: 'step',
            roles: ['coder', 'verifier'],
            reward: { method: 'cosigned_rewards', params: { trust } },
            credit: 'floored_advantage',
          },
        });
        const ends = i === iterations - 1;
        trained = await stage<Trained>('rl', `rl-${iteration}`, {
          ...PLAN.rl,
          base: trained.directory,
          dataset: last.directory,
          policy: POLICY,
          seed: seed * 1000 + 7000 + iteration,
          reset_optimizer: iteration === 0,
          keep: ends,
        });
        await serve(trained);
        trust = await nextTrust(context, episodes, trust);
        advance(ITERATIONS / iterations, `round ${round}, iteration ${i + 1} of ${iterations}`);
      }
      await evaluate(`RL ${round}`, trained);
    }

    await waitProjected(db, { log });
    const count = sql<number>`count(*)::float8`.as('n');
    const counts = await firstOf(
      db,
      query.selectNoFrom((all) => [
        all.selectFrom('troupe.events').select(count).$asScalar().$notNull().as('events'),
        all.selectFrom('facts.episodes').select(count).$asScalar().$notNull().as('episodes'),
        all.selectFrom('facts.steps').select(count).$asScalar().$notNull().as('steps'),
      ]),
    );
    const losses = await rowsOf(
      db,
      query
        .selectFrom('facts.job_metrics')
        .select(['step', 'value as loss'])
        .where('job_id', '=', `demo-${seed}-lessons-sft`)
        .where('name', '=', 'loss')
        .where('value', 'is not', null)
        .orderBy('step')
        .$narrowType<{ loss: NotNull }>(),
    );
    advance(units, 'done');
    const cpuAfter = await familySeconds(db);
    return {
      rounds: results,
      teachers,
      seed,
      ...counts!,
      dataset: { rows: last.rows.train ?? 0, sha256: last.content_sha256 },
      funnel: lessonData.funnel,
      warm_start: losses,
      seconds: round1((performance.now() - began) / 1000),
      cpu_seconds: cpuBefore === null || cpuAfter === null ? null : round1(cpuAfter - cpuBefore),
    };
  } finally {
    await stop();
  }
}

/** Moves the trust in the verifier by what right programs upheld in this iteration, in the order of the episodes. */
async function nextTrust({ db }: Context, episodes: readonly string[], trust: number): Promise<number> {
  const rows = await rowsOf(
    db,
    query
      .selectFrom('facts.scores as s')
      .innerJoin('facts.judged_methods as m', 'm.method_key', 's.method_key')
      .select('s.value')
      .where('m.method', '=', 'cosigned_rewards')
      .where('s.key', '=', anyOf(episodes.map((id) => `e/${id}`)))
      .orderBy('s.key'),
  );
  return runMethod(findMethod('trust_update'), { trust, upheld: rows.map((row) => row.value) }) as number;
}

async function teach(file: string, seed: number, scale: number): Promise<void> {
  const program = fileURLToPath(
    new URL(`../examples/coder-verifier/teach${import.meta.url.endsWith('.ts') ? '.ts' : '.js'}`, import.meta.url),
  );
  const args = [
    '--seed',
    String(seed),
    '--out',
    file,
    '--coder-tasks',
    String(Math.ceil(500 * scale)),
    '--verifier-tasks',
    String(Math.ceil(3000 * scale)),
  ];
  await runProgram('teachers', [...process.execArgv, program, ...args]);
}

const percent = (share: number | null): string => (share === null ? '–' : `${(100 * share).toFixed(0)} %`);
const round1 = (x: number): number => Math.round(x * 10) / 10;
