/** Aegis (arXiv 2509.14295, kfq20/AEGIS): attributions of errors to agents and modes, as a reward and as a measure. */

import { type Static, Type } from 'typebox';
import type { FeedbackFact } from '../judging/episode-facts.ts';
import { score } from '../judging/judgement.ts';
import { agentIn, agentsBySteps, isMode, labelled } from '../judging/labelled.ts';
import { lastTextOf } from '../judging/messages.ts';
import { mastCode } from './mast.ts';
import { method } from './method.ts';
import { refuseInput } from './refuse.ts';
import { type Immutable, nullable } from './shapes.ts';
import { mean, sum } from './statistics.ts';

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

/**
 * What a diagnosis of (agent, error mode) pairs earns, with part marks for a right agent or a right mode.
 *
 * Source: Aegis, arXiv 2509.14295 §5.2; kfq20/AEGIS. Verified (text) for the structure; the coefficients are unpublished, so they must be given.
 * Predictions are read in order; a repeat costs `dup`, and more than twice as many predictions as gold pairs costs `quant` each.
 * Kept: the order of the rules, each agent and mode used once, |gold| counted without repeats. Dropped: the format
 * check with `malformed`. Open: the coefficients.
 */
export const aegisReward = method({
  name: 'aegis_reward',
  kind: 'blame',
  source: 'Aegis: arXiv 2509.14295 §5.2; structure verified (text), coefficients unpublished',
  version: 1,
  summary: 'Marks for right pairs, agents and modes, less false, repeated and too many predictions.',
  teams: 'several agents',
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

/** A list of `[agent, mode]` or of objects with `agent` and `mode`; null for anything else. */
function pairsOf(value: unknown): (readonly [agent: string, mode: string])[] | null {
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

const Input = Type.Object({ cases: Type.Array(Type.Object({ gold: Type.Array(Pair), pred: Type.Array(Pair) })) });
type Case = Immutable<Static<typeof Input>>['cases'][number];
type AgentMode = Case['gold'][number];

type F1 = { readonly micro: number; readonly macro: number };

const LEVELS: Record<'pair' | 'agent' | 'error', (pair: AgentMode) => string> = {
  pair: (pair) => JSON.stringify(pair),
  agent: ([agent]) => agent,
  error: ([, error]) => error,
};

/**
 * How well diagnoses of (agent, error mode) agree with the truth: for pairs, for agents alone and for modes alone.
 *
 * Source: Aegis, arXiv 2509.14295 §5.2; kfq20/AEGIS. Verified (text). Each is a set a case. Micro counts everything together, macro is
 * the mean F1 over every class seen in gold or predictions; both are 0 where there is nothing.
 * Kept: the three levels and both means. Dropped: the contrastive variant and its constants, which train a classifier.
 * Open: macro over classes never in gold, as read in the text.
 */
export const attributionF1 = method({
  name: 'attribution_f1',
  kind: 'blame',
  source: 'Aegis: arXiv 2509.14295 §5.2; verified (text)',
  version: 1,
  summary: 'Micro and macro F1 over pairs, agents and error modes.',
  teams: 'several agents',
  input: Input,
  run: ({ cases }): Record<keyof typeof LEVELS, F1> => ({
    pair: f1At(cases, LEVELS.pair),
    agent: f1At(cases, LEVELS.agent),
    error: f1At(cases, LEVELS.error),
  }),
  judged: {
    reads: ['feedback'],
    writes: ['scores'],
    scope: () => 'set',
    /** A case is an episode with a true failure mode. The value is the micro F1 of pairs of agent and mode; the others stand beside it. */
    rows: (facts, ask) => {
      const agents = agentsBySteps(facts);
      const pairs = (feedback: readonly FeedbackFact[]) =>
        feedback.flatMap((fact): AgentMode[] => {
          const agent = agentIn(agents, fact);
          return agent === null ? [] : [[agent, modeOf(fact)]];
        });
      const { cases, annotators } = labelled(facts, isMode);
      const known = cases
        .map(({ gold, predicted }) => ({ gold: pairs(gold), predicted }))
        .filter(({ gold }) => gold.length > 0);
      const reason = known.length === 0 ? 'no_truth' : annotators.length === 0 ? 'no_predictions' : null;
      if (reason !== null) return [score('s/modes', null, reason)];
      return annotators.map((annotator) => {
        const rows = known.map(({ gold, predicted }) => ({ gold, pred: pairs(predicted.get(annotator) ?? []) }));
        const output = ask.run({ cases: rows });
        return score(`s/${annotator}`, output.pair.micro, null, { ...output, cases: rows.length });
      });
    },
  },
});

function f1At(cases: readonly Case[], classOf: (pair: AgentMode) => string): F1 {
  const hits = new Map<string, number>();
  /** 2TP + FP + FN: how often the class stands in gold plus how often in predictions. */
  const mentions = new Map<string, number>();
  for (const { gold, pred } of cases) {
    const [wanted, predicted] = [new Set(gold.map(classOf)), new Set(pred.map(classOf))];
    for (const one of [...wanted, ...predicted]) mentions.set(one, (mentions.get(one) ?? 0) + 1);
    for (const one of predicted) if (wanted.has(one)) hits.set(one, (hits.get(one) ?? 0) + 1);
  }
  const classes = [...mentions].map(([one, count]) => (2 * (hits.get(one) ?? 0)) / count);
  const all = sum([...mentions.values()]);
  return {
    micro: all === 0 ? 0 : (2 * sum([...hits.values()])) / all,
    macro: classes.length === 0 ? 0 : mean(classes),
  };
}

const modeOf = ({ name }: FeedbackFact): string => mastCode(name) ?? name;
