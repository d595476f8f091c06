/**
 * R_C = R_GT + λ_ver·R_Verifier and R_V = R_P − λ_len·Length, read literally.
 *
 * Source: the notation of essays about CURE; it does not match the released code (see `cure_code_reward`, `cure_test_reward`).
 * Our concrete reading, unverified: R_GT and R_Verifier are mean pass rates, R_P is the share of programs for which passing the test
 * and being right are the same thing, Length is in tokens. The default factors are ours.
 * Kept: both lines of the notation. Dropped: nothing. Open: what each term means, and the factors.
 */

import { type Static, Type } from 'typebox';
import { splitByTruth } from '../cure.ts';
import type { Method } from '../method.ts';
import { refuseInput, requireRectangle, requireRows } from '../refuse.ts';
import { PassMatrix } from '../shapes.ts';
import { mean } from '../statistics.ts';

const Input = Type.Object({
  gt_pass: PassMatrix,
  generated_pass: PassMatrix,
  /** Length of each generated test in tokens. */
  length: Type.Array(Type.Number({ minimum: 0 })),
});
const params = { lambda_ver: 0.5, lambda_len: 0.001 };

type Rewards = { readonly R_C: readonly number[]; readonly R_V: readonly number[] };

export const essayRewards: Method<Static<typeof Input>, typeof params, Rewards> = {
  name: 'essay_rewards',
  kind: 'reward',
  source: 'ours, after the essays’ notation for CURE; unverified',
  version: 1,
  needs: 'execution matrix',
  summary: 'Pass rates for programs, and how well tests tell right from wrong less their length.',
  params,
  input: Input,
  run: ({ gt_pass, generated_pass, length }, { lambda_ver, lambda_len }) => {
    const truths = requireRectangle('gt_pass', gt_pass);
    const tests = requireRectangle('generated_pass', generated_pass);
    requireRows('generated_pass', generated_pass, gt_pass.length, 'the programs of gt_pass');
    requireRows('length', length, tests, 'the generated tests');
    if (gt_pass.length > 0 && truths === 0) refuseInput('gt_pass', 'at least one ground-truth column', gt_pass);
    const right = new Set(splitByTruth(gt_pass).right);
    const verified = (row: readonly number[]) => (row.length === 0 ? 0 : mean(row));
    const told = (test: number) => mean(generated_pass.map((row, i) => ((row[test] === 1) === right.has(i) ? 1 : 0)));
    return {
      R_C: gt_pass.map((row, i) => mean(row) + lambda_ver * verified(generated_pass[i]!)),
      R_V: length.map((tokens, test) => told(test) - lambda_len * tokens),
    };
  },
};
