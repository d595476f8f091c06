/**
 * Whether the critics of a run came to agree with its solution, and in which round.
 *
 * Source: jincan333/MAS-TTS, agentverse/…/decision_maker/vertical_solver_first.py. Verified (code).
 * Kept: a critic blocks iff it does not agree and its criticism text is not empty; a run whose last permitted round still has a
 * blocker is revised once more but never checked again, so it is not in consensus; rounds after the limit are ignored.
 * `content` may be the criticism text or the whole message: reading it again as criticism changes nothing.
 * Dropped: the outer turns and the CEO that recruits agents and gives a budget. Open: nothing known.
 */

import { type Static, Type } from 'typebox';
import { criticismText } from '../criticism.ts';
import type { Method } from '../method.ts';

const Input = Type.Object({
  rounds: Type.Array(Type.Array(Type.Object({ agree: Type.Boolean(), content: Type.String() }))),
});
const params = { max_critic_iterations: 3 };

type Consensus = {
  readonly pass: boolean;
  /** First round without a blocker, counted from 1; null when there is none. */
  readonly round: number | null;
};

export const consensusFilter: Method<Static<typeof Input>, typeof params, Consensus> = {
  name: 'consensus_filter',
  kind: 'filter',
  source: 'M1-32B / M500: jincan333/MAS-TTS, vertical_solver_first.py; verified (code)',
  version: 1,
  needs: 'critic rounds',
  summary: 'Passes a run whose critics reach a round without a blocking criticism.',
  params,
  limits: { max_critic_iterations: Type.Integer({ minimum: 0 }) },
  input: Input,
  run: ({ rounds }, { max_critic_iterations }) => {
    const free = rounds
      .slice(0, max_critic_iterations)
      .findIndex((critics) => critics.every(({ agree, content }) => agree || criticismText(content) === ''));
    return free < 0 ? { pass: false, round: null } : { pass: true, round: free + 1 };
  },
};
