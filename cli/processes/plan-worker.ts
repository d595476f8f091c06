/** Runs a plan in the process of a command: its jobs and no others, so that it works beside `troupe up` and without it. */
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { hostedBy } from '../../api/gateway/hosted.ts';
import type { ReadContext } from '../../api/operations/operation.ts';
import { TroupeError } from '../../errors.ts';
import { query, rowsOf, sql } from '../../store/db/query.ts';
import { isNoAttempt } from '../../store/loop/play/attempts.ts';
import { stateOfRun } from '../../store/queue/jobs/run-of-plan.ts';
import { endLeases, handBack, runJobs } from '../../store/queue/jobs/worker.ts';
import type { Context } from '../context.ts';
import { troubleReporter } from '../output.ts';
import { VERSION } from '../version.ts';
import { isGone, processId } from './process-id.ts';
import { ROLES } from './roles.ts';
import { turnOf } from './training-turn.ts';

const ROLE = 'plan';
const LOOK_MS = 100;
/** How long a job under way may go on after Ctrl-C; then it is handed back. */
const GRACE_MS = 5000;

/**
 * Works on the run until it has ended or waits, and says what became of each of its stages.
 * @throws TroupeError `interrupted`, once the signal fires
 */
export async function workOnRun(
  context: Context,
  run: string,
  { say, signal: interrupted }: Pick<ReadContext, 'say' | 'signal'>,
): Promise<void> {
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
    await watch(context, run, interrupted, say);
  } finally {
    stop.abort();
    const ended = Promise.all([working, projecting]);
    // A training step cannot be stopped: it ends, and finds that its job is held by nobody.
    if ((await Promise.race([ended, sleep(GRACE_MS, null, { ref: false })])) === null)
      await handBack(db, worker).catch(() => []);
    await ended;
  }
}

async function watch({ db }: Context, run: string, interrupted: AbortSignal, say: ReadContext['say']): Promise<void> {
  const seen = new Set<string>();
  for (;;) {
    const stages = await rowsOf(
      db,
      query
        .selectFrom('troupe.job_queue')
        .select(['job_id', 'outcome'])
        .where(sql<boolean>`starts_with(job_id, ${`${run}/`})`)
        .where('state', '=', 'finished')
        .where(isNoAttempt)
        .orderBy('requested_at'),
    );
    for (const { job_id, outcome } of stages) {
      if (!seen.has(job_id)) say(`${job_id}: ${outcome}`);
      seen.add(job_id);
    }
    if ((await stateOfRun(db, run)).state !== 'running') return;
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
