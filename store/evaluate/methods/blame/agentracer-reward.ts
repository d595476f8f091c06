/**
 * What a tracer that names the faulty agent and step earns: near misses of the step count a little, the agent counts or not.
 *
 * Source: AgenTracer, arXiv 2509.03312. Verified (text). 0 for a wrong format; a prediction that is missing is wrong.
 * Kept: the bell over steps and the exact agent, λ 0.5, σ 1. Dropped: reading `<answer>agent|step</answer>`, which says
 * `format_ok`. Open: nothing known.
 */

import { Type } from 'typebox';
import { score } from '../../judging/judgement.ts';
import { lastTextOf } from '../../judging/messages.ts';
import { method } from '../method.ts';
import { Key, nullable } from '../shapes.ts';

export const agentracerReward = method({
  name: 'agentracer_reward',
  kind: 'blame',
  source: 'AgenTracer: arXiv 2509.03312; verified (text)',
  version: 1,
  summary: 'A bell over the distance to the true step, and whether the agent is right.',
  params: { lambda: 0.5, sigma: 1 },
  limits: { lambda: Type.Number({ minimum: 0, maximum: 1 }), sigma: Type.Number({ exclusiveMinimum: 0 }) },
  input: Type.Object({
    format_ok: Type.Boolean(),
    pred_step: nullable(Type.Number()),
    true_step: Type.Number(),
    pred_agent: nullable(Key),
    true_agent: Key,
  }),
  run: ({ format_ok, pred_step, true_step, pred_agent, true_agent }, { lambda, sigma }): number => {
    if (!format_ok) return 0;
    const near = pred_step === null ? 0 : Math.exp(-((pred_step - true_step) ** 2) / (2 * sigma ** 2));
    return lambda * near + (1 - lambda) * (pred_agent === true_agent ? 1 : 0);
  },
  judged: {
    reads: ['content'],
    writes: ['scores'],
    /** The ground truth is an object with `agent` and `step`; the last message is `<think>…</think><answer>agent|step</answer>`. */
    rows: (facts, ask) => {
      const textOf = lastTextOf(facts);
      return facts.episodes.map((episode) => {
        const key = `e/${episode.episode_id}`;
        const { agent, step } = (episode.ground_truth ?? {}) as { agent?: unknown; step?: unknown };
        const true_step: unknown = typeof step === 'string' && /^\d+$/.test(step) ? Number(step) : step;
        if (typeof agent !== 'string' || !isPlace(true_step)) return score(key, null, 'no_truth');
        const text = textOf(episode);
        if (text === null) return score(key, null, 'no_diagnosis');
        const [, named_agent, place = null] = TRACED.exec(text) ?? [];
        const pred_agent = named_agent?.trim() ?? null;
        const pred_step = place === null ? null : Number(place);
        const named = { format_ok: pred_agent !== null, pred_agent, pred_step };
        const output = ask.answer({ ...named, true_agent: agent, true_step });
        if (typeof output === 'string') return score(key, null, output);
        return score(key, output, named.format_ok ? null : 'bad_format', named);
      });
    },
  },
});

const TRACED = /^\s*<think>[\s\S]*<\/think>\s*<answer>([^|<>]+)\|\s*(\d+)\s*<\/answer>\s*$/;

const isPlace = (value: unknown): value is number => Number.isSafeInteger(value);
