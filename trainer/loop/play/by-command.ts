/** One attempt by a program that is started for it: what it gets in its environment, and how it ended. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { LeasedAttempt } from '../../../store/loop/play/attempts.ts';
import { drawnBy, groupAt } from '../../../store/loop/play/rollout.ts';
import { endText, lastWords } from '../rewards/score.ts';
import { runCommand } from './command.ts';
import type { PlayOptions, TeamEnd } from './play-options.ts';
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

type Options = Pick<PlayOptions, 'rollout' | 'entry' | 'env'> & { readonly runner: CommandRunner };

/** Runs the program to its end. @returns how it ended, and what a reward command gets: the same environment, and what hides its secrets */
export async function playByCommand(
  attempt: LeasedAttempt,
  options: Options & Pick<PlayOptions, 'signal'>,
): Promise<TeamEnd> {
  const { rollout, runner, signal } = options;
  const { task } = groupAt(rollout, attempt.spec.rollout, attempt.spec.task);
  const folder = await mkdtemp(join(tmpdir(), 'troupe-episode-'));
  try {
    const file = join(folder, 'task.json');
    await writeFile(file, JSON.stringify(task), { mode: 0o600 });
    const teamFile = rollout.team === undefined ? null : join(folder, 'team.json');
    if (teamFile !== null) await writeFile(teamFile, JSON.stringify(rollout.team!.definition), { mode: 0o600 });
    const env = environmentOf(attempt, { task: file, team: teamFile }, options);
    const input = `${JSON.stringify(task)}\n`;
    const ran = await runCommand(runner.command, { env, input, timeoutS: attempt.secondsLeft, signal });
    const secrets = secretsOf(env, runner);
    const hide = (text: string) => secrets.reduce((rest, secret) => rest.replaceAll(secret, '***'), text);
    const failure =
      ran.code === 0 ? null : { code: 'exit' as const, message: `${endText(ran.code)}${lastWords(ran, hide)}` };
    return { ended: ran.ended, failure, output: ran.stdout, words: 'exit code 0', env, hide };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** The environment of one episode's program. Pure. */
export function environmentOf(
  { id, spec, deadlineAt }: LeasedAttempt,
  files: { readonly task: string; readonly team: string | null },
  { rollout, runner, entry: { url, key }, env }: Options,
): Record<string, string> {
  const group = groupAt(rollout, spec.rollout, spec.task);
  const { seed, params } = drawnBy(rollout, group, spec.sample);
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
    TROUPE_GROUP: group.group_id,
    TROUPE_TASK: files.task,
    TROUPE_TASK_ID: group.task.task_id,
    TROUPE_SAMPLE: String(spec.sample),
    TROUPE_ATTEMPT: String(spec.attempt),
    TROUPE_SEED: String(seed),
    TROUPE_DEADLINE: deadlineAt,
    ...(files.team === null ? {} : { TROUPE_TEAM: files.team, TROUPE_TEAM_ID: rollout.team!.team_id }),
    TROUPE_PARAMS: JSON.stringify(params),
  };
}

const secretsOf = (env: Readonly<Record<string, string>>, { env: named }: CommandRunner): string[] =>
  ['TROUPE_KEY', ...named].flatMap((name) => (env[name] !== undefined && env[name].length >= 6 ? [env[name]] : []));
