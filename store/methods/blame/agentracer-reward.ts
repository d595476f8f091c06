/**
 * What a tracer that names the faulty agent and step earns: near misses of the step count a little, the agent counts or not.
 *
 * Source: AgenTracer, arXiv 2509.03312. Verified (text). 0 for a wrong format; a prediction that is missing is wrong.
 * Kept: the bell over steps and the exact agent, λ 0.5, σ 1. Dropped: reading `<answer>agent|step</answer>`, which says
 * `format_ok`. Open: nothing known.
 */

import { type Static, Type } from 'typebox';
import type { Method } from '../method.ts';
import { Key, nullable } from '../shapes.ts';

const Input = Type.Object({
  format_ok: Type.Boolean(),
  pred_step: nullable(Type.Number()),
  true_step: Type.Number(),
  pred_agent: nullable(Key),
  true_agent: Key,
});
const params = { lambda: 0.5, sigma: 1 };

export const agentracerReward: Method<Static<typeof Input>, typeof params, number> = {
  name: 'agentracer_reward',
  kind: 'blame',
  source: 'AgenTracer: arXiv 2509.03312; verified (text)',
  version: 1,
  needs: 'traced failure',
  summary: 'A bell over the distance to the true step, and whether the agent is right.',
  params,
  limits: { lambda: Type.Number({ minimum: 0, maximum: 1 }), sigma: Type.Number({ exclusiveMinimum: 0 }) },
  input: Input,
  run: ({ format_ok, pred_step, true_step, pred_agent, true_agent }, { lambda, sigma }) => {
    if (!format_ok) return 0;
    const near = pred_step === null ? 0 : Math.exp(-((pred_step - true_step) ** 2) / (2 * sigma ** 2));
    return lambda * near + (1 - lambda) * (pred_agent === true_agent ? 1 : 0);
  },
};
