/**
 * Overlap of two answers as bags of words.
 *
 * Source: chenyiqun/MMOA-RAG, LLaMA-Factory/…/ppo/trainer_qr_s_g.py. Verified (code). Takes texts that are already normalised (lower
 * case, no punctuation, no articles) and splits them at spaces. 0 when a side is empty or nothing is shared.
 * Kept: bags of words. Dropped: the normalisation of the texts. Open: nothing known.
 */

import { type Static, Type } from 'typebox';
import type { Method } from '../method.ts';
import { groupBy } from '../statistics.ts';

const Input = Type.Object({ pred: Type.String(), gold: Type.String() });

export const tokenF1: Method<Static<typeof Input>, Record<never, never>, number> = {
  name: 'token_f1',
  kind: 'score',
  source: 'MMOA-RAG: chenyiqun/MMOA-RAG, trainer_qr_s_g.py; verified (code)',
  version: 1,
  needs: 'answer and reference',
  summary: 'Harmonic mean of precision and recall over words.',
  params: {},
  input: Input,
  run: ({ pred, gold }) => {
    const [said, wanted] = [words(pred), words(gold)];
    const left = groupBy(wanted, (word) => word);
    const shared = said.filter((word) => left.get(word)?.pop() !== undefined).length;
    return shared === 0 ? 0 : (2 * shared) / (said.length + wanted.length);
  },
};

function words(text: string): string[] {
  return text.split(/\s+/).filter((word) => word !== '');
}
