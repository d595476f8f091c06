/**
 * The execution matrix of an episode: every program run against every test, as far as both can be run. This is what the team
 * reports instead of a grade: filters, rewards and credit are worked out from it later, by others.
 */
import { behaviour, isCorrect } from './behaviour.ts';
import { type Program, run, sameValues } from './operations.ts';
import type { Example } from './task.ts';
import type { Trace } from './trace.ts';

/** What a member of the team wrote: the step it is known by, and what it means, or null where it is malformed. */
export type Candidate<T> = { readonly stepId: string; readonly meaning: T | null };

export type Cell = 0 | 1 | null;

type Member = { step_id?: string; name?: string; valid: boolean; behaviour?: string };
export type ProgramMember = Member & { reference?: boolean };
export type TestMember = Member & {
  holds?: boolean;
  ground_truth?: boolean;
  public?: boolean;
  plan_passes_public?: boolean;
};
export type Matrix = { programs: ProgramMember[]; tests: TestMember[]; pass: Cell[][] };

export type Row = { readonly member: ProgramMember; readonly program: Program | null };
export type Column = { readonly member: TestMember; readonly passes: ((program: Program) => boolean) | null };

/** Runs what can be run; the other cells stay null. */
export const fillMatrix = (rows: readonly Row[], columns: readonly Column[]): Matrix => ({
  programs: rows.map(({ member }) => member),
  tests: columns.map(({ member }) => member),
  pass: rows.map(({ program }) =>
    columns.map(({ passes }): Cell => (program === null || passes === null ? null : passes(program) ? 1 : 0)),
  ),
});

/** A program that a coder wrote. */
export const candidateRow = ({ stepId, meaning }: Candidate<Program>): Row => ({
  member: { step_id: stepId, ...seen(meaning) },
  program: meaning,
});

/** A program that no step wrote: the true one, or the plan inside a verifier's working. */
export const namedRow = (name: string, program: Program | null): Row => ({
  member: { name, ...seen(program) },
  program,
});

/** The true program. Its cell says whether a test expects the true output. */
export const referenceRow = (truth: Program): Row => {
  const { member, program } = namedRow('reference', truth);
  return { member: { ...member, reference: true }, program };
};

/** A test that a verifier wrote: a program passes when it gives the expected output for the test's input. */
export const testColumn = ({ stepId, meaning }: Candidate<Trace>): Column => ({
  member: { step_id: stepId, ...seen(meaning?.plan ?? null), ...(meaning && { holds: meaning.holds }) },
  passes: meaning && ((program) => sameValues(run(program, meaning.input), meaning.expected)),
});

/** An example that anybody may see. */
export const publicColumn = (example: Example, index: number): Column => ({
  member: { name: `public ${index + 1}`, valid: true, public: true },
  passes: (program) => passesExample(program, example),
});

export const passesExample = (program: Program, { input, output }: Example): boolean =>
  sameValues(run(program, input), output);

/** The truth: a program passes when it behaves as the true one. Never shown to a learner. */
export const truthColumn = (truth: Program): Column => ({
  member: { name: 'ground truth', valid: true, ground_truth: true },
  passes: (program) => isCorrect(program, truth),
});

const seen = (program: Program | null) =>
  program === null ? { valid: false } : { valid: true, behaviour: behaviour(program) };
