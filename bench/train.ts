/**
 * `bench train`: a full training step (forward, backward, clipping, AdamW) on batches of sequences of equal length, against
 * PyTorch in eager mode with the model of transformers: the same weights, batches and threads. Both sides begin from the
 * same weights and see the same batches, so all their losses must agree, not only the last.
 */
import { mkdtempSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Bench, Settings } from './bench.ts';
import { compared, interleave, oursOnly, type Result, type Side } from './harness.ts';
import {
  batchesOf,
  parameterCount,
  type Size,
  sizesNamed,
  stepOperations,
  writeAdapter,
  writeModel,
} from './models.ts';
import { operatorTimes } from './profile.ts';
import { findPython } from './python.ts';
import { furthestApart, type Measured, rate, summary } from './statistics.ts';
import { type Memory, mebibytes, startOurs, startPeer, type Timed, type Worker } from './worker.ts';

const ADAM = { learningRate: 3e-4, beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weightDecay: 0.01, clip: 1 };
/** Relative, of each step's loss. */
const TOLERANCE = 1e-4;
/** Products of the ceiling in a round: about 50 ms. */
const PRODUCTS = 6;

type Trainer = { readonly what: string; readonly worker: Worker; readonly losses: number[] };
type Steps = Timed & { readonly losses: readonly number[] };

export const bench: Bench = {
  name: 'train',
  about: 'training steps, tokens/s, against PyTorch eager (sdpa, AdamW)',
  async run(settings) {
    const results: Result[] = [];
    for (const size of sizesNamed(settings.sizes ?? '0.5m,4m,34m')) {
      results.push(...(await trainSize({ ...size, steps: settings.steps ?? size.steps }, settings)));
    }
    return results;
  },
};

async function trainSize(size: Size, settings: Settings): Promise<Result[]> {
  const { threads, rounds, say, scratch } = settings;
  const name = `${size.name}${settings.also.has('lora') ? ' LoRA' : ''}, ${threads} ${threads === 1 ? 'thread' : 'threads'}`;
  const dir = await writeModel(scratch, size);
  const adapter = settings.also.has('lora') ? await writeAdapter(scratch, size, dir) : null;
  const found = findPython(['torch', 'transformers', 'safetensors', 'peft'], process.env);
  const workers: Worker[] = [];
  const open = async (worker: Worker, more: Readonly<Record<string, unknown>> = {}) => {
    workers.push(worker);
    return worker.ask<{ readonly versions?: Readonly<Record<string, string>> }>({
      do: 'open',
      dir,
      adapter,
      threads,
      adam: ADAM,
      ...more,
    });
  };
  try {
    const ours: Trainer = { what: 'ours', worker: startOurs('train.ts'), losses: [] };
    await open(ours.worker);
    const ceiling = startOurs('product.ts');
    await open(ceiling);
    const peers: Trainer[] = [];
    if ('python' in found) {
      for (const variant of variantsAsked(settings)) {
        const worker = startPeer(found, 'train_pytorch.py', { threads });
        const { versions } = await open(worker, variant.options);
        const what = `PyTorch ${versions?.torch}, transformers ${versions?.transformers}: ${variant.what}`;
        peers.push({ what, worker, losses: [] });
      }
    }
    const trainers = [ours, ...peers];
    const draw = batchesOf(size, 17);
    const warmup = draw(size.steps + 2);
    for (const trainer of trainers) await stepsOf(trainer, warmup);
    await ceiling.ask({ do: 'products', times: 2 });

    const perRound: number[][][][] = [];
    const tokens = size.steps * size.rows * size.length;
    const sides: Side[] = [
      ...trainers.map((trainer, i) => ({
        name: i === 0 ? 'ours' : variantsAsked(settings)[i - 1]!.what,
        round: async (round: number): Promise<Measured> => {
          perRound[round] ??= draw(size.steps);
          const { seconds, cpu_seconds } = await stepsOf(trainer, perRound[round]);
          return { work: tokens, seconds, cpuSeconds: cpu_seconds };
        },
      })),
      { name: 'product GFLOP/s', round: () => productsOf(ceiling) },
    ];
    const { measured, disturbed } = await interleave(sides, {
      rounds,
      onRound: (line) => say(`train ${name}: ${line}`),
    });
    const memory = await Promise.all(trainers.map(({ worker }) => worker.ask<Memory>({ do: 'memory' })));

    const products = measured.at(-1)!;
    const operations = stepOperations(size);
    const share = measured[0]!.map(
      ({ seconds }, i) => (operations * size.steps) / seconds / (rate(products[i]!) * 1e9),
    );
    const more = {
      parameters: parameterCount(size.config),
      batch: `${size.rows} sequences of ${size.length} tokens, ${size.steps} steps a round`,
      milliseconds_a_step: summary(measured[0]!.map(({ seconds }) => (seconds / size.steps) * 1000)).median,
      product_gflops: summary(products.map(rate)).median,
      // An adapter's step leaves out the gradients of what is held, so its operations are counted otherwise.
      ...(adapter === null ? { share_of_product_peak: summary(share).median } : {}),
      ...(settings.also.has('profile')
        ? { milliseconds_by_operation: await profiled(dir, adapter, settings, draw(4)) }
        : {}),
    };
    const about = { case: name, unit: 'tokens/s', disturbed };
    if ('missing' in found) {
      const facts = { ...more, memory_mib: { ours: mebibytes(memory[0]!) }, losses: { ours: curve(ours) } };
      return [oursOnly({ ...about, more: facts }, measured[0]!, found.missing)];
    }
    return peers.map((peer, i) => {
      const gap = furthestApart(ours.losses, peer.losses);
      const facts = {
        ...more,
        memory_mib: { ours: mebibytes(memory[0]!), other: mebibytes(memory[i + 1]!) },
        losses: { ours: curve(ours), other: curve(peer) },
      };
      const how = `${ours.losses.length} losses within ${gap.toExponential(1)} relative (allowed ${TOLERANCE})`;
      return compared(
        { ...about, case: i === 0 ? name : `${name}, ${variantsAsked(settings)[i]!.what}`, more: facts },
        measured[0]!,
        { what: peer.what, measured: measured[i + 1]! },
        { equal: gap <= TOLERANCE, how },
      );
    });
  } finally {
    await Promise.all(workers.map((worker) => worker.close()));
  }
}

/** Milliseconds of a step by operation, in a process of its own because tracing costs time. */
async function profiled(
  dir: string,
  adapter: string | null,
  { threads, scratch }: Settings,
  batches: readonly number[][][],
): Promise<Readonly<Record<string, number>>> {
  const traces = mkdtempSync(join(scratch, 'trace-'));
  const worker = startOurs('train.ts');
  await worker.ask({ do: 'open', dir, adapter, threads, adam: ADAM, profile: join(traces, 'step') });
  await worker.ask({ do: 'steps', batches });
  await worker.close();
  const files = readdirSync(traces).map((name) => readFileSync(join(traces, name), 'utf8'));
  return operatorTimes(
    files.flatMap((text) => JSON.parse(text)),
    batches.length,
  );
}

/** The peer everybody runs, then those asked for. */
function variantsAsked({ also }: Settings) {
  return [
    { what: 'eager', options: {} },
    ...(also.has('fused') ? [{ what: 'eager, fused AdamW', options: { fused: true } }] : []),
    ...(also.has('compile') ? [{ what: 'torch.compile', options: { compile: true } }] : []),
  ];
}

async function stepsOf({ worker, losses }: Trainer, batches: readonly number[][][]): Promise<Steps> {
  const answer = await worker.ask<Steps>({ do: 'steps', batches });
  losses.push(...answer.losses);
  return answer;
}

async function productsOf(ceiling: Worker): Promise<Measured> {
  const { operations, seconds, cpu_seconds } = await ceiling.ask<Timed & { readonly operations: number }>({
    do: 'products',
    times: PRODUCTS,
  });
  return { work: operations / 1e9, seconds, cpuSeconds: cpu_seconds };
}

/** About ten losses of a run, its first and last among them. */
function curve({ losses }: Trainer): number[] {
  const places = Array.from({ length: 10 }, (_, i) => Math.round((i * (losses.length - 1)) / 9));
  return [...new Set(places)].map((place) => Number(losses[place]!.toFixed(5)));
}
