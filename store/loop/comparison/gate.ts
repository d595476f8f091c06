/**
 * Whether a candidate may take the place of what is released, decided from both on the same tasks. The unit is the task: attempts at one
 * task are alike, so an interval over attempts would be too narrow. A good mean cannot hide a hurt role, since each guardrail is a
 * comparison of its own that has to pass too, and one without data does not pass.
 */
import { countText } from '../../../errors.ts';
import { standardDeviation } from '../../evaluate/methods/statistics.ts';
import { DRAWS, type Interval, meanInterval } from '../../evaluate/statistics/bootstrap.ts';
import { type Outcome, outcomeOf } from '../../evaluate/statistics/outcome.ts';

/** The same measure of both, more being better. */
export type Both = { readonly incumbent: number; readonly candidate: number };

export type MeasuredTask = Both & {
  readonly task_id: string;
  /** Kind of the task; null where it is not known. */
  readonly family: string | null;
  /** The part of each role in it. */
  readonly roles: Readonly<Record<string, Both>>;
  /** What an attempt took, in tokens, milliseconds and US dollars; null where it is not known. */
  readonly tokens: Both | null;
  readonly latency: Both | null;
  readonly usd?: Both | null;
};

export type GateRules = {
  /** What the main comparison must come to. `not_worse` is met by better as well. */
  readonly accept: 'better' | 'not_worse';
  /** Loss that counts as not worse, from 0, in the unit of the measure. */
  readonly margin: number;
  /** Share of intervals that hold the true difference, between 0.5 and 1. */
  readonly level: number;
  readonly guardrails: {
    /** Loss that a single role, or a single family of tasks, may have; null: not guarded. */
    readonly roles: number | null;
    readonly families: number | null;
    /** How many times the tokens, the time or the money of the incumbent the candidate may take; null: not guarded. */
    readonly tokens: number | null;
    readonly latency: number | null;
    /** Jobs of versions without it have none. */
    readonly usd?: number | null;
  };
};

export type Comparison = {
  /** What is compared: `all tasks`, `role solver`, `family algebra`, `tokens`, `latency`, `usd`. */
  readonly of: string;
  readonly tasks: number;
  readonly incumbent: number | null;
  readonly candidate: number | null;
  /** candidate − incumbent, a mean over tasks, and its interval; for those of `LIMITED` what the limit leaves, per task. */
  readonly difference: number | null;
  readonly interval: Interval | null;
  readonly outcome: Outcome;
  readonly passed: boolean;
};

export type Decision = {
  readonly outcome: Outcome;
  readonly passed: boolean;
  /** Why, in one sentence. */
  readonly reason: string;
  readonly main: Comparison;
  readonly guardrails: readonly Comparison[];
};

const SEED = 0;

/**
 * The fewest tasks that can decide. Two models that are alike differ on n tasks in one direction alone with a chance of 2^-n, and then every
 * resample does: below this number that is more than the (1 − level) / 2 that a gate may err by (a sign test).
 * @param level between 0.5 and 1; for 0.95 it is 6
 */
export const fewestTasks = (level: number): number => Math.max(2, Math.ceil(Math.log2(2 / (1 - level))));

/** What is compared, pair by pair: a task or, of a canary, a block of live episodes. */
export type ComparisonInput = {
  readonly of: string;
  readonly pairs: readonly Both[];
  /** Loss that counts as not worse. */
  readonly margin: number;
};

/**
 * Decides over tasks that both were tried on.
 * @param guarded roles that must be seen: one of them without a task has no data and does not pass
 * @param draws of the bootstrap
 * @param beside further comparisons, each of which has to be not worse
 */
export function decide(
  tasks: readonly MeasuredTask[],
  rules: GateRules,
  guarded: readonly string[] = [],
  draws = DRAWS,
  beside: readonly ComparisonInput[] = [],
): Decision {
  const { guardrails } = rules;
  const intervalOf = (differences: readonly number[]) => meanInterval(differences, rules.level, SEED, draws);
  const enough = tasks.length >= fewestTasks(rules.level);
  const main = compare(
    { of: 'all tasks', pairs: tasks, margin: rules.margin },
    rules.accept,
    enough ? intervalOf : () => null,
  );
  const found: Comparison[] = [];
  if (guardrails.roles !== null) {
    const roles = new Set([...guarded, ...tasks.flatMap((task) => Object.keys(task.roles))]);
    // Asked for and seen nowhere: that has no data, which does not pass.
    if (roles.size === 0)
      found.push(compare({ of: ANY_ROLE, pairs: [], margin: guardrails.roles }, 'not_worse', intervalOf));
    for (const role of [...roles].sort()) {
      const pairs = tasks.flatMap((task) => task.roles[role] ?? []);
      found.push(compare({ of: `role ${role}`, pairs, margin: guardrails.roles }, 'not_worse', intervalOf));
    }
  }
  if (guardrails.families !== null) {
    for (const family of [...new Set(tasks.map((task) => task.family))].sort()) {
      const pairs = tasks.filter((task) => task.family === family);
      found.push(compare({ of: familyName(family), pairs, margin: guardrails.families }, 'not_worse', intervalOf));
    }
  }
  for (const of of LIMITED) {
    const limit = guardrails[of] ?? null;
    if (limit !== null) {
      const known = tasks.flatMap((task) => task[of] ?? []);
      // A call without a price may be the one that costs.
      const pairs = of === 'usd' && known.length < tasks.length ? [] : known;
      found.push(withinLimit({ of, pairs, limit }, intervalOf));
    }
  }
  for (const one of beside) found.push(compare(one, 'not_worse', intervalOf));
  return concluded(main, found, rules, 'task');
}

/** What a guardrail holds to so many times the incumbent's. */
export const LIMITED = ['tokens', 'latency', 'usd'] as const;
export type LimitName = (typeof LIMITED)[number];

/** What stands in a report where a guardrail on roles found none. */
export const ANY_ROLE = 'any role';

export const familyName = (family: string | null): string => (family === null ? 'family unknown' : `family ${family}`);

type IntervalOf = (differences: readonly number[]) => Interval | null;

/** One comparison, by the interval of its differences. */
export function compare(
  { of, pairs, margin }: ComparisonInput,
  accept: GateRules['accept'],
  intervalOf: IntervalOf,
): Comparison {
  const differences = pairs.map(({ incumbent, candidate }) => candidate - incumbent);
  const interval = intervalOf(differences);
  const outcome = outcomeOf(interval, margin);
  return {
    of,
    tasks: pairs.length,
    ...meansOf(pairs),
    difference: meanOf(differences),
    interval,
    outcome,
    passed: outcome === 'better' || (accept === 'not_worse' && outcome === 'not_worse'),
  };
}

/** Whether the candidate takes at most `limit` times what the incumbent takes, over the pairs of which both are known. */
export function withinLimit(
  { of, pairs, limit }: Omit<ComparisonInput, 'margin'> & { readonly limit: number },
  intervalOf: IntervalOf,
): Comparison {
  const left = pairs.map(({ incumbent, candidate }) => limit * incumbent - candidate);
  const interval = intervalOf(left);
  return {
    of,
    tasks: pairs.length,
    ...meansOf(pairs),
    difference: meanOf(left),
    interval,
    outcome: outcomeOf(interval, 0),
    passed: interval !== null && interval.low >= 0,
  };
}

/** What the comparisons come to: the main one has to pass, and every guardrail. */
export function concluded(
  main: Comparison,
  guardrails: readonly Comparison[],
  rules: GateRules,
  unit: string,
): Decision {
  const passed = main.passed && guardrails.every((one) => one.passed);
  return { outcome: main.outcome, passed, reason: reasonOf(main, guardrails, rules, unit), main, guardrails };
}

/** Standard deviation over tasks of candidate − incumbent; null for fewer than two. */
export function deviationOf(tasks: readonly Both[]): number | null {
  if (tasks.length < 2) return null;
  return standardDeviation(
    tasks.map(({ incumbent, candidate }) => candidate - incumbent),
    1,
  );
}

function reasonOf(main: Comparison, guardrails: readonly Comparison[], rules: GateRules, unit: string): string {
  if (!main.passed) {
    const asked = rules.accept === 'better' ? 'better' : `not worse by more than ${rules.margin}`;
    return main.outcome === 'no_data'
      ? `The candidate should be ${asked}, but there ${main.tasks === 1 ? 'is' : 'are'} only ${countText(main.tasks, unit)}${unit === 'task' ? `: at least ${fewestTasks(rules.level)} are needed` : ''}.`
      : `The candidate should be ${asked}, but over ${countText(main.tasks, unit)} it is ${main.outcome.replace('_', ' ')}.`;
  }
  const how = `The candidate is ${main.outcome.replace('_', ' ')}`;
  if (guardrails.length === 0) return `${how}; the gate has no guardrail.`;
  const failed = guardrails.filter(({ passed }) => !passed);
  if (failed.length === 0) return `${how} and every guardrail passed.`;
  const failures = failed.map(
    ({ of, outcome }) =>
      `${of} (${outcome.replace('_', ' ')}${of === 'usd' && outcome === 'no_data' ? ': some call has no price' : ''})`,
  );
  return `${how} over ${main.of}, but a guardrail did not pass: ${failures.join(', ')}.`;
}

const meansOf = (pairs: readonly Both[]) => ({
  incumbent: meanOf(pairs.map((pair) => pair.incumbent)),
  candidate: meanOf(pairs.map((pair) => pair.candidate)),
});

/** Null where there are none. */
export const meanOf = (values: readonly number[]): number | null =>
  values.length === 0 ? null : values.reduce((a, b) => a + b, 0) / values.length;
