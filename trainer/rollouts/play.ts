/** One attempt by a command: its environment, its end, its reward. Nothing is stored here: what came out is returned. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isRecord } from '../../ingest/json.ts';
import type { AttemptEnd, AttemptErrorCode, EpisodeOutcome, LeasedAttempt } from '../../store/rollouts/attempts.ts';
import type { Recorded } from '../../store/rollouts/recorded.ts';
import { groupId, type RolloutSpec, type RolloutTask, seedOf } from '../../store/rollouts/rollout.ts';
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
};

/** What every program needs and what is no secret; the rest is named by the runner. */
const INHERITED = ['PATH', 'HOME', 'USER', 'LOGNAME', 'SHELL', 'LANG', 'LC_ALL', 'LC_CTYPE', 'TZ', 'TMPDIR'];
const INHERITED_TOO = ['SSL_CERT_FILE', 'SSL_CERT_DIR', 'NODE_EXTRA_CA_CERTS', 'SYSTEMROOT'];
/** Stands for a key in clients that insist on one. */
const NO_KEY = 'troupe';
/** Characters of standard error in a reason. */
const SHOWN = 400;

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
  const inherited = [...INHERITED, ...INHERITED_TOO, ...runner.env].flatMap((name) =>
    env[name] === undefined ? [] : [[name, env[name]] as const],
  );
  const episodeUrl = `${url}/e/${encodeURIComponent(id)}`;
  const agentUrl = `${episodeUrl}/a/${encodeURIComponent(runner.agent)}`;
  return {
    ...Object.fromEntries(inherited),
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
  };
}

/** The last line of an output that is a JSON object with a number `reward`. */
export type RewardLine = {
  readonly reward: number;
  readonly answer: string | null;
  readonly outcome: EpisodeOutcome | null;
};

const OUTCOMES: readonly string[] = ['success', 'failure', 'unknown'];

/** Null where no line is one. Pure. */
export function rewardLine(output: string): RewardLine | null {
  for (const line of output.split('\n').reverse()) {
    if (!line.trimStart().startsWith('{')) continue;
    let value: unknown;
    try {
      value = JSON.parse(line);
    } catch {
      continue;
    }
    if (!isRecord(value) || typeof value.reward !== 'number' || !Number.isFinite(value.reward)) continue;
    const { reward, answer = null, outcome } = value;
    return {
      reward,
      answer: answer === null ? null : typeof answer === 'string' ? answer : JSON.stringify(answer),
      outcome: OUTCOMES.includes(String(outcome)) ? (outcome as EpisodeOutcome) : null,
    };
  }
  return null;
}

async function endOf(
  attempt: LeasedAttempt,
  ran: Ran,
  env: Readonly<Record<string, string>>,
  options: PlayOptions,
): Promise<AttemptEnd> {
  const { runner, rollout, now, recorded, why } = options;
  const secrets = secretsOf(env, runner);
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
  if (ran.code !== 0) return failed('exit', `${endText(ran.code)}${lastWords(ran, secrets)}`);
  const seen = await recorded(attempt.id);
  if (seen.entries === 0)
    return failed(
      'nothing_recorded',
      'It ended with exit code 0 and recorded nothing: no call came through OPENAI_BASE_URL and no event for TROUPE_EPISODE.',
    );
  if (['error', 'timeout', 'aborted'].includes(seen.outcome ?? ''))
    return failed('reported', `The team closed the episode with the outcome ${seen.outcome}.`);
  const line = await rewardOf(attempt, rollout.tasks[attempt.spec.task]!, ran, env, options);
  if ('error' in line) return failed(line.error.code, hidden(line.error.message, secrets));
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

const NO_LINE = 'a line on standard output that is a JSON object with a number `reward`, such as {"reward": 1}';

async function rewardOf(
  attempt: LeasedAttempt,
  task: RolloutTask,
  ran: Ran,
  env: Readonly<Record<string, string>>,
  { runner, signal, why }: PlayOptions,
): Promise<Rewarded> {
  const { reward: source } = runner;
  const reward = rewardLine(ran.stdout);
  if (source.from === 'team') return { reward: null, answer: null, outcome: null };
  if (source.from === 'stdout')
    return (
      reward ?? { error: { code: 'no_reward', message: `It ended with exit code 0, but wrote no reward: ${NO_LINE}.` } }
    );
  const input = `${JSON.stringify({ task, episode_id: attempt.id, output: ran.stdout })}\n`;
  for (let tries = 0; ; tries++) {
    const graded = await runCommand(source.command, { env, input, timeoutS: source.timeoutS, signal });
    if (graded.ended === 'stopped') return { error: why() };
    const line = graded.code === 0 && graded.ended === null ? rewardLine(graded.stdout) : null;
    if (line) return line;
    if (tries < runner.retries) continue;
    const how =
      graded.ended === 'timeout'
        ? `did not end within ${source.timeoutS} s`
        : graded.code === 0
          ? `wrote no reward: ${NO_LINE}`
          : `failed: ${endText(graded.code)}${lastWords(graded, secretsOf(env, runner))}`;
    return { error: { code: 'reward_failed', message: `The reward command ${how}` } };
  }
}

const endText = (code: number | null): string => (code === null ? 'It was killed by a signal' : `Exit code ${code}`);

/** What it wrote last to standard error, without secrets. */
function lastWords({ stderr }: Ran, secrets: readonly string[]): string {
  const words = hidden(stderr.trim(), secrets).slice(-SHOWN);
  return words === '' ? '.' : `: ${words}`;
}

const secretsOf = (env: Readonly<Record<string, string>>, { env: named }: CommandRunner): string[] =>
  ['TROUPE_KEY', ...named].flatMap((name) => (env[name] !== undefined && env[name].length >= 6 ? [env[name]] : []));

const hidden = (text: string, secrets: readonly string[]): string =>
  secrets.reduce((rest, secret) => rest.replaceAll(secret, '***'), text);
