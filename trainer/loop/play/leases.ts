/**
 * Attempts for workers that run for long: they lease one, give signs of life, and finish it. What a worker reports after it lost its attempt is
 * recorded with its episode, and changes nothing else.
 */
import { TroupeError } from '../../../errors.ts';
import { appendOwn } from '../../../ingest/log/own-event.ts';
import { notify } from '../../../store/db/notifications.ts';
import { anyOf, firstOf, query, rowsOf } from '../../../store/db/query.ts';
import {
  ATTEMPTS_ADDED,
  ATTEMPTS_ENDED,
  type AttemptEnd,
  type AttemptRow,
  attemptsById,
  beatAttempt,
  endAttempts,
  failedEnd,
  type LeasedAttempt,
  leaseAttempts,
  type ReportVerdict,
} from '../../../store/loop/play/attempts.ts';
import { budgeted, failOverBudget, roomLeft } from '../../../store/loop/play/budget.ts';
import type { RolloutSpec } from '../../../store/loop/play/rollout.ts';
import { waitProjected } from '../../../store/projecting/positions.ts';
import type { JobContext } from '../../../store/queue/jobs/jobs.ts';
import { announce, startDraft } from './episodes.ts';
import { acceptedEnd, factsOf, needsRecord, playOf, refusalOf } from './play.ts';
import { type RecordedPlay, recordedPlays } from './recorded.ts';
import { findRunner, type Runner, type WorkersRunner } from './runners.ts';

/** The final report of a worker on one attempt. */
export type Finish = {
  readonly attempt_id: string;
  readonly token: number;
  readonly outcome: 'done' | 'failed';
  readonly reward?: number | null;
  readonly answer?: string | null;
  readonly episode_outcome?: 'success' | 'failure' | 'unknown';
  readonly reason?: string | null;
};

export type FinishedAttempt = {
  readonly attempt_id: string;
  readonly state: Exclude<ReportVerdict, 'unknown'>;
  readonly outcome: 'done' | 'failed';
  readonly why: string | null;
};

/** How long the end of an attempt waits for the tables. */
const PATIENCE_MS = 20_000;

/** @throws TroupeError `usage` for a runner that Troupe plays itself */
export function workersRunner(runners: readonly Runner[], name: string): WorkersRunner {
  const runner = findRunner(runners, name);
  if (runner.by === 'workers') return runner;
  throw new TroupeError(
    'usage',
    `The runner ${name} is a ${runner.by}, which Troupe starts itself; workers lease from runners with workers: true.`,
    { field: 'runner' },
  );
}

/** The next attempts of a runner, at most `count`; of a rollout with a budget no more than fit into it (`roomLeft`), and none once it is used up. */
export async function lease(context: JobContext, runner: WorkersRunner, count: number) {
  const { db, log } = context;
  const { name, leaseS, timeoutS, agent } = runner;
  const limited = await endOverBudget(context, name);
  const leased: LeasedAttempt[] = [];
  for (const { id, ...rollout } of limited)
    leased.push(
      ...(await db.transaction(async (tx) => {
        // Two workers that lease at once would each find the same room.
        const whole = query.selectFrom('troupe.job_queue').select('job_id').where('job_id', '=', id);
        await firstOf(tx, whole.forNoKeyUpdate());
        const room = Math.min(count - leased.length, await roomLeft(tx, id, rollout));
        return leaseAttempts(tx, { runner: name, of: { rollout: id }, count: room, leaseS, timeoutS });
      })),
    );
  const except = limited.map(({ id }) => id);
  leased.push(
    ...(await leaseAttempts(db, { runner: name, of: { except }, count: count - leased.length, leaseS, timeoutS })),
  );
  if (leased.length === 0) return [];
  const plays = await playsOf(context, leased);
  await appendOwn(log, plays.map(startDraft), 'usage');
  return plays.map((play) => ({
    ...factsOf(play, agent),
    token: play.token,
    /** Seconds within which the next sign of life is due. */
    lease_s: leaseS,
  }));
}

/**
 * Fails what waits of rollouts whose budget is used up, by all calls that are recorded now. Their jobs do so too, but later than a worker
 * that has ended its attempts asks for the next ones: a budget is exceeded by what runs already, and by no further lease. Returns all that
 * have a budget.
 */
async function endOverBudget({ db, log, now }: JobContext, runner: string): ReturnType<typeof budgeted> {
  const rollouts = await budgeted(db, runner);
  if (rollouts.length === 0) return [];
  await waitProjected(db, { log, timeoutMs: PATIENCE_MS });
  for (const { id, ...rollout } of rollouts) await failOverBudget(db, id, rollout, now());
  return rollouts;
}

/** @throws TroupeError `fenced` for an attempt that is lost, `not_found` for one that never was */
export async function beat(
  { db }: JobContext,
  {
    attempt_id: id,
    token,
    runners,
  }: { readonly attempt_id: string; readonly token: number; readonly runners: readonly Runner[] },
): Promise<{ readonly lease_s: number; readonly seconds_left: number }> {
  const row = (await attemptsById(db, [id])).get(id);
  if (row === undefined) throw notThere(id);
  const { leaseS } = workersRunner(runners, row.runner);
  const left = await beatAttempt(db, { id, token }, leaseS);
  if (left !== null) return { lease_s: leaseS, seconds_left: left };
  throw new TroupeError(
    'fenced',
    `The attempt ${id} is no longer held by this token: its lease or its deadline is over, or it has ended. Stop playing it.`,
  );
}

/**
 * Ends attempts; late and duplicate reports are answered like others.
 * @throws TroupeError `not_found` where one of them never was; then none is ended
 */
export async function finish(context: JobContext, reports: readonly Finish[]): Promise<FinishedAttempt[]> {
  const { db, log, now } = context;
  const ids = reports.map(({ attempt_id }) => attempt_id);
  const known = await attemptsById(db, ids);
  const missing = ids.find((id) => !known.has(id));
  if (missing !== undefined) throw notThere(missing);
  const done = new Set(reports.flatMap(({ attempt_id, outcome }) => (outcome === 'done' ? [attempt_id] : [])));
  const plays = await playsOf(context, [...known.values()]);
  const read = plays.filter((play) => needsRecord(play, !done.has(play.id)));
  const recorded = await recordedPlays(context, read, PATIENCE_MS);
  const at = now().toISOString();
  const ended = reports.map((report) => ({
    id: report.attempt_id,
    token: report.token,
    end: endOf(report, recorded(report.attempt_id), at),
  }));
  const states = await endAttempts(db, ended);
  const rows = await attemptsById(db, ids);
  await announce(
    log,
    plays.map((play) => ({ ...play, ...rows.get(play.id)! })),
  );
  // Not before: the rollout would announce them as well.
  await notify(db, ATTEMPTS_ENDED);
  // What one of them leaves of its budget may have room for another.
  if (plays.some(({ rollout }) => rollout.budget !== undefined)) await notify(db, ATTEMPTS_ADDED);
  return ids.map((id, i) => {
    const state = states[i]!;
    if (state === 'unknown') throw notThere(id);
    const { outcome, result, error } = rows.get(id)!;
    const { reward } = reports[i]!;
    const stays = result?.reward ?? null;
    const why =
      state === 'duplicate' && reward !== undefined && reward !== stays
        ? `It was reported before with ${stays === null ? 'no reward' : `the reward ${stays}`}, which stays.`
        : (error?.message ?? null);
    return { attempt_id: id, state, outcome: outcome === 'done' ? 'done' : 'failed', why };
  });
}

const notThere = (id: string): TroupeError => new TroupeError('not_found', `There is no attempt ${id}.`);

/** How a play ends by the report of its worker and what the tables hold of its episode. Pure. */
function endOf({ reason, ...report }: Finish, recorded: RecordedPlay, at: string): AttemptEnd {
  const said = { code: 'reported', message: reason ?? 'The worker reported a failure without a reason.' } as const;
  const nothing =
    'It was reported as done, and nothing was recorded: no call came through its base_path and no event for its episode.';
  const refusal = refusalOf({ failure: report.outcome === 'failed' ? said : null, nothing }, recorded);
  if (refusal !== null) return failedEnd(refusal, at);
  const { episode_outcome: outcome = 'unknown', answer = null, reward = null } = report;
  return acceptedEnd({ at, outcome, stop_reason: reason ?? 'done', answer, reward }, recorded);
}

/** These attempts as plays: their rollouts are read once. */
async function playsOf<Attempt extends Pick<AttemptRow, 'id' | 'spec'>>(
  { db }: Pick<JobContext, 'db'>,
  attempts: readonly Attempt[],
) {
  const ids = [...new Set(attempts.map(({ spec }) => spec.rollout))];
  const rows = await rowsOf(
    db,
    query.selectFrom('troupe.job_queue').select(['job_id', 'spec']).where('job_id', '=', anyOf(ids)),
  );
  const specs = new Map(rows.map(({ job_id, spec }) => [job_id, spec as RolloutSpec]));
  return attempts.map((attempt) => {
    const spec = specs.get(attempt.spec.rollout);
    if (spec === undefined) throw new TroupeError('not_found', `There is no rollout ${attempt.spec.rollout}.`);
    return playOf(spec, attempt);
  });
}
