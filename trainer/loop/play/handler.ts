/**
 * A rollout as a job: it plans the attempts, plays as many at a time as the runner allows, tries again what failed, and adds up what came out.
 * Everything it knows stands in the queue, so whoever takes the job after a crash goes on where it was.
 */
import { TroupeError } from '../../../errors.ts';
import { appendOwn } from '../../../ingest/log/own-event.ts';
import {
  type AttemptError,
  type AttemptRow,
  addAttempts,
  attemptsOf,
  failLost,
  failWaiting,
  type LeasedAttempt,
  leaseAttempts,
} from '../../../store/loop/play/attempts.ts';
import { failOverBudget, roomLeft, type Spending, spentOf } from '../../../store/loop/play/budget.ts';
import { requestedOf } from '../../../store/loop/play/request.ts';
import { groupsOf, ROLLOUT, type RolloutSpec, rolloutSpec } from '../../../store/loop/play/rollout.ts';
import { waitProjected } from '../../../store/projecting/positions.ts';
import type { Handler, JobContext } from '../../../store/queue/jobs/jobs.ts';
import { type RewardReport, rewardEpisodes } from '../rewards/job.ts';
import type { Post } from '../rewards/score.ts';
import { programEnv } from './by-command.ts';
import { checkProgram } from './command.ts';
import { closeEntry, openEntry, type PlayServer } from './entry.ts';
import { announce, announceMissing, taskDrafts } from './episodes.ts';
import { deadlineOver, nextAttempts, type Tally, tally } from './plan.ts';
import { playOf } from './play.ts';
import { playHere } from './play-here.ts';
import { rolloutFacts } from './recorded.ts';
import { findRunner, missingVariables, type PlayedRunner, type Runner } from './runners.ts';
import { servingHandler, untilLoaded } from './serving.ts';
import { type Staleness, stalenessOf } from './staleness.ts';
import { awaitWorkers } from './workers.ts';

export type RolloutSettings = {
  readonly runners: readonly Runner[];
  /** What programs inherit named variables from. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Sends what rewards by HTTP need. */
  readonly post: Post;
  /** Asks this process to end. */
  readonly signal: AbortSignal;
};

/** What a rollout came to. */
export type RolloutResult = Tally &
  Pick<Spending, 'tokens' | 'usd'> & {
    readonly rollout_id: string;
    /** How far behind the weights were, and which episodes are left out of `episodes` for that. */
    readonly staleness: Staleness;
    /** Accepted episodes without a reward. */
    readonly without_reward: number;
    /** Why the source of the runner gave episodes of workers no reward, with how many; missing where it was not asked. */
    readonly reward_failed?: RewardReport['failed'];
    /** Of a replay, calls of accepted attempts that were answered from the record. */
    readonly replayed_calls?: number;
    /** Complete groups whose rewards are all equal. */
    readonly equal_rewards: number;
    /** From the request to the end. */
    readonly seconds: number;
  };

/** An attempt's row outlives its deadline by so much before others take it for lost: its holder ends it itself. */
const SPARE_S = 60;
/** Between two reports of progress. */
const REPORT_MS = 2000;
/** How long a rollout may last that names no deadline: as long as a key is good for. */
const LONGEST_S = 7 * 86_400;

export function rolloutHandlers(context: JobContext, settings: RolloutSettings): Readonly<Record<string, Handler>> {
  return {
    [ROLLOUT]: (job, report, signal) => rollOut(context, untilCancelled(settings, signal), job, report),
    serving: servingHandler(context, settings),
  };
}

/** A rollout that is cancelled ends its programs as a process that is stopped does. */
const untilCancelled = (settings: RolloutSettings, signal: AbortSignal): RolloutSettings => ({
  ...settings,
  signal: AbortSignal.any([settings.signal, signal]),
});

const rollOut = async (
  context: JobContext,
  settings: RolloutSettings,
  job: Parameters<Handler>[0],
  report: Parameters<Handler>[1],
): Promise<RolloutResult> => {
  const { db, log } = context;
  const id = job.job_id;
  const rollout = rolloutSpec(id, job.spec);
  const runner = findRunner(settings.runners, rollout.runner);
  if (runner.by !== 'workers') checkRunner(runner, settings.env);
  const { requestedAt, age } = await requestedOf(context.db, id);
  const lastsS = rollout.deadline_s === undefined ? LONGEST_S : rollout.deadline_s - age;
  // Stored tasks are recorded as they are.
  if (rollout.tasks_where === undefined && rollout.replay === undefined)
    await appendOwn(log, taskDrafts(rollout.tasks, requestedAt), 'usage');
  await untilLoaded(db, rollout, settings.signal);
  if (runner.by === 'workers')
    await awaitWorkers(context, { id, rollout, runner, lastsS, report, signal: settings.signal });
  else await playAllHere(context, { id, fence: job.token, rollout, runner, settings, lastsS, report });
  const rows = await attemptsOf(db, id);
  // The process that ended them may have died before it recorded the end.
  await announceMissing(
    context,
    rows.map((row) => playOf(rollout, row)),
  );
  await waitProjected(db, { log });
  const rewardFailed = runner.by === 'workers' ? await rewardAll(context, settings, runner, rows) : null;
  const { withoutReward, equalRewards } = await rolloutFacts(db, id, rollout.samples);
  const { tokens, usd } = await spentOf(db, [id]);
  const found = tally(id, rollout, rows);
  const staleness = await stalenessOf(db, id, { episodes: found.episodes, bound: rollout.max_staleness ?? null });
  const withheld = new Set(staleness.withheld);
  return {
    rollout_id: id,
    ...found,
    episodes: found.episodes.filter((episode) => !withheld.has(episode)),
    staleness,
    tokens,
    usd,
    without_reward: withoutReward,
    ...(rewardFailed === null ? {} : { reward_failed: rewardFailed }),
    equal_rewards: equalRewards,
    ...(rollout.replay === undefined
      ? {}
      : { replayed_calls: rows.reduce((sum, { result }) => sum + (result?.replay?.calls ?? 0), 0) }),
    seconds: (await requestedOf(context.db, id)).age,
  };
};

/** Rewards what workers finished without a reward, by the source of their runner. Returns why episodes stay without one; null: no source. */
async function rewardAll(
  context: JobContext,
  { env, post, signal }: RolloutSettings,
  { name, reward }: Runner,
  rows: readonly AttemptRow[],
): Promise<RewardReport['failed'] | null> {
  if (reward.from === 'team' || reward.from === 'output') return null;
  const scoring = { db: context.db, post, env: programEnv(env, []), keys: env, hide: (text: string) => text, signal };
  const ids = rows.flatMap(({ id, outcome, result }) => (outcome === 'done' && result?.reward === null ? [id] : []));
  const { failed } = await rewardEpisodes(context, { ids, by: name, scorer: reward }, scoring);
  await waitProjected(context.db, { log: context.log });
  return failed;
}

/** Has this process start each episode; what the process before it broke off is played again. */
async function playAllHere(context: JobContext, playing: Omit<Playing, 'entry'>): Promise<void> {
  const { db, log, now } = context;
  const { id, rollout, runner, lastsS } = playing;
  await failLost(db, id, {
    at: now().toISOString(),
    all: { code: 'stopped', message: 'The process that ran it ended.' },
  });
  const broken = await attemptsOf(db, id);
  await announce(
    log,
    broken.map((row) => playOf(rollout, row)),
  );
  const entry = await openEntry(db, id, { url: runner.url, lastsS: Math.max(0, lastsS), now });
  try {
    await playAll(context, { ...playing, entry });
  } finally {
    await closeEntry(db, id);
  }
}

type Playing = {
  readonly id: string;
  /** Token of the job: whoever has an older one leases nothing more. */
  readonly fence: number;
  readonly rollout: RolloutSpec;
  readonly runner: PlayedRunner;
  readonly entry: PlayServer;
  readonly settings: RolloutSettings;
  readonly lastsS: number;
  readonly report: Parameters<Handler>[1];
};

/** Plays until every sample is done or given up, the deadline is there, or this process is asked to end. */
async function playAll(context: JobContext, playing: Playing): Promise<void> {
  const { db, now } = context;
  const { id, fence, rollout, runner, entry, settings, lastsS, report } = playing;
  const running = new Set<Promise<void>>();
  const stop = new AbortController();
  let why: AttemptError = { code: 'stopped', message: 'The process that ran it was stopped.' };
  let failure: unknown = null;
  const end = (reason: AttemptError) => {
    if (stop.signal.aborted) return;
    why = reason;
    stop.abort();
  };
  const stopped = () => end(why);
  settings.signal.addEventListener('abort', stopped, { once: true });
  if (settings.signal.aborted) stopped();
  const late = deadlineOver(rollout);
  const timer = setTimeout(() => end(late), Math.min(Math.max(0, lastsS) * 1000, 2 ** 31 - 1));
  let ended = 0;
  let reported = Number.NEGATIVE_INFINITY;

  const progress = async (): Promise<void> => {
    if (performance.now() - reported < REPORT_MS) return;
    reported = performance.now();
    const { attempts, groups } = tally(id, rollout, await attemptsOf(db, id));
    const of = groupsOf(id, rollout).length * rollout.samples;
    await report(ended, { done: attempts.done, failed: attempts.failed, of, complete_groups: groups.complete });
  };
  const play = async (attempt: LeasedAttempt): Promise<void> => {
    try {
      const { env, post } = settings;
      const options = { runner, entry, env, post, signal: stop.signal, why: () => why };
      await playHere(context, playOf(rollout, attempt), options);
      ended++;
      await progress();
    } catch (error) {
      failure ??= error;
      end({ code: 'stopped', message: 'The rollout broke off.' });
    }
  };

  try {
    await addAttempts(db, runner.name, nextAttempts(id, rollout, await attemptsOf(db, id), runner.retries));
    while (!stop.signal.aborted) {
      await failOverBudget(db, id, rollout, now());
      const { timeoutS } = runner;
      const leased = await leaseAttempts(db, {
        runner: runner.name,
        of: { rollout: id, token: fence },
        count: Math.min(runner.concurrency - running.size, await roomLeft(db, id, rollout)),
        leaseS: timeoutS + SPARE_S,
        timeoutS,
      });
      for (const attempt of leased) {
        const one = play(attempt).finally(() => running.delete(one));
        running.add(one);
      }
      if (running.size === 0) break;
      await Promise.race(running);
    }
  } catch (error) {
    failure ??= error;
    end({ code: 'stopped', message: 'The rollout broke off.' });
  } finally {
    await Promise.all(running);
    clearTimeout(timer);
    settings.signal.removeEventListener('abort', stopped);
  }
  if (failure !== null) throw failure;
  if (why.code === 'stopped' && stop.signal.aborted)
    throw new TroupeError('interrupted', 'The process was stopped; whoever takes the rollout goes on where it was.');
  if (stop.signal.aborted) await failWaiting(db, id, { at: now().toISOString(), error: why });
}

/** What must be so before the first episode. @throws TroupeError `not_found`, `config_invalid` */
function checkRunner(runner: PlayedRunner, env: RolloutSettings['env']): void {
  const { reward } = runner;
  if (runner.by === 'command') checkProgram(runner.command[0]!, env.PATH ?? '');
  if (reward.from === 'command') checkProgram(reward.command[0]!, env.PATH ?? '');
  const { field, missing } = missingVariables(runner, env);
  if (missing.length > 0)
    throw new TroupeError(
      'config_invalid',
      `${field} names ${missing.join(', ')}, which the environment of \`run work\` does not have. Set it there, or leave it out.`,
      { field },
    );
}
