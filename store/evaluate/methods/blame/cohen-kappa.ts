/**
 * How far two annotators agree beyond what chance would give.
 *
 * Source: Cohen's κ as reported by MAST, arXiv 2503.13657. Verified (text). 1 when chance alone would make them agree always.
 * Kept: unweighted κ of two annotators. Dropped: weights and more than two annotators. Open: nothing known.
 */

import { Type } from 'typebox';
import { groupBy } from '../../../../ingest/events/group-by.ts';
import type { FeedbackFact } from '../../judging/episode-facts.ts';
import { type Judgement, score } from '../../judging/judgement.ts';
import { annotatorOf } from '../../judging/labelled.ts';
import { numberOf } from '../../judging/named-feedback.ts';
import { method } from '../method.ts';
import { requireRows } from '../refuse.ts';
import { Key } from '../shapes.ts';

const Labels = Type.Array(Key, { minItems: 1 });

export const cohenKappa = method({
  name: 'cohen_kappa',
  kind: 'blame',
  source: 'MAST: arXiv 2503.13657; verified (text)',
  version: 1,
  summary: 'Agreement of two annotators, corrected for chance.',
  input: Type.Object({ a: Labels, b: Labels }),
  run: ({ a, b }): number => {
    requireRows('b', b, a.length, 'a');
    const n = a.length;
    const observed = a.filter((label, i) => label === b[i]).length / n;
    const other = groupBy(b, (label) => label);
    let pairs = 0;
    for (const [label, own] of groupBy(a, (one) => one)) pairs += own.length * (other.get(label)?.length ?? 0);
    // Counted in whole numbers, so that a chance of exactly 1 is seen as such.
    return pairs === n * n ? 1 : (observed - pairs / (n * n)) / (1 - pairs / (n * n));
  },
  judged: {
    reads: ['feedback'],
    writes: ['scores'],
    scope: () => 'set',
    /**
     * For every two annotators over what both of them labelled: one target under one name, the last label of each. The key of the row is
     * `s/<one>~<other>`, in the order of their names.
     */
    rows: ({ episodes, feedback }, ask) => {
      const labels = new Map<string, Map<string, string>>();
      for (const { episode_id } of episodes) {
        for (const fact of feedback.get(episode_id) ?? []) {
          const label = labelOf(fact);
          if ((fact.kind !== 'label' && fact.kind !== 'failure') || label === null) continue;
          if (fact.annotator === null && fact.by === null) continue;
          const item = JSON.stringify([episode_id, fact.target_kind, fact.target_id, fact.entry, fact.name]);
          const own = labels.get(annotatorOf(fact)) ?? new Map<string, string>();
          labels.set(annotatorOf(fact), own.set(item, label));
        }
      }
      const annotators = [...labels.keys()].sort();
      const rows = annotators.flatMap((one, i) =>
        annotators.slice(i + 1).flatMap((other): Judgement[] => {
          const shared = [...labels.get(one)!.keys()].filter((item) => labels.get(other)!.has(item));
          if (shared.length === 0) return [];
          const column = (annotator: string) => shared.map((item) => labels.get(annotator)!.get(item)!);
          const value = ask.run({ a: column(one), b: column(other) });
          return [score(`s/${one}~${other}`, value, null, { labels: shared.length })];
        }),
      );
      return rows.length > 0 ? rows : [score('s/annotators', null, 'no_common_labels')];
    },
  },
});

/** A label as two annotators are compared by: its word, else its number, a truth value being 1 or 0; a failure without either is found. */
const labelOf = (fact: FeedbackFact): string | null => {
  if (fact.label !== null) return fact.label;
  if (typeof fact.value_json === 'string') return fact.value_json;
  const number = numberOf(fact) ?? (fact.kind === 'failure' && fact.value_json === null ? 1 : null);
  return number === null ? null : String(number);
};
