/** `troupe` as people run it: a process of its own, with a home and a database of the test's own. */
import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';
import { removeFolder } from '../../support/remove-folder.ts';
import { builtProgram } from './built.ts';

export type Ended = {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly out: string;
  readonly err: string;
};

export type Running = {
  readonly child: ChildProcessByStdio<Writable, Readable, Readable>;
  /** Resolves with the output so far once it matches `what`; rejects when it ends before. */
  readonly waitForOutput: (what: RegExp) => Promise<string>;
  readonly ended: Promise<Ended>;
};

export type Shell = {
  readonly folder: string;
  readonly run: (args: readonly string[], input?: string) => Promise<Ended>;
  readonly start: (args: readonly string[]) => Running;
  readonly remove: () => Promise<void>;
};

/** A folder to work in, whose `home` is the home; `env` beside it. Nothing of the caller's settings gets in. */
export function shell(env: Readonly<Record<string, string>> = {}): Shell {
  const folder = mkdtempSync(join(tmpdir(), 'troupe-cli-'));
  const { PATH = '', HOME = '' } = process.env;
  const started = new Set<ChildProcessByStdio<Writable, Readable, Readable>>();

  const start = (args: readonly string[]): Running => {
    const child = spawn(process.execPath, [builtProgram, ...args], {
      cwd: folder,
      env: { PATH, HOME, TROUPE_HOME: join(folder, 'home'), TROUPE_TRAININGS: '64', ...env },
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    started.add(child);
    child.stdin.on('error', () => {});
    let out = '';
    let err = '';
    const listeners = new Set<() => void>();
    const notify = () => {
      for (const listener of listeners) listener();
    };
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      out += text;
      notify();
    });
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      err += text;
      notify();
    });
    const ended = new Promise<Ended>((resolve) =>
      child.once('close', (code, signal) => {
        started.delete(child);
        resolve({ code, signal, out, err });
      }),
    );
    const waitForOutput = (what: RegExp) =>
      new Promise<string>((resolve, reject) => {
        const look = () => {
          if (!what.test(out + err)) return;
          listeners.delete(look);
          resolve(out + err);
        };
        listeners.add(look);
        look();
        void ended.then(({ code }) => reject(new Error(`troupe ${args[0]} ended with ${code}: ${err}`)));
      });
    return { child, waitForOutput, ended };
  };
  return {
    folder,
    start,
    run: (args, input = '') => {
      const running = start(args);
      running.child.stdin.end(input);
      return running.ended;
    },
    remove: async () => {
      for (const child of started) child.kill('SIGKILL');
      removeFolder(folder);
    },
  };
}

/**
 * A shell whose commands share one process, one after the other, for tests in which the process is not the point: each is spared the start
 * of its own. What is started still has a process to itself. `remove` rejects where a command left something open that keeps the process.
 */
export function warmShell(env: Readonly<Record<string, string>> = {}): Shell {
  const cold = shell(env);
  let warm: WarmProcess | undefined;
  let last: Promise<unknown> = Promise.resolve();
  return {
    ...cold,
    run: (args, input = '') => {
      const ended = last.then(() => {
        if (warm === undefined || warm.hasEnded()) warm = warmProcess(cold.folder, env);
        return warm.run(args, input);
      });
      last = ended.catch(() => {});
      return ended;
    },
    remove: () => (warm?.end() ?? Promise.resolve()).finally(cold.remove),
  };
}

type WarmProcess = ReturnType<typeof warmProcess>;

function warmProcess(folder: string, env: Readonly<Record<string, string>>) {
  const { PATH = '', HOME = '' } = process.env;
  const program = join(dirname(builtProgram), 'cli/program.js');
  const child = spawn(process.execPath, [join(import.meta.dirname, 'warm-program.mjs'), program], {
    cwd: folder,
    env: { PATH, HOME, TROUPE_HOME: join(folder, 'home'), TROUPE_TRAININGS: '64', ...env },
    stdio: ['ignore', 'ignore', 'inherit', 'pipe', 'pipe'],
  });
  const [, , , commands, answers] = child.stdio as unknown as [null, null, null, Writable, Readable];
  commands.on('error', () => {});
  let answered: ((line: string) => void) | undefined;
  createInterface({ input: answers }).on('line', (line) => answered?.(line));
  return {
    hasEnded: () => child.exitCode !== null || child.signalCode !== null,
    /** Resolves once the process has ended by itself, as it does where its commands left nothing open. */
    end: () =>
      new Promise<void>((resolve, reject) => {
        if (child.exitCode !== null || child.signalCode !== null) return resolve();
        const late = setTimeout(() => {
          child.kill('SIGKILL');
          reject(new Error('A command left something open: its process did not end by itself within 30 s.'));
        }, 30_000);
        child.once('close', () => {
          clearTimeout(late);
          resolve();
        });
        commands.end();
      }),
    run: (args: readonly string[], input: string) =>
      new Promise<Ended>((resolve, reject) => {
        const ended = (code: number | null, signal: NodeJS.Signals | null) =>
          reject(new Error(`The process of troupe ${args.join(' ')} ended with ${code ?? signal}.`));
        child.once('close', ended);
        answered = (line) => {
          child.off('close', ended);
          resolve(JSON.parse(line) as Ended);
        };
        commands.write(`${JSON.stringify({ args, input })}\n`);
      }),
  };
}

/** The one JSON document on standard output; anything else there makes it throw. */
export const document = ({ out }: Ended) => JSON.parse(out);
