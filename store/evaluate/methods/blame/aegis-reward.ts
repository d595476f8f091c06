/**
 * What a diagnosis of (agent, error mode) pairs earns, with part marks for a right agent or a right mode.
 *
 * Source: Aegis, arXiv 2509.14295 §5.2; kfq20/AEGIS. Verified (text) for the structure; the coefficients are unpublished, so they must be given.
 * Predictions are read in order; a repeat costs `dup`, and more than twice as many predictions as gold pairs costs `quant` each.
 * Kept: the order of the rules, each agent and mode used once, |gold| counted without repeats. Dropped: the format
 * check with `malformed`. Open: the coefficients.
 */

import { type Static, Type } from 'typebox';
import { score } from '../../judging/judgement.ts';
import { lastTextOf } from '../../judging/messages.ts';
import { method } from '../method.ts';
import { refuseInput } from '../refuse.ts';
import { nullable } from '../shapes.ts';

const Pair = Type.Tuple([Type.String(), Type.String()]);
const Coefficients = Type.Object({
  pair: Type.Number(),
  agent: Type.Number(),
  error: Type.Number(),
  false_positive: Type.Number(),
  dup: Type.Number(),
  quant: Type.Number(),
  bonus: Type.Number(),
  malformed: Type.Number(),
});
const params: { coef: Static<typeof Coefficients> | null } = { coef: null };

export const aegisReward = method({
  name: 'aegis_reward',
  kind: 'blame',
  source: 'Aegis: arXiv 2509.14295 §5.2; structure verified (text), coefficients unpublished',
  version: 1,
  summary: 'Marks for right pairs, agents and modes, less false, repeated and too many predictions.',
  params,
  limits: { coef: nullable(Coefficients) },
  input: Type.Object({
    malformed: Type.Boolean(),
    gold: Type.Array(Pair),
    pred: Type.Array(Pair),
  }),
  run: ({ malformed, gold, pred }, { coef }): number => {
    if (coef === null) refuseInput('coef', 'the coefficients, which the paper does not publish', coef);
    if (malformed) return coef.malformed;
    const wanted = new Set(gold.map(nameOf));
    const best = wanted.size * coef.pair + coef.bonus;
    if (best === 0) refuseInput('coef', 'such that the best score is not 0', coef);
    const agents = new Set(gold.map(([agent]) => agent));
    const modes = new Set(gold.map(([, mode]) => mode));
    const seen = new Set<string>();
    let score = coef.bonus;
    for (const one of pred) {
      const [agent, mode] = one;
      if (seen.has(nameOf(one))) {
        score -= coef.dup;
        continue;
      }
      seen.add(nameOf(one));
      if (wanted.has(nameOf(one))) {
        score += coef.pair;
        agents.delete(agent);
        modes.delete(mode);
      } else if (agents.delete(agent)) score += coef.agent;
      else if (modes.delete(mode)) score += coef.error;
      else score -= coef.false_positive;
    }
    return (score - coef.quant * Math.max(0, pred.length - 2 * wanted.size)) / best;
  },
  judged: {
    reads: ['content'],
    writes: ['scores'],
    /** Both are lists of pairs as JSON: the ground truth, and the answer, or the last message where the episode names no answer. */
    rows: (facts, ask) => {
      const textOf = lastTextOf(facts);
      return facts.episodes.map((episode) => {
        const key = `e/${episode.episode_id}`;
        const gold = pairsOf(episode.ground_truth);
        if (gold === null) return score(key, null, 'no_truth');
        const text = episode.answer ?? textOf(episode);
        if (text === null) return score(key, null, 'no_diagnosis');
        const pred = pairsOf(parsed(text));
        const output = ask.answer({ malformed: pred === null, gold, pred: pred ?? [] });
        if (typeof output === 'string') return score(key, null, output);
        return score(key, output, pred === null ? 'bad_format' : null, { predicted: pred });
      });
    },
  },
});

function nameOf(pair: readonly [string, string]): string {
  return JSON.stringify(pair);
}

type NamedMode = readonly [agent: string, mode: string];

/** A list of `[agent, mode]` or of objects with `agent` and `mode`; null for anything else. */
function pairsOf(value: unknown): NamedMode[] | null {
  if (!Array.isArray(value)) return null;
  const pairs = value.map((one: unknown) => {
    const [agent, mode] = Array.isArray(one) ? one : [(one as Json)?.agent, (one as Json)?.mode];
    return typeof agent === 'string' && typeof mode === 'string' ? ([agent, mode] as const) : null;
  });
  return pairs.every((pair) => pair !== null) ? pairs : null;
}

type Json = { readonly agent?: unknown; readonly mode?: unknown } | null;

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
