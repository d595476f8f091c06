/**
 * `bench train-trl`: supervised fine-tuning on rows as long as real ones, against TRL's SFTTrainer as people run it. A round
 * is a whole run of the trainer with a new optimizer, on rows neither side has seen; its batches are of the same rows on
 * both sides, and the losses it logs must be ours.
 */
import { randomStream } from '../trainer/tensor/random.ts';
import type { Bench, Settings } from './bench.ts';
import { compared, interleave, oursOnly, type Result, type Side } from './harness.ts';
import { realLengths } from './lengths.ts';
import { parameterCount, type Size, sequence, sizesNamed, writeModel } from './models.ts';
import { findPython } from './python.ts';
import { furthestApart, type Measured } from './statistics.ts';
import { type Memory, mebibytes, startOurs, startPeer, type Timed, type Worker } from './worker.ts';

const ADAM = { learningRate: 3e-4, beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weightDecay: 0.01, clip: 1 };
/** Relative, of each step's loss. */
const TOLERANCE = 1e-4;
const ROWS = 8;
const STEPS = 8;

type Trainer = { readonly what: string; readonly worker: Worker; readonly losses: number[] };

export const bench: Bench = {
  name: 'train-trl',
  about: 'supervised fine-tuning on rows of real lengths, tokens/s, against TRL SFTTrainer',
  async run(settings) {
    const results: Result[] = [];
    for (const size of sizesNamed(settings.sizes ?? '4m')) results.push(...(await trainSize(size, settings)));
    return results;
  },
};

async function trainSize(size: Size, { threads, rounds, steps, also, say, scratch }: Settings): Promise<Result[]> {
  const name = `${size.name}, ${threads} ${threads === 1 ? 'thread' : 'threads'}`;
  const dir = await writeModel(scratch, size);
  const found = findPython(['torch', 'transformers', 'trl', 'datasets', 'peft'], process.env);
  const trainers: Trainer[] = [{ what: 'ours', worker: startOurs('train.ts'), losses: [] }];
  if ('python' in found) {
    for (const what of [
      'gradient_checkpointing=False',
      ...(also.has('defaults') ? ['gradient_checkpointing=True'] : []),
    ]) {
      trainers.push({ what, worker: startPeer(found, 'train_trl.py', { threads }), losses: [] });
    }
  }
  try {
    let versions: Readonly<Record<string, string>> = {};
    for (const { worker, what } of trainers) {
      const question = {
        do: 'open',
        dir,
        adapter: null,
        threads,
        adam: ADAM,
        checkpointing: what === 'gradient_checkpointing=True',
      };
      versions = (await worker.ask<{ readonly versions?: typeof versions }>(question)).versions ?? versions;
    }
    const random = randomStream(29);
    const lengths = realLengths(process.env.TROUPE_DATA, 31);
    const draw = (): number[][][] =>
      Array.from({ length: steps ?? STEPS }, () =>
        lengths.take(ROWS).map((length) => sequence(random, length, size.config.vocab_size)),
      );
    const warmup = draw();
    for (const trainer of trainers) await train(trainer, warmup);
    const perTry: number[][][][] = [];
    const sides = trainers.map((trainer): Side => {
      const round = async (at: number): Promise<Measured> => {
        perTry[at] ??= draw();
        const { seconds, cpu_seconds } = await train(trainer, perTry[at]);
        return { work: perTry[at].flat(2).length, seconds, cpuSeconds: cpu_seconds };
      };
      return { name: trainer.what, round };
    });
    const onRound = (line: string) => say(`train-trl ${name}: ${line}`);
    const { measured, disturbed } = await interleave(sides, { rounds, onRound });
    const memory = await Promise.all(trainers.map(({ worker }) => worker.ask<Memory>({ do: 'memory' })));
    const padded = perTry.flat().reduce((sum, batch) => sum + ROWS * Math.max(...batch.map((ids) => ids.length)), 0);
    const more = {
      parameters: parameterCount(size.config),
      rows: `${steps ?? STEPS} batches of ${ROWS} rows a round; ${lengths.source}`,
      padding_of_whole_batches: 1 - perTry.flat(3).length / padded,
    };
    const about = { case: name, unit: 'tokens/s', disturbed };
    if ('missing' in found) {
      return [
        oursOnly(
          { ...about, more: { ...more, memory_mib: { ours: mebibytes(memory[0]!) } } },
          measured[0]!,
          found.missing,
        ),
      ];
    }
    return trainers.slice(1).map(({ what, losses }, i) => {
      const ours = trainers[0]!.losses;
      const gap = furthestApart(ours, losses);
      return compared(
        {
          ...about,
          case: i === 0 ? name : `${name}, TRL's defaults`,
          more: { ...more, memory_mib: { ours: mebibytes(memory[0]!), other: mebibytes(memory[i + 1]!) } },
        },
        measured[0]!,
        {
          what: `TRL ${versions.trl} SFTTrainer, ${what} (PyTorch ${versions.torch}, transformers ${versions.transformers})`,
          measured: measured[i + 1]!,
        },
        {
          equal: gap <= TOLERANCE,
          how: `${ours.length} losses within ${gap.toExponential(1)} relative (allowed ${TOLERANCE}), ${ours[0]?.toFixed(3)} to ${ours.at(-1)?.toFixed(3)}`,
        },
      );
    });
  } finally {
    await Promise.all(trainers.map(({ worker }) => worker.close()));
  }
}

async function train({ worker, losses }: Trainer, batches: readonly number[][][]): Promise<Timed> {
  const answer = await worker.ask<Timed & { readonly losses: readonly number[] }>({
    do: 'steps',
    batches,
    fresh: true,
  });
  losses.push(...answer.losses);
  return answer;
}
