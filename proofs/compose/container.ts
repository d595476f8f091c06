/** A container of ours as a process of this machine: its command, its environment and nothing else, its check as it is written. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Container } from './file.ts';
import type { Here } from './here.ts';

export type Image = {
  readonly entrypoint: readonly string[];
  readonly command: readonly string[];
  readonly folder: string;
};
export type Checked = { readonly ok: boolean; readonly output: string };

export type Started = {
  readonly container: Container;
  /** Its last output, and that of its log. */
  readonly output: () => string;
  /** Its exit code; null while it runs, and for one that a signal ended. */
  readonly code: () => number | null;
  readonly running: () => boolean;
  readonly ended: Promise<void>;
  readonly stop: (signal: NodeJS.Signals) => Promise<void>;
  /** Runs its health check once. */
  readonly check: () => Promise<Checked>;
};

type Env = Readonly<Record<string, string>>;

/** Started with this environment; what the machine itself needs to run a program is all that is added. */
export function startContainer(container: Container, image: Image, here: Here, environment: Env): Started {
  const folder = here.text(container, image.folder);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const env = { PATH: `${dirname(process.execPath)}:${process.env.PATH ?? ''}`, HOME: folder, ...environment };
  const words = [...image.entrypoint, ...(container.command ?? image.command)].map((word) =>
    here.text(container, word),
  );
  return follow(
    container,
    spawn(words[0]!, words.slice(1), { cwd: folder, env, stdio: ['ignore', 'pipe', 'pipe'] }),
    () => checkContainer(container, here, { cwd: folder, env }),
  );
}

/** A process that was started, with the check that its container has. */
export function follow(container: Container, child: ChildProcess, check: () => Promise<Checked>): Started {
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream?.setEncoding('utf8').on('data', (text) => {
      output = `${output}${text}`.slice(-4000);
    });
  const running = (): boolean => child.exitCode === null && child.signalCode === null;
  const ended = once(child, 'close').then(() => {});
  return {
    container,
    output: () => output.trim(),
    code: () => child.exitCode,
    running,
    ended,
    stop: async (signal) => {
      if (running()) child.kill(signal);
      await ended;
    },
    check,
  };
}

export async function checkContainer(
  container: Container,
  here: Here,
  { cwd, env }: { readonly cwd: string; readonly env: Env },
): Promise<Checked> {
  const { test = null, timeoutS = 30 } = container.healthcheck ?? {};
  if (test === null) return { ok: true, output: '' };
  const words = test.map((word) => here.text(container, word));
  const child = spawn(words[0]!, words.slice(1), {
    cwd,
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: timeoutS * 1000,
  });
  const { output, code, ended } = follow(container, child, async () => ({ ok: true, output: '' }));
  const failed = once(child, 'error').then(([error]) => ({ ok: false, output: String(error) }));
  return Promise.race([ended.then(() => ({ ok: code() === 0, output: output() })), failed]);
}

/**
 * Until its check passes: null then, else why not. One without a check is awaited to its end, which must be a good one.
 * As long as the file gives it: the period of its start, and then as many intervals as it may fail.
 */
export async function untilHealthy(started: Started): Promise<string | null> {
  const { healthcheck, name } = started.container;
  if (healthcheck === null || healthcheck.test === null) {
    await started.ended;
    return started.code() === 0 ? null : `${name} ended with ${started.code()}: ${started.output()}`;
  }
  const { startPeriodS, intervalS, retries } = healthcheck;
  let last = '';
  for (const end = performance.now() + 1000 * (startPeriodS + retries * intervalS); performance.now() < end; ) {
    const { ok, output } = await started.check();
    if (ok) return null;
    last = output;
    if (!started.running()) return `${name} ended with ${started.code()}: ${started.output()}`;
    await sleep(200);
  }
  return `${name} is not healthy: ${last}; its output: ${started.output()}`;
}
