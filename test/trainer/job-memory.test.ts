import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { closeLearner, type Learner, openLearner } from '../../trainer/learn/learner.ts';
import { jobMemory } from '../../trainer/loop/jobs/job-memory.ts';
import { newModelDirectory } from '../../trainer/model/model-directory.ts';
import { tinyConfig, tinyTemplate, tinyTokenizer } from './tiny-checkpoint.ts';

let root: string;
let learners: Learner[];
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'troupe-job-memory-'));
  const model = { config: tinyConfig, tokenizer: tinyTokenizer, chatTemplate: tinyTemplate, seed: 5 };
  const { dir } = await newModelDirectory(join(root, 'model'), model);
  learners = [await openLearner(dir), await openLearner(dir)];
});
afterAll(async () => {
  for (const learner of learners) await closeLearner(learner);
  await rm(root, { recursive: true, force: true });
});

const job = (rowsPerStep: number) => ({ tokens: [32, 20], rowsPerStep, what: 'rows a step' });

describe('the memory of jobs', () => {
  it('a job that does not fit is refused with its numbers and what a smaller step would take', () => {
    const memory = jobMemory(() => 50e6);
    expect(() => memory.require(learners[0]!, job(4))).not.toThrow();
    expect(() => memory.require(learners[1]!, job(128))).toThrow(
      expect.objectContaining({
        code: 'training_failed',
        message: expect.stringMatching(
          /needs about \d+ MB of memory .* 50 MB are there\. With \d+ rows a step it needs/,
        ),
      }),
    );
  });

  it('what a learner took for a job is there for its next one, and not for another learner', () => {
    let free = 1e9;
    const memory = jobMemory(() => free);
    memory.require(learners[0]!, job(128));
    free = 0;
    expect(() => memory.require(learners[0]!, job(128))).not.toThrow();
    expect(() => memory.require(learners[1]!, job(4))).toThrow(/0 MB are there/);
  });
});
