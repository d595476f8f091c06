/**
 * How well diagnoses of (agent, error mode) agree with the truth: for pairs, for agents alone and for modes alone.
 *
 * Source: Aegis, arXiv 2509.14295 §5.2; kfq20/AEGIS. Verified (text). Each is a set a case. Micro counts everything together, macro is
 * the mean F1 over every class seen in gold or predictions; both are 0 where there is nothing.
 * Kept: the three levels and both means. Dropped: the contrastive variant and its constants, which train a classifier.
 * Open: macro over classes never in gold, as read in the text.
 */

import { type Static, Type } from 'typebox';
import type { FeedbackFact } from '../../judging/episode-facts.ts';
import { score } from '../../judging/judgement.ts';
import { agentIn, agentsBySteps, isMode, labelled } from '../../judging/labelled.ts';
import type { Given } from '../given.ts';
import { mastCode } from '../mast.ts';
import { method } from '../method.ts';
import { mean, sum } from '../statistics.ts';

const Pair = Type.Tuple([Type.String(), Type.String()]);
const Input = Type.Object({ cases: Type.Array(Type.Object({ gold: Type.Array(Pair), pred: Type.Array(Pair) })) });
type Case = Given<Static<typeof Input>>['cases'][number];
type Pair = Case['gold'][number];

type F1 = { readonly micro: number; readonly macro: number };

const LEVELS: Record<'pair' | 'agent' | 'error', (pair: Pair) => string> = {
  pair: (pair) => JSON.stringify(pair),
  agent: ([agent]) => agent,
  error: ([, error]) => error,
};

export const attributionF1 = method({
  name: 'attribution_f1',
  kind: 'blame',
  source: 'Aegis: arXiv 2509.14295 §5.2; verified (text)',
  version: 1,
  summary: 'Micro and macro F1 over pairs, agents and error modes.',
  input: Input,
  run: ({ cases }): Record<keyof typeof LEVELS, F1> => ({
    pair: f1At(cases, LEVELS.pair),
    agent: f1At(cases, LEVELS.agent),
    error: f1At(cases, LEVELS.error),
  }),
  judged: {
    reads: ['feedback'],
    writes: ['scores'],
    scope: () => 'set',
    /** A case is an episode with a true failure mode. The value is the micro F1 of pairs of agent and mode; the others stand beside it. */
    rows: (facts, ask) => {
      const agents = agentsBySteps(facts);
      const pairs = (feedback: readonly FeedbackFact[]) =>
        feedback.flatMap((fact): Pair[] => {
          const agent = agentIn(agents, fact);
          return agent === null ? [] : [[agent, modeOf(fact)]];
        });
      const { cases, annotators } = labelled(facts, isMode);
      const known = cases
        .map(({ gold, predicted }) => ({ gold: pairs(gold), predicted }))
        .filter(({ gold }) => gold.length > 0);
      const reason = known.length === 0 ? 'no_truth' : annotators.length === 0 ? 'no_predictions' : null;
      if (reason !== null) return [score('s/modes', null, reason)];
      return annotators.map((annotator) => {
        const rows = known.map(({ gold, predicted }) => ({ gold, pred: pairs(predicted.get(annotator) ?? []) }));
        const output = ask.run({ cases: rows });
        return score(`s/${annotator}`, output.pair.micro, null, { ...output, cases: rows.length });
      });
    },
  },
});

function f1At(cases: readonly Case[], classOf: (pair: Pair) => string): F1 {
  const hits = new Map<string, number>();
  /** 2TP + FP + FN: how often the class stands in gold plus how often in predictions. */
  const mentions = new Map<string, number>();
  for (const { gold, pred } of cases) {
    const [wanted, predicted] = [new Set(gold.map(classOf)), new Set(pred.map(classOf))];
    for (const one of [...wanted, ...predicted]) mentions.set(one, (mentions.get(one) ?? 0) + 1);
    for (const one of predicted) if (wanted.has(one)) hits.set(one, (hits.get(one) ?? 0) + 1);
  }
  const classes = [...mentions].map(([one, count]) => (2 * (hits.get(one) ?? 0)) / count);
  const all = sum([...mentions.values()]);
  return {
    micro: all === 0 ? 0 : (2 * sum([...hits.values()])) / all,
    macro: classes.length === 0 ? 0 : mean(classes),
  };
}

const modeOf = ({ name }: FeedbackFact): string => mastCode(name) ?? name;
