/**
 * How many small faults in a folder its tests find: `npm run mutate -- FOLDER [--seed N] [--mutants N] [--minutes N]`.
 *
 * StrykerJS changes one expression at a time. A seeded sample of the changes is tried, each against the tests that reach it; without
 * `--seed` the seed is the date. Texts of messages are left out. A change that no test reaches, or that a comment disables, has survived.
 * Survivors go to stdout, one a line; exit code 1 where fewer than 80 % were found.
 */

import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { Stryker } from '@stryker-mutator/core';
import { createInstrumenter } from '@stryker-mutator/instrumenter';
import { createInjector } from 'typed-inject';
import { keyOf, tested } from './sample.js';

/** The tests that are run for each folder. */
const TESTS = {
  'ingest/formats': ['test/ingest/formats*.test.ts', 'test/ingest/formats/**/*.test.ts', 'test/golden/formats.test.ts'],
  'api/gateway/dialects': [
    'test/api/gateway*.test.ts',
    'test/api/upstream*.test.ts',
    'test/dialects-loop.test.ts',
    'test/golden/dialects.test.ts',
  ],
  'store/datasets/layouts': ['test/store/datasets/layouts/*.test.ts', 'test/golden/layouts.test.ts'],
  'store/evaluate/methods': [
    'test/store/methods/**/*.test.ts',
    'test/store/judging/**/*.test.ts',
    'test/store/attribution/**/*.test.ts',
    'test/store/consistency/**/*.test.ts',
  ],
  'trainer/loop/plan': ['test/trainer/plans/**/*.test.ts'],
};
/** They read the text of the source, which is another one once it is mutated. */
const READ_SOURCE = ['test/store/methods/headers.test.ts'];
const FOUND = new Set(['Killed', 'Timeout']);
const MISSED = new Set(['Survived', 'NoCoverage', 'Ignored']);

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { seed: { type: 'string' }, mutants: { type: 'string' }, minutes: { type: 'string' } },
});
const [folder] = positionals;
if (!(folder in TESTS)) {
  process.stderr.write(`mutate: name one of ${Object.keys(TESTS).join(', ')}; got ${folder ?? 'nothing'}\n`);
  process.exit(2);
}
const seed = values.seed ?? new Date().toISOString().slice(0, 10);
const size = Number(values.mutants ?? 300);
const minutes = Number(values.minutes ?? 60);

const silent = new Proxy({}, { get: () => () => false });

/** All changes that StrykerJS knows for the folder, without texts of several words. */
async function population() {
  const files = execFileSync('git', ['ls-files', `${folder}/*.ts`], { encoding: 'utf8' })
    .trim()
    .split('\n');
  const instrumenter = createInjector().provideValue('logger', silent).injectFunction(createInstrumenter);
  const { mutants } = await instrumenter.instrument(
    files.map((name) => ({ name: join(process.cwd(), name), content: readFileSync(name, 'utf8'), mutate: true })),
    { plugins: null, excludedMutations: [], ignorers: [] },
  );
  const source = new Map(files.map((name) => [name, readFileSync(name, 'utf8').split('\n')]));
  return mutants.filter((mutant) => {
    if (mutant.mutatorName !== 'StringLiteral') return true;
    const { start, end } = mutant.location;
    const line = source.get(relative(process.cwd(), mutant.fileName))[start.line];
    return start.line === end.line && !/\s/.test(line.slice(start.column, end.column));
  });
}

const rank = (key) => createHash('sha256').update(`${seed}\n${key}`).digest('hex');

const all = await population();
const chosen = all
  .map((mutant) => ({ mutant, key: keyOf(mutant) }))
  .sort((a, b) => (rank(a.key) < rank(b.key) ? -1 : 1))
  .slice(0, size);
const sample = new Set(chosen.map(({ key }) => key));
// Only what is sampled is instrumented: with all 25,000 changes of a large folder at once the test runner ran out of memory.
const ranges = chosen.map(({ mutant: { fileName, location } }) => {
  const { start, end } = location;
  return `${relative(process.cwd(), fileName)}:${start.line + 1}:${start.column}-${end.line + 1}:${end.column}`;
});
const scratch = mkdtempSync(join(tmpdir(), 'troupe-mutate-'));
process.env.TROUPE_MUTANTS = join(scratch, 'sample.json');
writeFileSync(process.env.TROUPE_MUTANTS, JSON.stringify([...sample]));
// The tests of one folder, with the settings of the others: each mutant has a run of its own, so none is tried twice.
const tests = join(process.cwd(), `.mutate.${process.pid}.config.ts`);
writeFileSync(
  tests,
  `import config from './vitest.config.ts';\nexport default { test: { ...config.test, include: ${JSON.stringify(TESTS[folder])}, exclude: ${JSON.stringify(READ_SOURCE)}, retry: 0 } };\n`,
);
process.on('exit', () => {
  rmSync(scratch, { recursive: true, force: true, maxRetries: 5 });
  rmSync(tests, { force: true });
});

process.stderr.write(`${folder}: ${sample.size} of ${all.length} changes, seed ${seed}\n`);
const plugin = (name) => fileURLToPath(import.meta.resolve(name));
const began = Date.now();
setTimeout(() => process.exit(report(`stopped after ${minutes} minutes`)), minutes * 60_000).unref();
await new Stryker({
  testRunner: 'vitest',
  plugins: [plugin('@stryker-mutator/vitest-runner'), join(import.meta.dirname, 'sample.js')],
  checkers: ['sample'],
  reporters: ['sample', 'progress-append-only'],
  vitest: { configFile: relative(process.cwd(), tests), related: false },
  mutate: ranges,
  coverageAnalysis: 'perTest',
  concurrency: 2,
  timeoutMS: 20_000,
  testRunnerNodeArgs: ['--max-old-space-size=6144'],
  dryRunTimeoutMinutes: 15,
  tempDirName: join(scratch, 'sandbox'),
  disableTypeChecks: false,
  fileLogLevel: 'off',
}).runMutationTest();
process.exitCode = report(`${Math.round((Date.now() - began) / 1000)} s`);

/** Prints what survived and the share that was found; the exit code. */
function report(how) {
  // Results count lines and columns from 1, what is instrumented counts them from 0.
  const before = ({ line, column }) => ({ line: line - 1, column: column - 1 });
  const tried = tested.filter((result) => {
    const { start, end } = result.location;
    return sample.has(keyOf({ ...result, location: { start: before(start), end: before(end) } }));
  });
  const found = tried.filter(({ status }) => FOUND.has(status)).length;
  const late = tried.filter(({ status }) => status === 'Timeout').length;
  const missed = tried.filter(({ status }) => MISSED.has(status));
  for (const { fileName, location, mutatorName, replacement, status } of missed) {
    const where = `${relative(process.cwd(), fileName)}:${location.start.line}`;
    process.stdout.write(`${status} ${where} ${mutatorName}: ${replacement.replace(/\s+/g, ' ').slice(0, 120)}\n`);
  }
  const judged = found + missed.length;
  const share = judged === 0 ? 0 : found / judged;
  process.stdout.write(
    `${folder}: ${found} of ${judged} found (${(100 * share).toFixed(1)} %), ${late} of them by a run that did not end, seed ${seed}, ${how}\n`,
  );
  return share < 0.8 ? 1 : 0;
}
