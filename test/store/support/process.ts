/** Starts a program of the tests as a process of its own, to be killed. */
import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { compiledProgram } from '../../support/program.ts';

export type Program = {
  readonly child: ChildProcessByStdio<null, Readable, null>;
  /** Whole lines it wrote, as they came. */
  readonly lines: string[];
  /** Resolves when it has written a line, rejects when it ended before. */
  readonly firstLine: Promise<string>;
  readonly ended: Promise<void>;
  kill(): Promise<void>;
};

/** `name` is the program's path, seen from this folder. */
export async function startProgram(name: string, ...args: readonly string[]): Promise<Program> {
  const program = await compiledProgram(join(import.meta.dirname, name));
  const child = spawn(process.execPath, [program, ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const lines: string[] = [];
  let rest = '';
  let first: (line: string) => void;
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()));
  const firstLine = new Promise<string>((resolve, reject) => {
    first = resolve;
    void ended.then(() => reject(new Error(`${name} ended without a word`)));
  });
  firstLine.catch(() => {});
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    const parts = (rest + chunk).split('\n');
    rest = parts.pop()!;
    lines.push(...parts);
    if (lines.length > 0) first(lines[0]!);
  });
  return {
    child,
    lines,
    firstLine,
    ended,
    kill: async () => {
      child.kill('SIGKILL');
      await ended;
    },
  };
}
