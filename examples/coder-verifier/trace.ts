/**
 * A verifier's answer as text: for the input drawn for it, each operation it read in the sentence with the list after it, such
 * as `#asc 0 3 4 #neg 5 2 1 #odd 5 1 _`. The last list is the output it expects: together with the input that is a test.
 */
import { GAP } from './language.ts';
import { apply, BASE, LENGTH, type Operation, type Program, sameValues, type Values } from './operations.ts';
import { MAX_OPERATIONS, parseOperation } from './program.ts';

export type TraceStep = { readonly operation: Operation; readonly after: Values };

/** A test with the working that led to it. */
export type Trace = {
  readonly input: Values;
  readonly steps: readonly TraceStep[];
  /** The operations, as the verifier read them in the sentence. */
  readonly plan: Program;
  readonly expected: Values;
  /** Every step re-executes: the working has no slip, whether the plan is right or not. */
  readonly holds: boolean;
};

/** Words of one step: the operation and three slots. */
const STEP = 1 + LENGTH;

/** The test a verifier wrote for an input, or null where its working is malformed. */
export function parseTrace(input: Values, text: string): Trace | null {
  const words = text.split(' ');
  if (words.length % STEP !== 0 || words.length > MAX_OPERATIONS * STEP) return null;
  const steps: TraceStep[] = [];
  for (let at = 0; at < words.length; at += STEP) {
    const operation = parseOperation(words[at]!);
    const after = parseSlots(words.slice(at + 1, at + STEP));
    if (operation === null || after === null) return null;
    steps.push({ operation, after });
  }
  return {
    input,
    steps,
    plan: steps.map((step) => step.operation),
    expected: steps.at(-1)!.after,
    holds: steps.every((step, i) => sameValues(apply(step.operation, steps[i - 1]?.after ?? input), step.after)),
  };
}

/** Digits first, then gaps; null for anything else. */
function parseSlots(words: readonly string[]): Values | null {
  const gap = words.indexOf(GAP);
  const digits = gap < 0 ? words : words.slice(0, gap);
  const gaps = words.slice(digits.length);
  if (gaps.some((word) => word !== GAP)) return null;
  return digits.every((word) => /^\d$/.test(word) && Number(word) < BASE) ? digits.map(Number) : null;
}

export const writeDigits = (values: Values): string => values.join(' ');

export const writeTrace = (steps: readonly TraceStep[]): string =>
  steps
    .flatMap(({ operation, after }) => [`#${operation}`, ...after, ...Array(LENGTH - after.length).fill(GAP)])
    .join(' ');
