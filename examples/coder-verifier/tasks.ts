/**
 * Writes a file of tasks, each of them once.
 *
 *   node --import tsx examples/coder-verifier/tasks.ts --pool train --count 4000 --seed 0 --verified 0.5 --out train.jsonl
 *   node --import tsx examples/coder-verifier/tasks.ts --pool new --count 192 --programs 7 --inputs 7 --tests-per-input 1 --out new.jsonl
 */
import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import type { PoolName } from './splits.ts';
import { taskLines } from './task-line.ts';

const { values } = parseArgs({
  options: {
    pool: { type: 'string', default: 'train' },
    count: { type: 'string', default: '192' },
    seed: { type: 'string', default: '0' },
    programs: { type: 'string', default: '16' },
    inputs: { type: 'string', default: '4' },
    'tests-per-input': { type: 'string', default: '2' },
    verified: { type: 'string', default: '1' },
    out: { type: 'string' },
  },
});

function fail(name: string, expected: string, value: string): never {
  process.stderr.write(`--${name} must be ${expected}, it is ${value}.\n`);
  process.exit(2);
}

function count(name: 'count' | 'seed' | 'programs' | 'inputs' | 'tests-per-input'): number {
  const value = Number(values[name]);
  return Number.isSafeInteger(value) && value >= 0 ? value : fail(name, 'a whole number from 0', values[name]);
}

function share(): number {
  const value = Number(values.verified);
  return value >= 0 && value <= 1 ? value : fail('verified', 'a share from 0 to 1', values.verified);
}

const isPool = (name: string): name is PoolName => name === 'train' || name === 'new' || name === 'hard';
const pool = isPool(values.pool) ? values.pool : fail('pool', 'train, new or hard', values.pool);
const lines = taskLines(pool, {
  count: count('count'),
  seed: count('seed'),
  verified: share(),
  programs: count('programs'),
  inputs: count('inputs'),
  tests_per_input: count('tests-per-input'),
});
if (values.out === undefined) process.stdout.write(lines);
else writeFileSync(values.out, lines);
