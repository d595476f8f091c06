/** `troupe plan`: check, run and show plans, which take recorded episodes to a released checkpoint. */
import { readFile } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import type { Command } from 'commander';
import { countText, EXIT, TroupeError, unreadable } from '../../errors.ts';
import { canonicalJson, isRecord, without } from '../../ingest/events/json.ts';
import { firstOf, query, rowsOf, sql } from '../../store/db/query.ts';
import { type Spending, spentBelow } from '../../store/loop/play/budget.ts';
import { requestJob } from '../../store/queue/jobs/jobs.ts';
import { madeBy, readRun, runMinutes, whyEnded } from '../../store/queue/jobs/run-of-plan.ts';
import { readEngines } from '../../trainer/engines/engines.ts';
import type { Checking, PlanCheck } from '../../trainer/loop/plan/check-found.ts';
import { rolloutText } from '../../trainer/loop/plan/plan-rollout.ts';
import type { Plan } from '../../trainer/loop/plan/plan-schema.ts';
import type { PlanValues } from '../../trainer/loop/plan/plan-values.ts';
import type { PlanResult } from '../../trainer/loop/plan/round.ts';
import { readRunners } from '../../trainer/loop/play/runners.ts';
import { readScorers } from '../../trainer/loop/rewards/source.ts';
import { bytesText } from '../bytes.ts';
import { type Flags, plainCommand, projectCommand, wholeNumber } from '../command.ts';
import type { Context } from '../context.ts';
import { print, printJson, say, table } from '../output.ts';
import { setIn, withSet } from '../plan-values.ts';
import { readTasksFile } from '../tasks-file.ts';
import { readTeamFile } from '../team-file.ts';
import { VERSION } from '../version.ts';

const EXAMPLE = `
A plan, such as nightly.yaml:
  name: nightly
  judge: [{ method: grpo_advantage }]
  policies:
    solver:
      from: released          # base, released or last
      base: ./model           # until something is released
      recipe:
        where: { field: reward, op: ">=", value: 1 }
        roles: [solver]
        split: { held_out: 0.2, seed: 1 }
      train: { method: sft, steps: 100, batch: 8, learning_rate: 1e-3 }
  gate: { kind: offline, guardrails: { roles: 0.05 } }
  budget: { minutes: 60 }

A gate that plays tasks which nobody trains on, with candidate and incumbent:
  gate: { kind: play, runner: solver, tasks: held-out.jsonl, samples: 4, guardrails: { tokens: 1.5 } }

With a rollout each round begins with new episodes, and the recipes take only those:
  rounds: 3
  rollout: { runner: solver, tasks: tasks.jsonl, samples: 8, per_round: 64 }`;

export function addTo(program: Command): void {
  const plan = program
    .command('plan')
    .addHelpText('after', `${EXAMPLE}\n\nExamples:\n  troupe plan check nightly.yaml\n  troupe plan run nightly.yaml`);
  checkCommand(plan);
  runCommand(plan);
  showCommand(plan);
  schemaCommand(plan);
}

function checkCommand(plan: Command): void {
  projectCommand(
    withSet(plan.command('check'))
      .description('show what a run would do now: stages, rows, starting weights, cost, and tasks of the gate')
      .argument('<file>', 'the plan as YAML or JSON; - reads standard input')
      .option('--rounds <n>', 'number of rounds (default: that of the plan)', wholeNumber('rounds'))
      .addHelpText(
        'after',
        '\nNothing is changed. Ends with 1 where something keeps the plan from running.\n\nExamples:\n  troupe plan check nightly.yaml\n  troupe plan check nightly.yaml --json',
      ),
    async (context, [file], flags) => {
      const plan = await planOf(file!, flags);
      await context.catchUp();
      const { checkPlan } = await import('../../trainer/loop/plan/check.ts');
      const found = await checkPlan(checkingOf(context), plan);
      if (flags.json) printJson(found);
      else printCheck(found);
      return found.problems.length === 0 ? EXIT.done : EXIT.failed;
    },
  );
}

function runCommand(plan: Command): void {
  projectCommand(
    withSet(plan.command('run'))
      .description('run a plan, or resume an interrupted run of it')
      .argument('<file>', 'the plan as YAML or JSON; - reads standard input')
      .option('--rounds <n>', 'number of rounds (default: that of the plan)', wholeNumber('rounds'))
      .option('--detach', 'only queue it: the processes of `troupe up` run it')
      .addHelpText(
        'after',
        `
It begins only where \`troupe plan check\` finds no problem. Ends with 0 where a candidate was released, with 7 where none passed the gate. Killed at any point, the same command goes on:
stages that ended are not run again, and a training that was cut off begins again and comes to the same weights.
A plan with a rollout needs the processes that the team asks: \`troupe up\`, or \`troupe run serve\` and \`troupe run infer\`.

Examples:
  troupe plan run nightly.yaml
  troupe plan run nightly.yaml --rounds 3 --json
  troupe plan run nightly.yaml --set seed=2 --set policies.solver.train.steps=200
  troupe plan run nightly.yaml --detach`,
      ),
    async (context, [file], flags) => {
      const plan = await planOf(file!, flags);
      await context.catchUp();
      const run = await runOf(context, plan);
      if (!run.resumed) {
        const { requireUnblocked } = await import('../../trainer/loop/plan/check.ts');
        await requireUnblocked(checkingOf(context), plan);
      }
      if (run.ended === undefined)
        await requestJob(context, { job_id: run.id, kind: 'plan', spec: { plan, ...setIn(flags), checked: true } });
      else {
        const { goOnWithRun } = await import('../../trainer/loop/plan/plan-budget.ts');
        await goOnWithRun(context, run.id, plan, run.ended);
      }
      if (flags.detach) {
        if (flags.json) printJson({ run: run.id, resumed: run.resumed });
        else print(`Run ${run.id} is in the queue; troupe plan show ${run.id} follows it.`);
        return EXIT.done;
      }
      if (!flags.quiet && !flags.json) say(`Run ${run.id}${run.resumed ? ' goes on' : ''}.`);
      return finishRun(context, run.id, flags);
    },
  );
}

function showCommand(plan: Command): void {
  projectCommand(
    plan
      .command('show')
      .description('list runs of plans, or show the stages and rounds of one')
      .argument('[run]', 'such as nightly-1; all runs if left out')
      .addHelpText('after', '\nExamples:\n  troupe plan show\n  troupe plan show nightly-1 --json'),
    async (context, [run], flags) => {
      await context.catchUp();
      return run === undefined ? listRuns(context, flags) : showRun(context, run, flags);
    },
  );
}

function schemaCommand(plan: Command): void {
  plainCommand(
    plan
      .command('schema')
      .description('print the JSON Schema of a plan')
      .addHelpText('after', '\nExample:\n  troupe plan schema > plan.schema.json'),
    async () => {
      const { planSchema } = await import('../../trainer/loop/plan/plan-schema.ts');
      printJson(planSchema);
    },
  );
}

const checkingOf = ({ db, home, config }: Context): Checking => ({
  db,
  folder: home.run,
  benchmarks: home.benchmarks,
  datasets: home.datasets,
  codeVersion: VERSION,
  runners: readRunners(config.runners, readScorers(config.rewards)),
  engines: readEngines(config.engines),
  env: process.env,
});

/** The plan of a file with absolute paths, and with the tasks of its rollout. @throws TroupeError `plan_invalid`, `not_found` */
export async function planOf(file: string, flags: Flags): Promise<Plan> {
  const { parsePlan, readPlan } = await import('../../trainer/loop/plan/plan.ts');
  const { withTasks, withTeam } = await import('../../trainer/loop/plan/plan-parts.ts');
  const written = await (file === '-' ? text(process.stdin) : readFile(file, 'utf8')).catch((cause) => {
    throw unreadable(`The plan ${file}`, cause);
  });
  const plan = await readPlan(written, file === '-' ? 'The plan' : `The plan ${file}`, setIn(flags).set);
  const folder = file === '-' ? '.' : dirname(file);
  const policies = Object.entries(plan.policies).map(([name, policy]) => [
    name,
    policy.base === undefined ? policy : { ...policy, base: resolve(folder, policy.base) },
  ]);
  const rounds = flags.rounds === undefined ? {} : { rounds: Number(flags.rounds) };
  if (rounds.rounds === 0) throw new TroupeError('usage', '--rounds should be a whole number from 1.');
  const passes = plan.passes?.map((pass) =>
    pass.model === undefined ? pass : { ...pass, model: resolve(folder, pass.model) },
  );
  const whole = {
    ...plan,
    ...rounds,
    policies: Object.fromEntries(policies),
    ...(passes === undefined ? {} : { passes }),
  };
  // Checked again: what the tasks have to be is known only now.
  const filled = withTeam(whole, (version) => readTeamFile(resolve(folder, version)));
  return parsePlan(withTasks(filled, (tasks) => readTasksFile(resolve(folder, tasks))));
}

/**
 * A run of this plan that has not ended, or whose last run was ended by another budget, or the name of a new one. `ended` is the spec of a
 * run that was ended by its budget.
 */
async function runOf(
  { db }: Context,
  plan: Plan,
): Promise<{ readonly id: string; readonly resumed: boolean; readonly ended?: Readonly<Record<string, unknown>> }> {
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

/** Works on a run until it has ended or waits for a person, and prints what came of it. Returns the exit code. */
export async function finishRun(context: Context, run: string, flags: Flags): Promise<number> {
  const { workOnRun } = await import('../processes/plan-worker.ts');
  const quiet = flags.quiet === true || flags.json === true;
  const ended = await workOnRun(context, run, ({ job_id, outcome }) => {
    if (!quiet) say(`${job_id}: ${outcome}`);
  });
  // Whoever asks the tables next finds what the run did, though a projector beside it may wait for more to come.
  await context.catchUp();
  if (ended.state === 'undecided') {
    if (flags.json) printJson({ run, state: 'undecided', decision: ended.decision });
    else if (ended.by === 'canary')
      print(
        `Run ${run} waits for the canary ${ended.decision}. \`troupe up\`, or \`troupe run work\`, ends it and goes on with the run; troupe gate show ${run} has its numbers.`,
      );
    else
      print(
        `Run ${run} waits for a decision. Look at the candidates with troupe plan show ${run}, then run troupe gate accept ${run} or troupe gate refuse ${run}.`,
      );
    return EXIT.gate;
  }
  const { result } = ended;
  if (flags.json) printJson({ run, ...result });
  else printResult(run, result);
  return result.released || result.nothing_to_learn !== null ? EXIT.done : EXIT.gate;
}

function printResult(run: string, { rounds, ended_early, nothing_to_learn }: PlanResult): void {
  for (const { round, candidates, teams, passed, reason, rollout } of rounds) {
    const trained = Object.entries({ ...candidates, ...teams }).map(([name, id]) => `${name} ${id}`);
    print(`Round ${round}: ${trained.join(', ')} ${passed ? 'released' : 'kept, not released'}. ${reason}`);
    // Runs of a version that had no rollouts have none.
    if (rollout) print(rolloutText(rollout));
  }
  if (ended_early !== null) print(ended_early);
  if (nothing_to_learn !== null) print(nothing_to_learn);
  if (rounds.length > 0) print(`troupe gate show ${run} has the report.`);
}

function printCheck({ plan, stages, rounds, budget, policies, team, rollout, gate, problems, notes }: PlanCheck): void {
  print(`Plan ${plan}: ${countText(rounds, 'round')} of ${stages.join(', ')}, release.\n`);
  if (budget !== null) print(`Budget of ${countText(rounds, 'round')}: ${budgetText(budget)}.\n`);
  if (team !== null)
    print(`Team ${team.name}: ${team.incumbent ?? 'nothing yet'} → ${team.candidate ?? 'what pruning leaves of it'}`);
  else
    print(
      table(
        [
          ...['policy', 'method', 'starts with', 'rows to train on', 'held out', 'tokens a round', 'minutes a round'],
          ...['memory', 'a checkpoint'],
        ],
        Object.entries(policies).map(
          ([name, { method, start, rows, tokens, minutes, adapter, memory_bytes, checkpoint_bytes }]) => [
            name,
            adapter === null ? method : `${method}, adapter r=${adapter.r}`,
            start?.directory ?? null,
            rows?.train ?? null,
            rows?.held_out ?? null,
            tokens,
            minutes === null ? null : Number(minutes.toPrecision(2)),
            memory_bytes === null ? null : bytesText(memory_bytes),
            checkpoint_bytes === null ? null : bytesText(checkpoint_bytes),
          ],
        ),
      ),
    );
  if (rollout !== null) {
    const { runner, tasks_of_round, samples, iterations, attempts, attempts_at_most } = rollout;
    const times = iterations === 1 ? '' : ` × ${iterations} iterations`;
    const most = attempts_at_most === null ? '' : `, at most ${attempts_at_most} with those that are tried again`;
    print(
      `\nRollout by ${runner}: ${tasks_of_round} of ${countText(rollout.tasks, 'task')} × ${countText(samples, 'sample')}${times} a round: ${countText(attempts, 'attempt')}${most}.`,
    );
  }
  if (gate.played !== null) {
    const { runner, tasks_of_round, samples, attempts, attempts_at_most } = gate.played;
    const most = attempts_at_most === null ? '' : `, at most ${attempts_at_most} with those that are tried again`;
    print(
      `\nGate played by ${runner}: ${tasks_of_round} of ${countText(gate.played.tasks, 'task')} × ${countText(samples, 'sample')} × 2 sides: ${countText(attempts, 'attempt')}${most}.`,
    );
  }
  const tasks = gate.tasks === null ? '' : `: ${countText(gate.tasks, 'task')}`;
  print(`\nGate ${gate.kind}${tasks}${gate.tasks_wanted === null ? '' : `, ${gate.tasks_wanted} wanted`}.`);
  for (const note of notes) print(`Note: ${note}`);
  for (const problem of problems) print(`Problem: ${problem}`);
}

const budgetText = ({ minutes, tokens, usd }: NonNullable<PlanCheck['budget']>): string =>
  [
    ...(tokens === undefined ? [] : [countText(tokens, 'token')]),
    ...(usd === undefined ? [] : [`${usd} USD`]),
    ...(minutes === undefined ? [] : [countText(minutes, 'minute')]),
  ].join(', ');

/** What a run has used of its budget. What is unknown is shown as unknown, not as 0; US dollars not where nothing has a price. Pure. */
export function spentText(
  { tokens, usd, uncounted, unpriced, untold, minutes }: Spending & { readonly minutes: number | null },
  budget: NonNullable<PlanCheck['budget']>,
): string {
  const of = (most: number | undefined) => (most === undefined ? '' : ` of ${most}`);
  const less = (calls: number, what: string, trainings: number) =>
    (calls === 0 ? '' : `, without ${countText(calls, 'call')} of unknown ${what}`) +
    (trainings === 0 ? '' : `, without ${countText(trainings, 'training')} by a program that reported none`);
  const hasPrice = usd !== null || budget.usd !== undefined || unpriced > 0 || (untold?.usd ?? 0) > 0;
  return [
    `tokens ${tokens ?? 'unknown'}${of(budget.tokens)}${less(uncounted, 'length', untold?.tokens ?? 0)}`,
    ...(hasPrice
      ? [
          `USD ${usd === null ? 'unknown' : Number(usd.toPrecision(4))}${of(budget.usd)}${less(unpriced, 'price', untold?.usd ?? 0)}`,
        ]
      : []),
    `minutes ${minutes === null ? 'unknown' : minutes.toFixed(1)}${of(budget.minutes)}`,
  ].join(' · ');
}

async function listRuns({ db }: Context, flags: Flags): Promise<number> {
  const rows = await rowsOf(
    db,
    query
      .selectFrom('traj.jobs')
      .select(['job_id', 'state', 'outcome', 'requested_at', 'finished_at', 'result', 'error'])
      .where('kind', '=', 'plan')
      .orderBy('requested_at', (order) => order.desc().nullsLast())
      .limit(200),
  );
  if (flags.json) printJson({ runs: rows });
  else if (rows.length === 0) print('No runs of plans yet.');
  else
    print(
      table(
        ['run', 'state', 'outcome', 'released', 'requested', 'error'],
        rows.map(({ job_id, state, outcome, result, requested_at, error }) => [
          job_id,
          state,
          outcome,
          isRecord(result) ? (result.released === true ? 'yes' : 'no') : null,
          requested_at,
          error,
        ]),
      ),
    );
  return EXIT.done;
}

async function showRun({ db }: Context, id: string, flags: Flags): Promise<number> {
  const found = await readRun(db, id);
  if (found === null)
    throw new TroupeError('not_found', `There is no run ${id} of a plan; troupe plan show lists them.`);
  const { run, stages } = found;
  const asked = query
    .selectFrom('traj.jobs')
    .select([
      sql<PlanCheck['budget']>`spec -> 'plan' -> 'budget'`.as('budget'),
      sql<PlanValues | null>`spec -> 'set'`.as('set'),
    ])
    .where('job_id', '=', id);
  const { budget = null, set = null } = (await firstOf(db, asked)) ?? {};
  const spent = { minutes: await runMinutes(db, id), ...(await spentBelow(db, id)) };
  if (flags.json) printJson({ run, set: set ?? {}, budget, spent, stages });
  else {
    const why = whyEnded(run);
    print(`Run ${id}: ${run.outcome ?? run.state}.${run.error === null ? '' : ` ${why}`}`);
    if (set !== null)
      print(
        `Set: ${Object.entries(set)
          .map(([path, value]) => `${path}=${JSON.stringify(value)}`)
          .join(', ')}.`,
      );
    print(`Used: ${spentText(spent, budget ?? {})}.`);
    // Those of a gate are rollouts too, below its own id.
    if (stages.some(({ job_id }) => /^\d+(\/\d+)?\/rollout$/.test(job_id!.slice(id.length + 1))))
      print('The recipes of a round take only the complete groups of its rollout.');
    print(
      table(
        ['stage', 'kind', 'state', 'outcome', 'result'],
        stages.map(({ job_id, kind, state, outcome, result, error }) => [
          job_id!.slice(id.length + 1),
          kind,
          state,
          outcome,
          whyEnded({ error, result }) ?? madeBy(result),
        ]),
      ),
    );
    if (isRecord(run.result)) printResult(id, run.result as unknown as PlanResult);
  }
  return EXIT.done;
}
