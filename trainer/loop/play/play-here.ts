/** Plays by this process: a program that it starts, or a server that it asks. What is known of a play stands in the queue. */
import { appendOwn } from '../../../ingest/log/own-event.ts';
import {
  type AttemptEnd,
  type AttemptError,
  addAttempts,
  attemptsOf,
  type EpisodeOutcome,
  endAttempts,
  failedEnd,
} from '../../../store/loop/play/attempts.ts';
import { episodeId } from '../../../store/loop/play/ids.ts';
import type { JobContext } from '../../../store/queue/jobs/jobs.ts';
import { NO_LINE, type Post, rewardIn, scoreOf } from '../rewards/score.ts';
import { playByCommand, type TeamEnd } from './by-command.ts';
import { playByWebhook } from './by-webhook.ts';
import type { PlayServer } from './entry.ts';
import { announce, startDraft } from './episodes.ts';
import { nextAttempt } from './plan.ts';
import { acceptedEnd, needsRecord, type Play, playOf, refusalOf } from './play.ts';
import { NOTHING, recordedPlays } from './recorded.ts';
import type { PlayedRunner } from './runners.ts';

type PlayOptions = {
  readonly runner: PlayedRunner;
  readonly entry: PlayServer;
  /** The environment that variables are taken from. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Sends what rewards by HTTP need. */
  readonly post: Post;
  /** Ends it; `why` names the reason then. */
  readonly signal: AbortSignal;
  readonly why: () => AttemptError;
};

/** Has the team play it, ends and records it, and plans the attempt that follows where it failed. */
export async function playHere(context: JobContext, play: Play, options: PlayOptions): Promise<void> {
  const { db, log } = context;
  const { id, token, spec, rollout, group_id } = play;
  await appendOwn(log, [startDraft(play)], 'usage');
  const end = await endOf(context, play, options);
  const [accepted] = await endAttempts(db, [{ id, token, end }]);
  const tried = await attemptsOf(db, spec.rollout, episodeId(group_id, spec.sample, 0));
  // Its row first: what is announced follows from it, and is announced again by whoever goes on.
  const own = tried.filter((row) => row.id === id).map((row) => playOf(rollout, row));
  await announce(log, own);
  if (accepted !== 'accepted' || end.outcome === 'done' || options.signal.aborted) return;
  const { name, retries } = options.runner;
  const next = nextAttempt({ ...spec, group_id }, tried, retries);
  if (next !== null) await addAttempts(db, name, [next]);
}

/** Has the team play it, and rewards it as configured for the runner. */
async function endOf(context: JobContext, play: Play, options: PlayOptions): Promise<AttemptEnd> {
  const { runner, post, why } = options;
  const team =
    runner.by === 'command'
      ? await playByCommand(play, { ...options, runner })
      : await playByWebhook(play, { ...options, runner });
  const timeout = { code: 'timeout', message: `It did not end within ${runner.timeoutS} s.` } as const;
  const failure = team.ended === 'stopped' ? why() : team.ended === 'timeout' ? timeout : team.failure;
  const nothing = `It ended (${team.words}) and recorded nothing: no call came through the base URL of its episode, and no event for it.`;
  // What is stopped waits for nothing.
  const isRead = team.ended !== 'stopped' && needsRecord(play, failure !== null);
  const recorded = isRead ? (await recordedPlays(context, [play]))(play.id) : NOTHING;
  const refusal = refusalOf({ failure, nothing }, recorded);
  const line = refusal === null ? await rewardOf(context, play, team, { ...options, post }) : { error: refusal };
  const at = context.now().toISOString();
  if ('error' in line) return failedEnd(line.error, at);
  const { answer, reward, outcome } = line;
  return acceptedEnd({ at, outcome: outcome ?? 'unknown', stop_reason: team.words, answer, reward }, recorded);
}

async function rewardOf(
  { db }: JobContext,
  { id, task }: Play,
  { output, words, env, hide }: TeamEnd,
  { runner, post, env: keys, signal, why }: PlayOptions,
): Promise<
  | { readonly reward: number | null; readonly answer: string | null; readonly outcome: EpisodeOutcome | null }
  | { readonly error: AttemptError }
> {
  const { reward: source } = runner;
  if (source.from === 'team') return { reward: null, answer: null, outcome: null };
  if (source.from === 'output')
    return (
      rewardIn(output) ?? {
        error: { code: 'no_reward', message: `It ended (${words}), but wrote no reward: ${NO_LINE}.` },
      }
    );
  const scoring = { db, post, env, keys, hide, signal };
  const found = await scoreOf(source, { task, episode_id: id, output }, scoring, runner.retries);
  if (signal.aborted) return { error: why() };
  return 'error' in found ? { error: { code: 'reward_failed', message: found.error } } : found;
}
