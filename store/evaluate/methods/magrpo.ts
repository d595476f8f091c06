/**
 * What MAGRPO makes of the returns that are compared with each other: those of a node's joint actions, or the sums of one agent's completions.
 *
 * Source: OpenMLRL/CoMLRL, comlrl/trainers/reinforce/magrpo.py (_compute_advantages and what follows it). Verified (code).
 * `mode` is the baseline: the mean, none, the largest, or the mean of the others. `normalise` is the step that follows in the source, where it
 * is on by default: (A − mean)/max(std ddof 0, 1e-6). A value alone has advantage 0 with `rloo` too, unlike verl's RLOO, and is not normalised.
 */
import { Type } from 'typebox';
import { largest, mean, standardDeviation } from './statistics.ts';

type Mode = 'mean' | 'raw' | 'max' | 'rloo';
export type MagrpoParams = { readonly mode: Mode; readonly normalise: boolean };

export const MAGRPO_PARAMS: MagrpoParams = { mode: 'mean', normalise: false };

export const MAGRPO_LIMITS = {
  mode: Type.Union([Type.Literal('mean'), Type.Literal('raw'), Type.Literal('max'), Type.Literal('rloo')]),
};

/** One advantage for each return. */
export function magrpoAdvantages(returns: readonly number[], { mode, normalise }: MagrpoParams): readonly number[] {
  const advantages = lessBaseline(returns, mode);
  if (!normalise || advantages.length < 2) return advantages;
  const [centre, deviation] = [mean(advantages), Math.max(standardDeviation(advantages, 0), 1e-6)];
  return advantages.map((value) => (value - centre) / deviation);
}

function lessBaseline(returns: readonly number[], mode: Mode): number[] {
  const n = returns.length;
  const centre = mean(returns);
  const best = largest(returns);
  switch (mode) {
    case 'mean':
      return returns.map((value) => value - centre);
    case 'raw':
      return [...returns];
    case 'max':
      return returns.map((value) => value - best);
    case 'rloo':
      return returns.map((value) => (n === 1 ? 0 : ((value - centre) * n) / (n - 1)));
  }
}
