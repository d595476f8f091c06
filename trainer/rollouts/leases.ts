/**
 * Attempts for workers that run for long: they lease one, give signs of life, and finish it. What a worker reports after it lost its attempt is
 * recorded with its episode, and changes nothing else.
 */
import { TroupeError } from '../../errors.ts';
import { firstOf, query } from '../../store/db/query.ts';
import type { JobContext } from '../../store/jobs/jobs.ts';
import { waitProjected } from '../../store/projecting/positions.ts';
import {
  type Accepted,
  type AttemptEnd,
  type AttemptErrorCode,
  attemptOf,
  beatAttempt,
  type EpisodeOutcome,
  endAttempt,
  leaseAttempt,
} from '../../store/rollouts/attempts.ts';
import { appendDrafts, endDrafts, startDraft } from '../../store/rollouts/episodes.ts';
import { recordedOf } from '../../store/rollouts/recorded.ts';
import { groupId, type RolloutSpec, type RolloutTask, seedOf } from '../../store/rollouts/rollout.ts';
import { findRunner, type Runner, type WorkersRunner } from './runners.ts';

/** What a worker plays. */
export type Leased = {
  readonly attempt_id: string;
  readonly token: number;
  readonly rollout_id: string;
  readonly episode_id: string;
  readonly group_id: string;
  readonly task: RolloutTask;
  readonly sample: number;
  readonly attempt: number;
  readonly seed: number;
  /** Of the gateway, below the address that the worker knows; another agent takes the place of the last name. */
  readonly base_path: string;
  /** Seconds within which the next sign of life is due. */
  readonly lease_s: number;
  /** RFC 3339. */
  readonly deadline: string;
};

/** The final report of a worker. */
export type Finish = {
  readonly attempt_id: string;
  readonly token: number;
  readonly outcome: 'done' | 'failed';
  readonly reward?: number | null;
  readonly answer?: string | null;
  readonly episode_outcome?: 'success' | 'failure' | 'unknown';
  readonly reason?: string | null;
};

export type Finished = {
  readonly state: Exclude<Accepted, 'unknown'>;
  readonly outcome: 'done' | 'failed';
  readonly why: string | null;
};

/** How long the end of an attempt waits for the tables. */
const PATIENCE_MS = 20_000;

/** @throws TroupeError `usage` for a runner that is a command */
export function workersRunner(runners: readonly Runner[], name: string): WorkersRunner {
  const runner = findRunner(runners, name);
  if (runner.by === 'workers') return runner;
  throw new TroupeError(
    'usage',
    `The runner ${name} is a command that Troupe starts itself; workers lease from runners with workers: true.`,
    {
      field: 'runner',
    },
  );
}

/** The next attempt of a runner; null where none waits. */
export async function lease({ db, log }: JobContext, runner: WorkersRunner): Promise<Leased | null> {
  const { name, leaseS, timeoutS, agent } = runner;
  const leased = await leaseAttempt(db, { runner: name, of: null, leaseS, timeoutS });
  if (leased === null) return null;
  const { id, token, spec, deadlineAt } = leased;
  const rollout = await specOf({ db }, spec.rollout);
  await appendDrafts(log, [startDraft(rollout, leased)]);
  const task = rollout.tasks[spec.task]!;
  return {
    attempt_id: id,
    token,
    rollout_id: spec.rollout,
    episode_id: id,
    group_id: groupId(spec.rollout, task.task_id),
    task,
    sample: spec.sample,
    attempt: spec.attempt,
    seed: seedOf(rollout.seed ?? 0, task.task_id, spec.sample),
    base_path: `/e/${encodeURIComponent(id)}/a/${encodeURIComponent(agent)}/v1`,
    lease_s: leaseS,
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
  const row = await attemptOf(db, id);
  if (row === null) throw new TroupeError('not_found', `There is no attempt ${id}.`);
  const { leaseS } = workersRunner(runners, row.runner);
  const left = await beatAttempt(db, { id, token }, leaseS);
  if (left !== null) return { lease_s: leaseS, seconds_left: left };
  throw new TroupeError(
    'fenced',
    `The attempt ${id} is no longer held by this token: its lease or its deadline is over, or it has ended. Stop playing it.`,
  );
}

/** Ends an attempt. Doubled and late reports are answered like others. @throws TroupeError `not_found` for an attempt that never was */
export async function finish(context: JobContext, end: Finish): Promise<Finished> {
  const { db, log, now } = context;
  const { attempt_id: id, token } = end;
  const known = await attemptOf(db, id);
  if (known === null) throw new TroupeError('not_found', `There is no attempt ${id}.`);
  const ended = await endOf(context, end, now().toISOString());
  const state = await endAttempt(db, { id, token }, ended);
  if (state === 'unknown') throw new TroupeError('not_found', `There is no attempt ${id}.`);
  const row = (await attemptOf(db, id))!;
  await appendDrafts(log, endDrafts(await specOf(context, row.spec.rollout), row));
  return { state, outcome: row.outcome === 'done' ? 'done' : 'failed', why: row.error?.message ?? null };
}

async function endOf({ db, log }: JobContext, end: Finish, at: string): Promise<AttemptEnd> {
  const failed = (code: AttemptErrorCode, message: string, outcome: EpisodeOutcome = 'error'): AttemptEnd => ({
    outcome: 'failed',
    result: { at, outcome, stop_reason: message, answer: null, reward: null },
    error: { code, message },
  });
  if (end.outcome === 'failed')
    return failed('reported', end.reason ?? 'The worker reported a failure without a reason.');
  await waitProjected(db, { log, timeoutMs: PATIENCE_MS });
  const seen = await recordedOf(db, end.attempt_id);
  if (seen.entries === 0)
    return failed(
      'nothing_recorded',
      'It was reported as done, and nothing was recorded: no call came through its base_path and no event for its episode.',
    );
  return {
    outcome: 'done',
    result: {
      at,
      outcome: end.episode_outcome ?? 'unknown',
      stop_reason: end.reason ?? 'done',
      answer: end.answer ?? null,
      reward: end.reward ?? null,
      ...(seen.closed ? { closed_by_team: true } : {}),
    },
    error: null,
  };
}

async function specOf({ db }: Pick<JobContext, 'db'>, rollout: string): Promise<RolloutSpec> {
  const row = await firstOf(db, query.selectFrom('troupe.job_queue').select('spec').where('job_id', '=', rollout));
  if (row === undefined) throw new TroupeError('not_found', `There is no rollout ${rollout}.`);
  return row.spec as RolloutSpec;
}
