/**
 * Runs one benchmark: `tsx bench/run.ts NAME [flags]`, or `troupe bench NAME` in a checkout. Progress goes to standard
 * error; standard output has the report, with `--json` as one document.
 */
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
  storage,
  scale,
];

try {
  process.exitCode = await main();
} catch (error) {
  const known = error instanceof TroupeError || String((error as { code?: unknown }).code).startsWith('ERR_PARSE_ARGS');
  if (process.argv.includes('--json')) {
    const code = error instanceof TroupeError ? error.code : known ? 'usage' : 'internal';
    process.stdout.write(`${JSON.stringify({ error: { code, message: (error as Error).message } })}\n`);
  }
  process.stderr.write(`bench: ${known ? (error as Error).message : (error as Error).stack}\n`);
  process.exitCode = error instanceof TroupeError ? error.exit : known ? EXIT.usage : EXIT.failed;
}

async function main(): Promise<number> {
  const { values, positionals } = parseArgs({
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
  const scratch = mkdtempSync(join(tmpdir(), `troupe-bench-${bench.name}-`));
  const interrupted = () => process.exit(EXIT.interrupted);
  process.once('SIGINT', interrupted).once('SIGTERM', interrupted);
  process.once('exit', () => rmSync(scratch, { recursive: true, force: true }));
  const machine = thisMachine();
  const results = await bench.run({
    threads: atLeast(1, 'threads', values.threads),
    rounds: atLeast(FEWEST_ROUNDS, 'rounds', values.rounds),
    steps: values.steps === undefined ? null : atLeast(1, 'steps', values.steps),
    sizes: values.sizes ?? values.size ?? null,
    only: values.only ?? null,
    assumptions: values.assumptions ?? null,
    also: new Set((['lora', 'compile', 'fused', 'defaults', 'profile'] as const).filter((name) => values[name])),
    scratch,
    say: values.quiet ? () => {} : (line) => process.stderr.write(`${line}\n`),
  });
  const report: Report = { name: bench.name, machine, results };
  process.stdout.write(`${values.json ? JSON.stringify(report) : reportText(report)}\n`);
  return exitCode(results);
}

function atLeast(least: number, name: string, text: string): number {
  const value = Number(text);
  if (Number.isSafeInteger(value) && value >= least) return value;
  throw new TroupeError('usage', `--${name} should be a whole number from ${least}, not ${text}.`);
}
