/** What the team can be told to do, one JSON object a line: play training tasks, or be examined on tasks kept back. */
import type { Batch } from './play.ts';
import { seedOf } from './random.ts';
import { HELD_OUT_MIX, type PoolName, TRAINING_MIX } from './splits.ts';

/** The examination is the same for every run and every round, so that its results can be compared. */
const EXAMINATION_SEED = 777;
const EXAMINATION_TASKS: Readonly<Record<PoolName, number>> = { train: 192, new: 192, hard: 96 };

/** Reads one line. Throws a sentence that names the field where it does not fit. */
export function readCommand(line: string, run: string): Batch {
  const fields = parse(line);
  const count = (name: string, otherwise?: number): number => {
    const value = fields[name] ?? otherwise;
    if (!Number.isSafeInteger(value) || (value as number) < 0) throw unfit(name, 'a whole number from 0', value);
    return value as number;
  };
  const text = (name: string, otherwise: string): string => {
    const value = fields[name] ?? otherwise;
    if (typeof value !== 'string' || value === '') throw unfit(name, 'a text', value);
    return value;
  };
  const temperature = fields.temperature ?? 1;
  if (typeof temperature !== 'number' || !(temperature >= 0))
    throw unfit('temperature', 'a number from 0', temperature);
  const shared = {
    run: text('run', run),
    round: count('round', 0),
    attempt: count('attempt', 0),
    policy: text('policy', 'policy:team'),
    temperature,
  };
  switch (fields.cmd) {
    case 'play': {
      const phase = text('phase', 'rl');
      const iteration = count('iteration', 0);
      const seed = count('seed');
      const pool = poolName(text('pool', 'train'));
      const tasks = count('tasks', 128);
      return {
        ...shared,
        phase,
        iteration,
        seed,
        pool,
        tasks,
        mix: pool === 'train' ? TRAINING_MIX : HELD_OUT_MIX,
        verified: count('verified', tasks),
        programs: count('programs', 16),
        inputs: count('inputs', 4),
        testsPerInput: count('tests_per_input', 2),
        drawSeed: seedOf('tasks', phase, iteration, pool, seed),
      };
    }
    case 'evaluate': {
      const pool = poolName(text('pool', 'new'));
      const tasks = count('tasks', EXAMINATION_TASKS[pool]);
      return {
        ...shared,
        phase: text('phase', 'eval'),
        iteration: count('iteration', 0),
        seed: count('seed', EXAMINATION_SEED),
        pool,
        tasks,
        mix: HELD_OUT_MIX,
        verified: count('verified', tasks),
        programs: count('programs', 7),
        inputs: count('inputs', 7),
        testsPerInput: count('tests_per_input', 1),
        drawSeed: seedOf('examination', pool, EXAMINATION_SEED),
      };
    }
    default:
      throw unfit('cmd', 'play or evaluate', fields.cmd);
  }
}

function parse(line: string): Readonly<Record<string, unknown>> {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    // Falls through to the sentence below.
  }
  if (typeof value !== 'object' || value === null)
    throw new Error(`A command is one JSON object, this is ${line.slice(0, 80)}.`);
  return value as Readonly<Record<string, unknown>>;
}

function poolName(name: string): PoolName {
  if (name === 'train' || name === 'new' || name === 'hard') return name;
  throw unfit('pool', 'train, new or hard', name);
}

const unfit = (name: string, expected: string, value: unknown): Error =>
  new Error(`${name} must be ${expected}, it is ${JSON.stringify(value) ?? 'missing'}.`);
