import type { ExecutionReport } from '../../../store/evaluate/methods/execution-report.ts';

/**
 * One episode: a right program, a wrong one, a malformed one, and the reference; a ground-truth and a public test, then a test
 * that holds, one that contradicts the right program, and a malformed one.
 */
export const EPISODE: ExecutionReport = {
  programs: [
    { id: 'right', valid: true, behaviour: 'f' },
    { id: 'wrong', valid: true, behaviour: 'g' },
    { id: 'malformed', valid: false, behaviour: null },
    { id: 'reference', valid: true, behaviour: 'f', reference: true },
  ],
  tests: [
    { id: 'truth', valid: true, ground_truth: true },
    { id: 'public', valid: true, public: true },
    { id: 'good', valid: true, behaviour: 'f', holds: true },
    { id: 'bad', valid: true, behaviour: 'g', holds: true },
    { id: 'noise', valid: false, behaviour: null, holds: null },
  ],
  pass: [
    [1, 1, 1, 0, null],
    [0, 1, 0, 1, null],
    [null, null, null, null, null],
    [1, 1, 1, 0, null],
  ],
  tokens: { programs: [4, 5, 6, 0], tests: [0, 0, 8, 12, 16] },
};

/** The report with one cell changed. */
export function withCell(report: ExecutionReport, program: number, test: number, cell: 0 | 1 | null): ExecutionReport {
  const pass = report.pass.map((row, i) => row.map((old, k) => (i === program && k === test ? cell : old)));
  return { ...report, pass };
}

/** The report with the fields of one test changed. */
export function withTest(report: ExecutionReport, test: number, change: object): ExecutionReport {
  return { ...report, tests: report.tests.map((old, k) => (k === test ? { ...old, ...change } : old)) };
}
