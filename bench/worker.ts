/**
 * One side of a comparison as a process of its own, so that its memory and processor time are its own and starting it
 * does not count. Questions go to its standard input and answers come from its standard output, one JSON line each.
 */
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { TroupeError } from '../errors.ts';
import type { Found } from './python.ts';

export type Worker = {
  /** The answer to one question; one is asked at a time. Rejects with the worker's own words when it fails or dies. */
  readonly ask: <Answer>(question: { readonly do: string } & Readonly<Record<string, unknown>>) => Promise<Answer>;
  /** Lets it end; resolves when it is gone. */
  readonly close: () => Promise<void>;
};

/** What a worker says of a piece of work, measured within it. */
export type Timed = { readonly seconds: number; readonly cpu_seconds: number };
/** Bytes of physical memory: after its imports, before any work, and the most until now. Null where the system does not say. */
export type Memory = { readonly baseline: number | null; readonly peak: number | null };

/** The same in whole MiB, as reports say it. */
export function mebibytes({ baseline, peak }: Memory) {
  const of = (bytes: number | null) => (bytes === null ? null : Math.round(bytes / 2 ** 20));
  return { after_imports: of(baseline), peak: of(peak) };
}

type Options = { readonly env?: Readonly<Record<string, string>> };

/** A program of `bench/ours`, under the Node and the loader that run this one. */
export const startOurs = (program: string, options: Options = {}): Worker =>
  start(process.execPath, [...process.execArgv, join(import.meta.dirname, 'ours', program)], options);

/** A script of `bench/peers`, with so many threads for its arithmetic and without a network. */
export const startPeer = (
  { python }: Extract<Found, { readonly python: string }>,
  script: string,
  { threads }: { readonly threads: number },
): Worker =>
  start(python, [join(import.meta.dirname, 'peers', script)], {
    env: {
      OMP_NUM_THREADS: String(threads),
      MKL_NUM_THREADS: String(threads),
      HF_HUB_OFFLINE: '1',
      TRANSFORMERS_OFFLINE: '1',
      HF_DATASETS_OFFLINE: '1',
      TRANSFORMERS_VERBOSITY: 'error',
      TOKENIZERS_PARALLELISM: 'false',
      PYTHONDONTWRITEBYTECODE: '1',
    },
  });

function start(command: string, args: readonly string[], { env = {} }: Options): Worker {
  const child = spawn(command, args, { stdio: ['pipe', 'pipe', 'pipe'], env: { ...process.env, ...env } });
  const name = args.at(-1)!.split('/').at(-1)!;
  let waiting: { readonly resolve: (line: string) => void; readonly reject: (error: Error) => void } | null = null;
  let output = '';
  let dead: string | null = null;
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    output = (output + text).slice(-4000);
  });
  createInterface({ input: child.stdout }).on('line', (line) => {
    waiting?.resolve(line);
    waiting = null;
  });
  const gone = new Promise<void>((resolve) => {
    const end = (how: string) => {
      dead = `${name} ended (${how}): ${output.trim() || 'no output'}`;
      waiting?.reject(new TroupeError('internal', dead));
      waiting = null;
      resolve();
    };
    child.once('error', (error) => end(error.message));
    child.once('close', (code, signal) => end(signal ?? `exit code ${code}`));
  });
  // A question to one that has died fails by its end, which says more than the broken pipe.
  child.stdin.on('error', () => {});
  const stop = () => child.kill();
  process.once('exit', stop);
  return {
    async ask<Answer>(question: object) {
      const line = await new Promise<string>((resolve, reject) => {
        if (dead !== null) return reject(new TroupeError('internal', dead));
        waiting = { resolve, reject };
        child.stdin.write(`${JSON.stringify(question)}\n`);
      });
      const answer = JSON.parse(line) as { readonly error?: string };
      if (answer.error !== undefined) throw new TroupeError('internal', `${name}: ${answer.error}`);
      return answer as Answer;
    },
    async close() {
      child.stdin.end();
      await gone;
      process.off('exit', stop);
    },
  };
}
