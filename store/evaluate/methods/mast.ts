/**
 * The failure modes of MAST (arXiv 2503.13657) and its released taxonomy, by code. Titles moved between versions: an older 3.3 includes
 * "no verification", which is 3.2 now. So a label must be stored with the version of the taxonomy it was made with.
 */

import { Type } from 'typebox';
import { groupBy } from '../../../ingest/events/group-by.ts';
import type { FeedbackFact } from '../judging/episode-facts.ts';
import { type Judgement, score } from '../judging/judgement.ts';
import { annotatorOf, isMode, MISTAKE } from '../judging/labelled.ts';
import { numberOf } from '../judging/named-feedback.ts';
import { method } from './method.ts';
import { refuseInput, requireRows } from './refuse.ts';
import { Key } from './shapes.ts';

export const MAST_MODES = {
  '1.1': 'Disobey task specification',
  '1.2': 'Disobey role specification',
  '1.3': 'Step repetition',
  '1.4': 'Loss of conversation history',
  '1.5': 'Unaware of termination conditions',
  '2.1': 'Conversation reset',
  '2.2': 'Fail to ask for clarification',
  '2.3': 'Task derailment',
  '2.4': 'Information withholding',
  '2.5': "Ignored other agent's input",
  '2.6': 'Reasoning-action mismatch',
  '3.1': 'Premature termination',
  '3.2': 'No or incomplete verification',
  '3.3': 'Incorrect verification',
} as const;

export const MAST_CATEGORIES = {
  FC1: 'System design issues',
  FC2: 'Inter-agent misalignment',
  FC3: 'Task verification',
} as const;

export type MastCode = keyof typeof MAST_MODES;
type MastCategory = keyof typeof MAST_CATEGORIES;

/** The code without its prefix; null for one that is not in the taxonomy. */
export function mastCode(text: string): MastCode | null {
  const code = text.replace(/^FM-/, '');
  return Object.hasOwn(MAST_MODES, code) ? (code as MastCode) : null;
}

export function mastCategory(code: MastCode): MastCategory {
  return `FC${code[0]}` as MastCategory;
}

/**
 * How often each failure mode occurs in a set of traces, and how they fall into categories.
 *
 * Source: MAST, arXiv 2503.13657 and the released taxonomy. Verified (text). A mode counts once a trace. Categories are shares of all
 * (trace, mode) pairs, 0 where there is none. A code may carry the prefix FM-; one that is not in the taxonomy is refused.
 * Kept: codes and categories of the latest version. Dropped: the judge that finds the codes; older titles, whose codes
 * mean other things. Open: nothing known.
 */
export const mastDistribution = method({
  name: 'mast_distribution',
  kind: 'blame',
  source: 'MAST: arXiv 2503.13657; verified (text)',
  version: 1,
  summary: 'Traces for each failure mode, and each category’s share.',
  teams: 'several agents',
  input: Type.Object({ traces: Type.Array(Type.Array(Type.String())) }),
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

const Labels = Type.Array(Key, { minItems: 1 });

/**
 * How far two annotators agree beyond what chance would give.
 *
 * Source: Cohen's κ as reported by MAST, arXiv 2503.13657. Verified (text). 1 when chance alone would make them agree always.
 * Kept: unweighted κ of two annotators. Dropped: weights and more than two annotators. Open: nothing known.
 */
export const cohenKappa = method({
  name: 'cohen_kappa',
  kind: 'blame',
  source: 'MAST: arXiv 2503.13657; verified (text)',
  version: 1,
  summary: 'Agreement of two annotators, corrected for chance.',
  teams: 'several agents',
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
