/**
 * How often each failure mode occurs in a set of traces, and how they fall into categories.
 *
 * Source: MAST, arXiv 2503.13657 and the released taxonomy. Verified (text). A mode counts once a trace. Categories are shares of all
 * (trace, mode) pairs, 0 where there is none. A code may carry the prefix FM-; one that is not in the taxonomy is refused.
 * Kept: codes and categories of the latest version. Dropped: the judge that finds the codes; older titles, whose codes
 * mean other things. Open: nothing known.
 */

import { Type } from 'typebox';
import { groupBy } from '../../../../ingest/events/group-by.ts';
import { score } from '../../judging/judgement.ts';
import { isMode, MISTAKE } from '../../judging/labelled.ts';
import { MAST_CATEGORIES, type MastCategory, type MastCode, mastCategory, mastCode } from '../mast.ts';
import { method } from '../method.ts';
import { refuseInput } from '../refuse.ts';

type Distribution = {
  readonly modes: Readonly<Partial<Record<MastCode, number>>>;
  readonly categories: Readonly<Record<MastCategory, number>>;
};

export const mastDistribution = method({
  name: 'mast_distribution',
  kind: 'blame',
  source: 'MAST: arXiv 2503.13657; verified (text)',
  version: 1,
  summary: 'Traces for each failure mode, and each category’s share.',
  input: Type.Object({ traces: Type.Array(Type.Array(Type.String())) }),
  run: ({ traces }): Distribution => {
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
  judged: {
    reads: ['feedback'],
    writes: ['scores'],
    scope: () => 'set',
    /**
     * A trace is an episode that somebody looked at for failure modes, its codes those that anybody found in it. Names that are no code of
     * the taxonomy are counted and left out. How often each mode occurs stands in the detail; there is no one number.
     */
    rows: ({ episodes, feedback }, ask) => {
      const looked = episodes.flatMap(({ episode_id }) => {
        const facts = (feedback.get(episode_id) ?? []).filter(
          ({ kind, name }) => kind === 'failure' && name !== MISTAKE,
        );
        return facts.length === 0 ? [] : [facts];
      });
      const unlabelled = episodes.length - looked.length;
      if (looked.length === 0) return [score('s/modes', null, 'no_labels', { unlabelled })];
      const known = looked.map((facts) => facts.filter(({ name }) => mastCode(name) !== null));
      const traces = known.map((facts) => facts.filter(isMode).map(({ name }) => name));
      const other_names = looked.flat().length - known.flat().length;
      const output = ask.run({ traces });
      return [score('s/modes', null, 'see_detail', { ...output, traces: traces.length, unlabelled, other_names })];
    },
  },
});

function known(text: string, field: string): MastCode {
  return mastCode(text) ?? refuseInput(field, 'a code of the taxonomy, 1.1 to 3.3', text);
}
