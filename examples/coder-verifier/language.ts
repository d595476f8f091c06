/**
 * How a recipe is put in words: three phrases for each operation, six templates for two and for three of them. Two traps make
 * it worth learning: some templates name the operations in another order than the one meant, and opposite operations share their words.
 */

import type { Random } from '../lib/random.ts';
import { BASE, OPERATION_NAMES, type Operation, type Program } from './operations.ts';

const PHRASES: Readonly<Record<Operation, readonly [string, string, string]>> = {
  rev: ['reverse it', 'flip the order', 'turn it backwards'],
  asc: ['sort upward', 'order it rising', 'put small ones first'],
  desc: ['sort downward', 'order it falling', 'put large ones first'],
  tail: ['drop the first', 'remove the head', 'cut off front'],
  init: ['drop the last', 'remove the end', 'cut off back'],
  rotl: ['rotate left', 'send first to back', 'shift it left'],
  rotr: ['rotate right', 'send last to front', 'shift it right'],
  neg: ['subtract each from five', 'mirror every value', 'count down from five'],
  inc: ['add one to each', 'raise every item', 'count each one up'],
  dec: ['take one from each', 'lower every item', 'count each one down'],
  even: ['keep the even ones', 'throw out odd items', 'drop each odd one'],
  odd: ['keep the odd ones', 'throw out even items', 'drop each even one'],
};

/** A, B and C stand for the first, second and third operation in the order they are carried out. */
const TEMPLATES: Readonly<Record<number, readonly string[]>> = {
  1: ['A', 'please A', 'just A'],
  2: ['A then B', 'first A and then B', 'B after you A', 'before you B , A', 'A before you B', 'B but A ahead of that'],
  3: [
    'A then B then C',
    'first A , next B , finally C',
    'C after you A then B',
    'before you C , A then B',
    'A then C but B in between',
    'finally C , begin with A then B',
  ],
};

const LETTERS = 'ABC';
const isLetter = (word: string): boolean => word.length === 1 && LETTERS.includes(word);

/** A recipe in words. */
export type Instruction = {
  readonly program: Program;
  readonly sentence: string;
  /** Positions of the program's operations in the order of the sentence: [1, 0] for 'B after you A'. */
  readonly order: readonly number[];
};

/** Says a program of one to three operations in words. */
export function instruct(program: Program, random: Random): Instruction {
  const templates = TEMPLATES[program.length];
  if (!templates) throw new Error(`A recipe has one to three operations, this one has ${program.length}.`);
  const words = random.pick(templates).split(' ');
  const phrases = program.map((operation) => random.pick(PHRASES[operation]));
  return {
    program,
    sentence: words.map((word) => (isLetter(word) ? phrases[LETTERS.indexOf(word)]! : word)).join(' '),
    order: words.filter(isLetter).map((letter) => LETTERS.indexOf(letter)),
  };
}

/** Whether the sentence names the operations in another order than they are carried out. */
export const isTwisted = ({ order }: Instruction): boolean => order.some((position, i) => position !== i);

export const PAD = '<pad>';
export const CODER = '<coder>';
export const VERIFIER = '<verifier>';
export const END = '<end>';
/** Tokens with a meaning of their own; their ids come first. */
export const SPECIAL_TOKENS = [PAD, CODER, VERIFIER, END] as const;

/** Fills up a list of fewer than three digits in a verifier's working. */
export const GAP = '_';

/** Every word that can be read or written, after the special tokens. */
export const WORDS: readonly string[] = [
  ...new Set([
    GAP,
    ...Array.from({ length: BASE }, (_, digit) => String(digit)),
    ...OPERATION_NAMES.map((name) => `#${name}`),
    ...Object.values(PHRASES).flatMap((phrases) => phrases.flatMap((phrase) => phrase.split(' '))),
    ...Object.values(TEMPLATES).flatMap((templates) =>
      templates.flatMap((template) => template.split(' ').filter((word) => !isLetter(word))),
    ),
  ]),
];
