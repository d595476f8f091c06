/**
 * How well diagnoses of (agent, error mode) agree with the truth: for pairs, for agents alone and for modes alone.
 *
 * Source: Aegis, arXiv 2509.14295 §5.2; kfq20/AEGIS. Verified (text). Each is a set a case. Micro counts everything together, macro is
 * the mean F1 over every class seen in gold or predictions; both are 0 where there is nothing.
 * Kept: the three levels and both means. Dropped: the contrastive variant and its constants, which train a classifier.
 * Open: macro over classes never in gold, as read in the text.
 */

import { type Static, Type } from 'typebox';
import type { Method } from '../method.ts';
import { mean, sum } from '../statistics.ts';

const Pair = Type.Tuple([Type.String(), Type.String()]);
const Input = Type.Object({ cases: Type.Array(Type.Object({ gold: Type.Array(Pair), pred: Type.Array(Pair) })) });
type Case = Static<typeof Input>['cases'][number];
type Pair = Case['gold'][number];

type F1 = { readonly micro: number; readonly macro: number };

const LEVELS: Record<'pair' | 'agent' | 'error', (pair: Pair) => string> = {
  pair: (pair) => JSON.stringify(pair),
  agent: ([agent]) => agent,
  error: ([, error]) => error,
};

export const attributionF1: Method<Static<typeof Input>, Record<never, never>, Record<keyof typeof LEVELS, F1>> = {
  name: 'attribution_f1',
  kind: 'blame',
  source: 'Aegis: arXiv 2509.14295 §5.2; verified (text)',
  version: 1,
  needs: 'blamed modes and truth',
  summary: 'Micro and macro F1 over pairs, agents and error modes.',
  params: {},
  input: Input,
  run: ({ cases }) => ({
    pair: f1At(cases, LEVELS.pair),
    agent: f1At(cases, LEVELS.agent),
    error: f1At(cases, LEVELS.error),
  }),
};

function f1At(cases: readonly Case[], classOf: (pair: Pair) => string): F1 {
  const hits = new Map<string, number>();
  /** 2TP + FP + FN: how often the class stands in gold plus how often in predictions. */
  const mentions = new Map<string, number>();
  for (const { gold, pred } of cases) {
    const [wanted, said] = [new Set(gold.map(classOf)), new Set(pred.map(classOf))];
    for (const one of [...wanted, ...said]) mentions.set(one, (mentions.get(one) ?? 0) + 1);
    for (const one of said) if (wanted.has(one)) hits.set(one, (hits.get(one) ?? 0) + 1);
  }
  const classes = [...mentions].map(([one, count]) => (2 * (hits.get(one) ?? 0)) / count);
  const all = sum([...mentions.values()]);
  return {
    micro: all === 0 ? 0 : (2 * sum([...hits.values()])) / all,
    macro: classes.length === 0 ? 0 : mean(classes),
  };
}
