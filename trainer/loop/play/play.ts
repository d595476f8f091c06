/** One attempt: the team plays, and its end and reward are returned. Nothing is stored here. */
import type { AttemptEnd, AttemptErrorCode, EpisodeOutcome, LeasedAttempt } from '../../../store/loop/play/attempts.ts';
import { groupAt } from '../../../store/loop/play/rollout.ts';
import { NO_LINE, rewardIn, scoreOf } from '../rewards/score.ts';
import { playByCommand } from './by-command.ts';
import { playByWebhook } from './by-webhook.ts';
import type { PlayOptions, TeamEnd } from './play-options.ts';

/** Has the team play it, and rewards it as configured for the runner. */
export async function playAttempt(attempt: LeasedAttempt, options: PlayOptions): Promise<AttemptEnd> {
  const { runner } = options;
  const end =
    runner.by === 'command'
      ? await playByCommand(attempt, { ...options, runner })
      : await playByWebhook(attempt, { ...options, runner });
  return endOf(attempt, end, options);
}

async function endOf(attempt: LeasedAttempt, team: TeamEnd, options: PlayOptions): Promise<AttemptEnd> {
  const { runner, now, recorded, why } = options;
  const failed = (code: AttemptErrorCode, message: string, outcome: EpisodeOutcome = 'error'): AttemptEnd => ({
    outcome: 'failed',
    result: { at: now().toISOString(), outcome, stop_reason: message, answer: null, reward: null },
    error: { code, message },
  });
  if (team.ended === 'stopped') {
    const { code, message } = why();
    return failed(code, message, 'aborted');
  }
  const { place } = groupAt(options.rollout, attempt.spec.rollout, attempt.spec.task);
  const replayed = place === null ? null : await options.replayed(attempt.id, place);
  if (replayed?.diverged) return failed('diverged', replayed.diverged);
  if (team.ended === 'timeout') return failed('timeout', `It did not end within ${runner.timeoutS} s.`, 'timeout');
  if (team.failure !== null) return failed(team.failure.code, team.failure.message);
  const seen = await recorded(attempt.id);
  if (seen.entries === 0)
    return failed(
      'nothing_recorded',
      `It ended (${team.words}) and recorded nothing: no call came through the base URL of its episode, and no event for it.`,
    );
  if (['error', 'timeout', 'aborted'].includes(seen.outcome ?? ''))
    return failed('reported', `The team closed the episode with the outcome ${seen.outcome}.`);
  if (replayed?.unreached) return failed('diverged', replayed.unreached);
  const line = await rewardOf(attempt, team, options);
  if ('error' in line) return failed(line.error.code, line.error.message);
  return {
    outcome: 'done',
    result: {
      at: now().toISOString(),
      outcome: line.outcome ?? 'unknown',
      stop_reason: team.words,
      answer: line.answer,
      reward: line.reward,
      ...(seen.closed ? { closed_by_team: true } : {}),
      ...(replayed === null ? {} : { replay: { step_id: replayed.step_id, calls: replayed.calls } }),
    },
    error: null,
  };
}

type RewardResult =
  | { readonly reward: number | null; readonly answer: string | null; readonly outcome: EpisodeOutcome | null }
  | { readonly error: { readonly code: AttemptErrorCode; readonly message: string } };

async function rewardOf(
  { id, spec }: LeasedAttempt,
  { output, words, env, hide }: TeamEnd,
  { rollout, runner, scoring, env: keys, signal, why }: PlayOptions,
): Promise<RewardResult> {
  const { reward: source } = runner;
  if (source.from === 'team') return { reward: null, answer: null, outcome: null };
  if (source.from === 'output')
    return (
      rewardIn(output) ?? {
        error: { code: 'no_reward', message: `It ended (${words}), but wrote no reward: ${NO_LINE}.` },
      }
    );
  const episode = { task: groupAt(rollout, spec.rollout, spec.task).task, episode_id: id, output };
  const found = await scoreOf(source, episode, { ...scoring, env, keys, hide, signal }, runner.retries);
  if (signal.aborted) return { error: why() };
  return 'error' in found ? { error: { code: 'reward_failed', message: found.error } } : found;
}
