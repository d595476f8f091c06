/** What operations on plans do. */
import { TroupeError } from '../../../errors.ts';
import { canonicalJson, isRecord, without } from '../../../ingest/events/json.ts';
import type { Db } from '../../../store/db/pool.ts';
import { firstOf, query, rowsOf, sql } from '../../../store/db/query.ts';
import { learningOf } from '../../../store/explore/learning.ts';
import { spentBelow } from '../../../store/loop/play/budget.ts';
import { requestJob } from '../../../store/queue/jobs/jobs.ts';
import { GATE_KINDS, madeBy, readRun, runMinutes, whyEnded } from '../../../store/queue/jobs/run-of-plan.ts';
import { readEngines } from '../../../trainer/engines/engines.ts';
import { checkPlan, requireUnblocked } from '../../../trainer/loop/plan/check.ts';
import { goOnWithRun } from '../../../trainer/loop/plan/plan-budget.ts';
import type { Plan } from '../../../trainer/loop/plan/plan-schema.ts';
import type { PlanValues } from '../../../trainer/loop/plan/plan-values.ts';
import { readRunners } from '../../../trainer/loop/play/runners.ts';
import { readScorers } from '../../../trainer/loop/rewards/source.ts';
import { columns, type FilteredPage, filteredList } from '../filtered-list.ts';
import type { ChangeContext, OutputOf, ReadContext } from '../operation.ts';
import { type PlanInput, planOf } from './read.ts';
import { endRun } from './run-end.ts';

const checkingOf = ({ db, home, settings, version, env }: ReadContext) => ({
  db,
  folder: home.run,
  benchmarks: home.benchmarks,
  datasets: home.datasets,
  codeVersion: version,
  runners: readRunners(settings.runners ?? null, readScorers(settings.rewards ?? null)),
  engines: readEngines(settings.engines ?? null),
  env,
});

export async function check(context: ReadContext, input: PlanInput) {
  const plan = await planOf(input);
  await context.catchUp();
  return checkPlan(checkingOf(context), plan);
}

export async function run(context: ChangeContext, { detach, ...input }: PlanInput & { readonly detach: boolean }) {
  const plan = await planOf(input);
  await context.catchUp();
  const { id, ended, resumed } = await runOf(context.db, plan);
  if (!resumed) await requireUnblocked(checkingOf(context), plan);
  const set = Object.keys(input.set ?? {}).length === 0 ? {} : { set: input.set };
  if (ended !== undefined) await goOnWithRun(context, id, plan, ended);
  else await requestJob(context, { job_id: id, kind: 'plan', spec: { plan, ...set, checked: true } });
  if (!detach) context.say(`Run ${id}${resumed ? ' goes on' : ''}.`);
  return { resumed, ...(await endRun(context, id, detach)) };
}

/**
 * A run of this plan that has not ended, or whose last run was ended by another budget, or the name of a new one. `ended` is the spec of a
 * run that was ended by its budget.
 */
async function runOf(db: Db, plan: Plan) {
  const runs = await rowsOf(
    db,
    query
      .selectFrom('troupe.job_queue')
      .select(['job_id', 'spec', 'state', 'result'])
      .where('kind', '=', 'plan')
      .orderBy('requested_at', 'desc'),
  );
  const isThis = (spec: unknown, except: readonly string[]) =>
    isRecord(spec) &&
    isRecord(spec.plan) &&
    canonicalJson(without(spec.plan, ...except)) === canonicalJson(without(plan, ...except));
  const same = runs.find(({ spec, state }) => state !== 'finished' && isThis(spec, []));
  if (same !== undefined) return { id: same.job_id, resumed: true };
  const last = runs.find(({ spec }) => isThis(spec, ['budget']));
  if (
    last !== undefined &&
    isRecord(last.result) &&
    typeof last.result.ended_early === 'string' &&
    !isThis(last.spec, [])
  )
    return { id: last.job_id, resumed: true, ended: last.spec as Readonly<Record<string, unknown>> };
  const taken = new Set(runs.map(({ job_id }) => job_id));
  for (let n = 1; ; n++) if (!taken.has(`${plan.name}-${n}`)) return { id: `${plan.name}-${n}`, resumed: false };
}

const runs = query
  .selectFrom('traj.jobs')
  .select(sql<string>`job_id`.as('run'))
  .select(['state', 'outcome', 'requested_at', 'finished_at', 'error'])
  .select(sql<boolean | null>`(result ->> 'released')::boolean`.as('released'))
  .where('kind', '=', 'plan');

const RUNS = {
  rows: 'traj.jobs',
  fields: {
    run: { scope: 'episode', kind: 'text', sql: 'job_id' },
    ...columns('text', 'state', 'outcome'),
    ...columns('time', 'requested_at', 'finished_at'),
  },
  id: 'job_id',
} as const;

export async function list({ db, catchUp }: ReadContext, asked: FilteredPage) {
  await catchUp();
  return filteredList<NonNullable<OutputOf<typeof one>>>(db, runs, RUNS, asked);
}

const one = (db: Db) => firstOf(db, runs);

const noRun = (id: string) =>
  new TroupeError('not_found', `There is no run ${id} of a plan; troupe plan list lists them.`, { field: 'run' });

export async function learning({ db, catchUp }: ReadContext, { run: id }: { readonly run: string }) {
  await catchUp();
  const found = await firstOf(db, runs.where('job_id', '=', id));
  if (found === undefined) throw noRun(id);
  return learningOf(db, id);
}

export async function show({ db, catchUp }: ReadContext, { run: id }: { readonly run: string }) {
  await catchUp();
  const found = await readRun(db, id);
  if (found === null) throw noRun(id);
  const asked = query
    .selectFrom('traj.jobs')
    .select([
      sql<Plan['budget'] | null>`spec -> 'plan' -> 'budget'`.as('budget'),
      sql<PlanValues | null>`spec -> 'set'`.as('set'),
    ])
    .where('job_id', '=', id);
  const { budget, set } = (await firstOf(db, asked)) ?? {};
  const [{ result, spec: _, ...run }, stages] = [found.run, found.stages];
  return {
    run: { ...run, result, made: madeBy(result), why: whyEnded(found.run) },
    set: set ?? {},
    budget: budget ?? null,
    spent: { minutes: await runMinutes(db, id), ...(await spentBelow(db, id)) },
    // Results of stages may list thousands of episodes; what was made and the reports of gates are shown.
    stages: stages.map(({ result, spec: _, ...stage }) => ({
      ...stage,
      ...{ made: madeBy(result), why: whyEnded({ error: stage.error, result }) },
      ...(GATE_KINDS.some((kind) => kind === stage.kind) && isRecord(result) ? { gate: result } : {}),
    })),
  };
}
