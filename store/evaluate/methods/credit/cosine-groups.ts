/**
 * Puts steps with nearly the same content into one group, so that a step's influence can be averaged over its like.
 *
 * Source: Dr. MAMR, arXiv 2511.02303. Secondary. A step joins the first group whose first member is at least as near as the threshold;
 * otherwise it opens a group. A vector of zeros is near to nothing.
 * Kept: the first group that is near enough, against its first member. Dropped: the embeddings. Open: the threshold 0.9
 * is read in a secondary account.
 */

import { Type } from 'typebox';
import { type StepFacts, stepKey } from '../../judging/facts.ts';
import { credit } from '../../judging/judgement.ts';
import { listsOn } from '../../judging/named-feedback.ts';
import { overGroups } from '../../judging/over-episodes.ts';
import { method } from '../method.ts';
import { requireRectangle } from '../refuse.ts';

export const cosineGroups = method({
  name: 'cosine_groups',
  kind: 'credit',
  source: 'Dr. MAMR: arXiv 2511.02303; secondary',
  version: 1,
  summary: 'Groups steps by the cosine of their embeddings with each group’s first member.',
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
    reads: ['feedback'],
    writes: ['credits', 'scores'],
    /** The credit of a step is the number of its cluster in its group; `embedding` is feedback on the step. */
    rows: (facts, ask) => {
      const embeddings = listsOn(facts.feedback, 'step', 'embedding');
      return overGroups(facts, credit, (members) => {
        const steps = members.flatMap((member) => member.steps);
        const of = (step: StepFacts) => embeddings.get(stepKey(step.episode_id, step.step_id));
        const width = steps.map((step) => of(step)?.length).find((length) => length !== undefined);
        const known = steps.filter((step) => of(step) !== undefined && of(step)!.length === width);
        const output = ask.answer({ embeddings: known.map((step) => of(step)!) });
        if (typeof output === 'string') return output;
        const values = new Map(known.map((step, i) => [step, output[i] ?? null]));
        return steps.map((step) =>
          credit(
            step,
            values.get(step) ?? null,
            values.has(step) ? null : of(step) === undefined ? 'no_embedding' : 'other_dimension',
          ),
        );
      });
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
