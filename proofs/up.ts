/** `troupe up` as a person starts it, and the processes that run under it, found by their command lines so that they can be killed and stopped. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { V8_FLAGS } from '../cli/processes/children.ts';

const ROOT = join(import.meta.dirname, '..');
/** For the slowest machine: what is waited for comes much sooner. */
const PATIENCE_MS = 300_000;

export const ROLES = ['serve', 'project', 'judge', 'work'];

export type Up = {
  readonly url: () => Promise<string>;
  readonly code: () => Promise<number | null>;
  readonly lives: () => boolean;
  readonly output: () => string;
  readonly end: () => Promise<number | null>;
};

/** `settings` are environment variables beside those of this process, none of which names a database or a broker. */
export function startUp(home: string, settings: Readonly<Record<string, string>> = {}): Up {
  const { DATABASE_URL: _, KAFKA_BROKERS: __, ...env } = process.env;
  const args = ['--import', 'tsx', ...V8_FLAGS, 'cli.ts', 'up', '--home', home, '--port', '0', '--json'];
  const child: ChildProcess = spawn(process.execPath, args, {
    cwd: ROOT,
    env: { ...env, ...settings, NO_COLOR: '1' },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let [out, err] = ['', ''];
  child.stdout!.setEncoding('utf8').on('data', (text) => {
    out += text;
  });
  child.stderr!.setEncoding('utf8').on('data', (text) => {
    err = `${err}${text}`.slice(-4000);
  });
  const lives = () => child.exitCode === null && child.signalCode === null;
  const gone = lives() ? once(child, 'close') : Promise.resolve();
  const code = async () => {
    await gone;
    return child.exitCode;
  };
  return {
    url: async () => {
      await until(async () => out.includes('\n') || !lives(), '`up` is not ready');
      return (JSON.parse(out.split('\n')[0]!) as { url: string }).url;
    },
    code,
    lives,
    output: () => err.trim(),
    end: () => {
      child.kill('SIGTERM');
      return code();
    },
  };
}

/** What `look` finds, once it does. @throws Error `otherwise` after five minutes */
export async function until<T>(look: () => Promise<T | undefined | false>, otherwise: string): Promise<T> {
  for (const deadline = performance.now() + PATIENCE_MS; performance.now() < deadline; await sleep(200)) {
    const found = await look();
    if (found) return found;
  }
  throw new Error(`${otherwise} within ${PATIENCE_MS / 1000} s`);
}

/** 0 where nothing answers. */
export const statusOf = (url: string): Promise<number> =>
  fetch(url, { signal: AbortSignal.timeout(10_000) }).then(
    async (answer) => {
      await answer.arrayBuffer();
      return answer.status;
    },
    () => 0,
  );

/** Sends a signal to a process that may be gone. */
export const signal = (pid: number, how: NodeJS.Signals): void => {
  try {
    process.kill(pid, how);
  } catch {
    // It is gone already.
  }
};

type Running = { readonly pid: number; readonly parent: number; readonly command: string };

const running = (): readonly Running[] =>
  spawnSync('ps', ['-eo', 'pid=,ppid=,args='], { encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 })
    .stdout.split('\n')
    .flatMap((line) => {
      const [, pid, parent, command] = /^ *(\d+) +(\d+) (.*)$/.exec(line) ?? [];
      return pid === undefined ? [] : [{ pid: Number(pid), parent: Number(parent), command: command! }];
    });

export const rolePids = (home: string, role: string): number[] =>
  running().flatMap(({ pid, command }) => (command.includes(` run ${role} --home ${home} `) ? [pid] : []));

export const keepers = (home: string): number[] =>
  running().flatMap(({ pid, command }) =>
    /keeper\.[jt]s/.test(command) && command.includes(`"${home}"`) ? [pid] : [],
  );

/** The server's first process and its children. */
export function server(home: string): number[] {
  try {
    const first = Number.parseInt(readFileSync(join(home, 'data', 'cluster', 'postmaster.pid'), 'utf8'), 10);
    return [first, ...running().flatMap(({ pid, parent }) => (parent === first ? [pid] : []))];
  } catch {
    return [];
  }
}

/** Lines of the logs in the folder that hold a stack trace. */
export const stackTraces = (folder: string): string[] =>
  readdirSync(folder)
    .filter((name) => /\.log(\.\d+)?$/.test(name))
    .flatMap((name) => readFileSync(join(folder, name), 'utf8').split('\n'))
    .filter((line) => /\\n {4}at /.test(line));
