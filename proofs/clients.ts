/** Tracing clients of others: which programs there are, where their packages are installed, and running one. */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cpSync, existsSync, readFileSync, symlinkSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const FOLDER = fileURLToPath(new URL('clients', import.meta.url));

/** Every program, as `<folder>/<file>`. Each reports an agent named planner that asks a made-up model once and is answered `Far.`. */
export const PROGRAMS = [
  'opentelemetry/protobuf.mjs',
  'opentelemetry/json.mjs',
  'opentelemetry-3/program.mjs',
  'vercel-ai/program.mjs',
  'openai-agents/program.mjs',
  'langsmith/program.mjs',
  'langgraph/program.mjs',
  'traceloop/program.mjs',
  'langfuse/program.mjs',
  'langfuse-otel/program.mjs',
  'python/otel.py',
  'python/langfuse_client.py',
] as const;

type Env = Readonly<Record<string, string | undefined>>;

const folderOf = (program: string): string => program.split('/')[0]!;

/** Where the packages of a program's folder are, by the hash of what names their versions; as `clients/install` makes it. */
export function installed(program: string, env: Env): string {
  const folder = folderOf(program);
  const named = folder === 'python' ? 'requirements.txt' : join(folder, 'package-lock.json');
  const hash = createHash('sha256')
    .update(readFileSync(join(FOLDER, named)))
    .digest('hex')
    .slice(0, 12);
  return join(env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'troupe-ci', `client-${folder}-${hash}`);
}

/** Where the programs of teams are, and the lists of what they need. */
export const TEAMS_FOLDER = join(FOLDER, 'teams');

/** Where the packages of a team are, by the hash of what names their versions. */
export function installedTeam(packages: string, env: Env): string {
  const [python, node] = [`${packages}.requirements.txt`, join(packages, 'package-lock.json')];
  const named = join(TEAMS_FOLDER, existsSync(join(TEAMS_FOLDER, python)) ? python : node);
  const hash = createHash('sha256').update(readFileSync(named)).digest('hex').slice(0, 12);
  return join(env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'troupe-ci', `team-${packages}-${hash}`);
}

/** Packages of the teams that are run in the short form too; `clients/install` always installs them. */
export const SHORT_TEAMS = ['ag2', 'anthropic-js', 'vercel-ai'] as const;

/** How to get the packages of the teams, where some are missing. */
export function missingTeams(teams: readonly string[], env: Env): string | null {
  const missing = [...new Set(teams)].filter((packages) => !existsSync(join(installedTeam(packages, env), 'complete')));
  return missing.length === 0
    ? null
    : `no packages of the teams ${missing.join(', ')}; run: proofs/clients/install --teams (about 15 minutes, 5 GB)`;
}

/** How to get the clients, where some are missing. */
export function missingClients(env: Env): string | null {
  const missing = PROGRAMS.filter((program) => !existsSync(join(installed(program, env), 'complete')));
  const teams = SHORT_TEAMS.filter((packages) => !existsSync(join(installedTeam(packages, env), 'complete')));
  const folders = [...new Set([...missing.map(folderOf), ...teams])].join(', ');
  return folders === ''
    ? null
    : `no packages of the clients ${folders}; say: proofs/clients/install (about 4 minutes, 850 MB in ~/.cache/troupe-ci)`;
}

/** Runs a program in `scratch` against a server. Throws with its last words where it fails or takes longer than a minute. */
export async function runClient(program: string, url: string, scratch: string, env: Env): Promise<void> {
  const [folder, file] = program.split('/') as [string, string];
  const [from, packages] = [join(FOLDER, folder), installed(program, env)];
  const here = join(scratch, folder);
  if (!existsSync(here)) {
    cpSync(from, here, { recursive: true });
    if (folder !== 'python') symlinkSync(join(packages, 'node_modules'), join(here, 'node_modules'));
  }
  const command = folder === 'python' ? join(packages, 'bin', 'python') : process.execPath;
  await promisify(execFile)(command, [file], {
    cwd: here,
    timeout: 60_000,
    env: { PATH: env.PATH, HOME: scratch, TROUPE_URL: url, TRACELOOP_TELEMETRY: 'false', LANGSMITH_TRACING: 'true' },
  });
}
