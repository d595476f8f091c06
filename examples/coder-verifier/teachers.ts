/**
 * Scripted teachers: they answer as foreign agents would, with faults. One fault is systematic (they follow the order of speech
 * where another is meant), so a majority of teachers does not repair it; the others are slips. About 54% of their programs are right.
 */

import type { Random } from '../lib/random.ts';
import { type Instruction, isTwisted } from './language.ts';
import { apply, BASE, type Operation, type Program, type Values } from './operations.ts';
import { MAX_OPERATIONS, writeProgram } from './program.ts';
import { type TraceStep, writeTrace } from './trace.ts';

/** Probability of each fault. */
export const FAULTS = {
  /** Following the order of speech where the sentence means another. */
  order: 0.6,
  /** Taking an operation for its sibling, for each operation. */
  confusion: 0.08,
  /** Leaving one operation out. */
  skip: 0.08,
  /** Writing something that is no answer. */
  malformed: 0.1,
  /** Miscalculating one digit, for each step of a working. */
  slip: 0.06,
} as const;

const SIBLINGS: Readonly<Record<Operation, Operation>> = {
  rev: 'neg',
  neg: 'rev',
  asc: 'desc',
  desc: 'asc',
  tail: 'init',
  init: 'tail',
  rotl: 'rotr',
  rotr: 'rotl',
  inc: 'dec',
  dec: 'inc',
  even: 'odd',
  odd: 'even',
};

/** A coder's answer. */
export function teachProgram(instruction: Instruction, random: Random): string {
  const plan = readSentence(instruction, random);
  if (random.next() >= FAULTS.malformed) return writeProgram(plan);
  if (random.next() < 0.5) return `${random.int(BASE)} ${writeProgram(plan)}`;
  const endless = Array.from({ length: MAX_OPERATIONS + 1 }, (_, i) => plan[i % plan.length]!);
  return writeProgram(endless);
}

/** A verifier's working for a drawn input. A slip stays: the following steps go on from the wrong list. */
export function teachTrace(instruction: Instruction, input: Values, random: Random): string {
  let list = input;
  const steps = readSentence(instruction, random).map((operation): TraceStep => {
    list = apply(operation, list);
    if (list.length > 0 && random.next() < FAULTS.slip) list = list.with(random.int(list.length), random.int(BASE));
    return { operation, after: list };
  });
  const words = writeTrace(steps).split(' ');
  if (random.next() >= FAULTS.malformed) return words.join(' ');
  return words.toSpliced(random.int(words.length), 1).join(' ');
}

/** What a teacher takes a sentence to mean. */
function readSentence(instruction: Instruction, random: Random): Program {
  const { program, order } = instruction;
  const misled = isTwisted(instruction) && random.next() < FAULTS.order;
  const ordered = misled ? order.map((position) => program[position]!) : program;
  const plan = ordered.map((operation) => (random.next() < FAULTS.confusion ? SIBLINGS[operation] : operation));
  return plan.length > 1 && random.next() < FAULTS.skip ? plan.toSpliced(random.int(plan.length), 1) : plan;
}
