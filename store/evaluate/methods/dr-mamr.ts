/** Dr. MAMR (arXiv 2511.02303): what a step changed in the steps after it. */

import { Type } from 'typebox';
import { type StepFacts, stepKey } from '../judging/facts.ts';
import { doubtIn } from '../judging/group-doubts.ts';
import { answerChangesOf, influencesOf, rightOf } from '../judging/influence.ts';
import { credit } from '../judging/judgement.ts';
import type { MethodFacts } from '../judging/method-facts.ts';
import { listsOn, numbersOn } from '../judging/named-feedback.ts';
import { method } from './method.ts';
import { requireRectangle, requireRows } from './refuse.ts';
import { Key } from './shapes.ts';
import { type GroupKey, groupRows, groupStatistics, mean, standardDeviation } from './statistics.ts';

/** Each value's mean over its cluster. */
function meanByCluster(cluster: readonly GroupKey[], values: readonly number[]): number[] {
  const groups = groupRows(cluster);
  const { mean } = groupStatistics(groups, values, 0);
  return Array.from(groups.numbers, (group) => mean[group]!);
}

/** 1 if leaving the history out makes a right answer likelier or a wrong one less likely, −1 for the contrary. */
function restartSign(correct: boolean, logpWithout: number, logpWith: number): number {
  const sign = Math.sign(logpWithout - logpWith);
  return correct || sign === 0 ? sign : -sign;
}

/**
 * Puts steps with nearly the same content into one group, so that a step's influence can be averaged over its like.
 *
 * Source: Dr. MAMR, arXiv 2511.02303. Secondary. A step joins the first group whose first member is at least as near as the threshold;
 * otherwise it opens a group. A vector of zeros is near to nothing.
 * Kept: the first group that is near enough, against its first member. Dropped: the embeddings. Open: the threshold 0.9
 * is read in a secondary account.
 */
export const cosineGroups = method({
  name: 'cosine_groups',
  kind: 'credit',
  source: 'Dr. MAMR: arXiv 2511.02303; secondary',
  version: 1,
  summary: 'Groups steps by the cosine of their embeddings with each group’s first member.',
  teams: 'agents that reason in turns',
  params: { threshold: 0.9 },
  limits: { threshold: Type.Number({ minimum: -1, maximum: 1 }) },
  input: Type.Object({ embeddings: Type.Array(Type.Array(Type.Number())) }),
  run: ({ embeddings }, { threshold }): number[] => {
    requireRectangle('embeddings', embeddings);
    const first: (readonly number[])[] = [];
    return embeddings.map((embedding) => {
      const near = first.findIndex((other) => cosine(embedding, other) >= threshold);
      return near >= 0 ? near : first.push(embedding) - 1;
    });
  },
  judged: {
    over: 'group',
    reads: ['feedback'],
    writes: ['credits', 'scores'],
    /** The credit of a step is the number of its cluster in its group; `embedding` is feedback on the step. */
    each: (facts) => {
      const embeddings = listsOn(facts.feedback, 'step', 'embedding');
      return ({ members }) => {
        const steps = members.flatMap((member) => member.steps);
        const of = (step: StepFacts) => embeddings.get(stepKey(step.episode_id, step.step_id));
        const width = steps.map((step) => of(step)?.length).find((length) => length !== undefined);
        const known = steps.filter((step) => of(step) !== undefined && of(step)!.length === width);
        return {
          input: { embeddings: known.map((step) => of(step)!) },
          rows: (output) => {
            const values = new Map(known.map((step, i) => [step, output[i] ?? null]));
            return steps.map((step) =>
              credit(
                step,
                values.get(step) ?? null,
                values.has(step) ? null : of(step) === undefined ? 'no_embedding' : 'other_dimension',
              ),
            );
          },
        };
      };
    },
  },
});

function cosine(a: readonly number[], b: readonly number[]): number {
  const length = Math.sqrt(product(a, a)) * Math.sqrt(product(b, b));
  return length === 0 ? Number.NEGATIVE_INFINITY : product(a, b) / length;
}

function product(a: readonly number[], b: readonly number[]): number {
  return a.reduce((total, value, i) => total + value * b[i]!, 0);
}

/**
 * How much a step changes what comes next, averaged over steps like it.
 *
 * Source: Dr. MAMR, arXiv 2511.02303. Secondary. `delta` is log p(next step | history) − log p(next step | history with the step masked),
 * which needs a model's forward pass; `cluster` is the group of each step.
 * Kept: the mean over the steps of a group. Dropped: the forward passes behind `delta`. Open: whether the group of a
 * step crosses trajectories: here it is given by `cluster`.
 */
export const causalInfluence = method({
  name: 'causal_influence',
  kind: 'credit',
  source: 'Dr. MAMR: arXiv 2511.02303; secondary',
  version: 1,
  summary: 'Mean change of the next step’s log-probability over the steps of a group.',
  teams: 'agents that reason in turns',
  input: Type.Object({ cluster: Type.Array(Key), delta: Type.Array(Type.Number()) }),
  run: ({ cluster, delta }): number[] => {
    requireRows('delta', delta, cluster.length, 'cluster');
    return meanByCluster(cluster, delta);
  },
  judged: {
    reads: ['passes', 'content'],
    rows: (facts, ask) => {
      const influences = influencesOf(facts);
      const known = influences.flatMap(({ cluster, change }) =>
        typeof change === 'string' ? [] : [{ cluster, delta: change.kept - change.masked }],
      );
      const values = ask.run({ cluster: known.map((one) => one.cluster), delta: known.map((one) => one.delta) });
      let place = 0;
      return facts.steps.map((step, i) => {
        const { change } = influences[i]!;
        return typeof change === 'string' ? credit(step, null, change) : credit(step, values[place++] ?? null, null);
      });
    },
  },
});

/**
 * Whether forgetting the history would have helped: a reward for starting again at the right moment.
 *
 * Source: Dr. MAMR, arXiv 2511.02303. Secondary. The sign of z·Δ, with z = 1 for a right outcome and −1 for a wrong one, and Δ the log
 * probability of the final answer with the history masked minus that with it kept.
 * Kept: the sign only; no difference gives 0. Dropped: the two forward passes. Open: read in a secondary account only.
 */
export const restartReward = method({
  name: 'restart_reward',
  kind: 'credit',
  source: 'Dr. MAMR: arXiv 2511.02303; secondary',
  version: 1,
  summary: '1 if masking the history makes a right answer likelier or a wrong one less likely, −1 for the contrary.',
  teams: 'agents that reason in turns',
  input: Type.Object({
    correct: Type.Boolean(),
    logp_without_history: Type.Number(),
    logp_with_history: Type.Number(),
  }),
  run: ({ correct, logp_without_history, logp_with_history }): number =>
    restartSign(correct, logp_without_history, logp_with_history),
  judged: {
    over: 'episode',
    reads: ['passes'],
    writes: ['credits', 'scores'],
    each: (facts, ask) => {
      const changeOf = answerChangesOf(facts);
      return ({ episode, steps: own }) => {
        const correct = rightOf(episode);
        if (correct === null) return 'unknown_outcome';
        return own.map((step) => {
          const change = changeOf(step);
          if (typeof change === 'string') return credit(step, null, change);
          const { masked: logp_without_history, kept: logp_with_history } = change;
          const value = ask.answer({ correct, logp_without_history, logp_with_history });
          return typeof value === 'string' ? credit(step, null, value) : credit(step, value, null);
        });
      };
    },
  },
});

const Column = Type.Array(Type.Number());
const params = { alpha: 0.1, beta: 0.1 };

/**
 * Dr. MAMR's credit for a step: the outcome, and a little of its influence and of its restart.
 *
 * Source: arXiv 2511.02303. Secondary; that each part is normalised over the steps given, all steps of a query's group, is the best
 * reading. ddof 1, eps 1e-6; a part that does not vary, or a single step, counts 0.
 * Kept: α = β = 0.1. Dropped: the change of the loss, that 1/turns is no divisor any more. Open: the scope of each
 * normalisation. Version 2: with β 0 no restart is asked for, and with α 0 no influence.
 */
export const mamrStepAdvantage = method({
  name: 'mamr_step_advantage',
  kind: 'credit',
  source: 'Dr. MAMR: arXiv 2511.02303; secondary',
  version: 2,
  summary: 'Normalised outcome plus shares of normalised influence and restart reward.',
  teams: 'agents that reason in turns',
  params,
  input: Type.Object({ outcome: Column, influence: Column, restart: Column }),
  run: ({ outcome, influence, restart }, { alpha, beta }): number[] => {
    requireRows('influence', influence, outcome.length, 'outcome');
    requireRows('restart', restart, outcome.length, 'outcome');
    const [a, b, c] = [normal(outcome), normal(influence), normal(restart)];
    return outcome.map((_, step) => a[step]! + alpha * b[step]! + beta * c[step]!);
  },
  judged: {
    over: 'group',
    reads: ['rewards', 'passes', 'content', 'feedback'],
    writes: ['credits', 'scores'],
    /**
     * All steps of a group together. Influence and restart are feedback of these names on the step, else what their methods make of recorded
     * passes. A step that lacks one of them leaves the group.
     */
    each: (facts, ask) => {
      const influence = recordedOr(facts, 'influence', influencesIn(facts));
      const restart = recordedOr(facts, 'restart', restartsIn(facts));
      const { alpha, beta } = ask.params;
      const doubt = doubtIn(facts);
      return ({ members }) => {
        const rows = members.flatMap(({ steps }) =>
          steps.map((step) => ({
            step,
            known: partsOf(facts.rewardOf(step), weighed(alpha, influence(step)), weighed(beta, restart(step))),
          })),
        );
        const known = rows.flatMap((row) => (typeof row.known === 'string' ? [] : [{ step: row.step, ...row.known }]));
        return {
          input: {
            outcome: known.map((row) => row.outcome),
            influence: known.map((row) => row.influence),
            restart: known.map((row) => row.restart),
          },
          rows: (output) => {
            const values = new Map(known.map(({ step }, i) => [step, output[i] ?? null]));
            return rows.map((row) => {
              const flag = doubt(row.step.episode_id);
              return credit(row.step, values.get(row.step) ?? null, typeof row.known === 'string' ? row.known : flag);
            });
          },
        };
      };
    },
  },
});

function normal(values: readonly number[]): number[] {
  const deviation = standardDeviation(values, 1);
  const centre = mean(values);
  return values.map((value) => (deviation === 0 ? 0 : (value - centre) / (deviation + 1e-6)));
}

/** What weighs nothing need not be known. */
const weighed = (weight: number, part: number | null): number | null => (weight === 0 ? 0 : part);

type RewardParts = { readonly outcome: number; readonly influence: number; readonly restart: number };

function partsOf(outcome: number | null, influence: number | null, restart: number | null): RewardParts | string {
  if (outcome === null) return 'missing_reward';
  if (influence === null) return 'no_influence';
  return restart === null ? 'no_restart' : { outcome, influence, restart };
}

type OfStep = (step: StepFacts) => number | null;

/** The feedback of that name on a step, else what was computed. */
function recordedOr({ feedback }: MethodFacts, name: string, computed: OfStep): OfStep {
  const recorded = numbersOn(feedback, 'step', name);
  return (step) => recorded.get(stepKey(step.episode_id, step.step_id)) ?? computed(step);
}

function influencesIn(facts: MethodFacts): OfStep {
  const known = influencesOf(facts).flatMap(({ cluster, change }, i) =>
    typeof change === 'string' ? [] : [{ step: facts.steps[i]!, cluster, delta: change.kept - change.masked }],
  );
  const means = meanByCluster(
    known.map(({ cluster }) => cluster),
    known.map(({ delta }) => delta),
  );
  const values = new Map(known.map(({ step }, i) => [step, means[i]!]));
  return (step) => values.get(step) ?? null;
}

function restartsIn(facts: MethodFacts): OfStep {
  const changeOf = answerChangesOf(facts);
  const right = new Map(facts.episodes.map((episode) => [episode.episode_id, rightOf(episode)]));
  return (step) => {
    const [correct, change] = [right.get(step.episode_id) ?? null, changeOf(step)];
    return correct === null || typeof change === 'string' ? null : restartSign(correct, change.masked, change.kept);
  };
}
