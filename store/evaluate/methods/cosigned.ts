/** The rewards that the demo trains with, ours, after CURE (arXiv 2506.03136): programs and tests that vouch for each other. */

import { Type } from 'typebox';
import { reward, score } from '../judging/judgement.ts';
import {
  type ExecutionReport,
  ExecutionReport as Input,
  nobodyRight,
  type ReadReport,
  readReport,
  testLengths,
} from './execution-report.ts';
import { method } from './method.ts';
import { nullable } from './shapes.ts';

const params = {
  lambda_ver: 0.3,
  lambda_len: 0.1,
  max_len: 16,
  trust: 0.1,
  malformed_program: -0.2,
  malformed_test: -1,
  wave_through: 0.5,
};
type Params = typeof params;

type CosignedRewards = {
  readonly programs: readonly (number | null)[];
  readonly tests: readonly (number | null)[];
  /** Share of the generated tests that right programs co-sign; null when no candidate is right. Feeds the trust of the next iteration. */
  readonly upheld: number | null;
};

/**
 * Rewards for a coder and a verifier that train together, where a test counts only as far as right programs co-sign it.
 *
 * Source: ours, after CURE (arXiv 2506.03136; Gen-Verse/CURE, optimization/reward.py) and the notation R_C = R_GT + λ_ver·R_Verifier,
 * R_V = R_P − λ_len·Length. It differs from CURE in this:
 * - The coder's reward has a term for generated tests; the released CURE has none. A test speaks only with weight w: 1 if every right
 *   candidate of the episode that ran it passes it, 0 if one of them contradicts it or it is malformed, and `trust` (the verifier's
 *   record so far) if no right candidate could be asked.
 * - Ground truth is all or nothing: R_GT is 1 for a candidate that passes every ground-truth test, otherwise 0.
 * - A test that holds earns 1, not the share of wrong programs it rejects: where the environment draws the test's input, distinguishing
 *   programs is luck and must not be rewarded. A test that does not hold is charged for each wrong program it waves through.
 * - Length is charged only to tests that hold. Charged to all, it is the only gradient left while tests fail, and they shrink to nothing.
 * - No z-score here: normalising is the business of a credit method.
 * - CURE drops a task without a right program; here it still teaches, by `trust` and by `wave_through`.
 *
 * Kept as unknown: a candidate whose ground-truth tests were not all run, and failed none, has reward null. A cell that was not run
 * leaves the averages. Answers stand in the order of the report; rows and columns that are not candidates have null.
 */
export const cosignedRewards = method({
  name: 'cosigned_rewards',
  kind: 'reward',
  source: 'ours, after CURE (arXiv 2506.03136; Gen-Verse/CURE, optimization/reward.py)',
  version: 1,
  summary: 'Rewards of coder and verifier in which a test counts only as far as right programs uphold it.',
  teams: 'coder and tester; test execution',
  params,
  limits: { max_len: Type.Number({ exclusiveMinimum: 0 }), trust: Type.Number({ minimum: 0, maximum: 1 }) },
  input: Input,
  run: (report, params): CosignedRewards => {
    const read = readReport(report);
    const weights = new Map(read.tests.map((test) => [test, weightOf(report, read, test, params.trust)]));
    const lengths = params.lambda_len === 0 ? report.tests.map(() => 0) : testLengths(report);
    return {
      programs: report.programs.map((_, i) =>
        read.programs.includes(i) ? programReward(report, read, i, weights, params) : null,
      ),
      tests: report.tests.map((_, k) =>
        read.tests.includes(k) ? testReward(report, read, k, lengths[k]!, params) : null,
      ),
      upheld: upheldShare(report, read),
    };
  },
  judged: {
    over: 'report',
    reads: ['content', 'reports'],
    writes: ['rewards', 'scores'],
    each:
      () =>
      ({ report, episode: { episode_id } }) => {
        return {
          input: report,
          rows: (output) => {
            const rewardOn = (id: string | number, value: number | null = null) =>
              reward({ episode_id, step_id: String(id) }, value, value === null ? 'not_run' : null);
            return [
              ...report.programs.flatMap(({ id, reference }, i) =>
                reference ? [] : [rewardOn(id, output.programs[i])],
              ),
              ...report.tests.flatMap((test, k) =>
                test.ground_truth || test.public ? [] : [rewardOn(test.id, output.tests[k])],
              ),
              score(`e/${episode_id}`, output.upheld, output.upheld === null ? noShare(report) : null),
            ];
          },
        };
      },
  },
});

/** Whether every right candidate that ran the test passes it; null when none did. */
function cosigned(read: ReadReport, test: number): boolean | null {
  const asked = read.right.map((program) => read.cell(program, test)).filter((cell) => cell !== null);
  return asked.length === 0 ? null : asked.every((cell) => cell === 1);
}

function weightOf(report: ExecutionReport, read: ReadReport, test: number, trust: number): number {
  if (!report.tests[test]!.valid) return 0;
  const signed = cosigned(read, test);
  if (signed === null) return trust;
  return signed ? 1 : 0;
}

function programReward(
  report: ExecutionReport,
  read: ReadReport,
  program: number,
  weights: ReadonlyMap<number, number>,
  params: Params,
): number | null {
  if (!report.programs[program]!.valid) return params.malformed_program;
  const right = read.right.includes(program);
  if (!right && !read.wrong.includes(program)) return null;
  let passed = 0;
  let asked = 0;
  for (const [test, weight] of weights) {
    const cell = report.tests[test]!.valid ? read.cell(program, test) : 0;
    if (cell === null) continue;
    passed += weight * cell;
    asked += 1;
  }
  return (right ? 1 : 0) + (asked === 0 ? 0 : (params.lambda_ver * passed) / asked);
}

function testReward(report: ExecutionReport, read: ReadReport, test: number, length: number, params: Params): number {
  if (!report.tests[test]!.valid) return params.malformed_test;
  if (cosigned(read, test) === true) return 1 - (params.lambda_len * length) / params.max_len;
  const asked = read.wrong.map((program) => read.cell(program, test)).filter((cell) => cell !== null);
  const fooled = asked.filter((cell) => cell === 1).length;
  return fooled === 0 ? 0 : (-params.wave_through * fooled) / asked.length;
}

function upheldShare(report: ExecutionReport, read: ReadReport): number | null {
  if (read.right.length === 0 || read.tests.length === 0) return null;
  const upheld = read.tests.filter((test) => report.tests[test]!.valid && cosigned(read, test) === true);
  return upheld.length / read.tests.length;
}

function noShare(report: ExecutionReport): string {
  const read = readReport(report);
  return read.tests.length === 0 ? 'no_tests' : nobodyRight(report, read);
}

const Share = Type.Number({ minimum: 0, maximum: 1 });

/**
 * How far a verifier's tests are to be believed where no right program can be asked, by its record so far.
 *
 * Source: ours; the trust of `cosigned_rewards`. A moving average of the squared share of upheld tests: squared, so that a verifier
 * that is right half of the time is believed a quarter. An episode without a right program (null) says nothing about the verifier.
 * It is run by hand: a judging keeps no state from one to the next.
 */
export const trustUpdate = method({
  name: 'trust_update',
  kind: 'score',
  source: 'ours',
  version: 1,
  summary: 'Moves the trust in a verifier towards the squared share of its tests that right programs upheld.',
  teams: 'coder and tester; test execution',
  params: { rate: 0.02 },
  limits: { rate: Share },
  input: Type.Object({ trust: Share, upheld: Type.Array(nullable(Share)) }),
  run: ({ trust, upheld }, { rate }): number =>
    upheld.reduce<number>((now, share) => (share === null ? now : (1 - rate) * now + rate * share * share), trust),
});
