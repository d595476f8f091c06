/**
 * `bench rollout`: what the loop costs beside its arithmetic. A rollout of the coder and the verifier against the sampler alone, which
 * draws the same tokens; a round of reinforcement against its sampling and gradient steps alone, which give the same weights; and what
 * a job costs that a schedule starts, against the same job requested by hand. `--sizes` names larger shapes of the same model.
 */
import { mkdirSync, readFileSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseDocument } from 'yaml';
import { recordCheckpoint } from '../api/operations/checkpoints/record.ts';
import { planOfFile } from '../api/operations/plan/read.ts';
import { type Context, withContext } from '../cli/context.ts';
import { runDemo } from '../cli/demo/demo-loop.ts';
import { roleSettings, startProgram, startUp } from '../cli/processes/children.ts';
import { familySeconds } from '../cli/processes/cpu.ts';
import { TroupeError } from '../errors.ts';
import { postgresLog } from '../ingest/log/postgres.ts';
import { firstOf, query, rowsOf, sql } from '../store/db/query.ts';
import { playedIn } from '../store/loop/play/ids.ts';
import { requestRollout } from '../store/loop/play/request.ts';
import type { RolloutTask } from '../store/loop/play/rollout.ts';
import { recordRelease } from '../store/loop/release/releases.ts';
import { waitProjected } from '../store/projecting/positions.ts';
import { cancelJob, requestJob, waitForJob } from '../store/queue/jobs/jobs.ts';
import { scheduleOnce } from '../store/queue/schedules/scheduler.ts';
import { addSchedule } from '../store/queue/schedules/schedules.ts';
import type { Plan } from '../trainer/loop/plan/plan-schema.ts';
import type { RolloutResult } from '../trainer/loop/play/handler.ts';
import { servingNow } from '../trainer/loop/release/serving.ts';
import type { Bench, Settings } from './bench.ts';
import { cpuSecondsByName, cpuSecondsOf } from './cpu-seconds.ts';
import { grownModel } from './grown-model.ts';
import { compared, interleave, type Result, type Side } from './harness.ts';
import { parameterCount, type Size, sizesNamed } from './models.ts';
import type { Part } from './ours/learn.ts';
import { startBenchServer } from './server.ts';
import { type Measured, summary } from './statistics.ts';
import { startOurs, type Timed, type Worker } from './worker.ts';

/** Episodes of a rollout and of an iteration: what the example's own plan plays. */
const EPISODES = 128;
/** Iterations of a round, of 30 in the example's plan. */
const ITERATIONS = 4;
/** Schedules that are due together. */
const SCHEDULES = 20;
const CASES = ['rollout', 'round', 'scheduler'] as const;
const MODEL_CONTEXT = 64;
/** Between two looks at a round: at 20 ms they were a third of its statements. */
const LOOK_MS = 100;

export const bench: Bench = {
  name: 'rollout',
  about: 'episodes and rounds of a team against the sampler and gradient steps alone; what a scheduled job costs',
  async run(settings) {
    const only = settings.only?.split(',') ?? CASES;
    const wrong = only.find((name) => !(CASES as readonly string[]).includes(name));
    if (wrong !== undefined)
      throw new TroupeError('usage', `--only should name some of ${CASES.join(', ')}, but it names ${wrong}.`);
    const sizes = settings.sizes === null ? [null] : sizesNamed(settings.sizes);
    const results: Result[] = [];
    if (only.includes('rollout') || only.includes('round'))
      await withoutServers(() =>
        withContext({ home: join(settings.scratch, 'home'), threads: settings.threads }, async (context) => {
          await withTeam(context, settings, async (team) => {
            for (const size of sizes) {
              const model = await serveModel(context, team, size);
              if (only.includes('rollout')) results.push(await rolloutCase(context, team, model, settings));
              if (only.includes('round')) results.push(await roundCase(context, team, model, settings));
            }
          });
        }),
      );
    if (only.includes('scheduler')) results.push(...(await schedulerCases(settings)));
    return results;
  },
};

/** Runs on the embedded database and log, whatever the environment names. */
async function withoutServers<T>(work: () => Promise<T>): Promise<T> {
  const { DATABASE_URL, KAFKA_BROKERS } = process.env;
  delete process.env.DATABASE_URL;
  delete process.env.KAFKA_BROKERS;
  try {
    return await work();
  } finally {
    Object.assign(process.env, DATABASE_URL && { DATABASE_URL }, KAFKA_BROKERS && { KAFKA_BROKERS });
  }
}

type Team = {
  readonly worker: Worker;
  /** The directory of the model that it learnt. */
  readonly learnt: string;
  readonly threads: number;
  /** Folder of the plans and their tasks. */
  readonly folder: string;
  /** The process of the team. */
  readonly pid: number;
  readonly failure: () => TroupeError | null;
};

const POLICY = 'team';
const EXAMPLE = join(import.meta.dirname, '../examples/coder-verifier');
const RUNNERS = { team: { workers: true, lease_s: 120, timeout_s: 600, retries: 3 } };

/** A team that has had its warm start, as the demo gives it, `troupe up` and the team's program; and the model alone in a process beside. */
async function withTeam(context: Context, settings: Settings, work: (team: Team) => Promise<void>): Promise<void> {
  const { threads, say } = settings;
  const project = roleSettings(context.config);
  let failed: TroupeError | null = null;
  const onDeath = (error: TroupeError) => {
    failed ??= error;
  };
  say('rollout: the team learns from its teachers first');
  const bar = { update: () => {}, stop: () => {} };
  const { rounds } = await runDemo(context, { seed: 1, own: 0, rounds: 0, scale: 0.5, bar, settings: project });
  const learnt = rounds.at(-1)!;
  if (!learnt.released) throw new TroupeError('internal', 'The warm start of the team was not released.');
  const up = startUp({ ...project, env: { ...project.env, TROUPE_RUNNERS: JSON.stringify(RUNNERS) } }, onDeath);
  const worker = startOurs('learn.ts');
  const team = startProgram('team', [...process.execArgv, join(EXAMPLE, 'team.ts'), '--url', await up.url], {
    onDeath,
  });
  try {
    const released = await firstOf(
      context.db,
      query.selectFrom('facts.checkpoints').select('uri').where('checkpoint_id', '=', learnt.checkpoint),
    );
    const folder = join(context.home.run, `demo-${context.database.project}`);
    await work({ worker, learnt: released!.uri!, threads, folder, pid: team.process.pid!, failure: () => failed });
  } finally {
    await Promise.all([worker.close(), team.stop(), up.stop()]);
  }
}

/** The model that answers; `at` distinguishes its rollouts from those of others. */
type Model = { readonly at: string; readonly about: string };

/** Has the team and the worker answered by the model that it learnt, in the shape of this size where one is named. */
async function serveModel(
  context: Context,
  { worker, learnt, threads, failure }: Team,
  size: Size | null,
): Promise<Model> {
  const { db, log, home, now } = context;
  if (size === null) {
    await worker.ask({ do: 'open', dir: learnt, threads });
    return { at: 'own', about: 'model of 0.4 M parameters' };
  }
  const { id, dir, config } = await grownModel(learnt, join(home.checkpoints, `grown-${size.name}`), size.config);
  await recordCheckpoint(context, dir, POLICY);
  const time = now().toISOString();
  await recordRelease(log, {
    ...{ release_id: `grown-${size.name}`, policies: { [POLICY]: id }, reason: 'a larger shape', by: 'bench' },
    ...{ source: '/bench', time },
  });
  await waitProjected(db, { log });
  while (!(await servingNow(db)).some(({ policy, checkpoint }) => policy === POLICY && checkpoint === id)) {
    if (failure()) throw failure();
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
  await worker.ask({ do: 'open', dir, threads });
  const millions = (parameterCount(config) / 1e6).toFixed(1);
  return { at: size.name, about: `the same model in a shape of ${millions} M parameters, what is more of it 0` };
}

/** What was drawn of the model, and how. */
type Drawn = {
  readonly part: Part;
  readonly tokens: readonly (readonly (readonly number[])[])[];
  readonly count: number;
};

/** The calls of a rollout, in the order in which they came, with the tokens that were drawn. */
async function drawnIn({ db, log }: Context, rollout: string, learn: Part['learn'] = null): Promise<Drawn> {
  await waitProjected(db, { log });
  const calls = await rowsOf(
    db,
    query
      .selectFrom('facts.calls as c')
      .innerJoin('facts.steps as s', (on) =>
        on.onRef('s.episode_id', '=', 'c.episode_id').onRef('s.call_id', '=', 'c.call_id'),
      )
      .select(['c.prompt_token_ids as promptIds', 'c.params', 'c.seed'])
      .select(sql<number[][]>`json_agg(s.token_ids order by s.candidate)`.as('tokens'))
      .where(playedIn('c.episode_id', rollout))
      .where('c.error', 'is', null)
      .groupBy(['c.episode_id', 'c.call_id'])
      .orderBy('c.requested_at')
      .orderBy('c.call_id'),
  );
  const asked = calls.map(({ promptIds, params, seed }) => {
    const { n = 1, max_tokens, temperature = 1 } = params as Record<string, number>;
    const room = MODEL_CONTEXT - promptIds!.length;
    return { promptIds: promptIds!, n, maxTokens: Math.min(max_tokens ?? room, room), temperature, seed: Number(seed) };
  });
  const tokens = calls.map((call) => call.tokens);
  return { part: { calls: asked, learn }, tokens, count: tokens.flat(2).length };
}

type Again = Timed & { readonly tokens: Drawn['tokens'][]; readonly sampling: number; readonly weights: string };

const again = (worker: Worker, drawn: readonly Drawn[]): Promise<Again> =>
  worker.ask<Again>({ do: 'again', parts: drawn.map(({ part }) => part) });

const same = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b);

/** Processor seconds so far of the processes that work in this home, by what they are; empty where there is no /proc. */
function byPart({ root, data }: Context['home'], teamPid: number): Record<string, number> {
  try {
    const roles = cpuSecondsByName((command) =>
      command.includes(` --home ${root} `) ? (/ run (\w+) /.exec(command)?.[1] ?? null) : null,
    );
    const postmaster = Number.parseInt(readFileSync(join(data, 'cluster', 'postmaster.pid'), 'utf8'), 10);
    return { ...roles, team: cpuSecondsOf(teamPid), database: cpuSecondsOf(postmaster) };
  } catch {
    return {};
  }
}

/** Medians over rounds of what each part took. */
const partsOf = (rounds: readonly Record<string, number>[]): Record<string, number> =>
  Object.fromEntries(
    Object.keys(rounds[0] ?? {}).map((name) => [name, summary(rounds.map((one) => one[name] ?? 0)).median]),
  );

/** Work with the processor time of this process, the database and everything that they started. */
async function measured<T>(
  { db, home }: Context,
  { pid, parts }: { readonly pid: number; readonly parts: Record<string, number>[] },
  work: () => Promise<T>,
): Promise<readonly [T, Omit<Measured, 'work'>]> {
  const before = byPart(home, pid);
  const [cpu, began] = [(await familySeconds(db)) ?? 0, performance.now()];
  const result = await work();
  const seconds = (performance.now() - began) / 1000;
  const cpuSeconds = ((await familySeconds(db)) ?? 0) - cpu;
  parts.push(Object.fromEntries(Object.entries(byPart(home, pid)).map(([at, now]) => [at, now - (before[at] ?? 0)])));
  return [result, { seconds, cpuSeconds }];
}

async function rolloutCase(
  context: Context,
  { worker, folder, pid, failure }: Team,
  { at, about }: Model,
  settings: Settings,
): Promise<Result> {
  const lines = (await readFile(join(folder, 'reinforcement.jsonl'), 'utf8')).trim().split('\n');
  const tasks = lines.map((line) => JSON.parse(line) as RolloutTask);
  let last: Drawn | null = null;
  let [equal, calls, tokens, times] = [true, 0, 0, 0];
  const parts: Record<string, number>[] = [];
  const ours = async (round: number): Promise<Measured> => {
    const id = `bench-${at}-${round + 1}`;
    const of = Array.from({ length: EPISODES }, (_, i) => tasks[((round + 1) * EPISODES + i) % tasks.length]!);
    const [result, spent] = await measured(context, { pid, parts }, async () => {
      await requestRollout(context, id, { runner: 'team', tasks: of, samples: 1, seed: round + 1 });
      return (await waitForJob(context.db, id)) as RolloutResult;
    });
    if (failure()) throw failure();
    if (result.episodes.length !== EPISODES)
      throw new TroupeError('internal', `${result.episodes.length} of ${EPISODES} episodes of ${id} were played.`);
    last = await drawnIn(context, id);
    return { work: last.count, ...spent };
  };
  const alone = async (): Promise<Measured> => {
    const { seconds, cpu_seconds, tokens: drawn } = await again(worker, [last!]);
    equal &&= same(drawn[0], last!.tokens);
    times++;
    calls += last!.part.calls.length;
    tokens += last!.count;
    return { work: last!.count, seconds, cpuSeconds: cpu_seconds };
  };
  await ours(-1);
  await alone();
  [calls, tokens, times, parts.length] = [0, 0, 0, 0];
  const sides: Side[] = [
    { name: 'rollout', round: ours },
    { name: 'sampler', round: alone },
  ];
  const { measured: all, disturbed } = await interleave(sides, {
    rounds: settings.rounds,
    onRound: (line) => settings.say(`rollout: ${line}`),
  });
  const seconds = all[0]!.map((one) => one.seconds);
  const more = {
    work: `${EPISODES} episodes of the coder and the verifier a rollout, each call with up to 16 answers; ${about}`,
    episodes_a_second: summary(seconds.map((one) => EPISODES / one)).median,
    tokens_a_call: tokens / calls,
    calls_an_episode: calls / times / EPISODES,
    cpu_seconds_ratio: cpuRatio(all[1]!, all[0]!),
    cpu_seconds_of_parts: partsOf(parts),
  };
  return compared(
    { case: `rollout, ${EPISODES} episodes, ${at}`, unit: 'tokens/s', disturbed, more },
    all[0]!,
    { what: 'the sampler alone, all calls at once', measured: all[1]! },
    { equal, how: equal ? 'every token the same' : 'the sampler drew other tokens' },
  );
}

/** Processor time of a unit of work of one side over that of the other, each by its median. */
function cpuRatio(of: readonly Measured[], over: readonly Measured[]): number {
  const each = (side: readonly Measured[]) => summary(side.map(({ cpuSeconds, work }) => cpuSeconds / work)).median;
  return each(of) / each(over);
}

/** The stages of a round whose times are reported. */
const STAGES = ['serving', 'rollout', 'judge', 'freeze-team', 'train-team'] as const;
type Round = { readonly drawn: readonly Drawn[]; readonly weights: string; readonly count: number };

async function roundCase(
  context: Context,
  { worker, folder, pid, failure }: Team,
  { at, about }: Model,
  settings: Settings,
): Promise<Result> {
  const { db } = context;
  let last: Round | null = null;
  let equal = true;
  const stages: number[][] = [];
  const parts: Record<string, number>[] = [];
  const alone: { readonly sampling: number; readonly learning: number }[] = [];
  const plan = async (round: number): Promise<Plan> => {
    const document = parseDocument(await readFile(join(EXAMPLE, 'plans/reinforcement.yaml'), 'utf8'));
    document.set('rounds', 1);
    document.set('seed', 100 + round);
    document.setIn(['rollout', 'iterations'], ITERATIONS);
    document.setIn(['rollout', 'per_round'], EPISODES);
    document.set('gate', { kind: 'manual' });
    const file = join(folder, 'bench-round.yaml');
    await writeFile(file, document.toString());
    return planOfFile(file);
  };
  const ours = async (round: number): Promise<Measured> => {
    const run = `round-${at}-${round + 1}`;
    const spec = { plan: await plan(round + 1) };
    const [, spent] = await measured(context, { pid, parts }, async () => {
      await requestJob(context, { job_id: run, kind: 'plan', spec });
      await decided(context, run, failure);
    });
    await cancelJob(context, run, { by: 'bench', reason: null });
    const of = (stage: string, iteration: number) => `${run}/1/${iteration}/${stage}`;
    await waitProjected(db, { log: context.log });
    const jobs = await rowsOf(
      db,
      query
        .selectFrom('facts.jobs')
        .select(['job_id', 'spec', 'result'])
        .select(sql<number>`extract(epoch from finished_at - requested_at)::float8`.as('seconds'))
        .where(sql<boolean>`starts_with(job_id, ${`${run}/1/`})`)
        .where('kind', 'in', ['serving', 'rollout', 'judge', 'freeze', 'rl']),
    );
    const byId = new Map(jobs.map((job) => [job.job_id, job]));
    const each = Array.from({ length: ITERATIONS }, (_, i) => i + 1);
    stages.push(STAGES.map((stage) => each.reduce((sum, i) => sum + (byId.get(of(stage, i))?.seconds ?? 0), 0)));
    const drawn: Drawn[] = [];
    for (const i of each)
      drawn.push(await drawnIn(context, of('rollout', i), byId.get(of('train-team', i))!.spec as Part['learn']));
    const { directory } = byId.get(of('train-team', ITERATIONS))!.result as { directory: string };
    const { weights } = await worker.ask<{ weights: string }>({ do: 'weightsOf', dir: directory });
    last = { drawn, weights, count: drawn.reduce((sum, { count }) => sum + count, 0) };
    return { work: last.count, ...spent };
  };
  const other = async (): Promise<Measured> => {
    const { drawn, weights, count } = last!;
    const { seconds, cpu_seconds, tokens, sampling, weights: learnt } = await again(worker, drawn);
    equal &&= learnt === weights && drawn.every((one, i) => same(one.tokens, tokens[i]));
    alone.push({ sampling, learning: seconds - sampling });
    return { work: count, seconds, cpuSeconds: cpu_seconds };
  };
  await ours(-1);
  await other();
  stages.length = 0;
  parts.length = 0;
  alone.length = 0;
  const { measured: all, disturbed } = await interleave(
    [
      { name: 'round', round: ours },
      { name: 'alone', round: other },
    ],
    { rounds: settings.rounds, onRound: (line) => settings.say(`round: ${line}`) },
  );
  const median = (values: readonly number[]) => summary(values).median;
  const more = {
    work: `${ITERATIONS} iterations of ${EPISODES} episodes: play, judge, freeze, train; ${about}`,
    times_of_alone: median(all[0]!.map((one, i) => one.seconds / one.work / (all[1]![i]!.seconds / all[1]![i]!.work))),
    cpu_seconds_times: cpuRatio(all[0]!, all[1]!),
    cpu_seconds_of_parts: partsOf(parts),
    seconds_of_stages: Object.fromEntries(STAGES.map((stage, i) => [stage, median(stages.map((one) => one[i]!))])),
    seconds_alone: {
      sampling: median(alone.map((one) => one.sampling)),
      gradient_steps: median(alone.map((one) => one.learning)),
    },
  };
  return compared(
    { case: `round, ${ITERATIONS} iterations, ${at}`, unit: 'tokens/s', disturbed, more },
    all[0]!,
    { what: 'its sampling and gradient steps alone', measured: all[1]! },
    {
      equal,
      how: equal ? 'every token, and every weight at the end, the same bit for bit' : 'other tokens or weights',
    },
  );
}

/** Waits until the round asks a person: its candidate is trained. */
async function decided({ db }: Context, run: string, failure: () => TroupeError | null): Promise<void> {
  for (;;) {
    const jobs = await rowsOf(
      db,
      query
        .selectFrom('troupe.job_queue')
        .select(['job_id', 'outcome', 'error'])
        .where('job_id', 'in', [run, `${run}/1/gate`]),
    );
    if (jobs.some(({ job_id }) => job_id !== run)) return;
    const ended = jobs.find(({ outcome }) => outcome !== null);
    const error = failure() ?? (ended && new TroupeError('internal', `${run}: ${JSON.stringify(ended.error)}`));
    if (error) throw error;
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
}

/** A plan with a few tasks, and one with as many as the reinforcement of the example has. */
async function schedulerCases(settings: Settings): Promise<Result[]> {
  const results: Result[] = [];
  for (const tasks of [10, 4000]) results.push(await schedulerCase(tasks, settings));
  return results;
}

async function schedulerCase(count: number, { scratch, rounds, say }: Settings): Promise<Result> {
  const folder = join(scratch, `scheduler-${count}`);
  mkdirSync(folder);
  const server = await startBenchServer(folder);
  try {
    const { db } = server;
    let now = Date.UTC(2026, 0, 1);
    const context = { db, log: postgresLog(db), now: () => new Date(now) };
    const tasks = Array.from({ length: count }, (_, i) => ({
      ...{ task_id: `task-${i}`, prompt: `order it rising then throw out even items ${i}`, answer: '#asc #odd' },
      ...{ domain: 'lists', programs: 16, inputs: 4, tests_per_input: 2 },
    }));
    const spec = { plan: { name: 'nightly', rollout: { runner: 'team', tasks, samples: 8 } } };
    const job = { kind: 'plan', spec };
    for (let i = 0; i < SCHEDULES; i++)
      await addSchedule(
        context,
        `nightly-${i}`,
        { cron: '* * * * *', zone: 'UTC', job, overlap: 'queue', catch_up_seconds: 0, jitter_seconds: 0 },
        { by: 'bench' },
      );
    let asked = 0;
    const fired = async (): Promise<Measured> => {
      now += 60_000;
      return server.measure(SCHEDULES, async () => {
        await scheduleOnce(context);
      });
    };
    const byHand = async (): Promise<Measured> => {
      const first = asked;
      asked += SCHEDULES;
      return server.measure(SCHEDULES, async () => {
        for (let i = first; i < asked; i++) await requestJob(context, { job_id: `hand/${i}`, ...job });
      });
    };
    await fired();
    await byHand();
    const { measured: all, disturbed } = await interleave(
      [
        { name: 'scheduled', round: fired },
        { name: 'by hand', round: byHand },
      ],
      { rounds, onRound: (line) => say(`scheduler, ${count} tasks: ${line}`) },
    );
    const jobs = await rowsOf(
      db,
      query
        .selectFrom('troupe.job_queue')
        .select(sql<boolean>`starts_with(job_id, 'hand/')`.as('by_hand'))
        .select(sql<number>`count(*)::int`.as('jobs'))
        .select(sql<string[]>`array_agg(distinct md5(spec::text))`.as('specs'))
        .where('kind', '=', 'plan')
        .groupBy('by_hand')
        .orderBy('by_hand'),
    );
    const equal = jobs.length === 2 && jobs[0]!.jobs === jobs[1]!.jobs && same(jobs[0]!.specs, jobs[1]!.specs);
    const milliseconds = (side: readonly Measured[]) =>
      summary(side.map(({ cpuSeconds, work }) => (1000 * cpuSeconds) / work)).median;
    const more = {
      work: `${SCHEDULES} schedules due together, each of a plan with ${count} tasks (${JSON.stringify(spec).length} bytes)`,
      processor_milliseconds_a_job: { scheduled: milliseconds(all[0]!), by_hand: milliseconds(all[1]!) },
    };
    return compared(
      { case: `scheduler, plan of ${count} tasks`, unit: 'jobs/s', disturbed, more },
      all[0]!,
      { what: 'the same jobs requested by hand', measured: all[1]! },
      {
        equal,
        how: equal ? `${jobs[0]!.jobs} jobs on both sides, with the same spec` : `jobs: ${JSON.stringify(jobs)}`,
      },
    );
  } finally {
    await server.close();
  }
}
