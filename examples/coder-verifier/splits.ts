/**
 * Which recipes are for learning and which are held out, by program and the same for every run: `train`; `new`, compositions
 * never trained on; `hard`, compositions with one of eight ordered pairs that never stand side by side in training.
 */

import { createRandom, digest, type Random } from '../lib/random.ts';
import { type Instruction, instruct } from './language.ts';
import { OPERATION_NAMES, type Program } from './operations.ts';

export type PoolName = 'train' | 'new' | 'hard';
/** Recipes by their number of operations. */
export type Pool = Readonly<Record<1 | 2 | 3, readonly Program[]>>;
/** Shares of recipes of one, two and three operations among the tasks drawn. */
export type Mix = readonly [one: number, two: number, three: number];

export const TRAINING_MIX: Mix = [0.1, 0.4, 0.5];
export const HELD_OUT_MIX: Mix = [0, 0.4, 0.6];

export type Task = Instruction & { readonly id: string; readonly pool: PoolName };

const SEED = 13;
const HARD_PAIRS = 8;
const SHARE_OF_NEW = 0.25;

export const POOLS: Readonly<Record<PoolName, Pool>> = split();

/** No operation follows itself: twice the same is never what a recipe needs to say. */
function split(): Record<PoolName, Pool> {
  const random = createRandom(SEED);
  const followers = (operation: string) => OPERATION_NAMES.filter((other) => other !== operation);
  const pairs = OPERATION_NAMES.flatMap((a) => followers(a).map((b) => `${a} ${b}`));
  const hardPairs = new Set(random.shuffle(pairs).slice(0, HARD_PAIRS));
  const isHard = (program: Program): boolean => program.some((a, i) => hardPairs.has(`${a} ${program[i + 1]}`));

  const pool = (): Record<1 | 2 | 3, Program[]> => ({ 1: [], 2: [], 3: [] });
  const pools = { train: pool(), new: pool(), hard: pool() };
  const put = (program: Program): void => {
    const name = isHard(program) ? 'hard' : random.next() < SHARE_OF_NEW ? 'new' : 'train';
    pools[name][program.length as 2 | 3].push(program);
  };
  pools.train[1].push(...OPERATION_NAMES.map((a): Program => [a]));
  for (const a of OPERATION_NAMES) {
    for (const b of followers(a)) {
      put([a, b]);
      for (const c of followers(b)) put([a, b, c]);
    }
  }
  return pools;
}

/** Draws a recipe from a pool and says it in words. The same sentence is always the same task. */
export function sampleTask(pool: PoolName, random: Random, mix: Mix): Task {
  const at = random.next();
  const length = at < mix[0] ? 1 : at < mix[0] + mix[1] ? 2 : 3;
  const instruction = instruct(random.pick(POOLS[pool][length]), random);
  return { ...instruction, id: `recipe-${digest(instruction.sentence).slice(0, 16)}`, pool };
}
