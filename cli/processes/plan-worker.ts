/** Runs a plan in the process of a command: its jobs and no others, so that it works beside `troupe up` and without it. */
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { hostedBy } from '../../api/gateway/hosted.ts';
import { EXIT, TroupeError } from '../../errors.ts';
import { firstOf, query, rowsOf, sql } from '../../store/db/query.ts';
import { isNoAttempt } from '../../store/loop/play/attempts.ts';
import { endLeases, handBack, runJobs } from '../../store/queue/jobs/worker.ts';
import { openCanaries } from '../../trainer/loop/comparison/canary-traffic.ts';
import type { PlanResult } from '../../trainer/loop/plan/round.ts';
import { untilInterrupted } from '../command.ts';
import type { Context } from '../context.ts';
import { troubleReporter } from '../output.ts';
import { turnOf } from '../training/training-turn.ts';
import { VERSION } from '../version.ts';
import { isGone, processId } from './process-id.ts';
import { ROLES } from './roles.ts';

const ROLE = 'plan';
const LOOK_MS = 100;
/** How long a job under way may go on after Ctrl-C; then it is handed back. */
const GRACE_MS = 5000;

export type RunState =
  | { readonly state: 'finished'; readonly result: PlanResult }
  /** It waits for a person to decide, or for live episodes; `decision` is the job. */
  | { readonly state: 'undecided'; readonly decision: string; readonly by: 'person' | 'canary' };

/**
 * Works on the run until it has ended or waits for a person.
 * @param onStage called once for each stage that has ended, in order
 * @throws TroupeError `training_failed` with the reason of the run, `interrupted`
 */
export async function workOnRun(
  context: Context,
  run: string,
  onStage: (stage: { readonly job_id: string; readonly outcome: string | null }) => void,
): Promise<RunState> {
  const [
    { storeHandlers },
    { trainerHandlers },
    { planHandlers },
    { readEngines },
    { rolloutHandlers },
    { readRunners },
    { readScorers },
    { postJson },
  ] = await Promise.all([
    import('../../store/queue/jobs/handlers.ts'),
    import('../../trainer/loop/jobs/handlers.ts'),
    import('../../trainer/loop/plan/handlers.ts'),
    import('../../trainer/engines/engines.ts'),
    import('../../trainer/loop/play/handler.ts'),
    import('../../trainer/loop/play/runners.ts'),
    import('../../trainer/loop/rewards/source.ts'),
    import('../../api/http/post.ts'),
  ]);
  const { db, log, now, home, config } = context;
  const settings = { checkpoints: home.checkpoints, threads: config.threads, codeVersion: VERSION };
  const runners = readRunners(config.runners, readScorers(config.rewards));
  const interrupted = untilInterrupted();
  const stop = new AbortController();
  const signal = AbortSignal.any([interrupted, stop.signal]);
  const worker = processId(ROLE);
  await releaseDead(context, run);
  const projecting = ROLES.project!(context, { signal, onReady: () => {} });
  const working = runJobs(
    { db, log, now },
    {
      worker,
      within: run,
      turn: turnOf(context),
      signal,
      pollMs: LOOK_MS,
      onTrouble: troubleReporter('The plan'),
      handlers: {
        ...storeHandlers(context, {
          datasets: home.datasets,
          benchmarks: home.benchmarks,
          codeVersion: VERSION,
          closeAfter: config.close_after,
        }),
        ...trainerHandlers(context, settings),
        ...rolloutHandlers(context, { runners, env: process.env, post: postJson(), signal }),
        ...planHandlers(context, {
          ...settings,
          runners,
          checking: { folder: home.run, benchmarks: home.benchmarks, datasets: home.datasets },
          engines: readEngines(config.engines),
          hosted: hostedBy(config),
          env: process.env,
          work: join(home.run, 'programs'),
          signal,
        }),
      },
    },
  );
  try {
    return await watch(context, run, interrupted, onStage);
  } finally {
    stop.abort();
    const ended = Promise.all([working, projecting]).then(() => true);
    if (!(await Promise.race([ended, sleep(GRACE_MS, false, { ref: false })]))) {
      await handBack(db, worker).catch(() => []);
      // A training step cannot be stopped; its job has another token by now, so nothing it still does counts.
      process.exit(EXIT.interrupted);
    }
  }
}

async function watch(
  { db }: Context,
  run: string,
  interrupted: AbortSignal,
  onStage: Parameters<typeof workOnRun>[2],
): Promise<RunState> {
  const seen = new Set<string>();
  for (;;) {
    const stages = await rowsOf(
      db,
      query
        .selectFrom('troupe.job_queue')
        .select(['job_id', 'kind', 'state', 'outcome'])
        .where(sql<boolean>`starts_with(job_id, ${`${run}/`})`)
        .where(isNoAttempt)
        .orderBy('requested_at'),
    );
    for (const stage of stages) {
      if (stage.state !== 'finished' || seen.has(stage.job_id)) continue;
      seen.add(stage.job_id);
      onStage(stage);
    }
    const row = await firstOf(
      db,
      query
        .selectFrom('troupe.job_queue')
        .select(['state', 'outcome', 'result', 'error', 'waits_for'])
        .where('job_id', '=', run),
    );
    if (row === undefined) throw new TroupeError('not_found', `There is no run ${run}; troupe plan show lists them.`);
    if (row.state === 'finished') {
      if (row.outcome === 'done') return { state: 'finished', result: row.result as PlanResult };
      const error = row.error as { readonly message?: string } | null;
      throw new TroupeError('training_failed', `Run ${run} ${row.outcome}: ${error?.message ?? 'no reason'}`);
    }
    const decision = stages.find(({ kind, state }) => kind === 'decision' && state === 'waiting');
    if (decision !== undefined && row.waits_for === decision.job_id)
      return { state: 'undecided', decision: decision.job_id, by: 'person' };
    const canary = (await openCanaries(db)).find(({ job_id }) => job_id === row.waits_for);
    if (canary !== undefined) return { state: 'undecided', decision: canary.job_id, by: 'canary' };
    if (interrupted.aborted)
      throw new TroupeError('interrupted', `Run ${run} was interrupted. The results of its stages are stored.`, {
        hint: 'Run the command again to go on.',
      });
    await sleep(LOOK_MS);
  }
}

/** What a process of this machine held that was killed is free at once, not only when its lease ends. */
async function releaseDead({ db }: Context, run: string): Promise<void> {
  const held = await rowsOf(
    db,
    query
      .selectFrom('troupe.job_queue')
      .select(['job_id', 'worker'])
      .where('state', '=', 'running')
      .where((job) =>
        job.or([job('job_id', '=', run), job(sql<boolean>`starts_with(job_id, ${`${run}/`})`, '=', true)]),
      ),
  );
  const dead = held.flatMap(({ worker }) => (worker !== null && isGone(worker, ROLE) ? [worker] : []));
  for (const worker of new Set(dead)) await endLeases(db, worker);
}
