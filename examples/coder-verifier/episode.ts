/** One attempt of the team at one task: the coder's programs, the verifier's tests, every program run against every test. */

import type { Gateway } from '../lib/gateway.ts';
import { seedOf } from '../lib/random.ts';
import { isCorrect } from './behaviour.ts';
import {
  type Candidate,
  candidateRow,
  fillMatrix,
  type Matrix,
  referenceRow,
  testColumn,
  truthColumn,
} from './matrix.ts';
import type { Program, Values } from './operations.ts';
import { parseProgram } from './program.ts';
import { CODER_TOKENS, coderPrompt, VERIFIER_TOKENS, verifierPrompt } from './prompts.ts';
import type { Task } from './splits.ts';
import { parseTrace, type Trace } from './trace.ts';

export type EpisodePlan = {
  readonly id: string;
  readonly task: Pick<Task, 'sentence' | 'program'>;
  /** Inputs drawn for the verifier, one call each; none: the verifier is not asked. */
  readonly inputs: readonly Values[];
  readonly programs: number;
  readonly testsPerInput: number;
  readonly temperature: number;
  readonly policy: string;
  /** The model of the verifier. */
  readonly verifier: string;
  /** Seed of the sampling. */
  readonly seed: number;
};

export type Episode = {
  readonly programs: readonly Candidate<Program>[];
  readonly tests: readonly Candidate<Trace>[];
  readonly matrix: Matrix;
  /** Index of the program handed in, or null where all are malformed. */
  readonly chosen: number | null;
  readonly solved: boolean;
};

/** Plays one episode; all its calls run at once, as coder and verifier do not see each other's answers. */
export async function playEpisode(plan: EpisodePlan, gateway: Gateway): Promise<Episode> {
  const { id, task, inputs, temperature, policy, verifier } = plan;
  const call = { episode: id, temperature };
  const [programs, ...tests] = await Promise.all([
    gateway
      .ask({
        ...call,
        model: policy,
        role: 'coder',
        messages: coderPrompt(task.sentence),
        n: plan.programs,
        maxTokens: CODER_TOKENS,
        seed: samplingSeed(plan, 'coder', 0),
      })
      .then((answers) => answers.map(({ stepId, text }) => ({ stepId, meaning: parseProgram(text) }))),
    ...inputs.map((input, i) =>
      gateway
        .ask({
          ...call,
          model: verifier,
          role: 'verifier',
          messages: verifierPrompt(task.sentence, input),
          n: plan.testsPerInput,
          maxTokens: VERIFIER_TOKENS,
          seed: samplingSeed(plan, 'verifier', i),
        })
        .then((answers) => answers.map(({ stepId, text }) => ({ stepId, meaning: parseTrace(input, text) }))),
    ),
  ]);
  return settle(task.program, programs, tests.flat());
}

/** A 31-bit seed, which every sampling server can take. */
const samplingSeed = (plan: EpisodePlan, role: string, call: number): number => seedOf(plan.seed, role, call) >>> 1;

/** Runs every program against every test and hands one program in: the one that passes most tests, the first of equals. */
export function settle(
  truth: Program,
  programs: readonly Candidate<Program>[],
  tests: readonly Candidate<Trace>[],
): Episode {
  const matrix = fillMatrix(
    [...programs.map(candidateRow), referenceRow(truth)],
    [...tests.map(testColumn), truthColumn(truth)],
  );
  let chosen: number | null = null;
  for (const [i, { meaning }] of programs.entries()) {
    if (meaning === null) continue;
    if (chosen === null || testsPassed(matrix, i) > testsPassed(matrix, chosen)) chosen = i;
  }
  const answer = chosen === null ? null : programs[chosen]!.meaning;
  return { programs, tests, matrix, chosen, solved: answer !== null && isCorrect(answer, truth) };
}

/** How many of the verifier's tests a program passes; the last column is the truth and does not count. */
const testsPassed = ({ pass, tests }: Matrix, program: number): number =>
  pass[program]!.filter((cell, test) => cell === 1 && !tests[test]!.ground_truth).length;
