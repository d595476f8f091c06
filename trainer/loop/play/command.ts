/**
 * Runs one program in a process group of its own, which ends as a whole: with the program, at its deadline, when it is stopped, and also when
 * this process is killed. For the last a shell stands between: it holds the reading end of a pipe, and kills the group once the pipe breaks.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { accessSync, constants, statSync } from 'node:fs';
import { delimiter, join, resolve } from 'node:path';
import type { Readable } from 'node:stream';
import { got, TroupeError } from '../../../errors.ts';

/**
 * The watcher reads descriptor 3 until it breaks. The shell outlives SIGTERM, so that the program may take its time to end; what it starts
 * gets the default handling back.
 */
const GUARD = `trap : TERM
(cat <&3; kill -KILL 0) >/dev/null 2>&1 </dev/null &
exec 3<&-
"$@"
exit $?`;

/** From SIGTERM to SIGKILL. */
const GRACE_MS = 2000;
/** From the end of the program until its output is closed: a child in a session of its own, such as a browser, may hold it for hours. */
const OUTPUT_MS = 500;
/** Bytes kept of standard output, and of standard error, from their ends. */
const OUTPUT_KEPT = 256 * 1024;
const ERRORS_KEPT = 4 * 1024;

export type Ran = {
  /** Null where a signal ended it. */
  readonly code: number | null;
  /** Why it was ended, if it was. */
  readonly ended: 'timeout' | 'stopped' | null;
  /** The end of what it wrote. */
  readonly stdout: string;
  readonly stderr: string;
};

export type CommandOptions = {
  readonly env: Readonly<Record<string, string>>;
  /** What it reads on standard input. */
  readonly input: string;
  readonly timeoutS: number;
  /** Ends it. */
  readonly signal: AbortSignal;
};

/**
 * Runs it to its end; resolves once nothing of its process group is left. A child that left the group (`setsid`) lives on, and its output
 * is not waited for.
 */
export function runCommand(command: readonly string[], { env, input, timeoutS, signal }: CommandOptions): Promise<Ran> {
  return new Promise((resolve, reject) => {
    const child = spawn('/bin/sh', ['-c', GUARD, 'sh', ...command], {
      detached: true,
      env,
      stdio: ['pipe', 'pipe', 'pipe', 'pipe'],
    });
    const stdout = tail(child.stdout!, OUTPUT_KEPT);
    const stderr = tail(child.stderr!, ERRORS_KEPT);
    // It need not read what it is given.
    child.stdin!.on('error', () => {});
    child.stdio[3]!.on('error', () => {});
    child.stdin!.end(input);
    let ended: Ran['ended'] = null;
    let hard: NodeJS.Timeout | undefined;
    let held: NodeJS.Timeout | undefined;
    const end = (why: 'timeout' | 'stopped') => {
      if (ended !== null) return;
      ended = why;
      killGroup(child, 'SIGTERM');
      hard = setTimeout(() => killGroup(child, 'SIGKILL'), GRACE_MS);
    };
    // Longer than a timer can count: it is asked again.
    const timer = setTimeout(() => end('timeout'), Math.min(timeoutS * 1000, 2 ** 31 - 1));
    const stop = () => end('stopped');
    signal.addEventListener('abort', stop, { once: true });
    if (signal.aborted) stop();
    const settled = () => {
      clearTimeout(timer);
      clearTimeout(hard);
      signal.removeEventListener('abort', stop);
    };
    child.once('error', (error) => {
      settled();
      reject(error);
    });
    child.once('exit', () => {
      // What ends it from here on, such as its deadline, comes too late.
      settled();
      killGroup(child, 'SIGKILL');
      // What stands in the pipes is read before: a busy process may come to it late.
      held = setTimeout(
        () => setImmediate(() => [child.stdout!, child.stderr!].map((one) => one.destroy())),
        OUTPUT_MS,
      );
    });
    child.once('close', (code) => {
      clearTimeout(held);
      child.stdio[3]!.destroy();
      resolve({ code, ended, stdout: stdout(), stderr: stderr() });
    });
  });
}

function killGroup({ pid }: ChildProcess, signal: NodeJS.Signals): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, signal);
  } catch {
    // Nothing of it is left.
  }
}

/** The last `most` bytes of a stream, whenever it is asked. */
function tail(stream: Readable, most: number): () => string {
  let kept: Buffer = Buffer.alloc(0);
  stream.on('data', (chunk: Buffer) => {
    kept = Buffer.concat([kept, chunk]);
    if (kept.length > 2 * most) kept = Buffer.from(kept.subarray(-most));
  });
  return () => kept.subarray(-most).toString('utf8');
}

/** @throws TroupeError `not_found` for a program that is not there or cannot be run */
export function checkProgram(program: string, path: string, of = 'the runner'): void {
  const places = program.includes('/')
    ? [resolve(program)]
    : path.split(delimiter).map((folder) => join(folder, program));
  if (places.some(isProgram)) return;
  throw new TroupeError(
    'not_found',
    program.includes('/')
      ? `The program ${got(program)} of ${of} is not there or cannot be run; it was looked for at ${places[0]}.`
      : `The program ${got(program)} of ${of} is in no folder of PATH.`,
    { field: 'command' },
  );
}

function isProgram(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return statSync(file).isFile();
  } catch {
    return false;
  }
}
