/** Who&When (arXiv 2505.00212): how often an attribution names the right agent and step. */

import { Type } from 'typebox';
import type { FeedbackFact } from '../judging/episode-facts.ts';
import { score } from '../judging/judgement.ts';
import { agentIn, agentsBySteps, labelled, MISTAKE } from '../judging/labelled.ts';
import { method } from './method.ts';
import { Key, nullable } from './shapes.ts';

const Prediction = Type.Optional(nullable(Key));
type Match = 'exact' | 'contains';
const params: { match: Match } = { match: 'exact' };

/**
 * How often the right agent, and how often the right step, was blamed.
 *
 * Source: the Who&When benchmark used by AgenTracer, arXiv 2509.03312. Verified (text). A missing prediction is wrong. The published script
 * asks whether the true value is a substring of the predicted one, so that step 1 is right for 12: `match: "contains"` gives its numbers.
 * Null without cases.
 * Kept: agent and step counted apart. Dropped: nothing. Open: nothing known.
 */
export const whoWhenAccuracy = method({
  name: 'who_when_accuracy',
  kind: 'blame',
  source: 'Who&When / AgenTracer: arXiv 2509.03312; verified (text)',
  version: 1,
  summary: 'Share of cases with the right agent, and with the right step.',
  teams: 'several agents',
  params,
  limits: { match: Type.Union([Type.Literal('exact'), Type.Literal('contains')]) },
  input: Type.Object({
    cases: Type.Array(Type.Object({ pred_agent: Prediction, true_agent: Key, pred_step: Prediction, true_step: Key })),
  }),
  run: ({ cases }, { match }): { readonly agent: number | null; readonly step: number | null } => {
    const share = (right: (one: (typeof cases)[number]) => boolean) =>
      cases.length === 0 ? null : cases.filter(right).length / cases.length;
    return {
      agent: share((one) => matches(one.pred_agent, one.true_agent, match)),
      step: share((one) => matches(one.pred_step, one.true_step, match)),
    };
  },
  judged: {
    reads: ['feedback'],
    writes: ['scores'],
    scope: () => 'set',
    /**
     * A case is an episode with a true mistake; the last one counts, on both sides. The step is the number of the entry where the record counts
     * entries, else the step that is the target. The value is the share of right agents; the share of right steps stands beside it.
     */
    rows: (facts, ask) => {
      const agents = agentsBySteps(facts);
      const placeOf = (fact: FeedbackFact) => fact.entry ?? (fact.target_kind === 'step' ? fact.target_id : null);
      const { cases, annotators } = labelled(facts, ({ name }) => name === MISTAKE);
      const known = cases.flatMap(({ gold, predicted }) => {
        const fact = gold.at(-1)!;
        const [true_agent, true_step] = [agentIn(agents, fact), placeOf(fact)];
        return true_agent === null || true_step === null ? [] : [{ true_agent, true_step, predicted }];
      });
      const reason = known.length === 0 ? 'no_truth' : annotators.length === 0 ? 'no_predictions' : null;
      if (reason !== null) return [score(`s/${MISTAKE}`, null, reason)];
      return annotators.map((annotator) => {
        const rows = known.map(({ true_agent, true_step, predicted }) => {
          const fact = predicted.get(annotator)?.at(-1);
          return {
            true_agent,
            true_step,
            pred_agent: fact ? agentIn(agents, fact) : null,
            pred_step: fact ? placeOf(fact) : null,
          };
        });
        const output = ask.run({ cases: rows });
        return score(`s/${annotator}`, output.agent, null, { ...output, cases: rows.length });
      });
    },
  },
});

function matches(predicted: string | number | null | undefined, truth: string | number, match: Match): boolean {
  if (predicted === null || predicted === undefined) return false;
  return match === 'exact' ? String(predicted) === String(truth) : String(predicted).includes(String(truth));
}
