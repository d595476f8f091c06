/** Processes of Troupe as a person starts them, to be killed, paused and started again at the same address. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { V8_FLAGS } from '../cli/processes/children.ts';
import { freePort } from '../test/support/free-port.ts';

const ROOT = join(import.meta.dirname, '..');

export type TroupeProcess = {
  readonly role: string;
  /** Where it answers; empty for one that does not. */
  readonly url: string;
  /** 0 while it is not running. */
  readonly pid: () => number;
  readonly start: () => Promise<void>;
  /** Ends it by a signal; resolves with its exit code when it is gone, at once if it is gone already. */
  readonly end: (signal: NodeJS.Signals) => Promise<number | null>;
  readonly pause: () => void;
  readonly resume: () => void;
  /** Resolves with the exit code when it ended by itself. */
  readonly ended: () => Promise<number | null>;
  /** The end of its log on stderr. */
  readonly output: () => string;
};

export type Started = {
  readonly home: string;
  readonly env: Readonly<Record<string, string>>;
  /** Folder of the code; this checkout if omitted. */
  readonly root?: string;
  /** Words of its command line besides. */
  readonly args?: readonly string[];
};

/** `troupe run ROLE` with this environment, as `troupe up` starts it. An API role answers at a port that stays. */
export async function runTroupe(
  role: string,
  { home, env, root = ROOT, args: more = [] }: Started,
): Promise<TroupeProcess> {
  const answers = role === 'ingest' || role === 'serve';
  const port = answers ? await freePort() : 0;
  let child: ChildProcess | null = null;
  let output = '';
  const gone = async (one: ChildProcess): Promise<number | null> => {
    if (one.exitCode === null && one.signalCode === null) await once(one, 'exit');
    return one.exitCode;
  };
  const start = async (): Promise<void> => {
    const args = ['run', role, '--home', home, '--json', ...(answers ? ['--port', String(port)] : []), ...more];
    const fresh = spawn(process.execPath, ['--import', 'tsx', ...V8_FLAGS, 'cli.ts', ...args], {
      cwd: root,
      env: { ...process.env, ...env, NO_COLOR: '1' },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    child = fresh;
    fresh.stderr.setEncoding('utf8').on('data', (text) => {
      output = `${output}${text}`.slice(-4000);
    });
    const ready = once(fresh.stdout, 'data').then(() => true);
    const failed = once(fresh, 'exit').then(() => false);
    if (!(await Promise.race([ready, failed]))) throw new Error(`troupe run ${role} did not start: ${output.trim()}`);
    fresh.stdout.resume();
  };
  await start();
  return {
    role,
    url: answers ? `http://127.0.0.1:${port}` : '',
    pid: () => child?.pid ?? 0,
    start,
    end: async (signal) => {
      if (child === null) return null;
      child.kill(signal);
      if (signal !== 'SIGKILL') child.kill('SIGCONT');
      return gone(child);
    },
    pause: () => void child?.kill('SIGSTOP'),
    resume: () => void child?.kill('SIGCONT'),
    ended: () => (child === null ? Promise.resolve(null) : gone(child)),
    output: () => output,
  };
}
