/** One attempt by a command: its environment, its end, its reward. Nothing is stored here: what came out is returned. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { AttemptEnd, AttemptErrorCode, EpisodeOutcome, LeasedAttempt } from '../../store/rollouts/attempts.ts';
import type { Recorded } from '../../store/rollouts/recorded.ts';
import { groupId, type RolloutSpec, seedOf } from '../../store/rollouts/rollout.ts';
import { endText, lastWords, NO_LINE, rewardLine, type Scoring, scoreOf } from '../rewards/score.ts';
import { type Ran, runCommand } from './command.ts';
import type { CommandRunner } from './runners.ts';

/** Where the team finds Troupe, and the key that it needs there; null where it needs none. */
export type Entry = { readonly url: string; readonly key: string | null };

export type PlayOptions = {
  readonly rollout: RolloutSpec;
  readonly runner: CommandRunner;
  readonly entry: Entry;
  /** The environment that variables are taken from. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Ends it; `why` names the reason then. */
  readonly signal: AbortSignal;
  readonly why: () => { readonly code: AttemptErrorCode; readonly message: string };
  /** What the tables hold of an episode, once they have all that was recorded until now. */
  readonly recorded: (episode: string) => Promise<Recorded>;
  readonly now: () => Date;
  /** For rewards that other servers or the tables give. */
  readonly scoring: Pick<Scoring, 'db' | 'post'>;
};

/** What every program needs and what is no secret; the rest is named by the runner. */
const INHERITED = ['PATH', 'HOME', 'USER', 'LOGNAME', 'SHELL', 'LANG', 'LC_ALL', 'LC_CTYPE', 'TZ', 'TMPDIR'];
const INHERITED_TOO = ['SSL_CERT_FILE', 'SSL_CERT_DIR', 'NODE_EXTRA_CA_CERTS', 'SYSTEMROOT'];
/** Stands for a key in clients that insist on one. */
const NO_KEY = 'troupe';

/** What every program inherits, and the variables of these names. Pure. */
export const programEnv = (
  env: Readonly<Record<string, string | undefined>>,
  names: readonly string[],
): Record<string, string> =>
  Object.fromEntries(
    [...INHERITED, ...INHERITED_TOO, ...names].flatMap((name) =>
      env[name] === undefined ? [] : [[name, env[name]] as const],
    ),
  );

/** Plays it, and rewards it as configured for the runner. */
export async function playAttempt(attempt: LeasedAttempt, options: PlayOptions): Promise<AttemptEnd> {
  const { rollout, runner, signal } = options;
  const task = rollout.tasks[attempt.spec.task]!;
  const folder = await mkdtemp(join(tmpdir(), 'troupe-episode-'));
  try {
    const file = join(folder, 'task.json');
    await writeFile(file, JSON.stringify(task), { mode: 0o600 });
    const env = environmentOf(attempt, file, options);
    const input = `${JSON.stringify(task)}\n`;
    const ran = await runCommand(runner.command, { env, input, timeoutS: attempt.secondsLeft, signal });
    return await endOf(attempt, ran, env, options);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** The environment of one episode's program. Pure. */
export function environmentOf(
  { id, spec, deadlineAt }: LeasedAttempt,
  taskFile: string,
  { rollout, runner, entry: { url, key }, env }: Pick<PlayOptions, 'rollout' | 'runner' | 'entry' | 'env'>,
): Record<string, string> {
  const { task_id } = rollout.tasks[spec.task]!;
  const episodeUrl = `${url}/e/${encodeURIComponent(id)}`;
  const agentUrl = `${episodeUrl}/a/${encodeURIComponent(runner.agent)}`;
  return {
    ...programEnv(env, runner.env),
    OPENAI_BASE_URL: `${agentUrl}/v1`,
    OPENAI_API_KEY: key ?? NO_KEY,
    ANTHROPIC_BASE_URL: agentUrl,
    ANTHROPIC_API_KEY: key ?? NO_KEY,
    TROUPE_URL: url,
    ...(key === null ? {} : { TROUPE_KEY: key }),
    TROUPE_ROLLOUT: spec.rollout,
    TROUPE_EPISODE: id,
    TROUPE_EPISODE_URL: episodeUrl,
    TROUPE_GROUP: groupId(spec.rollout, task_id),
    TROUPE_TASK: taskFile,
    TROUPE_TASK_ID: task_id,
    TROUPE_SAMPLE: String(spec.sample),
    TROUPE_ATTEMPT: String(spec.attempt),
    TROUPE_SEED: String(seedOf(rollout.seed ?? 0, task_id, spec.sample)),
    TROUPE_DEADLINE: deadlineAt,
    TROUPE_PARAMS: JSON.stringify(rollout.params ?? {}),
  };
}

async function endOf(
  attempt: LeasedAttempt,
  ran: Ran,
  env: Readonly<Record<string, string>>,
  options: PlayOptions,
): Promise<AttemptEnd> {
  const { runner, now, recorded, why, signal } = options;
  const secrets = secretsOf(env, runner);
  const hide = (text: string) => hidden(text, secrets);
  const failed = (code: AttemptErrorCode, message: string, outcome: EpisodeOutcome = 'error'): AttemptEnd => ({
    outcome: 'failed',
    result: { at: now().toISOString(), outcome, stop_reason: message, answer: null, reward: null },
    error: { code, message },
  });
  if (ran.ended === 'stopped') {
    const { code, message } = why();
    return failed(code, message, 'aborted');
  }
  if (ran.ended === 'timeout') return failed('timeout', `It did not end within ${runner.timeoutS} s.`, 'timeout');
  if (ran.code !== 0) return failed('exit', `${endText(ran.code)}${lastWords(ran, hide)}`);
  const seen = await recorded(attempt.id);
  if (seen.entries === 0)
    return failed(
      'nothing_recorded',
      'It ended with exit code 0 and recorded nothing: no call came through OPENAI_BASE_URL and no event for TROUPE_EPISODE.',
    );
  if (['error', 'timeout', 'aborted'].includes(seen.outcome ?? ''))
    return failed('reported', `The team closed the episode with the outcome ${seen.outcome}.`);
  const line = await rewardOf(attempt, ran, { ...options.scoring, env, keys: options.env, hide, signal }, options);
  if ('error' in line) return failed(line.error.code, line.error.message);
  return {
    outcome: 'done',
    result: {
      at: now().toISOString(),
      outcome: line.outcome ?? 'unknown',
      stop_reason: 'exit code 0',
      answer: line.answer,
      reward: line.reward,
      ...(seen.closed ? { closed_by_team: true } : {}),
    },
    error: null,
  };
}

type Rewarded =
  | { readonly reward: number | null; readonly answer: string | null; readonly outcome: EpisodeOutcome | null }
  | { readonly error: { readonly code: AttemptErrorCode; readonly message: string } };

async function rewardOf(
  { id, spec }: LeasedAttempt,
  ran: Ran,
  scoring: Scoring,
  { rollout, runner, signal, why }: PlayOptions,
): Promise<Rewarded> {
  const { reward: source } = runner;
  if (source.from === 'team') return { reward: null, answer: null, outcome: null };
  if (source.from === 'stdout')
    return (
      rewardLine(ran.stdout) ?? {
        error: { code: 'no_reward', message: `It ended with exit code 0, but wrote no reward: ${NO_LINE}.` },
      }
    );
  const episode = { task: rollout.tasks[spec.task]!, episode_id: id, output: ran.stdout };
  const found = await scoreOf(source, episode, scoring, runner.retries);
  if (signal.aborted) return { error: why() };
  return 'error' in found ? { error: { code: 'reward_failed', message: found.error } } : found;
}

const secretsOf = (env: Readonly<Record<string, string>>, { env: named }: CommandRunner): string[] =>
  ['TROUPE_KEY', ...named].flatMap((name) => (env[name] !== undefined && env[name].length >= 6 ? [env[name]] : []));

const hidden = (text: string, secrets: readonly string[]): string =>
  secrets.reduce((rest, secret) => rest.replaceAll(secret, '***'), text);
