/** What a program can do: twelve operations on short lists of digits, and running them. */
import type { Random } from '../lib/random.ts';

/** A list of 0 to 3 digits, each 0 … 5. */
export type Values = readonly number[];

/** Digits are 0 … BASE-1; arithmetic is modulo BASE. */
export const BASE = 6;
/** An input has this many digits; no operation makes a list longer. */
export const LENGTH = 3;

const keep = (condition: (digit: number) => boolean) => (list: Values) => list.filter(condition);
const each = (change: (digit: number) => number) => (list: Values) => list.map(change);

const OPERATIONS = {
  rev: (list: Values) => list.toReversed(),
  asc: (list: Values) => list.toSorted((a, b) => a - b),
  desc: (list: Values) => list.toSorted((a, b) => b - a),
  tail: (list: Values) => list.slice(1),
  init: (list: Values) => list.slice(0, -1),
  rotl: (list: Values) => [...list.slice(1), ...list.slice(0, 1)],
  rotr: (list: Values) => [...list.slice(-1), ...list.slice(0, -1)],
  neg: each((digit) => BASE - 1 - digit),
  inc: each((digit) => (digit + 1) % BASE),
  dec: each((digit) => (digit + BASE - 1) % BASE),
  even: keep((digit) => digit % 2 === 0),
  odd: keep((digit) => digit % 2 === 1),
} as const satisfies Record<string, (list: Values) => Values>;

export type Operation = keyof typeof OPERATIONS;
/** Operations in the order they are carried out. */
export type Program = readonly Operation[];

export const OPERATION_NAMES = Object.keys(OPERATIONS) as readonly Operation[];

export const isOperation = (name: string): name is Operation => Object.hasOwn(OPERATIONS, name);

/** One operation on a list. */
export const apply = (operation: Operation, list: Values): Values => OPERATIONS[operation](list);

/** A whole program on a list. */
export const run = (program: Program, input: Values): Values =>
  program.reduce<Values>((list, operation) => apply(operation, list), input);

export const sameValues = (a: Values, b: Values): boolean => a.join(' ') === b.join(' ');

/** An input list: LENGTH digits. */
export const drawInput = (random: Random): Values => Array.from({ length: LENGTH }, () => random.int(BASE));
