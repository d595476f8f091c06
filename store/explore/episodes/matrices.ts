/** Rows of `traj.executions`, one a cell, back as the matrices they came from. Pure. */

import { groupBy } from '../../../ingest/events/group-by.ts';
import type { RecordRow } from './entries.ts';

type MatrixMember = { readonly step_id: string | null; readonly name: string | null; readonly valid: boolean | null };

export type ExecutionMatrix = {
  readonly feedback_id: string;
  readonly name: string;
  /** `reference`: the true program. */
  readonly programs: readonly (MatrixMember & { readonly reference: boolean })[];
  /** `ground_truth`: the truth, not a candidate. */
  readonly tests: readonly (MatrixMember & { readonly ground_truth: boolean; readonly public: boolean })[];
  /** A row for each program: true passed, false failed, null not run. */
  readonly pass: readonly (readonly (boolean | null)[])[];
};

/** Matrices in the order of their feedback ids; members in the order they were recorded in. */
export function matricesOf(cells: readonly RecordRow[]): readonly ExecutionMatrix[] {
  const matrices = groupBy(cells, (cell) => String(cell.feedback_id));
  return [...matrices].sort(([a], [b]) => (a < b ? -1 : 1)).map(([id, rows]) => matrixOf(id, rows));
}

function matrixOf(feedbackId: string, cells: readonly RecordRow[]): ExecutionMatrix {
  const programs: ExecutionMatrix['programs'][number][] = [];
  const tests: ExecutionMatrix['tests'][number][] = [];
  const pass: (boolean | null)[][] = [];
  for (const cell of cells) {
    const [program, test] = [cell.program as number, cell.test as number];
    programs[program] ??= { ...member(cell, 'program'), reference: cell.reference === true };
    tests[test] ??= { ...member(cell, 'test'), ground_truth: cell.ground_truth === true, public: cell.public === true };
    pass[program] ??= [];
    pass[program][test] = (cell.pass as boolean | null) ?? null;
  }
  return { feedback_id: feedbackId, name: String(cells[0]?.name), programs, tests, pass };
}

const member = (cell: RecordRow, of: 'program' | 'test'): MatrixMember => ({
  step_id: (cell[`${of}_step_id`] as string | null) ?? null,
  name: (cell[`${of}_name`] as string | null) ?? null,
  valid: (cell[`${of}_valid`] as boolean | null) ?? null,
});
