/** One attempt by a program that is started for it: what it gets in its environment, and how it ended. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { AttemptError } from '../../../store/loop/play/attempts.ts';
import { endText, lastWords } from '../rewards/score.ts';
import { runCommand } from './command.ts';
import type { PlayServer } from './entry.ts';
import { episodePath, factsOf, type Play } from './play.ts';
import type { CommandRunner } from './runners.ts';

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

type Options = {
  readonly runner: CommandRunner;
  readonly entry: PlayServer;
  /** The environment that variables are taken from. */
  readonly env: Readonly<Record<string, string | undefined>>;
};

/** How the team ended: what it wrote, or why there is nothing. */
export type TeamEnd = {
  readonly ended: 'timeout' | 'stopped' | null;
  readonly failure: AttemptError | null;
  readonly output: string;
  /** How an end without a failure is called. */
  readonly words: string;
  /** What a reward command gets. */
  readonly env: Readonly<Record<string, string>>;
  /** Replaces the secrets of the team in a text. */
  readonly hide: (text: string) => string;
};

/** Runs the program to its end. @returns how it ended, and what a reward command gets: the same environment, and what hides its secrets */
export async function playByCommand(play: Play, options: Options & { readonly signal: AbortSignal }): Promise<TeamEnd> {
  const { runner, signal } = options;
  const { task, rollout } = play;
  const folder = await mkdtemp(join(tmpdir(), 'troupe-episode-'));
  try {
    const file = join(folder, 'task.json');
    await writeFile(file, JSON.stringify(task), { mode: 0o600 });
    const teamFile = rollout.team === undefined ? null : join(folder, 'team.json');
    if (teamFile !== null) await writeFile(teamFile, JSON.stringify(rollout.team!.definition), { mode: 0o600 });
    const env = environmentOf(play, { task: file, team: teamFile }, options);
    const input = `${JSON.stringify(task)}\n`;
    const ran = await runCommand(runner.command, { env, input, timeoutS: play.secondsLeft, signal });
    const secrets = secretsOf(env, runner);
    const hide = (text: string) => secrets.reduce((rest, secret) => rest.replaceAll(secret, '***'), text);
    const failure =
      ran.code === 0 ? null : { code: 'exit' as const, message: `${endText(ran.code)}${lastWords(ran, hide)}` };
    return { ended: ran.ended, failure, output: ran.stdout, words: 'exit code 0', env, hide };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** The environment of the program of a play. Pure. */
export function environmentOf(
  play: Play,
  files: { readonly task: string; readonly team: string | null },
  { runner, entry: { url, key }, env }: Options,
): Record<string, string> {
  const { base_path, ...facts } = factsOf(play, runner.agent);
  return {
    ...programEnv(env, runner.env),
    OPENAI_BASE_URL: `${url}${base_path}`,
    OPENAI_API_KEY: key ?? NO_KEY,
    ANTHROPIC_BASE_URL: `${url}${base_path.replace(/\/v1$/, '')}`,
    ANTHROPIC_API_KEY: key ?? NO_KEY,
    TROUPE_URL: url,
    ...(key === null ? {} : { TROUPE_KEY: key }),
    TROUPE_ROLLOUT: facts.rollout_id,
    TROUPE_EPISODE: facts.episode_id,
    TROUPE_EPISODE_URL: `${url}${episodePath(play.id)}`,
    TROUPE_GROUP: facts.group_id,
    TROUPE_TASK: files.task,
    TROUPE_TASK_ID: facts.task.task_id,
    TROUPE_SAMPLE: String(facts.sample),
    TROUPE_ATTEMPT: String(facts.attempt),
    TROUPE_SEED: String(facts.seed),
    TROUPE_DEADLINE: facts.deadline,
    ...(files.team === null ? {} : { TROUPE_TEAM: files.team, TROUPE_TEAM_ID: facts.team!.team_id }),
    TROUPE_PARAMS: JSON.stringify(facts.params),
  };
}

const secretsOf = (env: Readonly<Record<string, string>>, { env: named }: CommandRunner): string[] =>
  ['TROUPE_KEY', ...named].flatMap((name) => (env[name] !== undefined && env[name].length >= 6 ? [env[name]] : []));
