/**
 * What came out when the candidate programs of one episode were run against its tests, as far as they were run: the one input of
 * the methods for a coder and a verifier that train together. It knows nothing of what a program or a test is.
 *
 * Rows marked `reference` and columns marked `ground_truth` or `public` are truth that the environment brought along; only the other
 * rows and columns are candidates, that is, somebody's output. A null cell was not run, and counts neither as passed nor as failed.
 */

import { type Static, Type } from 'typebox';
import { refuseInput, requireRows } from './refuse.ts';
import { Bit, type Immutable, Key, nullable } from './shapes.ts';

export const ExecutionReport = Type.Object({
  programs: Type.Array(
    Type.Object({
      id: Key,
      /** Whether the output could be read as a program at all. */
      valid: Type.Boolean(),
      /** Names what the program does: equal names, equal behaviour. Null where unknown. */
      behaviour: nullable(Type.String()),
      reference: Type.Optional(Type.Boolean()),
      /** Names the exact output; equal names are equal outputs. */
      tokens_key: Type.Optional(Type.String()),
    }),
  ),
  tests: Type.Array(
    Type.Object({
      id: Key,
      valid: Type.Boolean(),
      /** The behaviour of the program that the test's own working follows. */
      behaviour: Type.Optional(nullable(Type.String())),
      /** Whether the test's own written working comes out the same when it is executed step by step. */
      holds: Type.Optional(nullable(Type.Boolean())),
      ground_truth: Type.Optional(Type.Boolean()),
      public: Type.Optional(Type.Boolean()),
      /** Whether the program that the working follows passes the public tests; null where that is unknown. */
      plan_passes_public: Type.Optional(nullable(Type.Boolean())),
    }),
  ),
  pass: Type.Array(Type.Array(nullable(Bit))),
  /** Length of each output in tokens, in the order of `programs` and `tests`. */
  tokens: Type.Optional(
    Type.Object({
      programs: Type.Array(Type.Number({ minimum: 0 })),
      tests: Type.Array(Type.Number({ minimum: 0 })),
    }),
  ),
});

export const ExecutionReports = Type.Object({ reports: Type.Array(ExecutionReport) });

export type ExecutionReport = Immutable<Static<typeof ExecutionReport>>;
type Cell = ExecutionReport['pass'][number][number];

/** The positions of a report by what they are, and what is known of each candidate program. */
export type ReadReport = {
  readonly programs: readonly number[];
  readonly references: readonly number[];
  readonly tests: readonly number[];
  readonly publicTests: readonly number[];
  /** Candidates that pass every ground-truth test. */
  readonly right: readonly number[];
  /** Candidates that fail one, and malformed ones. Neither right nor wrong is who was not fully run, and everybody where there is no ground truth. */
  readonly wrong: readonly number[];
  /** The cell; a malformed program passes nothing, whatever the report holds. */
  readonly cell: (program: number, test: number) => Cell;
};

/** Throws TroupeError `method_input` when the matrix does not fit the rows and columns. `at` names the report in the message. */
export function readReport(report: ExecutionReport, at = ''): ReadReport {
  requireRows(`${at}pass`, report.pass, report.programs.length, 'the programs');
  report.pass.forEach((row, i) => {
    requireRows(`${at}pass[${i}]`, row, report.tests.length, 'the tests');
  });
  if (report.tokens !== undefined) {
    requireRows(`${at}tokens.programs`, report.tokens.programs, report.programs.length, 'the programs');
    requireRows(`${at}tokens.tests`, report.tokens.tests, report.tests.length, 'the tests');
  }
  const programs = positions(report.programs, (program) => program.reference !== true);
  const truths = positions(report.tests, (test) => test.ground_truth === true);
  const cell = (program: number, test: number): Cell =>
    report.programs[program]!.valid ? report.pass[program]![test]! : 0;
  const known = truths.length > 0 ? programs : [];
  const fails = (program: number) => truths.some((test) => cell(program, test) === 0);
  const passes = (program: number) => truths.every((test) => cell(program, test) === 1);
  return {
    programs,
    references: positions(report.programs, (program) => program.reference === true),
    tests: positions(report.tests, (test) => test.ground_truth !== true && test.public !== true),
    publicTests: positions(report.tests, (test) => test.public === true),
    right: known.filter(passes),
    wrong: known.filter(fails),
    cell,
  };
}

/** Why no candidate of a report is known to be right: without ground-truth tests that were run, nobody is known to be wrong either. */
export function nobodyRight(report: ExecutionReport, { programs, wrong }: ReadReport): string {
  if (report.tests.length === 0) return 'no_tests';
  if (!report.tests.some((test) => test.ground_truth === true)) return 'no_ground_truth';
  return wrong.length < programs.length ? 'truth_unknown' : 'nobody_right';
}

/** The reports of an evaluation with their place in error messages. */
export function readReports(reports: readonly ExecutionReport[]): { report: ExecutionReport; read: ReadReport }[] {
  return reports.map((report, i) => ({ report, read: readReport(report, `reports[${i}].`) }));
}

/**
 * Whether a generated test is right by the reference programs: every reference that was run passes it. False for a malformed test,
 * null when no reference was run on it.
 */
export function rightByReference(report: ExecutionReport, read: ReadReport, test: number): boolean | null {
  if (!report.tests[test]!.valid) return false;
  const asked = read.references.map((program) => read.cell(program, test)).filter((cell) => cell !== null);
  return asked.length === 0 ? null : asked.every((cell) => cell === 1);
}

/** Token counts of the tests. Throws TroupeError `method_input` when the report has none. */
export function testLengths(report: ExecutionReport): readonly number[] {
  return (
    report.tokens?.tests ?? refuseInput('tokens', 'the length of each output, because lambda_len is not 0', undefined)
  );
}

function positions<T>(items: readonly T[], want: (item: T) => boolean): number[] {
  return items.flatMap((item, i) => (want(item) ? [i] : []));
}

/** The result of a filter for one item. */
export type Verdict = {
  readonly id: string | number;
  readonly keep: boolean;
  /** A stable word for why it was dropped; null when it was kept. */
  readonly reason: string | null;
};

/** Drops the item for the reason, or keeps it when there is none. */
export function verdict(id: string | number, reason: string | null): Verdict {
  return { id, keep: reason === null, reason };
}
