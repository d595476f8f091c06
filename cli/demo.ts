/**
 * The demo: a home with a model, lessons and tasks, `troupe up`, the team of the example beside it, and three schedules, each of which starts one
 * plan of examples/coder-verifier/plans. The plans run the loop; what this file does is start them one after the other.
 */
import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Document, parseDocument } from 'yaml';
import { TroupeError } from '../errors.ts';
import { MODEL_SPEC } from '../examples/coder-verifier/model-spec.ts';
import { importFiles } from '../ingest/import.ts';
import { firstOf, query, rowsOf, sql } from '../store/db/query.ts';
import { episodesTagged, evaluateEpisodes } from '../store/judging/evaluate.ts';
import { waitProjected } from '../store/projecting/positions.ts';
import { recordRelease, releasesOf } from '../store/releasing/releases.ts';
import { isNoAttempt } from '../store/rollouts/attempts.ts';
import { addSchedule, pauseSchedule, runScheduleNow } from '../store/schedules/schedules.ts';
import { newModelDirectory } from '../trainer/models/model-directory.ts';
import type { Plan } from '../trainer/plans/plan-schema.ts';
import type { PlanResult } from '../trainer/plans/round.ts';
import { wordTokenizer } from '../trainer/tokens/tokenizer.ts';
import { type Child, type RoleSettings, runProgram, startProgram, startUp } from './children.ts';
import { planOf } from './commands/plan.ts';
import type { Context } from './context.ts';
import { familySeconds } from './cpu.ts';
import { countsOf, type DemoResult, lessonsOf, type Round, scoresOf } from './demo-scores.ts';
import type { Bar } from './output.ts';
import { recordCheckpoint } from './record-checkpoint.ts';
import { VERSION } from './version.ts';

const POLICY = 'team';
/** The verifier's own policy, where it is frozen. */
const VERIFIER = 'verifier';

export type DemoOptions = {
  readonly seed: number;
  /** Rounds of reinforcement; none at 0. */
  readonly rounds: number;
  readonly bar: Bar;
  /** The arguments that make the processes work on this project. */
  readonly settings: RoleSettings;
  /** Ends the demo before its end. */
  readonly signal?: AbortSignal;
  /** Called with each plan before it is started, as it is written. */
  readonly onPlan?: (yaml: string) => void;
  /** Called once for each stage of a plan that has ended. */
  readonly onStage?: (jobId: string) => Promise<void>;
  /** Share of the tasks and steps; 1. */
  readonly scale?: number;
  /** Iterations in a round of reinforcement; as in the plan times the scale. */
  readonly iterations?: number;
  /** Rounds of learning from its own successes; as in the plan, and none at 0. */
  readonly own?: number;
  /** Changes a plan before it is stored. */
  readonly edit?: (name: string, plan: Document) => void;
  /**
   * Who answers the verifier's calls; the policy of the team if left out. `frozen`: a policy of its own, which keeps the weights that the team
   * had before reinforcement. `none`: nobody, the coder works alone.
   */
  readonly verifier?: 'frozen' | 'none';
};

/** How the rounds of each plan are called in the table. */
const NAMES: Readonly<Record<string, (round: number) => string>> = {
  'warm-start': () => 'warm start',
  successes: (round) => `own SFT ${round}`,
  reinforcement: (round) => `RL ${round}`,
};
/** When the schedules would start the plans by themselves; the demo has them start at once. */
const NIGHTLY = '0 3 * * *';
const RUNNERS = { team: { workers: true, lease_s: 120, timeout_s: 600, retries: 3 } };
const LOOK_MS = 200;

export async function runDemo(context: Context, options: DemoOptions): Promise<DemoResult> {
  const { db, log, home } = context;
  const { seed, bar, settings, scale = 1 } = options;
  const began = performance.now();
  const cpuBefore = await familySeconds(db);
  const { died, fail, failure } = failing(options.signal);
  bar.update(0, 1, 'a model, lessons and tasks');
  const folder = join(home.run, `demo-${context.database.project}`);
  await firstRelease(context, options);
  const up = startUp({ ...settings, env: { ...settings.env, TROUPE_RUNNERS: JSON.stringify(RUNNERS) } }, fail);
  const children: Child[] = [up];
  let done = 0;
  const rounds: Round[] = [];
  try {
    const prepared = async () => {
      const course = [`--seed=${seed}`, `--scale=${scale}`, `--out=${folder}`];
      await runProgram('course', [...process.execArgv, exampleFile(`course${SUFFIX}`), ...course]);
      const teachers = await importLessons(context, join(folder, 'lessons.jsonl'));
      const left = Object.keys(NAMES).filter((name) => asked(options)[name] !== 0);
      const plans = await Promise.all(left.map((name) => demoPlan(folder, name, options)));
      return { teachers, plans, url: await up.url };
    };
    const { teachers, plans, url } = await Promise.race([prepared(), died]);
    children.push(startTeam(url, options, fail));
    const units = plans.map(({ plan }) => stagesIn(plan)).reduce((a, b) => a + b, 0);
    for (const { plan, yaml } of plans) {
      options.onPlan?.(yaml);
      const onStage = async (id: string) => {
        bar.update(Math.min(++done, units), units, `${plan.name}: ${id}`);
        await options.onStage?.(id);
      };
      const { rounds: ran } = await Promise.race([scheduled(context, plan, { onStage, failure }), died]);
      for (const { round, candidates, release_id, gate } of ran) {
        const name = NAMES[plan.name]!(round);
        const scores = await scoresOf(db, `${gate}/candidate`);
        const checkpoint = candidates[POLICY]!;
        rounds.push({ round: rounds.length, name, checkpoint, released: release_id !== null, ...scores });
      }
      if (options.verifier === 'frozen' && plan.name !== 'reinforcement') await followTeam(context, plan.name);
    }
    await waitProjected(db, { log });
    const cpuAfter = await familySeconds(db);
    return {
      rounds,
      teachers,
      seed,
      ...(await countsOf(db)),
      ...(await lessonsOf(db)),
      seconds: round1((performance.now() - began) / 1000),
      cpu_seconds: cpuBefore === null || cpuAfter === null ? null : round1(cpuAfter - cpuBefore),
    };
  } finally {
    await Promise.all(children.toReversed().map((child) => child.stop()));
  }
}

/** The first error of what runs beside, as a promise that rejects and as a look. */
function failing(signal: AbortSignal | undefined) {
  let first: TroupeError | null = null;
  let reject: (error: TroupeError) => void = () => {};
  const died = new Promise<never>((_, no) => {
    reject = no;
  });
  died.catch(() => {});
  const fail = (error: TroupeError) => {
    first ??= error;
    reject(error);
  };
  signal?.addEventListener('abort', () => fail(new TroupeError('interrupted', 'The demo was interrupted.')));
  return { died, fail, failure: () => first };
}

/** A model with random weights as the first release, so that `troupe up` serves it and the first gate has an incumbent. */
async function firstRelease(context: Context, { seed, verifier }: DemoOptions): Promise<void> {
  const spec = MODEL_SPEC;
  const model = await newModelDirectory(join(context.home.checkpoints, `new-${seed}`), {
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
  const { id } = model;
  await recordCheckpoint(context, model.dir, POLICY);
  const policies = { [POLICY]: id, ...(verifier === 'frozen' ? { [VERIFIER]: id } : {}) };
  await release(context, `seed-${seed}-new`, policies, 'random weights');
}

async function release(
  { log, now }: Context,
  release_id: string,
  policies: Readonly<Record<string, string>>,
  reason: string,
): Promise<void> {
  const time = now().toISOString();
  await recordRelease(log, { release_id, policies, teams: {}, reason, by: 'demo', source: '/demo', time });
}

/** Gives the verifier, where it has a policy of its own, the weights of the team. */
async function followTeam(context: Context, after: string): Promise<void> {
  await waitProjected(context.db, context);
  const team = (await releasesOf(context.db)).at(-1)!.policies[POLICY]!;
  await release(context, `verifier-after-${after}`, { [POLICY]: team, [VERIFIER]: team }, 'as the team');
  await waitProjected(context.db, context);
}

/** Imports what faulty teachers did. Returns the share of their answers that is right. */
async function importLessons({ db, log, book, artifacts }: Context, file: string): Promise<number | null> {
  const imported = await importFiles([file], { log, book, artifacts });
  await rm(file);
  if (imported.events.rejected > 0)
    throw new TroupeError('internal', `Demonstrations were rejected: ${JSON.stringify(imported.errors[0])}`);
  await waitProjected(db, { log });
  return (await evaluateEpisodes(db, await episodesTagged(db, { phase: 'teach', role: 'coder' }))).pass_at_1;
}

const exampleFile = (path: string): string =>
  fileURLToPath(new URL(`../examples/coder-verifier/${path}`, import.meta.url));
/** The plans are no modules, so they stand once, beside the sources. */
const planFile = (name: string): string =>
  fileURLToPath(
    new URL(`${SUFFIX === '.ts' ? '..' : '../..'}/examples/coder-verifier/plans/${name}.yaml`, import.meta.url),
  );

const SUFFIX = import.meta.url.endsWith('.ts') ? '.ts' : '.js';

function startTeam(url: string, { verifier }: DemoOptions, onDeath: (error: TroupeError) => void) {
  const answers = verifier && ['--verifier', verifier === 'none' ? 'none' : `policy:${VERIFIER}`];
  const args = [...process.execArgv, exampleFile(`team${SUFFIX}`), '--url', url, ...(answers ?? [])];
  return startProgram('team', args, { onDeath });
}

/** A plan of the example with the seed and the size of this demo; its file lies beside its tasks. */
async function demoPlan(
  folder: string,
  name: string,
  options: DemoOptions,
): Promise<{ readonly plan: Plan; readonly yaml: string }> {
  const { seed, iterations, scale = 1, edit } = options;
  const document = parseDocument(await readFile(planFile(name), 'utf8'));
  const scaled = (n: unknown) => Math.max(1, Math.ceil(Number(n) * scale));
  const set = (path: readonly string[], to: (was: unknown) => unknown) => {
    if (document.hasIn(path)) document.setIn(path, to(document.getIn(path)));
  };
  document.set('seed', seed);
  set(['rounds'], (was) => asked(options)[name] ?? was);
  set(['rollout', 'per_round'], scaled);
  set(['rollout', 'iterations'], (was) => iterations ?? scaled(was));
  for (const role of ['coder', 'verifier']) set(['policies', POLICY, 'train', 'steps', role], scaled);
  edit?.(name, document);
  const yaml = document.toString({ lineWidth: 0 });
  const file = join(folder, `${name}.yaml`);
  await writeFile(file, yaml);
  return { plan: await planOf(file, {}), yaml };
}

/** Rounds of a plan, where the options name them. */
const asked = ({ own, rounds }: DemoOptions): Readonly<Record<string, number | undefined>> => ({
  successes: own,
  reinforcement: rounds,
});

/** Stages that a run of a plan has at least. */
const stagesIn = ({ rounds = 1, rollout }: Plan): number =>
  rounds * ((rollout ? 4 : 3) * (rollout?.iterations ?? 1) + 4);

/** Adds a schedule for the plan, has it start now, and waits for the end of its run. */
async function scheduled(
  context: Context,
  plan: Plan,
  of: { readonly onStage: (jobId: string) => Promise<void>; readonly failure: () => TroupeError | null },
): Promise<PlanResult> {
  const definition = {
    cron: NIGHTLY,
    zone: 'UTC',
    job: { kind: 'plan', spec: { plan } },
    overlap: 'skip',
    catch_up_seconds: 0,
    jitter_seconds: 0,
  };
  await addSchedule(context, plan.name, definition, { by: 'demo' });
  const run = await runScheduleNow(context, plan.name);
  // The home stays, and a `troupe up` there at night has no team that could play.
  await pauseSchedule(context, plan.name, { reason: 'the demo has started its only run', by: 'demo' });
  const seen = new Set<string>();
  for (;;) {
    const ended = await rowsOf(
      context.db,
      query
        .selectFrom('troupe.job_queue')
        .select('job_id')
        .where(sql<boolean>`starts_with(job_id, ${`${run}/`})`)
        .where('state', '=', 'finished')
        .where(isNoAttempt),
    );
    for (const { job_id } of ended) {
      if (seen.has(job_id)) continue;
      seen.add(job_id);
      await of.onStage(job_id.slice(run.length + 1));
    }
    const whole = await firstOf(
      context.db,
      query.selectFrom('troupe.job_queue').select(['state', 'outcome', 'result', 'error']).where('job_id', '=', run),
    );
    const failure = of.failure();
    if (failure) throw failure;
    if (whole?.state === 'finished') {
      if (whole.outcome === 'done') return whole.result as PlanResult;
      throw new TroupeError('training_failed', `Run ${run} ${whole.outcome}: ${JSON.stringify(whole.error)}`);
    }
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
}

const round1 = (x: number): number => Math.round(x * 10) / 10;
