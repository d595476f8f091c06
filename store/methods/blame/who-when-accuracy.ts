/**
 * How often the right agent, and how often the right step, was blamed.
 *
 * Source: the Who&When benchmark used by AgenTracer, arXiv 2509.03312. Verified (text). A missing prediction is wrong. The published script
 * asks whether the true value is a substring of the predicted one, so that step 1 is right for 12: `match: "contains"` gives its numbers.
 * Null without cases.
 * Kept: agent and step counted apart. Dropped: nothing. Open: nothing known.
 */

import { type Static, Type } from 'typebox';
import type { Method } from '../method.ts';
import { Key, nullable } from '../shapes.ts';

const Prediction = Type.Optional(nullable(Key));
const Input = Type.Object({
  cases: Type.Array(Type.Object({ pred_agent: Prediction, true_agent: Key, pred_step: Prediction, true_step: Key })),
});
type Match = 'exact' | 'contains';
const params: { match: Match } = { match: 'exact' };

type Accuracy = { readonly agent: number | null; readonly step: number | null };

export const whoWhenAccuracy: Method<Static<typeof Input>, typeof params, Accuracy> = {
  name: 'who_when_accuracy',
  kind: 'blame',
  source: 'Who&When / AgenTracer: arXiv 2509.03312; verified (text)',
  version: 1,
  needs: 'blamed steps and truth',
  summary: 'Share of cases with the right agent, and with the right step.',
  params,
  limits: { match: Type.Union([Type.Literal('exact'), Type.Literal('contains')]) },
  input: Input,
  run: ({ cases }, { match }) => {
    const share = (right: (one: (typeof cases)[number]) => boolean) =>
      cases.length === 0 ? null : cases.filter(right).length / cases.length;
    return {
      agent: share((one) => matches(one.pred_agent, one.true_agent, match)),
      step: share((one) => matches(one.pred_step, one.true_step, match)),
    };
  },
};

function matches(predicted: string | number | null | undefined, truth: string | number, match: Match): boolean {
  if (predicted === null || predicted === undefined) return false;
  return match === 'exact' ? String(predicted) === String(truth) : String(predicted).includes(String(truth));
}
