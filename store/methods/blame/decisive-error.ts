/**
 * The step that decided a failure: the earliest one whose correction makes the run succeed.
 *
 * Source: AgenTracer, arXiv 2509.03312. Verified (text); the paper's printed equation has the two outcomes swapped against its own text and
 * algorithm, and failure to success is meant. Null when no correction helped, or the run succeeded. Replaying is the team's work.
 * Kept: the earliest step wins; of one step corrected twice, the first given. Dropped: the corrections and the replays.
 * Open: nothing known.
 */

import { type Static, Type } from 'typebox';
import type { Method } from '../method.ts';
import { Bit, Key } from '../shapes.ts';

const Input = Type.Object({
  outcome: Bit,
  replays: Type.Array(Type.Object({ step: Type.Integer({ minimum: 0 }), agent: Key, fixed: Bit })),
});

type Label = { readonly agent: string | number; readonly step: number };

export const decisiveError: Method<Static<typeof Input>, Record<never, never>, Label | null> = {
  name: 'decisive_error',
  kind: 'blame',
  source: 'AgenTracer: arXiv 2509.03312; verified (text)',
  version: 1,
  needs: 'corrected replays',
  summary: 'Agent and step of the earliest correction that turned failure into success.',
  params: {},
  input: Input,
  run: ({ outcome, replays }) => {
    if (outcome === 1) return null;
    const fixes = replays.filter(({ fixed }) => fixed === 1);
    const first = fixes.reduce<(typeof fixes)[number] | null>(
      (best, one) => (best === null || one.step < best.step ? one : best),
      null,
    );
    return first === null ? null : { agent: first.agent, step: first.step };
  },
};
