/**
 * Whether one critic's message agrees with the proposed solution.
 *
 * Source: jincan333/MAS-TTS, agentverse/…/decision_maker/vertical_solver_first.py and the parser `mgsm-critic-agree`. Verified (code).
 * Kept: the literal, case-sensitive marker; a message with both markers agrees, one with none does not.
 * Dropped: nothing. Open: nothing known.
 */

import { type Static, Type } from 'typebox';
import { agrees } from '../criticism.ts';
import type { Method } from '../method.ts';

const Input = Type.Object({ text: Type.String() });

export const criticAgrees: Method<Static<typeof Input>, Record<never, never>, boolean> = {
  name: 'critic_agrees',
  kind: 'filter',
  source: 'M1-32B / M500: jincan333/MAS-TTS, vertical_solver_first.py and critic output parser; verified (code)',
  version: 1,
  needs: 'critic messages',
  summary: 'True iff the critic message holds the marker [Agree].',
  params: {},
  input: Input,
  run: ({ text }) => agrees(text),
};
