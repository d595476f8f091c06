/**
 * Proof that what a user says on the command line is what everybody's trainer does: `train sft`, whole and by an adapter, for both
 * means, `logprobs` and `sample` on checkpoints that transformers wrote give the losses, gradient norms, log-probabilities and samples of
 * PyTorch, and the checkpoints and adapters that come out have the same outputs there as here.
 */
import { execFile } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { adapterFiles } from '../trainer/model/adapter-directory.ts';
import { type Adapter, ALL_LINEAR, initialAdapter } from '../trainer/model/lora.ts';
import { openModel } from '../trainer/model/model-directory.ts';
import { type RandomStream, randomStream } from '../trainer/tensor/random.ts';
import { apart, furthest, movedBy, within } from './distance.ts';
import type { Outcome, Proof, Setting } from './proof.ts';
import { type PythonWorker, startPython } from './python-worker.ts';

type Case = {
  readonly model: { readonly family: 'llama' | 'qwen2' | 'qwen3'; readonly config?: object; readonly dtype?: string };
  readonly loss: 'token-mean' | 'sequence-mean';
  /** r and alpha; of all linear maps where no targets are named. */
  readonly lora?: { readonly r: number; readonly alpha: number; readonly targets?: readonly string[] };
  readonly threads?: number;
};
type Row = { readonly input_ids: readonly number[]; readonly loss_mask: readonly (0 | 1)[] };
type Trace = { readonly losses: readonly number[]; readonly gradient_norms: readonly number[] };
type Summary = {
  readonly losses: readonly number[];
  readonly grad_norms: readonly number[];
  readonly tokens_per_second: number;
  readonly directory: string;
  readonly adapter?: string;
};

const TOLERANCE = 1e-4;
const NORM_TOLERANCE = 1e-3;
const STEPS = 20;
const BATCH = 4;
const ROWS = 10;
/** Steps until the same rows are taken again. */
const ROUND = 5;
const SEED = 0;
const NEW_TOKENS = 16;
const ADAM = { learningRate: 1e-3, beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weightDecay: 0.01, clip: 1 };
/** Words of `random_models.py`: the ids below are special tokens. */
const WORDS = { from: 3, below: 61 };

const SHORT: readonly Case[] = [
  { model: { family: 'llama', config: { tie_word_embeddings: true } }, loss: 'token-mean' },
  { model: { family: 'qwen3', config: { head_dim: 16 } }, loss: 'sequence-mean', threads: 2 },
  { model: { family: 'qwen2' }, loss: 'token-mean', lora: { r: 4, alpha: 8, targets: ['q_proj', 'v_proj'] } },
];
const FULL: readonly Case[] = [
  ...SHORT,
  ...(['llama', 'qwen2', 'qwen3'] as const).flatMap((family) =>
    (['token-mean', 'sequence-mean'] as const).flatMap((loss): Case[] => {
      const model = { family, ...(family === 'qwen3' ? { config: { head_dim: 12 } } : {}), dtype: 'bfloat16' };
      return [
        { model, loss },
        { model, loss, lora: { r: 2, alpha: 8 } },
      ];
    }),
  ),
];

export const proof: Proof = {
  name: 'commands-match-pytorch',
  needs: ['python'],
  async run({ short, python, scratch, say }: Setting): Promise<Outcome> {
    const worker = startPython(python, 'training_in_pytorch.py');
    const lines: string[] = [];
    let ok = true;
    try {
      for (const [i, one] of (short ? SHORT : FULL).entries()) {
        const folder = join(scratch, String(i));
        mkdirSync(folder);
        for (const [fine, what] of await check(worker, one, folder)) {
          const line = `${fine ? 'ok' : 'NOT OK'}  ${nameOf(one)}: ${what}`;
          say(line);
          lines.push(line);
          ok &&= fine;
        }
      }
    } finally {
      await worker.close();
    }
    return { ok, lines };
  },
};

const nameOf = ({ model, loss, lora, threads }: Case): string =>
  `${model.family}, ${loss}, ${lora ? `adapter r=${lora.r}` : 'whole'}${threads ? `, ${threads} threads` : ''}`;

type Check = readonly [fine: boolean, what: string];

async function check(worker: PythonWorker, one: Case, folder: string): Promise<Check[]> {
  const { model, loss, lora, threads = 1 } = one;
  const dir = join(folder, 'model');
  await worker.ask({ do: 'make', directory: dir, model });
  const random = randomStream(23);
  const rows = Array.from({ length: ROWS }, () => row(random));
  const data = join(folder, 'rows.jsonl');
  writeFileSync(data, rows.map((each) => `${JSON.stringify(each)}\n`).join(''));

  const adapter = lora && (await firstAdapter(dir, join(folder, 'first-adapter'), lora));
  const theirs = worker.ask<Trace>({
    do: 'train_on',
    ...{ directory: dir, rows, batch: BATCH, loss, steps: STEPS, adam: ADAM },
    ...(adapter ? { adapter } : {}),
  });
  theirs.catch(() => {});
  const spec = lora && `r=${lora.r},alpha=${lora.alpha}${lora.targets ? `,targets=${lora.targets.join(',')}` : ''}`;
  const summary = await troupe<Summary>([
    ...['train', 'sft', '--model', dir, '--data', data, '--out', join(folder, 'out'), '--no-shuffle'],
    ...['--batch', BATCH, '--steps', STEPS, '--lr', ADAM.learningRate, '--schedule', 'constant', '--warmup', 0],
    ...['--beta2', ADAM.beta2, '--weight-decay', ADAM.weightDecay, '--clip', ADAM.clip],
    ...['--loss', loss, '--seed', SEED],
    ...['--threads', threads, ...(spec ? ['--lora', spec] : []), '--json'],
  ]);
  const expected = await theirs;
  const losses = apart(summary.losses, expected.losses);
  const norms = apart(summary.grad_norms, expected.gradient_norms);
  const moved = movedBy(expected.losses, ROUND);

  // What came out, and what it was made from: an adapter's checkpoint is the whole model with the adapter folded in.
  const ids = rows.map((each) => each.input_ids);
  const outputChecks: Check[] = [];
  for (const [what, at, tuned] of [
    ['the model', dir, undefined],
    ['the checkpoint', summary.directory, undefined],
    ...(summary.adapter ? [['the checkpoint by its adapter', summary.directory, summary.adapter] as const] : []),
  ] as const) {
    const base = tuned ? dir : at;
    const expectedLogprobs = worker.ask<number[][]>({
      do: 'logprobs',
      directory: base,
      rows: ids,
      adapter: tuned ?? null,
    });
    const prompt = ids[0]!.slice(0, 5);
    const samples = worker.ask<number[][]>({
      do: 'greedy',
      ...{ directory: base, prompts: [prompt], tokens: NEW_TOKENS, adapter: tuned ?? null },
    });
    const [ours, sampled] = await Promise.all([
      troupe<{ logprobs: number[][] }>(['logprobs', '--model', at, '--data', data, '--json']),
      troupe<{ samples: { token_ids: number[] }[] }>([
        ...['sample', '--model', at, '--prompt-ids', prompt.join(), '--max-tokens', NEW_TOKENS],
        ...['--temperature', 0, '--json'],
      ]),
    ]);
    const [sample] = sampled.samples as [{ token_ids: number[] }];
    const far = furthest(ours.logprobs, await expectedLogprobs);
    const same = sample.token_ids.join() === (await samples)[0]!.join();
    outputChecks.push([
      within(far, TOLERANCE) && same,
      `${what}: logprobs of ${ids.length} rows within ${far.toExponential(1)}, sample of ${same ? 'the same' : 'OTHER'} ${sample.token_ids.length} tokens`,
    ]);
  }
  return [
    [
      within(losses, TOLERANCE) && within(norms, NORM_TOLERANCE) && moved > 100 * TOLERANCE,
      `${STEPS} losses within ${losses.toExponential(1)}, gradient norms ${norms.toExponential(1)}; training moved the loss by ${Math.round(100 * moved)} %`,
    ],
    [summary.tokens_per_second > 0, `reports its speed, ${Math.round(summary.tokens_per_second)} tokens a second`],
    ...outputChecks,
  ];
}

/** Learnable rows of different lengths: they count, and most of their tokens are learnt. */
function row({ uniform }: RandomStream): Row {
  const words = WORDS.below - WORDS.from;
  const first = Math.floor(uniform() * words);
  const input_ids = Array.from(
    { length: 6 + Math.floor(uniform() * 14) },
    (_, t) => WORDS.from + ((first + t) % words),
  );
  return { input_ids, loss_mask: input_ids.map((_, t) => (t > 1 && uniform() < 0.8 ? 1 : 0)) };
}

/** The adapter a run of this seed begins with, written for PEFT. */
async function firstAdapter(dir: string, at: string, lora: NonNullable<Case['lora']>): Promise<string> {
  const { config } = await openModel(dir);
  const adapter: Adapter = { targets: ALL_LINEAR, ...lora };
  mkdirSync(at);
  for (const [file, bytes] of adapterFiles(adapter, initialAdapter(config, adapter, SEED), { baseModel: dir }))
    writeFileSync(join(at, file), bytes);
  return at;
}

const run = promisify(execFile);
const CLI = join(import.meta.dirname, '..', 'cli.ts');

/** What a command prints with --json. */
async function troupe<Document>(args: readonly (string | number)[]): Promise<Document> {
  const { stdout } = await run(process.execPath, ['--import', 'tsx', CLI, ...args.map(String)], {
    maxBuffer: 2 ** 26,
  });
  return JSON.parse(stdout) as Document;
}
