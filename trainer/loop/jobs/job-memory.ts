/** Whether a job of the trainer fits into memory, asked before its first step. The learner stays in memory from job to job. */
import { freemem } from 'node:os';
import type { Learner } from '../../learn/learner.ts';
import { checkTrainingMemory, estimateTrainingMemory, type MemoryOptions } from '../../learn/memory.ts';

type MemoryInput = { readonly tokens: readonly number[]; readonly rowsPerStep: number; readonly what: string };

export type JobMemory = {
  /** Throws `training_failed` with the numbers where a job of such rows does not fit. */
  readonly require: (learner: Learner, job: MemoryInput & Pick<MemoryOptions, 'sharedPrompts'>) => void;
};

const available = (): number => process.availableMemory?.() ?? freemem();

/** `free` answers the bytes that may still be taken; what the machine has if left out. */
export function jobMemory(free: () => number = available): JobMemory {
  let learner: Learner | null = null;
  /** What the learner may already have taken: the largest job that was let through, at first its weights. */
  let taken = 0;
  return {
    require(asking, { tokens, rowsPerStep, what, sharedPrompts = false }) {
      if (asking !== learner) {
        learner = asking;
        taken = estimateTrainingMemory(asking.open.config, {
          tokensPerStep: 1,
          longest: 1,
          adapter: asking.model.adapter,
        }).weights;
      }
      const longest = tokens.reduce((most, count) => Math.max(most, count), 1);
      const of = (rows: number): MemoryOptions => ({ tokensPerStep: longest * rows, longest, sharedPrompts });
      const { adapter, recompute } = asking.model;
      const smaller = [2, 4, 8, 16].map((by) => Math.max(1, Math.floor(rowsPerStep / by)));
      const { total } = checkTrainingMemory(
        asking.open.config,
        { ...of(rowsPerStep), adapter, recompute },
        {
          free: free() + taken,
          remedies: [smaller.map((rows) => ({ say: `${rows} ${what}`, change: of(rows) }))],
        },
      );
      taken = Math.max(taken, total);
    },
  };
}
