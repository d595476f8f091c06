/** The events that define a task. All of it follows from the sentence, so they can be sent again. */

import { createRandom, seedOf } from '../lib/random.ts';
import { drawInput, run, sameValues, type Values } from './operations.ts';
import { writeProgram } from './program.ts';
import type { Task } from './splits.ts';

/** An input with its true output. */
export type Example = { readonly input: Values; readonly output: Values };

/** Two different examples that anybody may see: the only truth a filter over demonstrations may use. */
export function publicExamples({ sentence, program }: Task): readonly [Example, Example] {
  const random = createRandom(seedOf('public examples', sentence));
  const first = drawInput(random);
  let second = drawInput(random);
  while (sameValues(first, second)) second = drawInput(random);
  return [
    { input: first, output: run(program, first) },
    { input: second, output: run(program, second) },
  ];
}

/** The data of the event `task.defined`. */
export const taskFacts = (task: Task) => ({
  task_id: task.id,
  query: task.sentence,
  ground_truth: writeProgram(task.program),
  tests: publicExamples(task),
  source: 'list recipes',
  split: task.pool,
  difficulty: `${task.program.length} operations`,
});
