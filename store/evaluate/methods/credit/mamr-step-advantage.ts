/**
 * Dr. MAMR's credit for a step: the outcome, and a little of its influence and of its restart.
 *
 * Source: arXiv 2511.02303. Secondary; that each part is normalised over the steps given, all steps of a query's group, is the best
 * reading. ddof 1, eps 1e-6; a part that does not vary, or a single step, counts 0.
 * Kept: α = β = 0.1. Dropped: the change of the loss, that 1/turns is no divisor any more. Open: the scope of each
 * normalisation. Version 2: with β 0 no restart is asked for, and with α 0 no influence.
 */

import { Type } from 'typebox';
import type { Assembled } from '../../judging/assembled.ts';
import { type StepFacts, stepKey } from '../../judging/facts.ts';
import { doubtIn } from '../../judging/group-doubts.ts';
import { answerChangesOf, influencesOf, rightOf } from '../../judging/influence.ts';
import { credit } from '../../judging/judgement.ts';
import { numbersOn } from '../../judging/named-feedback.ts';
import { overGroups } from '../../judging/over-episodes.ts';
import { method } from '../method.ts';
import { requireRows } from '../refuse.ts';
import { mean, standardDeviation } from '../statistics.ts';
import { meanByCluster, restartSign } from '../step-influence.ts';

const Column = Type.Array(Type.Number());
const params = { alpha: 0.1, beta: 0.1 };

export const mamrStepAdvantage = method({
  name: 'mamr_step_advantage',
  kind: 'credit',
  source: 'Dr. MAMR: arXiv 2511.02303; secondary',
  version: 2,
  summary: 'Normalised outcome plus shares of normalised influence and restart reward.',
  params,
  input: Type.Object({ outcome: Column, influence: Column, restart: Column }),
  run: ({ outcome, influence, restart }, { alpha, beta }): number[] => {
    requireRows('influence', influence, outcome.length, 'outcome');
    requireRows('restart', restart, outcome.length, 'outcome');
    const [a, b, c] = [normal(outcome), normal(influence), normal(restart)];
    return outcome.map((_, step) => a[step]! + alpha * b[step]! + beta * c[step]!);
  },
  judged: {
    reads: ['rewards', 'passes', 'content', 'feedback'],
    writes: ['credits', 'scores'],
    /**
     * All steps of a group together. Influence and restart are feedback of these names on the step, else what their methods make of recorded
     * passes. A step that lacks one of them leaves the group.
     */
    rows: (facts, ask) => {
      const influence = recordedOr(facts, 'influence', influencesIn(facts));
      const restart = recordedOr(facts, 'restart', restartsIn(facts));
      const { alpha, beta } = ask.params;
      const doubt = doubtIn(facts);
      return overGroups(facts, credit, (members) => {
        const rows = members.flatMap(({ steps }) =>
          steps.map((step) => ({
            step,
            known: partsOf(facts.rewardOf(step), weighed(alpha, influence(step)), weighed(beta, restart(step))),
          })),
        );
        const known = rows.flatMap((row) => (typeof row.known === 'string' ? [] : [{ step: row.step, ...row.known }]));
        const output = ask.answer({
          outcome: known.map((row) => row.outcome),
          influence: known.map((row) => row.influence),
          restart: known.map((row) => row.restart),
        });
        if (typeof output === 'string') return output;
        const values = new Map(known.map(({ step }, i) => [step, output[i] ?? null]));
        return rows.map((row) => {
          const flag = doubt(row.step.episode_id);
          return credit(row.step, values.get(row.step) ?? null, typeof row.known === 'string' ? row.known : flag);
        });
      });
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

type Parts = { readonly outcome: number; readonly influence: number; readonly restart: number };

function partsOf(outcome: number | null, influence: number | null, restart: number | null): Parts | string {
  if (outcome === null) return 'missing_reward';
  if (influence === null) return 'no_influence';
  return restart === null ? 'no_restart' : { outcome, influence, restart };
}

type OfStep = (step: StepFacts) => number | null;

/** The feedback of that name on a step, else what was computed. */
function recordedOr({ feedback }: Assembled, name: string, computed: OfStep): OfStep {
  const recorded = numbersOn(feedback, 'step', name);
  return (step) => recorded.get(stepKey(step.episode_id, step.step_id)) ?? computed(step);
}

function influencesIn(facts: Assembled): OfStep {
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

function restartsIn(facts: Assembled): OfStep {
  const changeOf = answerChangesOf(facts);
  const right = new Map(facts.episodes.map((episode) => [episode.episode_id, rightOf(episode)]));
  return (step) => {
    const [correct, change] = [right.get(step.episode_id) ?? null, changeOf(step)];
    return correct === null || typeof change === 'string' ? null : restartSign(correct, change.masked, change.kept);
  };
}
