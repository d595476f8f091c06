/**
 * How often each failure mode occurs in a set of traces, and how they fall into categories.
 *
 * Source: MAST, arXiv 2503.13657 and the released taxonomy. Verified (text). A mode counts once a trace. Categories are shares of all
 * (trace, mode) pairs, 0 where there is none. A code may carry the prefix FM-; one that is not in the taxonomy is refused.
 * Kept: codes and categories of the latest version. Dropped: the judge that finds the codes; older titles, whose codes
 * mean other things. Open: nothing known.
 */

import { type Static, Type } from 'typebox';
import { MAST_CATEGORIES, type MastCategory, type MastCode, mastCategory, mastCode } from '../mast.ts';
import type { Method } from '../method.ts';
import { refuseInput } from '../refuse.ts';
import { groupBy } from '../statistics.ts';

const Input = Type.Object({ traces: Type.Array(Type.Array(Type.String())) });

type Distribution = {
  readonly modes: Readonly<Partial<Record<MastCode, number>>>;
  readonly categories: Readonly<Record<MastCategory, number>>;
};

export const mastDistribution: Method<Static<typeof Input>, Record<never, never>, Distribution> = {
  name: 'mast_distribution',
  kind: 'blame',
  source: 'MAST: arXiv 2503.13657; verified (text)',
  version: 1,
  needs: 'failure modes',
  summary: 'Traces for each failure mode, and each category’s share.',
  params: {},
  input: Input,
  run: ({ traces }) => {
    const found = traces.flatMap((codes, i) => [...new Set(codes.map((code, k) => known(code, `traces[${i}][${k}]`)))]);
    const byMode = groupBy(found, (code) => code);
    const byCategory = groupBy(found, mastCategory);
    const share = (category: string) =>
      (byCategory.get(category as MastCategory)?.length ?? 0) / Math.max(found.length, 1);
    return {
      modes: Object.fromEntries([...byMode].map(([code, traces]) => [code, traces.length])),
      categories: Object.fromEntries(
        Object.keys(MAST_CATEGORIES).map((category) => [category, share(category)]),
      ) as Record<MastCategory, number>,
    };
  },
};

function known(text: string, field: string): MastCode {
  return mastCode(text) ?? refuseInput(field, 'a code of the taxonomy, 1.1 to 3.3', text);
}
