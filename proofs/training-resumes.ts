/**
 * Proof that training survives being killed: `troupe train sft` runs in a process of its own and is ended with kill -9 at random moments,
 * again and again; whatever `latest` names in between opens as a sound model, and the run ends with the very losses and the very weights of
 * one that was left alone.
 */
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { readRunState } from '../trainer/learn/run-state.ts';
import { latestCheckpoint } from '../trainer/model/checkpoints/checkpoint.ts';
import { newModelDirectory, openModel } from '../trainer/model/model-directory.ts';
import { wordTokenizer } from '../trainer/model/tokens/tokenizer.ts';
import type { ModelConfig } from '../trainer/model/weights.ts';
import { randomStream } from '../trainer/tensor/random.ts';
import type { Outcome, Proof, Setting } from './proof.ts';

const loader = pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href;
const program = join(import.meta.dirname, '..', 'cli.ts');
const words = Array.from({ length: 29 }, (_, i) => `w${i}`);
const config: ModelConfig = {
  model_type: 'llama',
  hidden_size: 32,
  intermediate_size: 64,
  num_hidden_layers: 2,
  num_attention_heads: 4,
  num_key_value_heads: 2,
  vocab_size: words.length + 2,
  max_position_embeddings: 64,
  rms_norm_eps: 1e-6,
  rope_theta: 10000,
  tie_word_embeddings: true,
  bos_token_id: null,
  eos_token_id: 1,
  pad_token_id: 0,
};
/** A run of some seconds with a checkpoint every few dozen milliseconds: a kill then often falls into the writing of one. */
const STEPS = { short: 400, full: 4000 } as const;
const KILLS = { short: 10, full: 200 } as const;
const CHECKPOINT_EVERY = 5;

type Summary = { readonly losses: readonly number[]; readonly directory: string };

export const proof: Proof = {
  name: 'training-resumes',
  needs: [],
  async run(setting: Setting): Promise<Outcome> {
    const { scratch, short, say } = setting;
    const [steps, kills] = short ? [STEPS.short, KILLS.short] : [STEPS.full, KILLS.full];
    const random = randomStream(29);
    await newModelDirectory(join(scratch, 'model'), {
      config,
      tokenizer: wordTokenizer(words, ['<pad>', '<end>'], { eos: '<end>', pad: '<pad>' }),
      chatTemplate: null,
      seed: 29,
    });
    const rows = Array.from({ length: 40 }, () => {
      const from = Math.floor(random.uniform() * words.length);
      const length = 4 + Math.floor(random.uniform() * 12);
      return { input_ids: Array.from({ length }, (_, t) => 2 + ((from + t) % words.length)) };
    });
    writeFileSync(join(scratch, 'rows.jsonl'), rows.map((row) => `${JSON.stringify(row)}\n`).join(''));

    const whole = await ended(start(scratch, 'whole', steps), say);
    let landed = 0;
    let opened = 0;
    let torn = 0;
    const reached: number[] = [];
    // A process that finished before its kill has nothing left to be killed: the last one is let run.
    while (landed < kills) {
      const running = start(scratch, 'killed', steps);
      const gone = new Promise<boolean>((resolve) =>
        running.child.once('exit', (_, signal) => resolve(signal !== null)),
      );
      await Promise.race([running.begun, gone]);
      await wait(random.uniform() * 400);
      running.child.kill('SIGKILL');
      if (!(await gone)) break;
      landed += 1;
      const latest = await latestCheckpoint(join(scratch, 'killed'));
      if (latest === null) continue;
      try {
        const { state } = await openModel(latest);
        reached.push(readRunState(state)?.progress.step ?? -1);
        opened += 1;
      } catch (error) {
        torn += 1;
        say(`   ${(error as Error).message}`);
      }
    }
    const last = await ended(start(scratch, 'killed', steps), say);

    const equal = whole.losses.length === steps && same(whole.losses, last.losses);
    const forward = reached.every((step, i) => step >= (reached[i - 1] ?? 0));
    const checks: (readonly [string, boolean])[] = [
      [
        `P26: after each of ${landed} kills \`latest\` opened as a sound model (${opened} times, ${torn} not)`,
        torn === 0,
      ],
      [`P26: no kill lost a step that was saved (steps ${reached.slice(0, 8).join(', ')} …)`, forward],
      [`${landed} kills landed, ${kills} asked for`, landed >= Math.min(kills, 5)],
      [`P28: ${steps} losses equal bit for bit`, equal],
      [
        'P28: the weights at the end have the same hash',
        hashOf(whole.directory, 'model.safetensors') === hashOf(last.directory, 'model.safetensors'),
      ],
      [
        'P28: so has the optimizer',
        hashOf(whole.directory, 'optimizer.moments') === hashOf(last.directory, 'optimizer.moments'),
      ],
    ];
    const lines = checks.map(([what, fine]) => `${fine ? 'ok' : 'NOT OK'}  ${what}`);
    for (const line of lines) say(line);
    return { ok: checks.every(([, fine]) => fine), lines };
  },
};

function start(scratch: string, out: string, steps: number) {
  const args = [
    ...['train', 'sft', '--model', join(scratch, 'model'), '--data', join(scratch, 'rows.jsonl')],
    ...['--out', join(scratch, out), '--resume', '--batch', '8', '--steps', String(steps), '--lr', '0.002'],
    ...['--schedule', 'cosine', '--warmup', '0.05', '--seed', '3', '--keep', '2', '--threads', '1'],
    ...['--checkpoint-every', String(CHECKPOINT_EVERY), '--no-curves'],
  ];
  const child = spawn(process.execPath, ['--import', loader, program, ...args, '--json'], {
    cwd: scratch,
    env: { PATH: process.env.PATH ?? '', HOME: process.env.HOME ?? '', TROUPE_HOME: join(scratch, 'home') },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let printed = '';
  let logged = '';
  child.stdout.setEncoding('utf8').on('data', (text) => {
    printed += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text) => {
    logged += text;
  });
  return { child, begun: begun(join(scratch, out), child), output: () => printed, log: () => logged };
}

/** Once a checkpoint was saved by this process: a kill before that would only try the loading of modules. */
async function begun(folder: string, child: ReturnType<typeof spawn>): Promise<void> {
  const before = await latestCheckpoint(folder);
  while (child.exitCode === null && child.signalCode === null) {
    if ((await latestCheckpoint(folder)) !== before) return;
    await wait(5);
  }
}

async function ended({ child, output, log }: ReturnType<typeof start>, say: (line: string) => void): Promise<Summary> {
  const code = await new Promise((resolve) => child.once('close', resolve));
  if (code !== 0) {
    say(log());
    throw new Error(`train sft ended with ${code}`);
  }
  return JSON.parse(output()) as Summary;
}

const same = (a: readonly number[], b: readonly number[]): boolean =>
  a.length === b.length && a.every((value, i) => Object.is(value, b[i]));

const hashOf = (dir: string, name: string): string =>
  createHash('sha256')
    .update(readFileSync(join(dir, name)))
    .digest('hex');
