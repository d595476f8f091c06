/** A task as a line of a file of tasks: the question, the true answers, and how many programs and tests are sampled. */
import { createRandom, seedOf } from '../lib/random.ts';
import type { Program } from './operations.ts';
import { parseProgram, writeProgram } from './program.ts';
import { HELD_OUT_MIX, type PoolName, sampleTask, type Task, TRAINING_MIX } from './splits.ts';

export type Effort = {
  /** Answers of the coder. */
  readonly programs: number;
  /** Inputs drawn for the verifier, one call each; 0: the verifier is not asked. */
  readonly inputs: number;
  /** Answers of the verifier to each input. */
  readonly tests_per_input: number;
};

export type TaskLine = Effort & {
  readonly task_id: string;
  /** The sentence. */
  readonly prompt: string;
  /** The true program. */
  readonly answer: string;
  /** Family of the task: the pool that it is drawn from. */
  readonly domain: PoolName;
};

export const taskLine = ({ id, sentence, program, pool }: Task, effort: Effort): TaskLine => ({
  task_id: id,
  prompt: sentence,
  answer: writeProgram(program),
  domain: pool,
  ...effort,
});

/** The true program of a line. Throws where its answer is none. */
export function truthOf({ task_id, answer }: TaskLine): Program {
  const program = parseProgram(answer);
  if (program === null)
    throw new Error(`The answer of task ${task_id} should be a program such as #rev #asc, got ${answer}.`);
  return program;
}

/** Tasks drawn from a pool, each once, a line each. @param verified share of them that the verifier is asked about, spread evenly */
export function taskLines(
  pool: PoolName,
  {
    count,
    seed,
    verified,
    ...effort
  }: Effort & { readonly count: number; readonly seed: number; readonly verified: number },
): string {
  const random = createRandom(seedOf('tasks', pool, seed));
  const found = new Map<string, Task>();
  for (let tries = 0; found.size < count && tries < 100 * count; tries++) {
    const task = sampleTask(pool, random, pool === 'train' ? TRAINING_MIX : HELD_OUT_MIX);
    found.set(task.id, task);
  }
  const lines = [...found.values()].map((task, i) => {
    const asked = Math.floor((i + 1) * verified) > Math.floor(i * verified);
    return `${JSON.stringify(taskLine(task, asked ? effort : { ...effort, inputs: 0 }))}\n`;
  });
  return lines.join('');
}
