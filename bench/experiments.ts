/**
 * Experiments with the loop of the demo: what a filter, a baseline, the verifier or reinforcement is worth, each against the same run without the
 * change, with several seeds. Results are appended to a file as JSON Lines; a run that stands there already is not repeated.
 *
 *   npx tsx bench/experiments.ts --out experiments.jsonl [--seeds 0,1,2] [--only base,unfiltered] [--scale 0.5] [--iterations 15]
 */
import { appendFileSync, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import type { Document } from 'yaml';
import { withContext } from '../cli/context.ts';
import { runDemo } from '../cli/demo/demo-loop.ts';
import type { DemoOptions } from '../cli/demo/demo-plans.ts';
import type { Round } from '../cli/demo/demo-scores.ts';
import { roleSettings } from '../cli/processes/children.ts';
import { TroupeError } from '../errors.ts';

type Experiment = Pick<DemoOptions, 'edit' | 'verifier'> & {
  /** Rounds of learning from its own successes, and of reinforcement. */
  readonly own: number;
  readonly rounds: number;
  readonly about: string;
};

const TRAIN = ['policies', 'team', 'train'];
const RECIPE = ['policies', 'team', 'recipe'];

/** The advantages of reinforcement by another method, over the same rewards. */
const credited = (method: string) => (name: string, plan: Document) => {
  if (name !== 'reinforcement') return;
  plan.setIn(['judge', 1, 'method'], method);
  plan.setIn([...RECIPE, 'credit'], method);
};

/** The coder alone learns from these plans. */
const coderOnly = (plans: readonly string[]) => (name: string, plan: Document) => {
  if (!plans.includes(name)) return;
  plan.setIn([...RECIPE, 'roles'], ['coder']);
  if (plan.hasIn([...TRAIN, 'steps'])) plan.deleteIn([...TRAIN, 'steps', 'verifier']);
};

const EXPERIMENTS: Readonly<Record<string, Experiment>> = {
  base: { own: 1, rounds: 1, about: 'the loop of the demo' },
  unfiltered: {
    own: 0,
    rounds: 0,
    about: 'the lessons of the teachers without filters, to be compared with the warm start of base',
    edit: (name, plan) => {
      if (name !== 'warm-start') return;
      plan.delete('judge');
      plan.deleteIn([...RECIPE, 'verdicts']);
    },
  },
  'by-agent': {
    own: 1,
    rounds: 1,
    about: 'advantages by role, divided by the plain std',
    edit: credited('drmas_advantage'),
  },
  'both-roles': { own: 1, rounds: 1, about: 'advantages normalised over both roles', edit: credited('grpo_advantage') },
  'verifier-frozen': {
    own: 1,
    rounds: 1,
    about: 'the verifier keeps the weights from before reinforcement',
    verifier: 'frozen',
    edit: coderOnly(['reinforcement']),
  },
  'own-only': { own: 6, rounds: 0, about: 'six rounds of own successes, no reinforcement' },
  'own-ungated': {
    own: 6,
    rounds: 0,
    about: 'six rounds of own successes, each from the one before, released or not',
    edit: (name, plan) => {
      if (name === 'successes') plan.setIn(['policies', 'team', 'from'], 'last');
    },
  },
  single: {
    own: 1,
    rounds: 1,
    about: 'the coder alone, without a verifier',
    verifier: 'none',
    edit: coderOnly(['warm-start', 'successes', 'reinforcement']),
  },
};

type Result = {
  readonly experiment: string;
  readonly seed: number;
  readonly rounds: readonly Round[];
  readonly cpu_seconds: number | null;
};

const { values } = parseArgs({
  options: {
    out: { type: 'string' },
    seeds: { type: 'string', default: '0,1,2' },
    only: { type: 'string', default: Object.keys(EXPERIMENTS).join(',') },
    scale: { type: 'string', default: '0.5' },
    iterations: { type: 'string', default: '15' },
  },
});
const fail = (message: string): never => {
  process.stderr.write(`${message}\n`);
  process.exit(2);
};
const out = values.out ?? fail('Missing --out FILE, where the results are appended.');
const names = values.only.split(',');
const unknown = names.find((name) => !(name in EXPERIMENTS));
if (unknown !== undefined) fail(`There is no experiment ${unknown}; they are ${Object.keys(EXPERIMENTS).join(', ')}.`);

const known = (): Result[] =>
  existsSync(out)
    ? readFileSync(out, 'utf8')
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => JSON.parse(line) as Result)
    : [];

for (const seed of values.seeds.split(',').map(Number))
  for (const name of names) {
    if (known().some((result) => result.experiment === name && result.seed === seed)) continue;
    process.stderr.write(`${name}, seed ${seed}\n`);
    try {
      const result = await run(EXPERIMENTS[name]!, seed);
      appendFileSync(out, `${JSON.stringify({ experiment: name, seed, ...result })}\n`);
    } catch (error) {
      if (!(error instanceof TroupeError)) throw error;
      process.stderr.write(`${name}, seed ${seed}: ${error.message}\n`);
    }
  }
process.stdout.write(`${table(known())}\n`);

/** One run in a home of its own, which is removed. */
async function run(
  { about: _, ...experiment }: Experiment,
  seed: number,
): Promise<Omit<Result, 'experiment' | 'seed'>> {
  const home = mkdtempSync(join(tmpdir(), 'troupe-experiment-'));
  try {
    const { rounds, cpu_seconds } = await withContext(
      { home, project: 'demo' },
      (context) => {
        const { args, env } = roleSettings(context.config);
        return runDemo(context, {
          ...experiment,
          seed,
          scale: Number(values.scale),
          iterations: Number(values.iterations),
          settings: { args, env: { ...env, TROUPE_API_KEY: '', TROUPE_LOOPBACK: 'open' } },
          bar: { update: () => {}, stop: () => {} },
        });
      },
      { create: true },
    );
    return { rounds, cpu_seconds };
  } finally {
    try {
      rmSync(home, { recursive: true, force: true, maxRetries: 20, retryDelay: 250 });
    } catch (error) {
      // The result of minutes is worth more than a clean folder.
      process.stderr.write(`${home} could not be removed: ${error instanceof Error ? error.message : error}\n`);
    }
  }
}

/** A row for each stage of each experiment, the seeds side by side, in per cent. */
function table(results: readonly Result[]): string {
  const percent = (value: number | null) => (value === null ? '–' : String(Math.round(100 * value)));
  const rows = names.flatMap((name) => {
    const seeds = results.filter(({ experiment }) => experiment === name).toSorted((a, b) => a.seed - b.seed);
    return (seeds[0]?.rounds ?? []).map((stage, i) => {
      const of = (field: 'pass_at_1' | 'best_of_n' | 'hard_pass_at_1' | 'verifier_precision') =>
        seeds.map(({ rounds }) => percent(rounds[i]?.[field] ?? null)).join(' / ');
      return `| ${name} | ${stage.name} | ${of('pass_at_1')} | ${of('best_of_n')} | ${of('hard_pass_at_1')} | ${of('verifier_precision')} |`;
    });
  });
  return [
    '| experiment | after | pass@1 | best of 7 by tests | hard pass@1 | verifier precision |',
    '| --- | --- | --- | --- | --- | --- |',
    ...rows,
  ].join('\n');
}
