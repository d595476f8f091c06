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
  type AttemptErrorCode,
  type AttemptSpec,
  attemptsById,
  beatAttempt,
  type EpisodeOutcome,
  endAttempts,
  failWaiting,
  type LeasedAttempt,
  leaseAttempts,
  type ReportVerdict,
} from '../../../store/loop/play/attempts.ts';
import { budgeted, budgetOver, roomLeft } from '../../../store/loop/play/budget.ts';
import { drawnBy, groupAt, type RolloutSpec, type RolloutTask } from '../../../store/loop/play/rollout.ts';
import type { TeamVersion } from '../../../store/loop/team/version.ts';
import { waitProjected } from '../../../store/projecting/positions.ts';
import type { JobContext } from '../../../store/queue/jobs/jobs.ts';
import { endDrafts, startDraft } from './episodes.ts';
import { type RecordedEpisode, type ReplayResult, recordedOf, replayedOf } from './recorded.ts';
import { findRunner, type Runner, type WorkersRunner } from './runners.ts';

/** The facts of an episode that its team gets. */
export type EpisodeFacts = {
  readonly attempt_id: string;
  readonly rollout_id: string;
  readonly episode_id: string;
  readonly group_id: string;
  readonly task: RolloutTask;
  readonly sample: number;
  readonly attempt: number;
  readonly seed: number;
  /** Settings of the team in this rollout. */
  readonly params: Readonly<Record<string, string | number | boolean>>;
  /** The version that the team plays in: its agents, prompts and wiring. Missing where the rollout names none. */
  readonly team?: TeamVersion;
  /** Of the gateway, below the address that the worker knows; another agent takes the place of the last name. */
  readonly base_path: string;
  /** RFC 3339. */
  readonly deadline: string;
};

/** What a worker plays. */
export type Lease = EpisodeFacts & {
  readonly token: number;
  /** Seconds within which the next sign of life is due. */
  readonly lease_s: number;
};

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
export async function lease(context: JobContext, runner: WorkersRunner, count: number): Promise<Lease[]> {
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
  const specOf = await specsOf({ db }, leased);
  await appendOwn(
    log,
    leased.map((one) => startDraft(specOf(one), one)),
    'usage',
  );
  return leased.map((one) => ({
    ...episodeFacts(specOf(one), one, agent),
    token: one.token,
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
  for (const { id, ...rollout } of rollouts) {
    const over = await budgetOver(db, id, rollout);
    if (over !== null) await failWaiting(db, id, { at: now().toISOString(), error: over });
  }
  return rollouts;
}

/** The facts of an attempt that its team gets. Pure. */
export function episodeFacts(
  rollout: RolloutSpec,
  { id, spec, deadlineAt }: LeasedAttempt,
  agent: string,
): EpisodeFacts {
  const group = groupAt(rollout, spec.rollout, spec.task);
  return {
    attempt_id: id,
    rollout_id: spec.rollout,
    episode_id: id,
    group_id: group.group_id,
    task: group.task,
    sample: spec.sample,
    attempt: spec.attempt,
    ...drawnBy(rollout, group, spec.sample),
    ...(rollout.team === undefined ? {} : { team: rollout.team }),
    base_path: `/e/${encodeURIComponent(id)}/a/${encodeURIComponent(agent)}/v1`,
    deadline: deadlineAt,
  };
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
  const played = await specsOf(context, [...known.values()]);
  const placeOf = (attempt: Attempt) => groupAt(played(attempt), attempt.spec.rollout, attempt.spec.task).place;
  // A replay that failed may have failed because it diverged.
  if (reports.some(({ outcome }) => outcome === 'done') || [...known.values()].some((one) => placeOf(one) !== null))
    await waitProjected(db, { log, timeoutMs: PATIENCE_MS });
  const recorded = await recordedOf(db, ids);
  const at = now().toISOString();
  const ended = await Promise.all(
    reports.map(async (report) => {
      const attempt = known.get(report.attempt_id)!;
      const place = placeOf(attempt);
      const replayed = place === null ? null : await replayedOf(db, attempt.id, place, played(attempt).replay);
      return {
        id: report.attempt_id,
        token: report.token,
        end: endOf(report, { seen: recorded(report.attempt_id), replayed }, at),
      };
    }),
  );
  const states = await endAttempts(db, ended);
  const rows = await attemptsById(db, ids);
  const specOf = await specsOf(context, [...rows.values()]);
  await appendOwn(
    log,
    [...rows.values()].flatMap((row) => endDrafts(specOf(row), row)),
    'usage',
  );
  // Not before: the rollout would announce them as well.
  await notify(db, ATTEMPTS_ENDED);
  // What one of them leaves of its budget may have room for another.
  if ([...rows.values()].some((row) => specOf(row).budget !== undefined)) await notify(db, ATTEMPTS_ADDED);
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

/** How an attempt ends by the report of its worker and what the tables hold of its episode. Pure. */
function endOf(
  report: Finish,
  { seen, replayed }: { readonly seen: RecordedEpisode; readonly replayed: ReplayResult | null },
  at: string,
): AttemptEnd {
  const failed = (code: AttemptErrorCode, message: string, outcome: EpisodeOutcome = 'error'): AttemptEnd => ({
    outcome: 'failed',
    result: { at, outcome, stop_reason: message, answer: null, reward: null },
    error: { code, message },
  });
  if (replayed?.diverged) return failed('diverged', replayed.diverged);
  if (report.outcome === 'failed')
    return failed('reported', report.reason ?? 'The worker reported a failure without a reason.');
  if (seen.entries === 0)
    return failed(
      'nothing_recorded',
      'It was reported as done, and nothing was recorded: no call came through its base_path and no event for its episode.',
    );
  if (replayed?.unreached) return failed('diverged', replayed.unreached);
  return {
    outcome: 'done',
    result: {
      at,
      outcome: report.episode_outcome ?? 'unknown',
      stop_reason: report.reason ?? 'done',
      answer: report.answer ?? null,
      reward: report.reward ?? null,
      ...(seen.closed ? { closed_by_team: true } : {}),
      ...(replayed === null ? {} : { replay: { step_id: replayed.step_id, calls: replayed.calls } }),
    },
    error: null,
  };
}

/** The rollouts of these attempts, each read once. */
async function specsOf(
  { db }: Pick<JobContext, 'db'>,
  attempts: readonly Attempt[],
): Promise<(of: Attempt) => RolloutSpec> {
  const ids = [...new Set(attempts.map(({ spec }) => spec.rollout))];
  const rows = await rowsOf(
    db,
    query.selectFrom('troupe.job_queue').select(['job_id', 'spec']).where('job_id', '=', anyOf(ids)),
  );
  const specs = new Map(rows.map(({ job_id, spec }) => [job_id, spec as RolloutSpec]));
  return ({ spec: { rollout } }) => {
    const spec = specs.get(rollout);
    if (spec === undefined) throw new TroupeError('not_found', `There is no rollout ${rollout}.`);
    return spec;
  };
}

type Attempt = { readonly spec: Pick<AttemptSpec, 'rollout' | 'task'> };
