/**
 * R_C = R_GT + λ_ver·R_Verifier and R_V = R_P − λ_len·Length, read literally.
 *
 * Source: the notation of essays about CURE; it does not match the released code (see `cure_code_reward`, `cure_test_reward`).
 * Our concrete reading, unverified: R_GT and R_Verifier are mean pass rates, R_P is the share of programs for which passing the test
 * and being right are the same thing, Length is in tokens. The default factors are ours.
 * Kept: both lines of the notation. Dropped: nothing. Open: what each term means, and the factors.
 */

import { Type } from 'typebox';
import { reward } from '../judging/judgement.ts';
import { matricesOf, requireTruths, splitByTruth } from './cure.ts';
import { method } from './method.ts';
import { requireRectangle, requireRows } from './refuse.ts';
import { PassMatrix } from './shapes.ts';
import { mean } from './statistics.ts';

export const essayRewards = method({
  name: 'essay_rewards',
  kind: 'reward',
  source: 'ours, after the essays’ notation for CURE; unverified',
  version: 1,
  summary: 'Pass rates for programs, and how well tests distinguish right from wrong, minus their length.',
  teams: 'coder and tester; test execution',
  params: { lambda_ver: 0.5, lambda_len: 0.001 },
  input: Type.Object({
    gt_pass: PassMatrix,
    generated_pass: PassMatrix,
    /** Length of each generated test in tokens. */
    length: Type.Array(Type.Number({ minimum: 0 })),
  }),
  run: ({ gt_pass, generated_pass, length }, { lambda_ver, lambda_len }) => {
    requireTruths(gt_pass);
    const tests = requireRectangle('generated_pass', generated_pass);
    requireRows('generated_pass', generated_pass, gt_pass.length, 'the programs of gt_pass');
    requireRows('length', length, tests, 'the generated tests');
    const right = new Set(splitByTruth(gt_pass).right);
    const verified = (row: readonly number[]) => (row.length === 0 ? 0 : mean(row));
    const separation = (test: number) =>
      mean(generated_pass.map((row, i) => ((row[test] === 1) === right.has(i) ? 1 : 0)));
    return {
      R_C: gt_pass.map((row, i) => mean(row) + lambda_ver * verified(generated_pass[i]!)),
      R_V: length.map((tokens, test) => separation(test) - lambda_len * tokens),
    };
  },
  judged: {
    over: 'report',
    reads: ['content', 'reports'],
    writes: ['rewards', 'scores'],
    each:
      () =>
      ({ report, episode: { episode_id } }) => {
        if (report.tokens === undefined) return 'no_token_ids';
        const matrices = matricesOf(report);
        if (typeof matrices === 'string') return matrices;
        const { gt_pass, generated_pass, length, programs, tests } = matrices;
        return {
          input: { gt_pass, generated_pass, length: length! },
          rows: (output) => {
            const rewardOn = (id: string | number, value: number | undefined) =>
              reward({ episode_id, step_id: String(id) }, value ?? null, null);
            return [
              ...programs.map(({ id }, i) => rewardOn(id, output.R_C[i])),
              ...tests.map(({ id }, k) => rewardOn(id, output.R_V[k])),
            ];
          },
        };
      },
  },
});
