/**
 * How far two annotators agree beyond what chance would give.
 *
 * Source: Cohen's κ as reported by MAST, arXiv 2503.13657. Verified (text). 1 when chance alone would make them agree always.
 * Kept: unweighted κ of two annotators. Dropped: weights and more than two annotators. Open: nothing known.
 */

import { type Static, Type } from 'typebox';
import type { Method } from '../method.ts';
import { requireRows } from '../refuse.ts';
import { Key } from '../shapes.ts';
import { groupBy } from '../statistics.ts';

const Labels = Type.Array(Key, { minItems: 1 });
const Input = Type.Object({ a: Labels, b: Labels });

export const cohenKappa: Method<Static<typeof Input>, Record<never, never>, number> = {
  name: 'cohen_kappa',
  kind: 'blame',
  source: 'MAST: arXiv 2503.13657; verified (text)',
  version: 1,
  needs: 'labels of two annotators',
  summary: 'Agreement of two annotators, corrected for chance.',
  params: {},
  input: Input,
  run: ({ a, b }) => {
    requireRows('b', b, a.length, 'a');
    const n = a.length;
    const observed = a.filter((label, i) => label === b[i]).length / n;
    const other = groupBy(b, (label) => label);
    let pairs = 0;
    for (const [label, own] of groupBy(a, (one) => one)) pairs += own.length * (other.get(label)?.length ?? 0);
    // Counted in whole numbers, so that a chance of exactly 1 is seen as such.
    return pairs === n * n ? 1 : (observed - pairs / (n * n)) / (1 - pairs / (n * n));
  },
};
