/**
 * The step that decided a failure: the earliest one whose correction makes the run succeed.
 *
 * Source: AgenTracer, arXiv 2509.03312. Verified (text); the paper's printed equation has the two outcomes swapped against its own text and
 * algorithm, and failure to success is meant. Null when no correction helped, or the run succeeded. `troupe rollout --replay … --answer` replays.
 * Kept: the earliest step wins; of one step corrected twice, the first given. Dropped: writing the corrections.
 * Open: nothing known.
 */

import { Type } from 'typebox';
import { blame, nobody } from '../../judging/blamed.ts';
import { agentAt, bit, ofKind, runsOf, succeeded } from '../../judging/replays.ts';
import { method } from '../method.ts';
import { Bit, Key } from '../shapes.ts';

type Label = { readonly agent: string | number; readonly step: number };

export const decisiveError = method({
  name: 'decisive_error',
  kind: 'blame',
  source: 'AgenTracer: arXiv 2509.03312; verified (text)',
  version: 1,
  summary: 'Agent and step of the earliest correction that turned failure into success.',
  input: Type.Object({
    outcome: Bit,
    replays: Type.Array(Type.Object({ step: Type.Integer({ minimum: 0 }), agent: Key, fixed: Bit })),
  }),
  run: ({ outcome, replays }): Label | null => {
    if (outcome === 1) return null;
    const fixes = replays.filter(({ fixed }) => fixed === 1);
    const first = fixes.reduce<(typeof fixes)[number] | null>(
      (best, one) => (best === null || one.step < best.step ? one : best),
      null,
    );
    return first === null ? null : { agent: first.agent, step: first.step };
  },
  judged: {
    scope: () => 'set',
    /** A correction counts where its step, its agent and its outcome are known. A replay is not itself blamed. */
    rows: (facts, ask) =>
      runsOf(facts).map((run) => {
        const outcome = succeeded(run.episode);
        if (run.of !== null) return nobody(run.episode, 'is_a_replay');
        if (outcome === null) return nobody(run.episode, 'outcome_unknown');
        const corrected = ofKind(run, 'correct');
        const replays = corrected.flatMap((replay) => {
          const [agent, fixed] = [agentAt(replay), succeeded(replay.episode)];
          return replay.place === null || agent === null || fixed === null
            ? []
            : [{ step: replay.place.index, agent, fixed: bit(fixed) }];
        });
        if (!outcome && replays.length === 0) return nobody(run.episode, 'no_replays');
        const label = ask.run({ outcome: bit(outcome), replays });
        const detail = { replays: replays.length, left_out: corrected.length - replays.length };
        if (label === null) return nobody(run.episode, outcome ? 'succeeded' : 'no_correction_helped', detail);
        return blame(
          run.episode,
          { agent_id: String(label.agent), step_id: run.steps[label.step]!.step_id },
          { ...detail, step: label.step },
        );
      }),
  },
});
