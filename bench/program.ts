/** The benchmarks by name, and the command line that runs one. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { EXIT, TroupeError } from '../errors.ts';
import { bench as append } from './append.ts';
import type { Bench } from './bench.ts';
import { bench as checkpoint } from './checkpoint.ts';
import { bench as exporting } from './export.ts';
import { bench as freeze } from './freeze.ts';
import { bench as gateway } from './gateway.ts';
import { bench as growth } from './growth.ts';
import { FEWEST_ROUNDS } from './harness.ts';
import { bench as ingest } from './ingest.ts';
import { bench as judge } from './judge.ts';
import { bench as otlp } from './otlp.ts';
import { bench as rebuild } from './rebuild.ts';
import { exitCode, type Report, reportText, thisMachine } from './report.ts';
import { bench as rollout } from './rollout.ts';
import { bench as sample } from './sample.ts';
import { bench as scale } from './scale.ts';
import { bench as sql } from './sql.ts';
import { bench as storage } from './storage.ts';
import { bench as train } from './train.ts';
import { bench as trainTrl } from './train-trl.ts';

const BENCHES: readonly Bench[] = [
  train,
  trainTrl,
  sample,
  checkpoint,
  judge,
  ingest,
  rebuild,
  exporting,
  freeze,
  growth,
  append,
  otlp,
  gateway,
  rollout,
  sql,
  storage,
  scale,
];

/** Where the report goes, and where progress and errors go. */
export type Streams = { readonly out: (text: string) => void; readonly err: (text: string) => void };

/** Runs the benchmark that a command line names, and resolves with the exit code. */
export async function runBench(args: readonly string[], streams: Streams): Promise<number> {
  try {
    return await main(args, streams);
  } catch (error) {
    const known =
      error instanceof TroupeError || String((error as { code?: unknown }).code).startsWith('ERR_PARSE_ARGS');
    if (args.includes('--json')) {
      const code = error instanceof TroupeError ? error.code : known ? 'usage' : 'internal';
      streams.out(`${JSON.stringify({ error: { code, message: (error as Error).message } })}\n`);
    }
    streams.err(`bench: ${known ? (error as Error).message : (error as Error).stack}\n`);
    return error instanceof TroupeError ? error.exit : known ? EXIT.usage : EXIT.failed;
  }
}

async function main(args: readonly string[], { out, err }: Streams): Promise<number> {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      json: { type: 'boolean' },
      quiet: { type: 'boolean' },
      threads: { type: 'string', default: '1' },
      rounds: { type: 'string', default: '6' },
      sizes: { type: 'string' },
      size: { type: 'string' },
      steps: { type: 'string' },
      only: { type: 'string' },
      assumptions: { type: 'string' },
      lora: { type: 'boolean' },
      profile: { type: 'boolean' },
      compile: { type: 'boolean' },
      fused: { type: 'boolean' },
      defaults: { type: 'boolean' },
    },
  });
  const bench = BENCHES.find(({ name }) => name === positionals[0]);
  if (!bench || positionals.length !== 1) {
    const known = BENCHES.map(({ name, about }) => `  ${name.padEnd(12)}${about}`).join('\n');
    const asked = positionals.length === 1 ? `There is no benchmark ${positionals[0]}` : 'Name one benchmark';
    throw new TroupeError('usage', `${asked}; they are\n${known}`);
  }
  const settings = {
    threads: atLeast(1, 'threads', values.threads),
    rounds: atLeast(FEWEST_ROUNDS, 'rounds', values.rounds),
    steps: values.steps === undefined ? null : atLeast(1, 'steps', values.steps),
    sizes: values.sizes ?? values.size ?? null,
    only: values.only ?? null,
    assumptions: values.assumptions ?? null,
    also: new Set((['lora', 'compile', 'fused', 'defaults', 'profile'] as const).filter((name) => values[name])),
    say: values.quiet ? () => {} : (line: string) => err(`${line}\n`),
  };
  const scratch = mkdtempSync(join(tmpdir(), `troupe-bench-${bench.name}-`));
  const remove = () => rmSync(scratch, { recursive: true, force: true });
  process.once('exit', remove);
  const machine = thisMachine();
  const results = await bench.run({ ...settings, scratch }).finally(() => {
    process.off('exit', remove);
    remove();
  });
  const report: Report = { name: bench.name, machine, results };
  out(`${values.json ? JSON.stringify(report) : reportText(report)}\n`);
  return exitCode(results);
}

function atLeast(least: number, name: string, text: string): number {
  const value = Number(text);
  if (Number.isSafeInteger(value) && value >= least) return value;
  throw new TroupeError('usage', `--${name} should be a whole number from ${least}, not ${text}.`);
}
