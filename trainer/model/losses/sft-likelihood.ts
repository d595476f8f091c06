/** What both means of supervised fine-tuning are taken of: log-probabilities of sequences, and which of their tokens are trained. */
import { type Static, Type } from 'typebox';
import { refuseInput, requireRows } from '../../../store/evaluate/methods/refuse.ts';
import { Bit } from '../../../store/evaluate/methods/shapes.ts';

export const Likelihoods = Type.Object({
  logprobs: Type.Array(Type.Array(Type.Number())),
  mask: Type.Optional(Type.Array(Type.Array(Bit))),
});

/**
 * The trained log-probabilities of each sequence, without sequences that have none; all are trained where no mask is given.
 * @throws TroupeError `method_input` when the mask has another shape, or nothing is trained: a mean over nothing is unknown.
 */
export function trainedLogprobs({ logprobs, mask }: Static<typeof Likelihoods>): number[][] {
  if (mask !== undefined) requireRows('mask', mask, logprobs.length, 'logprobs');
  const trained = logprobs.map((row, i) => {
    const on = mask?.[i];
    if (on === undefined) return row;
    requireRows(`mask[${i}]`, on, row.length, `logprobs[${i}]`);
    return row.filter((_, t) => on[t] === 1);
  });
  const sequences = trained.filter((row) => row.length > 0);
  if (sequences.length === 0) refuseInput('logprobs', 'at least one trained token', 'none');
  return sequences;
}
