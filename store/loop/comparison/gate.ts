/**
 * Whether a candidate may take the place of what is released, decided from both on the same tasks. The unit is the task: attempts at one
 * task are alike, so an interval over attempts would be too narrow. A good mean cannot hide a hurt role, since each guardrail is a
 * comparison of its own that has to pass too, and one without data does not pass.
 */
import { countText } from '../../../errors.ts';
import { standardDeviation } from '../../evaluate/methods/statistics.ts';
import { DRAWS, type Interval, meanInterval } from '../../evaluate/statistics/bootstrap.ts';
import { type Outcome, outcomeOf } from '../../evaluate/statistics/outcome.ts';
import { type Both, pairedMeans } from '../../evaluate/statistics/paired.ts';

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
  /** The greatest difference that there may be; that of the values if left out. */
  readonly most?: number;
};

/** Where the plays of both come from, and how what they are worth becomes pairs. `Value` is that of a unit: of both, or of one side. */
type Source<Unit extends MeasuredUnit<Value>, Value> = {
  /** What the main comparison is over, and what its pairs are called. */
  readonly all: string;
  readonly called: string;
  readonly units: readonly Unit[];
  readonly worth: (unit: Unit) => Value | null;
  /** The pairs of the units that have a value. */
  readonly pairsOf: (value: (unit: Unit) => Value | null) => readonly Both[];
  /** The interval of the mean of differences, none of which is greater than `most`. */
  readonly intervalOf: (differences: readonly number[], most?: number) => Interval | null;
  /** False where the main comparison has too few to decide anything. */
  readonly isEnough: boolean;
  /** What units of which the use is known took; the greatest difference where it has one. */
  readonly usedOf: (known: readonly Unit[], of: LimitName, limit: number) => Pick<ComparisonInput, 'pairs' | 'most'>;
  /** Further comparisons, each of which has to be not worse. */
  readonly beside: readonly ComparisonInput[];
};

type MeasuredUnit<Value> = {
  readonly family: string | null;
  readonly roles: Readonly<Record<string, Value>>;
  readonly usd?: unknown;
} & Readonly<Record<Exclude<LimitName, 'usd'>, unknown>>;

/**
 * Decides over tasks that both were tried on.
 * @param guarded roles that must be seen: one of them without a task has no data and does not pass
 * @param draws of the bootstrap
 * @param beside further comparisons, each of which has to be not worse
 */
export const decide = (
  tasks: readonly MeasuredTask[],
  rules: GateRules,
  guarded: readonly string[] = [],
  draws = DRAWS,
  beside: readonly ComparisonInput[] = [],
): Decision =>
  compareArms<MeasuredTask, Both>(rules, guarded, {
    all: 'all tasks',
    called: 'task',
    units: tasks,
    worth: (task) => task,
    pairsOf: (value) => tasks.flatMap((task) => value(task) ?? []),
    intervalOf: (differences) => meanInterval(differences, rules.level, SEED, draws),
    isEnough: tasks.length >= fewestTasks(rules.level),
    usedOf: (known, of) => ({ pairs: known.map((task) => task[of]!) }),
    beside,
  }).decision;

/**
 * The one comparison: whether the candidate is better than the incumbent, and whether a role, a family of tasks or the cost is hurt.
 * @returns also the first comparison that no further unit could make pass, by name: its interval lies below what it has to reach
 */
export function compareArms<Unit extends MeasuredUnit<Value>, Value>(
  rules: GateRules,
  guarded: readonly string[],
  { units, worth, pairsOf, intervalOf, usedOf, ...source }: Source<Unit, Value>,
): { readonly decision: Decision; readonly refused: string | null } {
  const { guardrails, accept, margin } = rules;
  const main = compare(
    { of: source.all, pairs: pairsOf(worth), margin },
    accept,
    source.isEnough ? intervalOf : () => null,
  );
  const found = [{ floor: accept === 'better' ? 0 : -margin, comparison: main }];
  const guard = (input: ComparisonInput, limit?: number) =>
    found.push({ floor: -input.margin, comparison: compare(input, 'not_worse', intervalOf, limit) });
  if (guardrails.roles !== null) {
    const margin = guardrails.roles;
    const roles = new Set([...guarded, ...units.flatMap((unit) => Object.keys(unit.roles))]);
    // Asked for and seen nowhere: that has no data, which does not pass.
    if (roles.size === 0) guard({ of: 'any role', pairs: [], margin });
    for (const role of [...roles].sort())
      guard({ of: `role ${role}`, pairs: pairsOf((unit) => unit.roles[role] ?? null), margin });
  }
  if (guardrails.families !== null)
    for (const family of [...new Set(units.map((unit) => unit.family))].sort())
      guard({
        of: family === null ? 'family unknown' : `family ${family}`,
        pairs: pairsOf((unit) => (unit.family === family ? worth(unit) : null)),
        margin: guardrails.families,
      });
  for (const of of LIMITED) {
    const limit = guardrails[of] ?? null;
    if (limit === null) continue;
    // A call without a price may be the one that costs.
    const isUnknown = of === 'usd' && units.some(({ usd }) => usd === null);
    const known = isUnknown ? [] : units.filter((unit) => unit[of] != null);
    guard({ of, margin: 0, ...usedOf(known, of, limit) }, limit);
  }
  for (const one of source.beside) guard(one);
  const below = found.find(({ floor, comparison: { interval } }) => interval !== null && interval.high < floor);
  const comparisons = found.slice(1).map(({ comparison }) => comparison);
  const passed = main.passed && comparisons.every((one) => one.passed);
  const reason = reasonOf(main, comparisons, rules, source.called);
  return {
    decision: { outcome: main.outcome, passed, reason, main, guardrails: comparisons },
    refused: below?.comparison.of ?? null,
  };
}

/** What a guardrail holds to so many times the incumbent's. */
export const LIMITED = ['tokens', 'latency', 'usd'] as const;
export type LimitName = (typeof LIMITED)[number];

/** One comparison, by the interval of its differences; with a limit, of what that leaves. */
function compare(
  { of, pairs, margin, most }: ComparisonInput,
  accept: GateRules['accept'],
  intervalOf: (differences: readonly number[], most?: number) => Interval | null,
  limit?: number,
): Comparison {
  const means = pairedMeans(pairs, (differences) => intervalOf(differences, most), limit);
  const outcome = outcomeOf(means.interval, margin);
  const passed =
    limit === undefined
      ? outcome === 'better' || (accept === 'not_worse' && outcome === 'not_worse')
      : means.interval !== null && means.interval.low >= 0;
  return { of, ...means, outcome, passed };
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
