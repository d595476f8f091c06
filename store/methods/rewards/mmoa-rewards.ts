/**
 * What the rewriter, the selector and the generator of a retrieval team earn: the shared answer score less their own faults.
 *
 * Source: chenyiqun/MMOA-RAG, LLaMA-Factory/…/ppo/trainer_qr_s_g.py. Verified (code).
 * Kept: the rewriter's penalty applies once; the selector's form is exact (no spaces, ids without leading zeros); an empty selection
 * costs nothing. `subquestions` are those the model wrote: the released loop cuts them before it counts, so that its count penalty
 * never fires. Characters are code points.
 * Dropped: the loop that cuts the subquestions. Open: nothing known.
 */

import { type Static, Type } from 'typebox';
import type { Method } from '../method.ts';

const Input = Type.Object({
  f1: Type.Number(),
  subquestions: Type.Array(Type.String()),
  selector: Type.String(),
  k: Type.Integer({ minimum: 0 }),
  answer: Type.String(),
});

type Rewards = { readonly rewriter: number; readonly selector: number; readonly generator: number };

export const mmoaRewards: Method<Static<typeof Input>, Record<never, never>, Rewards> = {
  name: 'mmoa_rewards',
  kind: 'reward',
  source: 'MMOA-RAG: chenyiqun/MMOA-RAG, trainer_qr_s_g.py; verified (code)',
  version: 1,
  needs: 'retrieval roles',
  summary:
    'Shared F1 less a penalty for too many subquestions, a malformed selection, or a long answer; stored on each step of the role.',
  params: {},
  input: Input,
  run: ({ f1, subquestions, selector, k, answer }) => {
    const characters = subquestions.reduce((total, text) => total + [...text].length, 0);
    const words = answer.split(/\s+/).filter((word) => word !== '').length;
    return {
      rewriter: f1 - (subquestions.length > 4 || characters > 300 ? 0.5 : 0),
      selector: f1 - (selector === '' || selects(selector, k) ? 0 : 1),
      generator: f1 - (words > 30 ? 1 : 0),
    };
  },
};

function selects(text: string, k: number): boolean {
  const ids = text.split(',').map((part) => /^Document(0|[1-9]\d*)$/.exec(part)?.[1]);
  return ids.every((id) => id !== undefined && Number(id) < k) && new Set(ids).size === ids.length;
}
