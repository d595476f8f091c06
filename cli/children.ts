/** Processes of ours that a command starts: the same program in another role. They end with whoever started them. */
import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { TroupeError } from '../errors.ts';

export type Child = { readonly name: string; readonly process: ChildProcess; readonly stop: () => Promise<void> };

/** Starts `troupe run ROLE` in the same home and project. Its last words are kept for the error if it dies. */
export function startRole(role: string, args: readonly string[], onDeath: (error: TroupeError) => void): Child {
  return startProgram(`run ${role}`, [...process.execArgv, process.argv[1]!, 'run', role, ...args], onDeath);
}

/** Starts a program under this Node. */
export function startProgram(
  name: string,
  args: readonly string[],
  onDeath: (error: TroupeError) => void,
  stdin: 'ignore' | 'pipe' = 'ignore',
): Child {
  const child = spawn(process.execPath, args, {
    stdio: [stdin, 'pipe', 'pipe'],
    env: { ...process.env, NO_COLOR: '1' },
  });
  const words: string[] = [];
  createInterface({ input: child.stderr! }).on('line', (line) => {
    words.push(line);
    if (words.length > 20) words.shift();
  });
  let stopping = false;
  const ended = new Promise<void>((resolve) =>
    child.once('exit', (code, signal) => {
      if (!stopping)
        onDeath(
          new TroupeError(
            'internal',
            `The process \`${name}\` ended (${signal ?? `exit code ${code}`}): ${words.slice(-5).join(' | ')}`,
          ),
        );
      resolve();
    }),
  );
  return {
    name,
    process: child,
    stop: async () => {
      stopping = true;
      if (child.exitCode === null && child.signalCode === null) {
        child.kill('SIGTERM');
        const hard = setTimeout(() => child.kill('SIGKILL'), 8000);
        await ended;
        clearTimeout(hard);
      }
    },
  };
}

/** Runs a program to its end. @throws TroupeError `internal` with its last words when it did not end well. */
export function runProgram(name: string, args: readonly string[]): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, args, {
      stdio: ['ignore', 'ignore', 'pipe'],
      env: { ...process.env, NO_COLOR: '1' },
    });
    let words = '';
    child.stderr.on('data', (chunk: Buffer) => {
      words = (words + chunk.toString()).slice(-500);
    });
    child.once('error', reject);
    child.once('exit', (code, signal) =>
      code === 0
        ? resolve()
        : reject(
            new TroupeError('internal', `The program \`${name}\` ended (${signal ?? `exit code ${code}`}): ${words}`),
          ),
    );
  });
}

/** A program that takes a JSON object a line and answers each with one. */
export function askingLines(child: ChildProcess): (question: object) => Promise<Record<string, unknown>> {
  const waiting: ((answer: Record<string, unknown>) => void)[] = [];
  const early: Record<string, unknown>[] = [];
  createInterface({ input: child.stdout! }).on('line', (line) => {
    if (!line.startsWith('{')) return;
    const answer = JSON.parse(line) as Record<string, unknown>;
    const next = waiting.shift();
    if (next) next(answer);
    else early.push(answer);
  });
  const answered = () =>
    new Promise<Record<string, unknown>>((resolve) =>
      early.length > 0 ? resolve(early.shift()!) : waiting.push(resolve),
    );
  const ready = answered();
  return async (question) => {
    await ready;
    child.stdin!.write(`${JSON.stringify(question)}\n`);
    const answer = await answered();
    if (answer.error !== undefined)
      throw new TroupeError(
        'internal',
        `The team refused ${JSON.stringify(question)}: ${JSON.stringify(answer.error)}`,
      );
    return answer;
  };
}
