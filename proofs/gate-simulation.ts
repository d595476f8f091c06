/** Teams that succeed at a known rate, before the gates that compare them: how often a gate passes a candidate that is known to be so good. */

import type { Both } from '../store/evaluate/statistics/paired.ts';
import { decide, type GateRules, type MeasuredTask } from '../store/loop/comparison/gate.ts';
import { type CanaryRules, type CanaryUnit, decideCanary } from '../trainer/loop/comparison/canary.ts';
import type { GateSide } from '../trainer/loop/comparison/play.ts';

/** What the candidate's rate is above the incumbent's: of the whole, or of each role. */
export type Gain = number | Readonly<Record<string, number>>;

/** Uniform numbers from 0 to 1: Marsaglia 2003, "Xorshift RNGs". A run draws tens of thousands, and this takes 20 ns for one. */
export function uniform(seed: number): () => number {
  let state = Math.imul(seed, 0x9e3779b1) | 1;
  const next = (): number => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) / 2 ** 32;
  };
  for (let i = 0; i < 16; i++) next();
  return next;
}

const DRAWS = 250;
/** Attempts at a task on each side. */
export const ATTEMPTS = 8;
/** Rates of tasks lie from 0.3 to 0.7, so the mean variance of one attempt is 1/4 minus the variance of the rates, 0.4²/12. */
const rateOf = (random: () => number): number => 0.3 + 0.4 * random();
const attemptVariance = 0.25 - 0.4 ** 2 / 12;
/** Deviation over tasks of the difference, where each side tries a task {@link ATTEMPTS} times. */
export const TASK_DEVIATION = Math.sqrt((2 * attemptVariance) / ATTEMPTS);
/** Deviation of one live episode. */
export const EPISODE_DEVIATION = 0.5;

/** How many of the runs of a gate that plays a candidate passes, over so many tasks. A task's value is the share of attempts that succeeded. */
export function playPasses(
  rules: GateRules,
  { tasks, gain, runs }: { readonly tasks: number; readonly gain: Gain; readonly runs: number },
): number {
  let passed = 0;
  for (let run = 0; run < runs; run++) {
    const random = uniform(run + 1);
    const set = Array.from({ length: tasks }, (_, i): MeasuredTask => {
      const rate = rateOf(random);
      const pair = (more: number): Both => ({
        incumbent: solved(random, rate),
        candidate: solved(random, rate + more),
      });
      const beside = { task_id: `task-${i}`, family: null, tokens: null, latency: null };
      if (typeof gain === 'number') return { ...beside, ...pair(gain), roles: {} };
      const roles = mapped(gain, pair);
      const mean = (of: keyof Both) => meanOf(Object.values(roles).map((one) => one[of]));
      return { ...beside, incumbent: mean('incumbent'), candidate: mean('candidate'), roles };
    });
    if (decide(set, rules, [], DRAWS).passed) passed++;
  }
  return passed;
}

function solved(random: () => number, rate: number): number {
  let right = 0;
  for (let i = 0; i < ATTEMPTS; i++) if (random() < rate) right++;
  return right / ATTEMPTS;
}

/**
 * How many of the runs of a canary a candidate passes within so many live episodes, each of a task of its own. The ends of its intervals
 * only ever close in, so the look after the last episode finds what the looks after each one before would have found.
 */
export function canaryPasses(
  rules: CanaryRules,
  { episodes, gain, runs }: { readonly episodes: number; readonly gain: Gain; readonly runs: number },
): number {
  let passed = 0;
  for (let run = 0; run < runs; run++) {
    const random = uniform(run + 1);
    const units: CanaryUnit[] = [];
    for (let i = 0; i < episodes; i++) units.push(liveUnit(random, rules.share, gain));
    if (decideCanary(units, rules, []).passed) passed++;
  }
  return passed;
}

const NO_ROLES = {};

function liveUnit(random: () => number, share: number, gain: Gain): CanaryUnit {
  const side = random() < share ? 'candidate' : 'incumbent';
  const rate = rateOf(random);
  if (typeof gain === 'number') return unitOf(side, tried(random, side, rate + gain, rate), NO_ROLES);
  const roles: Record<string, number> = {};
  let total = 0;
  for (const role in gain) {
    roles[role] = tried(random, side, rate + gain[role]!, rate);
    total += roles[role];
  }
  return unitOf(side, total / Object.keys(gain).length, roles);
}

const tried = (random: () => number, side: GateSide, candidate: number, incumbent: number): number =>
  random() < (side === 'candidate' ? candidate : incumbent) ? 1 : 0;

const unitOf = (side: GateSide, value: number, roles: CanaryUnit['roles']): CanaryUnit => ({
  side,
  value,
  roles,
  family: null,
  tokens: null,
  latency: null,
});

const meanOf = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0) / values.length;

const mapped = <From, To>(values: Readonly<Record<string, From>>, to: (value: From) => To): Record<string, To> =>
  Object.fromEntries(Object.entries(values).map(([name, value]) => [name, to(value)]));

/** The greatest rate at which so few of the runs, or fewer, happen with a chance of 5 %: the exact upper 95 % bound (Clopper and Pearson 1934). */
export function upperBound(count: number, runs: number): number {
  if (count === runs) return 1;
  let [low, high] = [count / runs, 1];
  for (let i = 0; i < 40; i++) {
    const rate = (low + high) / 2;
    if (chanceOfAtMost(count, runs, rate) > 0.05) low = rate;
    else high = rate;
  }
  return high;
}

function chanceOfAtMost(count: number, runs: number, rate: number): number {
  let log = runs * Math.log1p(-rate);
  let sum = Math.exp(log);
  for (let k = 1; k <= count; k++) {
    log += Math.log((runs - k + 1) / k) + Math.log(rate) - Math.log1p(-rate);
    sum += Math.exp(log);
  }
  return sum;
}
