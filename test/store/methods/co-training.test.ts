import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { ExecutionReport } from '../../../store/evaluate/methods/execution-report.ts';
import { findMethod } from '../../../store/evaluate/methods/find.ts';
import { runMethod } from '../../../store/evaluate/methods/run.ts';
import { expectClose } from './close.ts';
import { EPISODE, withCell, withTest } from './reports.ts';

type Cosigned = { programs: (number | null)[]; tests: (number | null)[]; upheld: number | null };
type Verdicts = { id: string | number; keep: boolean; reason: string | null }[];

const run = (name: string, input: unknown) => runMethod(findMethod(name), input);
const cosigned = (report: ExecutionReport, params = {}) =>
  run('cosigned_rewards', { ...report, ...params }) as Cosigned;
const evaluate = (name: string, ...reports: ExecutionReport[]) => run(name, { reports });
const dropped = (verdicts: unknown) =>
  Object.fromEntries((verdicts as Verdicts).filter(({ keep }) => !keep).map(({ id, reason }) => [id, reason]));

describe('cosigned_rewards', () => {
  test('a test counts for the coder only if the right program passes it', () => {
    expectClose(cosigned(EPISODE), {
      programs: [1.1, 0, -0.2, null],
      tests: [null, null, 0.95, -0.25, -1],
      upheld: 1 / 3,
    });
  });

  test('without a right program tests count as far as they are trusted, and are charged for what they let pass', () => {
    expectClose(cosigned(withCell(EPISODE, 0, 0, 0)), {
      programs: [0.01, 0.01, -0.2, null],
      tests: [null, null, -1 / 6, -1 / 6, -1],
      upheld: null,
    });
    expectClose(cosigned(withCell(EPISODE, 0, 0, 0), { trust: 1 }).programs, [0.1, 0.1, -0.2, null]);
  });

  test('every parameter is what its name says', () => {
    const params = {
      lambda_ver: 0.6,
      lambda_len: 0.2,
      max_len: 8,
      malformed_program: -3,
      malformed_test: -4,
      wave_through: 1,
    };
    expectClose(cosigned(EPISODE, params), {
      programs: [1.2, 0, -3, null],
      tests: [null, null, 0.8, -0.5, -4],
      upheld: 1 / 3,
    });
  });

  test('one right program that contradicts a test outweighs another that passes it', () => {
    const both = withCell(withCell(EPISODE, 1, 0, 1), 1, 2, 1);
    expectClose(cosigned(both), { programs: [1.1, 1.1, -0.2, null], tests: [null, null, 0.95, 0, -1], upheld: 1 / 3 });
  });

  test('the reference row changes nothing', () => {
    for (const cell of [0, 1, null] as const) {
      for (const column of [0, 1, 2, 3, 4]) {
        expect(cosigned(withCell(EPISODE, 3, column, cell))).toEqual(cosigned(EPISODE));
      }
    }
  });

  test('a program whose ground truth was not run has no reward, and is neither right nor wrong', () => {
    const out = cosigned(withCell(EPISODE, 0, 0, null));
    expect(out.programs[0]).toBeNull();
    expect(out.upheld).toBeNull();
    expectClose(out.tests, [null, null, 0, -0.25, -1]);
  });

  test('a cell that was not run leaves the average of its program', () => {
    expectClose(cosigned(withCell(EPISODE, 0, 3, null)).programs[0], 1 + 0.3 / 2);
  });

  test('a test that no right program was run on is only as good as the trust', () => {
    const out = cosigned(withCell(EPISODE, 0, 2, null));
    expectClose(out.tests[2], 0);
    expectClose(out.upheld, 0);
    expectClose(cosigned(withCell(withCell(EPISODE, 0, 2, null), 1, 2, 1)).programs[1], (0.3 * 0.1) / 3);
  });

  test('lengths are needed only where they are charged', () => {
    const { tokens: _, ...bare } = EPISODE;
    expect(() => cosigned(bare)).toThrow('tokens');
    expectClose(cosigned(bare, { lambda_len: 0 }).tests, [null, null, 1, -0.25, -1]);
  });

  test('no programs, no tests, and a matrix that does not fit', () => {
    expect(cosigned({ programs: [], tests: [], pass: [] }, { lambda_len: 0 })).toEqual({
      programs: [],
      tests: [],
      upheld: null,
    });
    const { tokens: _, ...bare } = EPISODE;
    const untested = { ...bare, tests: [], pass: [[], [], [], []] };
    expectClose(cosigned(untested, { lambda_len: 0 }).programs, [null, null, -0.2, null]);
    expect(() => cosigned({ ...EPISODE, pass: EPISODE.pass.slice(1) })).toThrow('pass');
    expect(() => cosigned({ ...EPISODE, pass: EPISODE.pass.map((row) => row.slice(1)) })).toThrow('pass[0]');
  });
});

const cell = fc.constantFrom<(0 | 1 | null)[]>(0, 1, null);
const anyReport: fc.Arbitrary<ExecutionReport> = fc
  .tuple(fc.integer({ min: 1, max: 6 }), fc.integer({ min: 1, max: 6 }))
  .chain(([programs, tests]) =>
    fc.record({
      programs: fc
        .array(
          fc.record({ valid: fc.boolean(), behaviour: fc.constantFrom('f', 'g', null), reference: fc.boolean() }),
          {
            minLength: programs,
            maxLength: programs,
          },
        )
        .map((items) => items.map((item, i) => ({ id: `p${i}`, ...item }))),
      tests: fc
        .array(
          fc.record({
            valid: fc.boolean(),
            behaviour: fc.constantFrom('f', 'g', null),
            holds: fc.constantFrom(true, false, null),
            ground_truth: fc.boolean(),
            public: fc.boolean(),
          }),
          { minLength: tests, maxLength: tests },
        )
        .map((items) => items.map((item, k) => ({ id: `t${k}`, ...item }))),
      pass: fc.array(fc.array(cell, { minLength: tests, maxLength: tests }), {
        minLength: programs,
        maxLength: programs,
      }),
      tokens: fc.record({
        programs: fc.array(fc.nat(20), { minLength: programs, maxLength: programs }),
        tests: fc.array(fc.nat(16), { minLength: tests, maxLength: tests }),
      }),
    }),
  );

describe('whatever the report', () => {
  test('rewards stay within what the parameters allow, and candidates are who gets one', () => {
    fc.assert(
      fc.property(anyReport, (report) => {
        const out = cosigned(report);
        out.programs.forEach((reward, i) => {
          if (report.programs[i]!.reference) expect(reward).toBeNull();
          if (reward !== null) expect(reward).toBeGreaterThanOrEqual(-0.2);
          if (reward !== null) expect(reward).toBeLessThanOrEqual(1.3 + 1e-9);
        });
        out.tests.forEach((reward, k) => {
          const { ground_truth, public: open } = report.tests[k]!;
          expect(reward === null).toBe(ground_truth === true || open === true);
          if (reward !== null) expect(reward).toBeGreaterThanOrEqual(-1);
          if (reward !== null) expect(reward).toBeLessThanOrEqual(1);
        });
      }),
    );
  });

  test('filters give each candidate one verdict, and what they keep they keep again', () => {
    fc.assert(
      fc.property(anyReport, (report) => {
        for (const name of ['well_formed_filter', 'public_tests_filter', 'own_success_filter']) {
          const verdicts = run(name, report) as Verdicts;
          const kept = new Set(verdicts.filter(({ keep }) => keep).map(({ id }) => id));
          expect(verdicts.every(({ keep, reason }) => keep === (reason === null))).toBe(true);
          const rows = report.programs.map(({ id, reference }) => reference || kept.has(id));
          const columns = report.tests.map((one) => one.ground_truth || one.public || kept.has(one.id));
          const again = run(name, {
            programs: report.programs.filter((_, i) => rows[i]),
            tests: report.tests.filter((_, k) => columns[k]),
            pass: report.pass.filter((_, i) => rows[i]).map((row) => row.filter((_, k) => columns[k])),
          }) as Verdicts;
          expect(again.every(({ keep }) => keep)).toBe(true);
          expect(again.length).toBe(kept.size);
        }
      }),
    );
  });

  test('evaluation numbers are shares, or null', () => {
    fc.assert(
      fc.property(fc.array(anyReport, { maxLength: 3 }), (reports) => {
        for (const name of ['pass_at_1', 'best_of_n', 'majority_of_n', 'verifier_precision', 'rejection_rate']) {
          const value = evaluate(name, ...reports) as number | null;
          if (value === null) continue;
          expect(value).toBeGreaterThanOrEqual(0);
          expect(value).toBeLessThanOrEqual(1);
        }
      }),
    );
  });
});

describe('filters for training data', () => {
  test('well formed: only what can be read, and no verdict on what the environment brought along', () => {
    const verdicts = run('well_formed_filter', EPISODE) as Verdicts;
    expect(verdicts.map(({ id }) => id)).toEqual(['right', 'wrong', 'malformed', 'good', 'bad', 'noise']);
    expect(dropped(verdicts)).toEqual({ malformed: 'malformed', noise: 'malformed' });
  });

  test('public tests: a program must pass those that were run, at least one', () => {
    expect(dropped(run('public_tests_filter', EPISODE))).toEqual({ malformed: 'malformed', noise: 'malformed' });
    expect(dropped(run('public_tests_filter', withCell(EPISODE, 0, 1, 0)))).toMatchObject({
      right: 'fails_public_test',
    });
    expect(dropped(run('public_tests_filter', withCell(EPISODE, 0, 1, null)))).toMatchObject({
      right: 'no_public_test_run',
    });
  });

  test('public tests: passing one of two is not enough', () => {
    const two = withTest(EPISODE, 2, { public: true });
    expect(dropped(run('public_tests_filter', two))).toMatchObject({ wrong: 'fails_public_test' });
    expect(dropped(run('public_tests_filter', withCell(two, 1, 2, null))).wrong).toBeUndefined();
  });

  test('public tests: the working of a test must hold and not be known to contradict them', () => {
    const filter = (change: object) => dropped(run('public_tests_filter', withTest(EPISODE, 2, change))).good;
    expect(filter({ holds: false })).toBe('working_does_not_hold');
    expect(filter({ holds: null })).toBe('working_unknown');
    expect(filter({ plan_passes_public: false })).toBe('plan_fails_public_test');
    expect(filter({ plan_passes_public: true })).toBeUndefined();
    expect(filter({ plan_passes_public: null })).toBeUndefined();
  });

  test('majority: more than half of the group must share a behaviour', () => {
    const candidates = ['f', 'f', 'g', null].map((behaviour, id) => ({ id, group: id < 3 ? 'q' : 'z', behaviour }));
    expect(run('majority_filter', { candidates })).toEqual([
      { id: 0, keep: true, reason: null },
      { id: 1, keep: true, reason: null },
      { id: 2, keep: false, reason: 'minority' },
      { id: 3, keep: false, reason: 'no_majority' },
    ]);
    const half = ['f', 'f', 'g', null].map((behaviour, id) => ({ id, group: 'q', behaviour }));
    expect((run('majority_filter', { candidates: half }) as Verdicts).some(({ keep }) => keep)).toBe(false);
    expect(run('majority_filter', { candidates: [] })).toEqual([]);
  });

  test('own success: right programs once each, and tests that follow one of them', () => {
    expect(dropped(run('own_success_filter', EPISODE))).toEqual({
      wrong: 'wrong',
      malformed: 'malformed',
      bad: 'follows_no_right_program',
      noise: 'malformed',
    });
    const twice = {
      ...withCell(EPISODE, 1, 0, 1),
      programs: EPISODE.programs.map((program) => ({ ...program, tokens_key: 'same' })),
    };
    expect(dropped(run('own_success_filter', twice))).toEqual({
      wrong: 'said_before',
      malformed: 'malformed',
      noise: 'malformed',
    });
    expect(dropped(run('own_success_filter', withCell(EPISODE, 0, 0, null)))).toMatchObject({ right: 'truth_unknown' });
  });

  test('own success: an unknown behaviour is not the same as another unknown one', () => {
    const unnamed = { ...EPISODE, programs: EPISODE.programs.map((program) => ({ ...program, behaviour: null })) };
    expect(dropped(run('own_success_filter', withTest(unnamed, 2, { behaviour: null })))).toMatchObject({
      good: 'follows_no_right_program',
    });
  });

  test('own success: nothing is kept when nobody is right', () => {
    const verdicts = run('own_success_filter', withCell(EPISODE, 0, 0, 0)) as Verdicts;
    expect(verdicts.some(({ keep }) => keep)).toBe(false);
    expect(dropped(verdicts).good).toBe('nobody_right');
  });

  test('own success: without tests, without ground truth, or where it was not run, nobody is known to be right or wrong', () => {
    const truthless = { ...EPISODE, tests: EPISODE.tests.map(({ ground_truth: _, ...rest }) => rest) };
    expect(dropped(run('own_success_filter', truthless))).toMatchObject({
      right: 'no_ground_truth',
      good: 'no_ground_truth',
    });
    const testless = { ...EPISODE, tests: [], pass: EPISODE.pass.map(() => []), tokens: undefined };
    expect(dropped(run('own_success_filter', JSON.parse(JSON.stringify(testless))))).toMatchObject({
      right: 'no_tests',
      malformed: 'malformed',
    });
    expect(dropped(run('own_success_filter', withCell(EPISODE, 0, 0, null)))).toMatchObject({ good: 'truth_unknown' });
  });
});

describe('trust_update', () => {
  test('moves towards the square of each upheld share, in order, and past the nulls', () => {
    expectClose(run('trust_update', { trust: 0.1, upheld: [1] }), 0.118, 1e-12);
    expectClose(run('trust_update', { trust: 0.1, upheld: [0.5, null, 1], rate: 0.5 }), 0.5875, 1e-12);
    expectClose(run('trust_update', { trust: 0.1, upheld: [1, 0.5], rate: 0.5 }), 0.4, 1e-12);
    expect(run('trust_update', { trust: 0.3, upheld: [null] })).toBe(0.3);
  });

  test('a share above 1 is refused', () => {
    expect(() => run('trust_update', { trust: 0.1, upheld: [1.5] })).toThrow('upheld[0]');
  });
});

describe('evaluation', () => {
  const nobody = withCell(EPISODE, 0, 0, 0);
  const truthless: ExecutionReport = { ...EPISODE, tests: EPISODE.tests.map(({ ground_truth: _, ...rest }) => rest) };

  test('pass_at_1 is the mean share of right candidates, malformed ones being wrong', () => {
    expectClose(evaluate('pass_at_1', EPISODE), 1 / 3);
    expectClose(evaluate('pass_at_1', EPISODE, nobody), 1 / 6);
    expectClose(evaluate('pass_at_1', withCell(EPISODE, 1, 0, null)), 1 / 2);
    expect(evaluate('pass_at_1')).toBeNull();
    expect(evaluate('pass_at_1', truthless)).toBeNull();
    expectClose(evaluate('pass_at_1', EPISODE, truthless), 1 / 3);
  });

  test('best_of_n lets the generated tests choose, and tied programs share the credit', () => {
    expectClose(evaluate('best_of_n', EPISODE), 1 / 2);
    expectClose(evaluate('best_of_n', withCell(EPISODE, 1, 3, 0)), 1);
    expectClose(evaluate('best_of_n', withCell(EPISODE, 0, 2, 0)), 0);
    expectClose(evaluate('best_of_n', withCell(EPISODE, 1, 4, 1)), 1 / 2);
    expectClose(evaluate('best_of_n', EPISODE, nobody), 1 / 4);
    expect(evaluate('best_of_n')).toBeNull();
  });

  test('majority_of_n takes the largest behaviour, the first of two, with the malformed as one group', () => {
    expect(evaluate('majority_of_n', EPISODE)).toBe(1);
    const behaviours = (...names: (string | null)[]): ExecutionReport => ({
      ...EPISODE,
      programs: names.map((behaviour, i) => ({ id: i, valid: behaviour !== 'malformed', behaviour })),
      tests: [{ id: 't', valid: true, ground_truth: true }],
      pass: names.map((behaviour) => [behaviour === 'f' ? 1 : 0]),
      tokens: { programs: names.map(() => 1), tests: [1] },
    });
    expect(evaluate('majority_of_n', behaviours('g', 'f', 'f'))).toBe(1);
    expect(evaluate('majority_of_n', behaviours('g', 'f'))).toBe(0);
    expect(evaluate('majority_of_n', behaviours('f', 'malformed', 'malformed'))).toBe(0);
    expect(evaluate('majority_of_n', behaviours('f', null, null))).toBe(1);
    expectClose(evaluate('majority_of_n', behaviours('f'), behaviours('g')), 0.5);
  });

  test('verifier_precision asks the reference, and a malformed test is wrong', () => {
    expectClose(evaluate('verifier_precision', EPISODE), 1 / 3);
    expectClose(evaluate('verifier_precision', withCell(EPISODE, 3, 3, null)), 1 / 2);
    const { programs, pass, ...rest } = EPISODE;
    const unknown = { ...rest, programs: programs.slice(0, 3), pass: pass.slice(0, 3) };
    delete (unknown as { tokens?: unknown }).tokens;
    expect(evaluate('verifier_precision', withTest(unknown, 4, { valid: true }))).toBeNull();
  });

  test('rejection_rate is counted over all wrong programs and right tests together', () => {
    expectClose(evaluate('rejection_rate', EPISODE), 1);
    expectClose(evaluate('rejection_rate', withCell(EPISODE, 1, 2, 1)), 1 / 2);
    expectClose(evaluate('rejection_rate', EPISODE, withCell(EPISODE, 1, 2, 1)), 3 / 4);
    expectClose(evaluate('rejection_rate', EPISODE, nobody), 4 / 5);
    expect(evaluate('rejection_rate', withCell(EPISODE, 3, 2, 0))).toBeNull();
    expect(evaluate('rejection_rate', withCell(EPISODE, 3, 2, null))).toBeNull();
  });
});
