/** What CURE's rewards share: a z-score without eps, and who among the programs is right. Source: Gen-Verse/CURE, optimization/reward.py. */

import { refuseInput, requireRectangle, requireRows } from './refuse.ts';
import { mean, standardDeviation } from './statistics.ts';

/**
 * (x − mean) / std with ddof 0 and no eps; null when all are equal, which drops the whole task.
 * With `efficient`, an array of ones only comes back as it is.
 */
function cureNormalise(values: readonly number[], efficient: boolean): number[] | null {
  if (efficient && values.length > 0 && values.every((value) => value === 1)) return [...values];
  const deviation = standardDeviation(values, 0);
  if (deviation === 0) return null;
  const centre = mean(values);
  return values.map((value) => (value - centre) / deviation);
}

/**
 * Checks rows of passes, a row for each program, against the same programs on ground truth; returns how many generated tests there are.
 * @throws TroupeError `input_refused` for ragged rows, other programs, or no ground truth.
 */
export function requirePasses(generated: PassRows, gt: PassRows): number {
  const tests = requireRectangle('generated_pass', generated);
  requireTruths(gt);
  requireRows('gt_pass', gt, generated.length, 'the programs of generated_pass');
  return tests;
}

/** @throws TroupeError `input_refused` for ragged rows of ground truth, or programs without a column of it. */
export function requireTruths(gt: PassRows): void {
  const truths = requireRectangle('gt_pass', gt);
  if (gt.length > 0 && truths === 0) refuseInput('gt_pass', 'at least one ground-truth column', gt);
}

type PassRows = readonly (readonly number[])[];

/** What programs earn: the share of ground truth that each passes, normalised within the task; null where all pass the same share. */
export function curePrograms(gt: PassRows, efficient: boolean): number[] | null {
  requireTruths(gt);
  return cureNormalise(gt.map(mean), efficient);
}

export type CureTests = {
  readonly raw: readonly number[];
  /** Null when the raw values are all equal. */
  readonly reward: readonly number[] | null;
};

/** The reward of generated tests for distinguishing right programs from wrong ones; null where no program is right. */
export function cureTests(
  generated: PassRows,
  gt: PassRows,
  { post_stage, efficient }: { readonly post_stage: boolean; readonly efficient: boolean },
): CureTests | null {
  const tests = requirePasses(generated, gt);
  const { right, wrong } = splitByTruth(gt);
  if (right.length === 0) return null;
  const raw = Array.from({ length: tests }, (_, test) => {
    const upheld = right.every((program) => generated[program]![test] === 1);
    const fooled = wrong.filter((program) => generated[program]![test] === 1).length;
    return signedScale(upheld, fooled, wrong.length, post_stage);
  });
  return { raw, reward: cureNormalise(raw, efficient) };
}

function signedScale(upheld: boolean, fooled: number, wrong: number, postStage: boolean): number {
  if (wrong === 0) return upheld ? 1 : -1;
  if (postStage) {
    if (upheld) return fooled === 0 ? 1 : 0;
    return fooled > 0 ? -1 : 0;
  }
  const share = upheld ? (wrong - fooled) / wrong : -fooled / wrong;
  return share === 0 ? 0 : share;
}

/** Positions of the programs that pass every ground-truth test, and of the others. */
export function splitByTruth(gtPass: PassRows): {
  readonly right: number[];
  readonly wrong: number[];
} {
  const right: number[] = [];
  const wrong: number[] = [];
  gtPass.forEach((row, i) => {
    (row.every((bit) => bit === 1) ? right : wrong).push(i);
  });
  return { right, wrong };
}

/**
 * Scales the positive values so that both sides weigh the same, then divides all by their std (ddof 0), without shifting the mean.
 * Null when one side is empty.
 */
export function cureBalanceOf(values: readonly number[]): number[] | null {
  let positive = 0;
  let negative = 0;
  for (const value of values) {
    if (value > 0) positive += value;
    else negative -= value;
  }
  if (positive === 0 || negative === 0) return null;
  const balanced = values.map((value) => (value > 0 ? (value * negative) / positive : value));
  const deviation = standardDeviation(balanced, 0);
  return balanced.map((value) => value / deviation);
}
