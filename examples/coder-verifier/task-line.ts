/** A task as a line of a file of tasks: the question, the true answers, and how many programs and tests are sampled. */
import type { Program } from './operations.ts';
import { parseProgram, writeProgram } from './program.ts';
import type { PoolName, Task } from './splits.ts';

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
