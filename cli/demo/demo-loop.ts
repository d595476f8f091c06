/**
 * The loop of the example in examples/coder-verifier: `troupe up`, its team, and a schedule for each of its plans. The plans run the loop;
 * this starts them one after the other and reads what came out.
 */
import { join } from 'node:path';
import { TroupeError } from '../../errors.ts';
import { firstOf, query, rowsOf, sql } from '../../store/db/query.ts';
import { isNoAttempt } from '../../store/loop/play/attempts.ts';
import { waitProjected } from '../../store/projecting/positions.ts';
import { addSchedule, pauseSchedule, runScheduleNow } from '../../store/queue/schedules/schedules.ts';
import type { Plan } from '../../trainer/loop/plan/plan-schema.ts';
import type { PlanResult } from '../../trainer/loop/plan/round.ts';
import type { Context } from '../context.ts';
import { type Child, runProgram, startProgram, startUp } from '../processes/children.ts';
import { familySeconds } from '../processes/cpu.ts';
import { asked, type DemoOptions, demoPlan, exampleFile, POLICY, SUFFIX, stagesIn, VERIFIER } from './demo-plans.ts';
import { countsOf, type DemoResult, lessonsOf, type Round, scoresOf } from './demo-scores.ts';
import { firstRelease, followTeam, importLessons } from './demo-start.ts';

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

function startTeam(url: string, { verifier }: DemoOptions, onDeath: (error: TroupeError) => void) {
  const answers = verifier && ['--verifier', verifier === 'none' ? 'none' : `policy:${VERIFIER}`];
  const args = [...process.execArgv, exampleFile(`team${SUFFIX}`), '--url', url, ...(answers ?? [])];
  return startProgram('team', args, { onDeath });
}

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
