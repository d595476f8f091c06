/** A model server of somebody else as a proof starts and asks it. */
import { type ChildProcess, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createWriteStream, existsSync, readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { statusOf } from './up.ts';

/** Imports alone take a minute of a processor. */
const STARTED_WITHIN_MS = 900_000;

export type Start = {
  readonly program: string;
  /** The folder of a checkpoint, served under the name `tiny`. */
  readonly model: string;
  readonly port: number;
  /** The file that what it says goes into. */
  readonly log: string;
};
export type Running = { readonly kill: () => Promise<void> };

/** What differs between makes of servers. */
export type Served = {
  /** What the configuration calls it. */
  readonly tokenIds: 'vllm' | 'sglang';
  /** The program, or how to get it. */
  readonly find: (
    env: Readonly<Record<string, string | undefined>>,
  ) => { readonly program: string } | { readonly missing: string };
  /** Resolves once it answers. @throws Error if it ends before, with the file that says why */
  readonly start: (start: Start) => Promise<Running>;
  /** Which whole weights it says that it has, and what it says of those that it was started with. */
  readonly weights: (port: number) => Promise<unknown>;
  readonly weightsAtStart: (model: string) => unknown;
  /** Whether it answers the request of an episode with an error, as its interface says. */
  readonly refuses: (episode: string) => boolean;
  /** Why steps of an episode cannot train, where that is another reason than that nobody knows its weights; null: they could. */
  readonly otherwise: (episode: string) => string | null | undefined;
};

/** The environment that `FOLDER/install` makes from `FOLDER/requirements.txt`, and a program in it. */
export function inVenv(
  env: Readonly<Record<string, string | undefined>>,
  {
    folder,
    name,
    program,
    cost,
  }: { readonly folder: string; readonly name: string; readonly program: string; readonly cost: string },
): { readonly program: string } | { readonly missing: string } {
  const requirements = readFileSync(join(import.meta.dirname, folder, 'requirements.txt'));
  const digest = createHash('sha256').update(requirements).digest('hex').slice(0, 12);
  const venv = join(env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'troupe-ci', `${name}-${digest}`);
  return existsSync(join(venv, 'complete'))
    ? { program: join(venv, 'bin', program) }
    : { missing: `no ${name}; say: proofs/${folder}/install (${cost})` };
}

/** Runs a server with its children until `kill`; resolves once `/health` is 200. */
export async function startServer(
  program: string,
  args: readonly string[],
  env: Readonly<Record<string, string>>,
  { port, log }: Pick<Start, 'port' | 'log'>,
): Promise<Running> {
  const child: ChildProcess = spawn(program, args, {
    env: { ...process.env, HF_HUB_OFFLINE: '1', OMP_NUM_THREADS: '1', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    // It has children, which a signal to it alone would leave.
    detached: true,
  });
  const file = createWriteStream(log, { flags: 'a' });
  child.stdout!.pipe(file);
  child.stderr!.pipe(file);
  const lives = () => child.exitCode === null && child.signalCode === null;
  const kill = async (): Promise<void> => {
    if (!lives()) return;
    const gone = once(child, 'exit');
    process.kill(-child.pid!, 'SIGKILL');
    await gone;
  };
  for (const deadline = performance.now() + STARTED_WITHIN_MS; lives(); await sleep(1000)) {
    if ((await statusOf(`http://127.0.0.1:${port}/health`)) === 200) return { kill };
    if (performance.now() > deadline) break;
  }
  await kill();
  throw new Error(`The server did not start; ${log} says why, at its end: ${readFileSync(log, 'utf8').slice(-400)}`);
}
