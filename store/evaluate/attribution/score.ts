/** Accuracy of attributions against the labels of people, beside the baselines, with intervals over tasks. Pure. */

import { groupBy } from '../../../ingest/events/group-by.ts';
import { attributionF1 } from '../methods/aegis.ts';
import { runMethod } from '../methods/run.ts';
import { mean } from '../methods/statistics.ts';
import { whoWhenAccuracy } from '../methods/who-and-when.ts';
import { type Attribution, type Blame, type LabelledCase, numberOf } from './cases.ts';

export type Match = 'exact' | 'contains';
/** Shares of cases; `agent` and `step` lie between 0 and 1. */
type Point = { readonly agent: number; readonly step: number };
type Interval = readonly [low: number, high: number];

export type ScoreRow = {
  readonly name: string;
  readonly baseline: boolean;
  readonly n: number;
  /** Cases without an attribution; they count as wrong. */
  readonly silent: number;
  readonly agent: number | null;
  readonly step: number | null;
  readonly agent_interval: Interval | null;
  readonly step_interval: Interval | null;
  /** Over agents by name, of cases with an attribution as of those without; null for several answers a case. */
  readonly agent_f1: { readonly micro: number; readonly macro: number } | null;
  /** Share of cases whose entry is at most so far off. */
  readonly within: Readonly<Record<string, number | null>>;
  /** Paired with the best baseline of the same measure. */
  readonly agent_over_baseline: Difference | null;
  readonly step_over_baseline: Difference | null;
};

type Difference = { readonly baseline: string; readonly difference: number; readonly interval: Interval };

const TOLERANCES = [1, 3, 5] as const;
const DRAWS = 2000;

/** Scores of the baselines and of these attributions over the same cases. */
export function score(cases: readonly LabelledCase[], attributions: readonly Attribution[], match: Match): ScoreRow[] {
  const baselines = Object.entries(BASELINES).map(([name, of]) => measured(name, cases, of, match));
  const others = attributions.map(({ name, blames }) =>
    measured(name, cases, ({ episode_id }) => [...(blames.has(episode_id) ? [blames.get(episode_id)!] : [])], match),
  );
  const draws = resampled(cases);
  const best = (of: keyof Point) => baselines.reduce((a, b) => (average(b.points, of) > average(a.points, of) ? b : a));
  const over = (one: MeasuredMethod, of: keyof Point): Difference | null => {
    if (cases.length === 0) return null;
    const { name: baseline, points } = best(of);
    const differences = one.points.map((point, i) => point[of] - points[i]![of]);
    return { baseline, difference: mean(differences), interval: interval(differences, draws) };
  };
  return [...baselines, ...others].map((one, i) => ({
    name: one.name,
    baseline: i < baselines.length,
    n: cases.length,
    silent: one.silent,
    agent: average(one.points, 'agent', null),
    step: average(one.points, 'step', null),
    agent_interval:
      cases.length === 0
        ? null
        : interval(
            one.points.map((point) => point.agent),
            draws,
          ),
    step_interval:
      cases.length === 0
        ? null
        : interval(
            one.points.map((point) => point.step),
            draws,
          ),
    agent_f1: one.agent_f1,
    within: one.within,
    agent_over_baseline: i < baselines.length ? null : over(one, 'agent'),
    step_over_baseline: i < baselines.length ? null : over(one, 'step'),
  }));
}

type MeasuredMethod = {
  readonly name: string;
  readonly points: readonly Point[];
  readonly silent: number;
  readonly agent_f1: ScoreRow['agent_f1'];
  readonly within: Readonly<Record<string, number | null>>;
};

function measured(
  name: string,
  cases: readonly LabelledCase[],
  of: (run: LabelledCase) => readonly Blame[],
  match: Match,
): MeasuredMethod {
  const predicted = cases.map((run) => of(run));
  const points = cases.map((run, i) => pointsOf(predicted[i]!, run, match));
  const near = (far: number) =>
    cases.map(({ truth }, i) => {
      const hits = predicted[i]!.filter(({ entry }) => entry !== null && Math.abs(entry - truth.entry) <= far);
      return predicted[i]!.length === 0 ? 0 : hits.length / predicted[i]!.length;
    });
  return {
    name,
    points,
    silent: predicted.filter((one) => one.length === 0).length,
    agent_f1: predicted.some((one) => one.length > 1) ? null : agentF1(cases, predicted),
    within: Object.fromEntries(TOLERANCES.map((far) => [far, cases.length === 0 ? null : mean(near(far))])),
  };
}

/** Agents with the number of the entry in the place of an error mode, which nobody named. */
function agentF1(cases: readonly LabelledCase[], predicted: readonly (readonly Blame[])[]): ScoreRow['agent_f1'] {
  const pair = ({ agent, entry }: Blame): [string, string][] => (agent === null ? [] : [[agent, String(entry)]]);
  return runMethod(attributionF1, {
    cases: cases.map(({ truth }, i) => ({ gold: pair(truth), pred: predicted[i]!.flatMap(pair) })),
  }).agent;
}

/** Of several that are as likely, what one of them scores on average. */
function pointsOf(predicted: readonly Blame[], { truth }: LabelledCase, match: Match): Point {
  if (predicted.length === 0) return { agent: 0, step: 0 };
  const { agent, step } = runMethod(whoWhenAccuracy, {
    cases: predicted.map((one) => ({
      pred_agent: one.agent,
      pred_step: one.entry,
      true_agent: truth.agent,
      true_step: truth.entry,
    })),
    match,
  });
  return { agent: agent ?? 0, step: step ?? 0 };
}

function average(points: readonly Point[], of: keyof Point): number;
function average(points: readonly Point[], of: keyof Point, none: null): number | null;
function average(points: readonly Point[], of: keyof Point, none: number | null = 0): number | null {
  return points.length === 0 ? none : mean(points.map((point) => point[of]));
}

/** Cases drawn again, whole tasks at a time: runs of one task are not independent. The same for the same tasks. */
function resampled(cases: readonly LabelledCase[]): number[][] {
  const tasks = [...groupBy([...cases.keys()], (i) => cases[i]!.task).values()];
  const draw = generator(tasks.length);
  return Array.from({ length: DRAWS }, () => tasks.flatMap(() => tasks[Math.floor(draw() * tasks.length)]!));
}

/** Middle 95 % of the means over the draws. */
function interval(values: readonly number[], draws: readonly (readonly number[])[]): Interval {
  const means = draws.map((draw) => draw.reduce((sum, i) => sum + values[i]!, 0) / draw.length).sort((a, b) => a - b);
  return [means[Math.floor(0.025 * DRAWS)]!, means[Math.ceil(0.975 * DRAWS) - 1]!];
}

/** mulberry32: plain, seeded, and good enough to draw tasks. */
function generator(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/**
 * What blaming costs nothing: attributions that look at no word. One by a model that is not better has shown nothing. Each names who is blamed; `random` gives all candidates, equally likely.
 */
const BASELINES: Readonly<Record<string, (run: LabelledCase) => readonly Blame[]>> = {
  first: (run) => agentEntries(run).slice(0, 1),
  last: (run) => agentEntries(run).slice(-1),
  longest: (run) => {
    const candidates = agentEntries(run);
    return candidates.length === 0 ? [] : [candidates.reduce((best, one) => (one.length > best.length ? one : best))];
  },
  most_frequent_agent: (run) => {
    const agents = [...groupBy(agentEntries(run), (one) => one.agent).values()];
    return agents.length === 0 ? [] : agents.reduce((most, one) => (one.length > most.length ? one : most)).slice(0, 1);
  },
  random: agentEntries,
};

function agentEntries({ entries }: LabelledCase): (Blame & { readonly length: number })[] {
  return entries.flatMap(({ kind, agent, text }, at) =>
    kind === 'agent' && agent !== null ? [{ agent, entry: numberOf(entries, at), length: text.length }] : [],
  );
}
