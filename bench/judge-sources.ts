/**
 * Methods of the judge against the published code of their sources, both on rows in memory: ours the function alone on columns (and,
 * beside it, through the function that checks input and output); theirs on the tensors that it takes. No row is read from or written to a database here.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { COMMITS } from '../proofs/method-source.ts';
import { randomStream } from '../trainer/tensor/random.ts';
import type { Settings } from './bench.ts';
import { compared, interleave, oursOnly, type Result, type Side, unmeasured } from './harness.ts';
import { findPython } from './python.ts';
import { type Measured, rate, summary } from './statistics.ts';
import { startOurs, startPeer, type Timed, type Worker } from './worker.ts';

type Case = {
  readonly ours: string;
  readonly peer: string;
  readonly name: string;
  readonly file: string;
  readonly repository?: keyof typeof COMMITS;
  readonly unit: 'rows/s' | 'tokens/s';
};

const CORE = 'verl/trainer/ppo/core_algos.py';
const TENSORS = 'verl/utils/torch_functional.py';
const ROWS = 50_000;
const GROUP = 8;
/** Tokens of a sequence, where tokens are judged; a million in all. */
const LENGTH = 200;
const TOKENS = 1_000_000;
/** Theirs is in single precision. Of differences, relative above 1. */
const TOLERANCE = 1e-3;

const rows = { unit: 'rows/s' } as const;
const tokens = { unit: 'tokens/s' } as const;
const CASES: readonly Case[] = [
  { ...rows, ours: 'grpo', peer: 'grpo looped', name: 'grpo_advantage, looped', file: CORE },
  { ...rows, ours: 'grpo', peer: 'grpo vectorised', name: 'grpo_advantage, vectorised', file: CORE },
  { ...rows, ours: 'rloo', peer: 'rloo looped', name: 'rloo_advantage, looped', file: CORE },
  { ...rows, ours: 'rloo', peer: 'rloo vectorised', name: 'rloo_advantage, vectorised', file: CORE },
  { ...tokens, ours: 'gae', peer: 'gae', name: 'gae', file: CORE },
  { ...tokens, ours: 'whiten', peer: 'whiten', name: 'masked_whiten', file: TENSORS },
  { ...rows, ours: 'trl', peer: 'trl', name: 'trl_advantage', file: 'trl/trainer/grpo_trainer.py' },
  { ...rows, ours: 'drmas', peer: 'drmas', name: 'drmas_advantage', file: CORE, repository: 'langfengQ/DrMAS' },
  {
    ...rows,
    ours: 'multiagent',
    peer: 'multiagent',
    name: 'multiagent_grpo_advantage',
    file: CORE,
    repository: 'langfengQ/DrMAS',
  },
  {
    ...rows,
    ours: 'at_grpo',
    peer: 'at_grpo',
    name: 'at_grpo_advantage',
    file: 'pettingllms/trainer/multi_agents_ppo_trainer.py',
    repository: 'pettingllms-ai/PettingLLMs',
  },
];

type Answer = Timed & { readonly values: readonly number[]; readonly checked?: Timed };

/** Every case; those of repositories need `TROUPE_SOURCES`, a folder with their clones as OWNER/NAME. */
export async function sourceCases({ rounds, say, scratch }: Settings): Promise<Result[]> {
  const found = findPython(['torch', 'numpy', 'verl', 'trl'], process.env);
  const sources = process.env.TROUPE_SOURCES || null;
  const ours = startOurs('judge-sources.ts');
  // One thread: so many have our methods.
  const peer = 'missing' in found ? null : startPeer(found, 'judge_sources.py', { threads: 1 });
  const missing =
    'missing' in found ? `${found.missing}; and PYTHON -m pip install --no-deps -r proofs/sources.txt` : '';
  try {
    const versions = (await peer?.ask<Record<string, string>>({ do: 'open', threads: 1, sources })) ?? {};
    const results: Result[] = [];
    for (const one of CASES) {
      const place = `${one.repository ?? one.file.split('/')[0]}`;
      const at = one.repository ? `@${COMMITS[one.repository].slice(0, 12)}` : ` ${versions[place] ?? ''}`;
      const name = `${one.name}, ${place}${at} ${one.file}`;
      if (one.repository && sources === null) {
        results.push(unmeasured(name, { skipped: `TROUPE_SOURCES does not name a folder with ${one.repository}` }));
        continue;
      }
      const run = { name, rounds, say, scratch, ours, peer, missing, torch: versions.torch ?? '' };
      results.push(await measure(one, run).catch((error: Error) => unmeasured(name, { failed: error.message })));
    }
    return results;
  } finally {
    await Promise.all([ours.close(), peer?.close()]);
  }
}

type Run = Pick<Settings, 'rounds' | 'say' | 'scratch'> & {
  readonly name: string;
  readonly ours: Worker;
  readonly peer: Worker | null;
  readonly missing: string;
  readonly torch: string;
};

async function measure(one: Case, { name, rounds, say, scratch, ours, peer, missing, torch }: Run): Promise<Result> {
  const random = randomStream(41);
  const count = one.unit === 'rows/s' ? ROWS : TOKENS;
  const file = join(scratch, 'rewards');
  const question = { do: 'judge', case: one.ours, peer: one.peer, file, group: GROUP, length: LENGTH };
  const checked: Measured[] = [];
  const [answers, gaps] = [new Map<number, readonly number[]>(), [] as number[]];
  // Rewards of a round are written before the side whose turn is first; gae reads as many values beside them.
  const written = new Set<number>();
  const side = (what: string, worker: Worker): Side => ({
    name: what,
    async round(at) {
      if (!written.has(at)) {
        const numbers = Float64Array.from({ length: one.ours === 'gae' ? 2 * count : count }, random.normal);
        await writeFile(file, new Uint8Array(numbers.buffer));
        written.add(at);
      }
      const answer = await worker.ask<Answer>(question);
      const own = answers.get(at);
      if (own === undefined) answers.set(at, answer.values);
      else {
        gaps.push(apart(own, answer.values));
        answers.delete(at);
      }
      if (answer.checked) {
        checked.push({ work: count, seconds: answer.checked.seconds, cpuSeconds: answer.checked.cpu_seconds });
      }
      const checkingCpuSeconds = answer.checked?.cpu_seconds ?? 0;
      return { work: count, seconds: answer.seconds, cpuSeconds: answer.cpu_seconds, checkingCpuSeconds };
    },
  });
  const sides = [side('ours', ours), ...(peer ? [side('published', peer)] : [])];
  // Both compile or import on their first rows.
  for (const at of [-1, -2, -3]) for (const warm of sides) await warm.round(at);
  checked.length = 0;
  const { measured, disturbed } = await interleave(sides, { rounds, onRound: (line) => say(`${name}: ${line}`) });
  const more = {
    with_input_and_answer_checked: { ...summary(checked.map(rate)), unit: one.unit },
    layout:
      one.unit === 'rows/s'
        ? `${ROWS} rows in groups of ${GROUP}: ours columns, theirs 20 tokens a row`
        : `${count} tokens`,
  };
  const about = { case: name, unit: one.unit, disturbed, more };
  if (peer === null) return oursOnly(about, measured[0]!, missing);
  const gap = Math.max(...gaps);
  return compared(
    about,
    measured[0]!,
    { what: `${one.peer}, torch ${torch}, one thread`, measured: measured[1]! },
    { equal: gap <= TOLERANCE, how: `${gaps.length} rounds within ${gap.toExponential(1)} (allowed ${TOLERANCE})` },
  );
}

/** Largest difference of two columns, relative above 1. */
function apart(one: readonly number[], other: readonly number[]): number {
  if (one.length !== other.length) return Number.POSITIVE_INFINITY;
  return one.reduce((most, value, row) => {
    const gap = Math.abs(value - other[row]!) / Math.max(1, Math.abs(value));
    return Number.isNaN(gap) ? Number.POSITIVE_INFINITY : Math.max(most, gap);
  }, 0);
}
