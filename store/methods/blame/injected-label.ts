/**
 * A failure whose cause is known, because it was put there: the perturbed step of a run that succeeded before.
 *
 * Source: AgenTracer, arXiv 2509.03312. Verified (text). Null when the run had failed anyway, or survived the perturbation.
 * Kept: the injection is the label. Dropped: the perturbation, tried in random order until one fails the run. Open:
 * nothing known.
 */

import { type Static, Type } from 'typebox';
import type { Method } from '../method.ts';
import { Bit, Key } from '../shapes.ts';

const Input = Type.Object({
  base_outcome: Bit,
  injected_outcome: Bit,
  agent: Key,
  step: Type.Integer({ minimum: 0 }),
});

type Label = { readonly agent: string | number; readonly step: number };

export const injectedLabel: Method<Static<typeof Input>, Record<never, never>, Label | null> = {
  name: 'injected_label',
  kind: 'blame',
  source: 'AgenTracer: arXiv 2509.03312; verified (text)',
  version: 1,
  needs: 'perturbed replays',
  summary: 'Agent and step of a perturbation that turned success into failure.',
  params: {},
  input: Input,
  run: ({ base_outcome, injected_outcome, agent, step }) =>
    base_outcome === 1 && injected_outcome === 0 ? { agent, step } : null,
};
