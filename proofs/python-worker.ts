/** A script of this folder that answers many questions: importing torch and transformers takes longer than most answers. */
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

export type PythonWorker = {
  /** Questions may be asked before earlier ones are answered; they are answered in their order. Throws what the script says went wrong. */
  readonly ask: <Answer>(question: { readonly do: string; readonly [field: string]: unknown }) => Promise<Answer>;
  /** Ends the process; questions that nobody waits for are not answered. */
  readonly close: () => Promise<void>;
};

type Reply = { readonly answer: unknown } | { readonly error: string };
type Waiting = { readonly resolve: (answer: unknown) => void; readonly reject: (error: Error) => void };

const LAST_LINES = 6;

export function startPython(python: string, script: string): PythonWorker {
  // One thread: the numbers do not depend on the machine, and the other core is Troupe's.
  const env = { ...process.env, HF_HUB_OFFLINE: '1', TRANSFORMERS_VERBOSITY: 'error', OMP_NUM_THREADS: '1' };
  const child = spawn(python, [join(import.meta.dirname, script)], { env, stdio: ['pipe', 'pipe', 'pipe'] });
  const waiting: Waiting[] = [];
  let output = '';
  let gone: Error | null = null;
  const fail = (error: Error): void => {
    gone ??= error;
    for (const { reject } of waiting.splice(0)) reject(gone);
  };
  const ended = new Promise<void>((resolve) => {
    child.on('close', (code) => {
      fail(new Error(`${script} ended with ${code}: ${lastOf(output)}`));
      resolve();
    });
  });
  child.on('error', fail);
  child.stdin.on('error', () => {});
  child.stderr.setEncoding('utf8').on('data', (text) => {
    output += text;
  });
  createInterface({ input: child.stdout }).on('line', (line) => {
    const reply = JSON.parse(line) as Reply;
    const { resolve, reject } = waiting.shift()!;
    if ('error' in reply) reject(new Error(`${script}: ${lastOf(reply.error)}`));
    else resolve(reply.answer);
  });
  return {
    ask: <Answer>(question: object) =>
      new Promise<Answer>((resolve, reject) => {
        if (gone !== null) return reject(gone);
        waiting.push({ resolve: resolve as (answer: unknown) => void, reject });
        child.stdin.write(`${JSON.stringify(question)}\n`);
      }),
    close: () => {
      child.stdin.end();
      if (waiting.length > 0) child.kill();
      return ended;
    },
  };
}

const lastOf = (text: string): string => text.trim().split('\n').slice(-LAST_LINES).join(' | ');
