/**
 * `bench sample`: greedy continuation of prompts of 32 tokens by 64 more, one prompt at a time and 32 at once, against
 * generate of transformers with its cache: the same weights, prompts and threads. Every token of both must be the same.
 */
import { randomStream } from '../trainer/tensor/random.ts';
import type { Bench, Settings } from './bench.ts';
import { compared, interleave, oursOnly, type Result, type Side } from './harness.ts';
import { parameterCount, type Size, sequence, sizesNamed, writeModel } from './models.ts';
import { type Found, findPython } from './python.ts';
import type { Measured } from './statistics.ts';
import { type Memory, mebibytes, startOurs, startPeer, type Timed, type Worker } from './worker.ts';

const PROMPT = 32;
const NEW = 64;
/** Prompts at once, and how many such batches a round has: single prompts are quick. */
const BATCHES = [
  { prompts: 1, times: 4 },
  { prompts: 32, times: 1 },
] as const;

type Tokens = readonly (readonly (readonly number[])[])[];
type Sampler = { readonly worker: Worker; readonly sampled: number[] };

export const bench: Bench = {
  name: 'sample',
  about: 'greedy sampling, tokens/s, batch 1 and 32, against generate of transformers',
  async run(settings) {
    const found = findPython(['torch', 'transformers', 'safetensors'], process.env);
    const results: Result[] = [];
    for (const size of sizesNamed(settings.sizes ?? '0.5m,4m,34m')) {
      const dir = await writeModel(settings.scratch, size);
      // Processes of their own for each case, so that peak memory is that of the case.
      for (const batch of BATCHES) results.push(await sampleCase(size, batch, dir, found, settings));
    }
    return results;
  },
};

async function sampleCase(
  size: Size,
  { prompts, times }: (typeof BATCHES)[number],
  dir: string,
  found: Found,
  { threads, rounds, say }: Settings,
): Promise<Result> {
  const name = `${size.name}, batch ${prompts}, ${threads} ${threads === 1 ? 'thread' : 'threads'}`;
  const samplers: Sampler[] = [{ worker: startOurs('sample.ts'), sampled: [] }];
  if ('python' in found)
    samplers.push({ worker: startPeer(found, 'sample_transformers.py', { threads }), sampled: [] });
  try {
    let versions: Readonly<Record<string, string>> = {};
    for (const { worker } of samplers) {
      const answer = await worker.ask<{ readonly versions?: typeof versions }>({ do: 'open', dir, threads });
      versions = answer.versions ?? versions;
    }
    const random = randomStream(23);
    const drawn = () =>
      Array.from({ length: times }, () =>
        Array.from({ length: prompts }, () => sequence(random, PROMPT, size.config.vocab_size)),
      );
    const first = drawn();
    for (const sampler of samplers) await drawAll(sampler, first);
    const perTry: number[][][][] = [];
    const sides = samplers.map((sampler, i): Side => {
      const round = async (at: number): Promise<Measured> => {
        perTry[at] ??= drawn();
        const { seconds, cpu_seconds } = await drawAll(sampler, perTry[at]);
        return { work: prompts * times * NEW, seconds, cpuSeconds: cpu_seconds };
      };
      return { name: i === 0 ? 'ours' : 'generate', round };
    });
    const { measured, disturbed } = await interleave(sides, {
      rounds,
      onRound: (line) => say(`sample ${name}: ${line}`),
    });
    const memory = await Promise.all(samplers.map(({ worker }) => worker.ask<Memory>({ do: 'memory' })));
    const more = {
      parameters: parameterCount(size.config),
      work: `${times} × ${prompts} prompts of ${PROMPT} tokens, ${NEW} new tokens each`,
      memory_mib: { ours: mebibytes(memory[0]!), ...(memory[1] ? { other: mebibytes(memory[1]) } : {}) },
    };
    const about = { case: name, unit: 'tokens/s', disturbed, more };
    if ('missing' in found) return oursOnly(about, measured[0]!, found.missing);
    const [ours, theirs] = [samplers[0]!.sampled, samplers[1]!.sampled];
    const same = ours.filter((id, i) => id === theirs[i]).length;
    return compared(
      about,
      measured[0]!,
      {
        what: `PyTorch ${versions.torch}, transformers ${versions.transformers}: generate with cache`,
        measured: measured[1]!,
      },
      {
        equal: same === ours.length && ours.length === theirs.length,
        how: `${same} of ${ours.length} new tokens the same`,
      },
    );
  } finally {
    await Promise.all(samplers.map(({ worker }) => worker.close()));
  }
}

async function drawAll({ worker, sampled }: Sampler, batches: number[][][]): Promise<Timed> {
  const answer = await worker.ask<Timed & { readonly tokens: Tokens }>({ do: 'generate', batches, tokens: NEW });
  sampled.push(...answer.tokens.flat(2));
  return answer;
}
