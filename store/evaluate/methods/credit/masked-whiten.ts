/**
 * Advantages of a batch brought to mean 0 and std 1 over the tokens that count.
 *
 * Source: verl, verl/utils/torch_functional.py (masked_whiten). Verified (code). eps 1e-8 is added to the count and to the variance, which has
 * the correction n/(n − 1). Fewer than two tokens are an error. Tokens with mask 0 come out as 0, and so do all where those that count are
 * equal: in the source's 32 bits 1e-8 disappears beside the count, in 64 bits it would leave a remainder.
 * The values are another method's advantages over a training batch, which the trainer puts together: it is run by hand.
 * Kept: n/(n − 1), both eps. Dropped: the variant that keeps the mean. Open: nothing known.
 */

import { Type } from 'typebox';
import { method } from '../method.ts';
import { refuseInput, requireRows } from '../refuse.ts';
import { Bit } from '../shapes.ts';

export const maskedWhiten = method({
  name: 'masked_whiten',
  kind: 'credit',
  source: 'verl/utils/torch_functional.py; verified (code)',
  version: 1,
  summary: 'Subtracts the masked mean and divides by the masked std.',
  input: Type.Object({ values: Type.Array(Type.Number()), mask: Type.Array(Bit) }),
  run: ({ values, mask }): number[] => {
    requireRows('mask', mask, values.length, 'values');
    let n = 0;
    let total = 0;
    let first = Number.NaN;
    let equal = true;
    for (let i = 0; i < values.length; i++) {
      if (mask[i] !== 1) continue;
      const value = values[i]!;
      if (n === 0) first = value;
      else if (value !== first) equal = false;
      n++;
      total += value;
    }
    if (n <= 1) refuseInput('mask', 'at least two entries of 1', `${n}`);
    if (equal) return values.map(() => 0);
    const centre = total / (n + 1e-8);
    let squares = 0;
    for (let i = 0; i < values.length; i++) if (mask[i] === 1) squares += (values[i]! - centre) ** 2;
    const deviation = Math.sqrt(((squares / (n + 1e-8)) * n) / (n - 1) + 1e-8);
    // A copy has room for doubles from the start; an array that is filled with 0 first is moved as a whole at the first of them.
    const whitened = values.slice();
    for (let i = 0; i < values.length; i++) whitened[i] = mask[i] === 1 ? (values[i]! - centre) / deviation : 0;
    return whitened;
  },
});
