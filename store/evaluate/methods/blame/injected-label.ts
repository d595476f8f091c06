/**
 * A failure whose cause is known, because it was put there: the perturbed step of a run that succeeded before.
 *
 * Source: AgenTracer, arXiv 2509.03312. Verified (text). Null when the run had failed anyway, or survived the perturbation.
 * Kept: the injection is the label. Dropped: the perturbation, tried in random order until one fails the run. Open:
 * nothing known.
 */

import { Type } from 'typebox';
import { blame, nobody } from '../../judging/blamed.ts';
import { agentAt, bit, placeOf, runsOf, succeeded } from '../../judging/replays.ts';
import { method } from '../method.ts';
import { Bit, Key } from '../shapes.ts';

type Label = { readonly agent: string | number; readonly step: number };

export const injectedLabel = method({
  name: 'injected_label',
  kind: 'blame',
  source: 'AgenTracer: arXiv 2509.03312; verified (text)',
  version: 1,
  summary: 'Agent and step of a perturbation that turned success into failure.',
  input: Type.Object({
    base_outcome: Bit,
    injected_outcome: Bit,
    agent: Key,
    step: Type.Integer({ minimum: 0 }),
  }),
  run: ({ base_outcome, injected_outcome, agent, step }): Label | null =>
    base_outcome === 1 && injected_outcome === 0 ? { agent, step } : null,
  judged: {
    scope: () => 'set',
    /** The perturbed run is the one that fails, so the label stands with it. */
    rows: (facts, ask) => {
      const runs = runsOf(facts);
      const known = new Map(runs.map((run) => [run.episode.episode_id, run]));
      return runs.map((run) => {
        if (run.of === null || run.intervention.kind !== 'perturb') return nobody(run.episode, 'not_perturbed');
        const base = known.get(run.of);
        if (base === undefined) return nobody(run.episode, 'no_base');
        const place = placeOf(base.steps, run.intervention);
        const agent = agentAt({ intervention: run.intervention, place });
        if (place === null || agent === null) return nobody(run.episode, place === null ? 'no_such_step' : 'no_agent');
        const [before, after] = [succeeded(base.episode), succeeded(run.episode)];
        if (before === null || after === null) return nobody(run.episode, 'outcome_unknown');
        const input = { base_outcome: bit(before), injected_outcome: bit(after), agent, step: place.index };
        const label = ask.run(input);
        if (label === null) return nobody(run.episode, before ? 'survived' : 'base_failed');
        // The step of the run that was perturbed: the replay has steps of its own.
        return blame(
          run.episode,
          { agent_id: String(label.agent), step_id: null },
          { base: run.of, step: label.step, step_id: place.step.step_id },
        );
      });
    },
  },
});
