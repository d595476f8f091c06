/** What operations on rollouts do. */
import { randomBytes } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { countText, TroupeError } from '../../../errors.ts';
import { untilNotified } from '../../../store/db/notifications.ts';
import type { Db } from '../../../store/db/pool.ts';
import { firstOf, query, rowsOf, sql } from '../../../store/db/query.ts';
import { ATTEMPTS_ADDED, attemptCounts, ofRollout } from '../../../store/loop/play/attempts.ts';
import { requestRollout, rolloutWithTasks } from '../../../store/loop/play/request.ts';
import {
  checkedRolloutId,
  groupsOf,
  ROLLOUT,
  type RolloutRequest,
  type RolloutSpec,
} from '../../../store/loop/play/rollout.ts';
import type { RolloutResult } from '../../../trainer/loop/play/handler.ts';
import {
  beat,
  type Finish,
  finish as finishAttempts,
  lease as leaseAttempts,
  workersRunner,
} from '../../../trainer/loop/play/leases.ts';
import { findRunner, readRunners } from '../../../trainer/loop/play/runners.ts';
import { combinations, type Setting, sweepPoints } from '../../../trainer/loop/play/sweep.ts';
import { readScorers } from '../../../trainer/loop/rewards/source.ts';
import type { ChangeContext, ReadContext } from '../operation.ts';
import { errorLine } from './error-line.ts';
import { settingsText, sweepSvg } from './sweep-plot.ts';

const POLL_MS = 300;

type RolloutInput = RolloutRequest & { readonly id?: string; readonly detach: boolean };

export async function start(context: ChangeContext, { id, detach, ...asked }: RolloutInput) {
  requireRunner(context, asked);
  const rollout_id = id === undefined ? madeUpId(context.now()) : checkedRolloutId(id);
  return played(context, rollout_id, asked, detach);
}

const runnersOf = ({ settings }: ReadContext) =>
  readRunners(settings.runners ?? null, readScorers(settings.rewards ?? null));

/** @throws TroupeError `not_found` naming the runners that there are */
const requireRunner = (context: ReadContext, { runner }: Pick<RolloutRequest, 'runner'>) =>
  findRunner(runnersOf(context), runner);

const madeUpId = (now: Date): string =>
  `r${now.toISOString().slice(0, 19).replace(/[-:]/g, '').replace('T', '-')}-${randomBytes(2).toString('hex')}`;

/** Requests the rollout and waits for its end, unless that is left to whoever asked. */
async function played(context: ChangeContext, id: string, asked: RolloutRequest, detached: boolean) {
  const { db, say } = context;
  const waits = !detached && context.workOnRun !== null;
  await rolloutWithTasks({ db }, id, asked);
  if (waits) await checkProcesses(db);
  const before = await jobNow(db, id);
  const spec = await requestRollout(context, id, asked);
  if (!waits) return { rollout_id: id, state: 'running' as const };
  const settings = spec.params === undefined ? '' : ` with ${settingsText(spec.params)}`;
  const of =
    spec.places === undefined
      ? countText(spec.tasks.length, 'task')
      : `${countText(spec.places.length, 'place')} of replays`;
  say(`Rollout ${id}: ${of} × ${countText(spec.samples, 'sample')}${settings}.`);
  const ended = before?.state === 'finished' && before.outcome !== 'done';
  const again = ended ? ' It ended so before this request: choose another id to play again.' : '';
  return { state: 'finished' as const, ...(await waited(context, id, spec, again)) };
}

const jobNow = (db: Db, id: string) =>
  firstOf(
    db,
    query
      .selectFrom('troupe.job_queue')
      .select(['state', 'outcome', 'result', 'error'])
      .where('job_id', '=', id)
      .where('kind', '=', ROLLOUT),
  );

export async function show({ db }: ReadContext, { id }: { readonly id: string }) {
  const job = await jobNow(db, id);
  if (job === undefined) throw new TroupeError('not_found', `There is no rollout ${id}.`);
  return { rollout_id: id, ...job, attempts: await attemptCounts(db, id) };
}

export async function sweep(
  context: ChangeContext,
  {
    id,
    vary,
    plot,
    detach,
    ...asked
  }: RolloutInput & { readonly vary: Readonly<Record<string, readonly Setting[]>>; readonly plot?: string },
) {
  const { db } = context;
  requireRunner(context, asked);
  const name = id === undefined ? madeUpId(context.now()) : checkedRolloutId(id);
  const sweep = combinations(vary).map((params, i) => ({ rollout_id: checkedRolloutId(`${name}.${i + 1}`), params }));
  for (const { rollout_id, params } of sweep) await played(context, rollout_id, { ...asked, params }, detach);
  const results = await Promise.all(sweep.map(({ rollout_id }) => jobNow(db, rollout_id)));
  const groups = results.flatMap((job) => (job?.outcome === 'done' ? [(job.result as RolloutResult).groups] : []));
  const tasks = groups.length < sweep.length ? null : groups.at(-1)!.complete + groups.at(-1)!.partial;
  const points = tasks === null ? null : await sweepPoints(db, sweep, { tasks, samples: asked.samples });
  if (plot !== undefined && points !== null) await writeFile(plot, sweepSvg(points));
  return { sweep: name, rollouts: sweep.map(({ rollout_id }) => rollout_id), points };
}

/** Without these nothing would ever happen. */
async function checkProcesses(db: Db): Promise<void> {
  const rows = await rowsOf(
    db,
    query
      .selectFrom('troupe.processes')
      .select('role')
      .distinct()
      .where('heartbeat_at', '>', sql<string>`clock_timestamp() - interval '10 seconds'`),
  );
  const missing = ['work', 'project'].filter((role) => !rows.some((row) => row.role === role));
  if (missing.length > 0)
    throw new TroupeError(
      'unreachable',
      `A rollout is played by other processes, and ${missing.map((role) => `\`run ${role}\``).join(' and ')} ${missing.length === 1 ? 'is' : 'are'} not running. Start \`troupe up\` in another terminal, in the folder of troupe.yaml.`,
    );
}

/** The result. `again` is added to what a failed one says. The first failure is shown when it comes. */
async function waited(
  { db, signal, progress, say }: ReadContext,
  id: string,
  spec: RolloutSpec,
  again: string,
): Promise<RolloutResult> {
  let named = false;
  const of = groupsOf(id, spec).length * spec.samples;
  while (!signal.aborted) {
    const job = await jobNow(db, id);
    if (job?.state === 'finished') {
      if (job.outcome === 'done') return job.result as RolloutResult;
      const { code, message } = (job.error ?? {}) as { code?: string; message?: string };
      throw new TroupeError(
        'training_failed',
        `The rollout ${id} failed (${code ?? 'internal'}): ${message ?? 'no reason was kept'}${again}`,
      );
    }
    const { done, running, failed } = await attemptCounts(db, id);
    if (failed > 0 && !named) {
      named = true;
      const { code, message } = (await failureOf(db, id))?.error ?? { code: 'failed', message: 'no reason was kept' };
      say(`An attempt failed (${code}): ${errorLine(message)}`);
    }
    progress(done, of, `${done} of ${of} done, ${running} running, ${failed} failed attempts`);
    await sleep(POLL_MS, undefined, { signal }).catch(() => {});
  }
  throw new TroupeError('interrupted', `The rollout ${id} goes on without this command.`, {
    hint: `Wait for it again by the same command with --id ${id.replace(/\.\d+$/, '')}; \`troupe jobs\` lists it.`,
  });
}

/** Why one of the attempts that failed did. */
const failureOf = (db: Db, id: string) =>
  firstOf(
    db,
    query
      .selectFrom('troupe.job_queue')
      .select(sql<{ code: string; message: string }>`error`.as('error'))
      .where(ofRollout(id))
      .where('outcome', '=', 'failed')
      .limit(1),
  );

export async function lease(
  context: ChangeContext,
  { runner, count, wait_s }: { readonly runner: string; readonly count: number; readonly wait_s: number },
) {
  const of = workersRunner(runnersOf(context), runner);
  const next = () => leaseAttempts(context, of, count);
  if (wait_s === 0) return { attempts: await next() };
  const some = async () => {
    const attempts = await next();
    return attempts.length === 0 ? null : attempts;
  };
  const options = { ms: wait_s * 1000, signal: context.signal };
  return { attempts: (await untilNotified(context.db, ATTEMPTS_ADDED, some, options)) ?? [] };
}

export const heartbeat = (context: ChangeContext, held: { readonly attempt_id: string; readonly token: number }) =>
  beat(context, { ...held, runners: runnersOf(context) });

export const finish = async (context: ChangeContext, { attempts }: { readonly attempts: readonly Finish[] }) => ({
  attempts: await finishAttempts(context, attempts),
});
