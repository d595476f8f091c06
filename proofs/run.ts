/**
 * Runs proofs, each in a process of its own: `npm run proofs -- [NAME…] [--full] [--lanes 2]`. Without a name all of them, without `--full`
 * their short form, `--lanes` at once. A proof whose part is missing says in one line how to get it and counts as skipped; where CI is set that
 * is a failure.
 */
import { fork } from 'node:child_process';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';
import type { Result as OneResult } from './run-one.ts';

/** The longest first, so that no lane ends long after the others. A proof's name is that of its file. */
const BESIDE_OTHERS = [
  'tests-catch-seeded-bugs',
  'clients-arrive',
  'trainers-take-datasets',
  'killed-programs-recover',
  'plans-run-whole',
  'nothing-acknowledged-is-lost',
  'kafka-log',
  'versions-side-by-side',
  'lost-database',
  'python-team',
  'example-teams',
  'new-team-learns',
  'compose-as-processes',
  'kafka-tools',
  'recipes-freeze-alike',
  'files-arrive',
  'plan-trains-with-trl',
  'chat-logs-train-in-trl',
  'training-matches-pytorch',
  'commands-match-pytorch',
  'models-match-transformers',
  'methods-match-sources',
  'checkpoint-loads',
  'training-resumes',
  'saves-survive-kills',
  'tools-read-the-views',
  'analysis-examples-agree',
  'checkpoints-in-s3',
  'backup-in-s3',
  'archives-in-s3',
  'postgres-upgrade',
  'openai-clients',
  'sdk-teams',
  'policy-on-machines',
  'python-recorder',
  'package-installs',
  'page-in-browser',
  'gate-rates',
  'alerts-fire',
];
/** They hold limits of time or compare times, which work beside them would blur. */
const ALONE = [
  'event-loop',
  'limits-hold',
  'refused-keys',
  'sql-changes-nothing',
  'stays-up',
  'disk-full',
  'ingest-alone',
  'large-events-wait',
  'kafka-projectors',
  'kafka-cluster',
  'chaos',
  'loop-restarts',
];
/** They take minutes to start and gigabytes to install, so they have no short form. */
const ONLY_FULL = ['vllm-serves', 'sglang-serves'];
const PROOFS = [...BESIDE_OTHERS, ...ALONE, ...ONLY_FULL];

type Result = Omit<OneResult, 'verdict'> & { readonly verdict: OneResult['verdict'] | 'ok, run twice' };

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { full: { type: 'boolean' }, lanes: { type: 'string', default: '1' } },
});
const unknown = positionals.filter((name) => !PROOFS.includes(name));
if (unknown.length > 0) {
  process.stderr.write(`There is no proof ${unknown.join(', ')}; the proofs are ${PROOFS.join(', ')}.\n`);
  process.exit(2);
}
const lanes = Number(values.lanes);
if (!Number.isInteger(lanes) || lanes < 1) {
  process.stderr.write(`--lanes should be a whole number from 1 on, but it is ${values.lanes}.\n`);
  process.exit(2);
}

const say = (line: string): void => {
  process.stdout.write(`${line}\n`);
};

const only = values.full ? [] : positionals.filter((name) => ONLY_FULL.includes(name));
if (only.length > 0) {
  process.stderr.write(`${only.join(', ')} has no short form; add --full.\n`);
  process.exit(2);
}

const asked = (names: readonly string[]): readonly string[] =>
  names.filter((name) => positionals.length === 0 || positionals.includes(name));
const alone = asked(values.full ? [...ALONE, ...ONLY_FULL] : ALONE);
const results = [...(await inLanes(asked(BESIDE_OTHERS), lanes)), ...(await inLanes(alone, 1))];
// Machines that other programs share stall for seconds. What fails there runs once more, after the others; both runs are reported.
const again = process.env.CI ? results.filter(({ verdict }) => verdict === 'FAILED') : [];
for (const first of again) {
  say(`\n${first.name} failed and is run once more`);
  const second = await run(first.name, false);
  const verdict = second.verdict === 'ok' ? 'ok, run twice' : second.verdict;
  results[results.indexOf(first)] = { ...second, verdict, failed: [...first.failed, ...second.failed] };
}
say(`\n${'proof'.padEnd(30)}${'verdict'.padEnd(15)}${'checks'.padStart(6)}${'seconds'.padStart(9)}`);
for (const { name, verdict, checks, seconds } of results) {
  say(`${name.padEnd(30)}${verdict.padEnd(15)}${String(checks).padStart(6)}${seconds.toFixed(1).padStart(9)}`);
}
const count = (verdict: Result['verdict']): number => results.filter((result) => result.verdict === verdict).length;
for (const { name, failed } of results) for (const line of failed) say(`${name}: ${line}`);
const passed = count('ok') + count('ok, run twice');
say(`${passed} passed, ${count('FAILED')} failed, ${count('skipped')} skipped`);
process.exitCode = count('FAILED') > 0 || (process.env.CI && count('skipped') > 0) ? 1 : 0;

/** @returns in the order of the names */
async function inLanes(names: readonly string[], lanes: number): Promise<Result[]> {
  const results: Result[] = [];
  const left = names.map((name, at) => ({ name, at }));
  const lane = async (): Promise<void> => {
    for (let next = left.shift(); next !== undefined; next = left.shift())
      results[next.at] = await run(next.name, lanes > 1);
  };
  await Promise.all(Array.from({ length: lanes }, lane));
  return results;
}

/** @param named whether each of its lines begins with its name */
async function run(name: string, named: boolean): Promise<Result> {
  const began = performance.now();
  say(`${name} (${values.full ? 'full' : 'short'} form)`);
  const child = fork(new URL('./run-one.ts', import.meta.url), [name, ...(values.full ? ['--full'] : [])], {
    stdio: ['inherit', 'pipe', 'inherit', 'ipc'],
    // No proof waits for the training of another.
    env: { ...process.env, TROUPE_TRAININGS: '8' },
  });
  createInterface(child.stdout!).on('line', (line) => say(named ? `${name}: ${line}` : line));
  let result: Result | undefined;
  child.on('message', (message) => {
    result = message as Result;
  });
  const how = await new Promise<string>((resolve) => {
    child.on('close', (code, signal) => resolve(signal ?? `exit code ${code}`));
  });
  return (
    result ?? {
      name,
      verdict: 'FAILED',
      checks: 0,
      seconds: (performance.now() - began) / 1000,
      failed: [`NOT OK  it ended without a result (${how})`],
    }
  );
}
