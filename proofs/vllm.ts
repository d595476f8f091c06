/** vLLM as `vllm-server/install` makes it, started as a person starts it. */
import { type ChildProcess, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createWriteStream, existsSync, readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { statusOf } from './up.ts';

/** Its imports alone take a minute of a processor. */
const STARTED_WITHIN_MS = 900_000;

/** The command, or how to get it. */
export function findVllm(
  env: Readonly<Record<string, string | undefined>>,
): { readonly vllm: string } | { readonly missing: string } {
  const requirements = readFileSync(join(import.meta.dirname, 'vllm-server', 'requirements.txt'));
  const digest = createHash('sha256').update(requirements).digest('hex').slice(0, 12);
  const venv = join(env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'troupe-ci', `vllm-${digest}`);
  return existsSync(join(venv, 'complete'))
    ? { vllm: join(venv, 'bin', 'vllm') }
    : { missing: 'no vLLM; say: proofs/vllm-server/install (about 5 minutes, 7 GB)' };
}

export type Vllm = { readonly kill: () => Promise<void> };

/** Serves a folder as the model `tiny` once it resolves; what it says goes into the file. @throws Error if it ends before, with where it says why */
export async function startVllm(vllm: string, model: string, port: number, log: string): Promise<Vllm> {
  const args = [
    ...['serve', model, '--host', '127.0.0.1', '--port', String(port), '--served-model-name', 'tiny'],
    ...['--dtype', 'float32', '--enforce-eager', '--max-num-seqs', '16', '--max-model-len', '512'],
    ...['--enable-auto-tool-choice', '--tool-call-parser', 'hermes', '--logprobs-mode', 'processed_logprobs'],
    ...['--enable-lora', '--max-lora-rank', '8', '--max-loras', '2'],
  ];
  const child: ChildProcess = spawn(vllm, args, {
    env: {
      ...process.env,
      ...{ VLLM_SERVER_DEV_MODE: '1', VLLM_ALLOW_RUNTIME_LORA_UPDATING: 'True', VLLM_CPU_KVCACHE_SPACE: '1' },
      ...{ HF_HUB_OFFLINE: '1', VLLM_NO_USAGE_STATS: '1', OMP_NUM_THREADS: '1' },
    },
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
  throw new Error(`vLLM did not start; ${log} says why`);
}
