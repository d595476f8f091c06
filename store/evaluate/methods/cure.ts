/** CURE (arXiv 2506.03136, Gen-Verse/CURE): one policy writes programs and tests; each is worth what the other side makes of it. */

import { Type } from 'typebox';
import { groupBy } from '../../../ingest/events/group-by.ts';
import { groupOf, type StepFacts, stepKey } from '../judging/facts.ts';
import { credit, type Judgement, reward, score } from '../judging/judgement.ts';
import type { MethodFacts } from '../judging/method-facts.ts';
import type { ExecutionReport } from './execution-report.ts';
import { method } from './method.ts';
import { refuseInput, requireRectangle, requireRows } from './refuse.ts';
import { PassMatrix } from './shapes.ts';
import { largest, mean, median, standardDeviation, sum } from './statistics.ts';

/** CURE's own shapes: programs in rows; ground-truth columns apart from generated ones; malformed and unrun cells do not pass. */
type Matrices = {
  readonly gt_pass: readonly (readonly (0 | 1)[])[];
  readonly generated_pass: readonly (readonly (0 | 1)[])[];
  /** Candidates by row, and by column of `generated_pass`. */
  readonly programs: ExecutionReport['programs'];
  readonly tests: ExecutionReport['tests'];
  /** Length of each generated test in tokens; null where one is unknown. */
  readonly length: readonly number[] | null;
};

/** `no_ground_truth` where there is nothing to measure candidates against. */
export function matricesOf(report: ExecutionReport): Matrices | 'no_ground_truth' {
  const programs = indices(report.programs, (program) => !program.reference);
  const truths = indices(report.tests, (test) => test.ground_truth === true);
  const tests = indices(report.tests, (test) => !test.ground_truth && !test.public);
  if (truths.length === 0) return 'no_ground_truth';
  const passes = (i: number, k: number) => (report.programs[i]?.valid ? (report.pass[i]?.[k] ?? 0) : 0);
  const cells = (columns: readonly number[]) => programs.map((i) => columns.map((k) => passes(i, k)));
  const { tokens } = report;
  return {
    gt_pass: cells(truths),
    generated_pass: cells(tests),
    programs: programs.map((i) => report.programs[i]!),
    tests: tests.map((k) => report.tests[k]!),
    length: tokens === undefined ? null : tests.map((k) => tokens.tests[k] ?? 0),
  };
}

const indices = <T>(items: readonly T[], keep: (item: T) => boolean): number[] =>
  items.flatMap((item, i) => (keep(item) ? [i] : []));

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
function requirePasses(generated: PassRows, gt: PassRows): number {
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
function curePrograms(gt: PassRows, efficient: boolean): number[] | null {
  requireTruths(gt);
  return cureNormalise(gt.map(mean), efficient);
}

type CureTests = {
  readonly raw: readonly number[];
  /** Null when the raw values are all equal. */
  readonly reward: readonly number[] | null;
};

/** The reward of generated tests for distinguishing right programs from wrong ones; null where no program is right. */
function cureTests(
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
function cureBalanceOf(values: readonly number[]): number[] | null {
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

/** A step with what is known of it, or the reason why it stays out of its set. */
type Candidate<Known> = Known | string;

/**
 * The programs of a task, or its tests: the outputs of one agent in a group are one set. The rewards are those of the method that is read
 * (such as `cure_code_reward`), else the recorded one of the episode. `weigh` has one value for each known candidate, or null where one
 * side is empty.
 */
function rewardsBySet<Known extends object>(
  { episodes, steps }: MethodFacts,
  knownOf: (step: StepFacts) => Candidate<Known>,
  weigh: (known: readonly Known[]) => readonly number[] | string | null,
): Judgement[] {
  const groups = new Map(episodes.map((episode) => [episode.episode_id, groupOf(episode)]));
  const rows = steps.map((step) => ({ step, known: knownOf(step) }));
  const sets = groupBy(rows, ({ step }) => stepKey(groups.get(step.episode_id)!, step.agent ?? ''));
  return [...sets.values()].flatMap((set): Judgement[] => {
    const known = set.flatMap((row) => (typeof row.known === 'string' ? [] : [row.known]));
    const values = weigh(known);
    const without = typeof values === 'string' ? values : values === null ? 'one_sided' : null;
    let place = 0;
    return set.map(({ step, known: own }) => {
      if (typeof own === 'string') return reward(step, null, own);
      const value = typeof values === 'string' ? null : (values?.[place] ?? null);
      place += 1;
      return reward(step, value, without);
    });
  });
}

/**
 * What a program earns: its share of passed ground-truth tests, compared with the other programs of the task.
 *
 * Source: Gen-Verse/CURE, optimization/reward.py; arXiv 2506.03136. Verified (code).
 * Kept: std with ddof 0 and no eps; a task whose programs all score the same is dropped (null). There is no term for generated
 * tests in the released coder reward, though the paper's prose suggests one.
 * Dropped: running the programs. Open: nothing known.
 */
export const cureCodeReward = method({
  name: 'cure_code_reward',
  kind: 'reward',
  source: 'CURE: Gen-Verse/CURE, optimization/reward.py; arXiv 2506.03136; verified (code)',
  version: 1,
  summary: 'z-score of each program’s ground-truth pass rate within its task; null when they are all equal.',
  teams: 'coder and tester; test execution',
  params: { efficient: false },
  input: Type.Object({ gt_pass: PassMatrix }),
  run: ({ gt_pass }, { efficient }): number[] | null => curePrograms(gt_pass, efficient),
  judged: {
    over: 'report',
    reads: ['content', 'reports'],
    writes: ['rewards', 'scores'],
    each:
      () =>
      ({ report, episode: { episode_id } }) => {
        const matrices = matricesOf(report);
        if (typeof matrices === 'string') return matrices;
        const { gt_pass, programs } = matrices;
        return {
          input: { gt_pass },
          rows: (rewards) => {
            const reason = rewards === null ? 'zero_variance' : null;
            return programs.map(({ id }, i) =>
              reward({ episode_id, step_id: String(id) }, rewards?.[i] ?? null, reason),
            );
          },
        };
      },
  },
});

/**
 * What a generated test earns: more, the better "passes this test" distinguishes right programs from wrong ones.
 *
 * Source: Gen-Verse/CURE, optimization/reward.py; arXiv 2506.03136. Verified (code).
 * Kept: +1 if every right program passes, otherwise −1, times the share of wrong programs the test judges as its sign says;
 * `post_stage` asks for none or any of the wrong programs instead of a share. Without wrong programs the scale is 1, where the
 * count form of the paper would drop the task. A raw value of 0 is legal. Nobody right: null.
 * Dropped: the count form, equal but for the scale. Open: nothing known. Version 2 says `nobody_right` where no program is.
 */
export const cureTestReward = method({
  name: 'cure_test_reward',
  kind: 'reward',
  source: 'CURE: Gen-Verse/CURE, optimization/reward.py; arXiv 2506.03136; verified (code)',
  version: 2,
  summary: 'z-score of how precisely each generated test separates right programs from wrong ones.',
  teams: 'coder and tester; test execution',
  params: { post_stage: false, efficient: false },
  input: Type.Object({ generated_pass: PassMatrix, gt_pass: PassMatrix }),
  run: ({ generated_pass, gt_pass }, options): CureTests | null => cureTests(generated_pass, gt_pass, options),
  judged: {
    over: 'report',
    reads: ['content', 'reports'],
    writes: ['rewards', 'scores'],
    each:
      () =>
      ({ report, episode: { episode_id } }) => {
        const matrices = matricesOf(report);
        if (typeof matrices === 'string') return matrices;
        const { gt_pass, generated_pass, tests } = matrices;
        return {
          input: { gt_pass, generated_pass },
          rows: (output) => {
            const rewards = output?.reward ?? null;
            const reason = output === null ? 'nobody_right' : rewards === null ? 'zero_variance' : null;
            return tests.map(({ id }, k) => reward({ episode_id, step_id: String(id) }, rewards?.[k] ?? null, reason));
          },
        };
      },
  },
});

type Advantages = {
  /** Null where all programs score the same. */
  readonly programs: readonly number[] | null;
  /** Null where no program is right, or all tests are worth the same. */
  readonly tests: readonly number[] | null;
};

/**
 * CURE's advantages of one policy that is coder and tester: each program by its reward, each test by its own.
 *
 * Source: Gen-Verse/CURE, optimization/reward.py; arXiv 2506.03136. Verified (code). The released code gives the rewards of programs and of tests
 * to one training as they are, as the advantage of every token: they are normalised within their task already.
 * Kept: both rewards, each compared with its like; a side that is dropped (null) leaves the other.
 * Dropped: `cure_length_regularize`, which is off by default. Open: nothing known. Version 2 says `nobody_right` of tests where no program is.
 */
export const cureAdvantage = method({
  name: 'cure_advantage',
  kind: 'credit',
  source: 'CURE: Gen-Verse/CURE, optimization/reward.py; arXiv 2506.03136; verified (code)',
  version: 2,
  summary: 'The rewards of CURE’s programs and of its tests as the advantages of one policy that writes both.',
  teams: 'coder and tester; test execution',
  params: { post_stage: false, efficient: false },
  input: Type.Object({ generated_pass: PassMatrix, gt_pass: PassMatrix }),
  run: ({ generated_pass, gt_pass }, options): Advantages => ({
    programs: curePrograms(gt_pass, options.efficient),
    tests: cureTests(generated_pass, gt_pass, options)?.reward ?? null,
  }),
  judged: {
    over: 'report',
    reads: ['content', 'reports'],
    writes: ['credits', 'scores'],
    each:
      () =>
      ({ report, episode: { episode_id } }) => {
        const matrices = matricesOf(report);
        if (typeof matrices === 'string') return matrices;
        const { programs, tests, gt_pass, generated_pass } = matrices;
        return {
          input: { gt_pass, generated_pass },
          rows: (output) => {
            const rows = (
              candidates: readonly { readonly id: string | number }[],
              values: readonly number[] | null,
              none: string,
            ) =>
              candidates.map(({ id }, i) =>
                credit({ episode_id, step_id: String(id) }, values?.[i] ?? null, values === null ? none : null),
              );
            const { right } = splitByTruth(gt_pass);
            return [
              ...rows(programs, output.programs, 'zero_variance'),
              ...rows(tests, output.tests, right.length === 0 ? 'nobody_right' : 'zero_variance'),
            ];
          },
        };
      },
  },
});

/**
 * Rewards rescaled so that praise and blame weigh the same.
 *
 * Source: Gen-Verse/CURE, optimization/reward.py; arXiv 2506.03136. Verified (code).
 * Kept: only the positive side is scaled; division by the std (ddof 0) without shifting the mean; null when a side is empty.
 * Dropped: nothing. Open: nothing known.
 */
export const cureBalance = method({
  name: 'cure_balance',
  kind: 'reward',
  source: 'CURE: Gen-Verse/CURE, optimization/reward.py; arXiv 2506.03136; verified (code)',
  version: 1,
  summary: 'Scales the positive rewards to weigh as much as the negative ones, then divides by the std.',
  teams: 'coder and tester; test execution',
  input: Type.Object({ x: Type.Array(Type.Number()) }),
  run: ({ x }): number[] | null => cureBalanceOf(x),
  judged: {
    reads: ['rewards'],
    rows: (facts, ask) =>
      rewardsBySet(
        facts,
        (step) => {
          const value = facts.rewardOf(step);
          return value === null ? 'missing_reward' : { value };
        },
        (known) => ask.answer({ x: known.map(({ value }) => value) }),
      ),
  },
});

/**
 * Rewards of long-reasoning testers, by length: the short ones among the right are praised, the overlong ones are not.
 *
 * Source: Gen-Verse/CURE, optimization/reward.py; arXiv 2506.03136. Verified (code). Off by default there.
 * Kept: only the sign of a reward counts and 0 belongs to neither side; the target is the median length of the positives, clamped;
 * every negative gets the minimum of the whole value array, which is 0 where there is no positive. So a right but overlong sample
 * turns negative. Null without positives.
 * Dropped: nothing. Open: nothing known.
 */
export const cureLengthRegularize = method({
  name: 'cure_length_regularize',
  kind: 'reward',
  source: 'CURE: Gen-Verse/CURE, optimization/reward.py; arXiv 2506.03136; verified (code)',
  version: 1,
  summary: 'Replaces positive rewards by how far below the median length they stay, then balances both sides.',
  teams: 'coder and tester; test execution',
  params: { min_len: 1000, max_len: 8000 },
  limits: { min_len: Type.Number({ minimum: 0 }), max_len: Type.Number({ minimum: 0 }) },
  input: Type.Object({ reward: Type.Array(Type.Number()), length: Type.Array(Type.Number({ minimum: 0 })) }),
  run: ({ reward, length }, { min_len, max_len }): number[] | null => {
    requireRows('length', length, reward.length, 'reward');
    const lengths = length.filter((_, i) => reward[i]! > 0);
    if (lengths.length === 0) return null;
    if (lengths.every((one) => one === lengths[0])) return cureBalanceOf(reward.map(Math.sign));
    const target = Math.min(Math.max(median(lengths), min_len), max_len);
    const values = reward.map((one, i) => (one > 0 ? target - length[i]! : 0));
    const least = values.reduce((a, b) => Math.min(a, b), 0);
    return cureBalanceOf(values.map((value, i) => (reward[i]! < 0 ? least : value)));
  },
  judged: {
    reads: ['rewards', 'content'],
    rows: (facts, ask) =>
      rewardsBySet(
        facts,
        (step) => {
          const [value, { length }] = [facts.rewardOf(step), facts.contentOf(step)];
          if (value === null) return 'missing_reward';
          return length === null ? 'no_length' : { value, length };
        },
        (known) => ask.answer({ reward: known.map(({ value }) => value), length: known.map(({ length }) => length) }),
      ),
  },
});

type Precision = { readonly p_u: number; readonly p_01: number; readonly p_00: number; readonly precision: number };

/**
 * How precisely an episode's generated tests distinguish right programs from wrong ones, and what it is made of.
 *
 * Source: CURE, arXiv 2506.03136, the reward precision p_u·(1 − p_01) − (1 − p_u)·p_00. The count form behind it is secondary, this notation
 * unverified. p_u is the share of tests that every right program passes, p_01 the share of wrong programs that pass such a test, p_00 the
 * share that pass another; an undefined share counts 0. With wrong programs, the precision is the mean of the raw values of
 * `cure_test_reward`. Null when no program is right or there are no tests.
 * Kept: the three shares and their combination. Dropped: nothing. Open: the notation.
 */
export const curePrecision = method({
  name: 'cure_precision',
  kind: 'score',
  source: 'CURE: arXiv 2506.03136; count form secondary, notation unverified',
  version: 1,
  summary: 'How well passing the generated tests implies being right, estimated from one task.',
  teams: 'coder and tester; test execution',
  input: Type.Object({ generated_pass: PassMatrix, gt_pass: PassMatrix }),
  run: ({ generated_pass, gt_pass }): Precision | null => {
    const tests = requirePasses(generated_pass, gt_pass);
    const { right, wrong } = splitByTruth(gt_pass);
    if (right.length === 0 || tests === 0) return null;
    const upheld: number[] = [];
    const others: number[] = [];
    for (let test = 0; test < tests; test++) {
      const passes = (program: number) => generated_pass[program]![test] === 1;
      const fooled = wrong.length === 0 ? 0 : wrong.filter(passes).length / wrong.length;
      (right.every(passes) ? upheld : others).push(fooled);
    }
    const p_u = upheld.length / tests;
    const p_01 = upheld.length === 0 ? 0 : mean(upheld);
    const p_00 = others.length === 0 ? 0 : mean(others);
    return { p_u, p_01, p_00, precision: p_u * (1 - p_01) - (1 - p_u) * p_00 };
  },
  judged: {
    over: 'report',
    reads: ['content', 'reports'],
    each:
      () =>
      ({ report, episode: { episode_id } }) => {
        const matrices = matricesOf(report);
        if (typeof matrices === 'string') return matrices;
        const { gt_pass, generated_pass, tests } = matrices;
        return {
          input: { gt_pass, generated_pass },
          rows: (output) => {
            if (output === null) return tests.length === 0 ? 'no_tests' : 'nobody_right';
            return [score(`e/${episode_id}`, output.precision, null, output)];
          },
        };
      },
  },
});

/**
 * Best of N by tests: the program that passes most of the generated tests, and how it does on ground truth.
 *
 * Source: Gen-Verse/CURE, evaluation/eval.py; arXiv 2506.03136. Verified (code). The lowest index wins a tie.
 * Without ground-truth columns nothing is known about the choice: both answers are null.
 * Kept: most passes, then the lowest index. Dropped: running the programs. Open: nothing known.
 */
export const bonSelect = method({
  name: 'bon_select',
  kind: 'score',
  source: 'CURE: Gen-Verse/CURE, evaluation/eval.py; arXiv 2506.03136; verified (code)',
  version: 1,
  summary: 'Picks the program that passes most generated tests and reports it on ground truth.',
  teams: 'coder and tester; test execution',
  input: Type.Object({ generated_pass: PassMatrix, gt_pass: PassMatrix }),
  run: ({ generated_pass, gt_pass }) => {
    if (generated_pass.length === 0) refuseInput('generated_pass', 'at least one program', generated_pass);
    requireRectangle('generated_pass', generated_pass);
    requireRectangle('gt_pass', gt_pass);
    requireRows('gt_pass', gt_pass, generated_pass.length, 'the programs of generated_pass');
    const passes = generated_pass.map(sum);
    const generated_passes = largest(passes);
    const index = passes.indexOf(generated_passes);
    const truth = gt_pass[index]!;
    return {
      index,
      generated_passes,
      gt_all: truth.length === 0 ? null : truth.every((bit) => bit === 1),
      gt_rate: truth.length === 0 ? null : mean(truth),
    };
  },
  judged: {
    over: 'report',
    reads: ['content', 'reports'],
    each:
      () =>
      ({ report, episode: { episode_id } }) => {
        const matrices = matricesOf(report);
        if (typeof matrices === 'string') return matrices;
        const { gt_pass, generated_pass, programs } = matrices;
        return {
          input: { gt_pass, generated_pass },
          rows: (choice) => {
            const chosen = programs[choice.index]?.id ?? null;
            return [score(`e/${episode_id}`, choice.gt_rate, null, { ...choice, chosen })];
          },
        };
      },
  },
});
