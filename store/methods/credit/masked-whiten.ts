/**
 * Advantages of a batch brought to mean 0 and std 1 over the tokens that count.
 *
 * Source: verl, verl/utils/torch_functional.py (masked_whiten). Verified (code). eps 1e-8 is added to the count and to the variance, which has
 * the correction n/(n − 1). Fewer than two tokens are an error. Tokens with mask 0 come out as 0.
 */

import { type Static, Type } from 'typebox';
import type { Method } from '../method.ts';
import { refuseInput, requireRows } from '../refuse.ts';
import { Bit } from '../shapes.ts';
import { sum } from '../statistics.ts';

const Input = Type.Object({ values: Type.Array(Type.Number()), mask: Type.Array(Bit) });

export const maskedWhiten: Method<Static<typeof Input>, Record<never, never>, number[]> = {
  name: 'masked_whiten',
  kind: 'credit',
  source: 'verl/utils/torch_functional.py; verified (code)',
  version: 1,
  needs: 'input',
  summary: 'Subtracts the masked mean and divides by the masked std.',
  params: {},
  input: Input,
  run: ({ values, mask }) => {
    requireRows('mask', mask, values.length, 'values');
    const n = sum(mask);
    if (n <= 1) refuseInput('mask', 'at least two entries of 1', `${n}`);
    const centre = values.reduce((total, value, i) => total + value * mask[i]!, 0) / (n + 1e-8);
    const squares = values.reduce((total, value, i) => total + (value - centre) ** 2 * mask[i]!, 0) / (n + 1e-8);
    const deviation = Math.sqrt((squares * n) / (n - 1) + 1e-8);
    return values.map((value, i) => (mask[i] === 1 ? (value - centre) / deviation : 0));
  },
};
