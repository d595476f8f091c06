/**
 * MarsRL: a solver and a corrector earn a right answer, a verifier earns a right judgement of the solution in force.
 *
 * Source: arXiv 2511.11373 §3.2. Verified (text). The solution in force is that of the latest solver or corrector; where nobody knows
 * whether it is right, it and the judgements of it have no reward. Dropped: how groups are formed and sampled.
 * Kept: 1 and 0, the verifier judged by whether it is right to complain. Open: nothing known.
 */

import { type Static, Type } from 'typebox';
import type { Method } from '../method.ts';
import { refuseInput } from '../refuse.ts';
import { nullable } from '../shapes.ts';

const Answering = Type.Object({
  role: Type.Union([Type.Literal('solver'), Type.Literal('corrector')]),
  correct: nullable(Type.Boolean()),
});
const Judging = Type.Object({ role: Type.Literal('verifier'), flags_error: Type.Boolean() });
const Input = Type.Object({ steps: Type.Array(Type.Union([Answering, Judging])) });

export const marsrlRewards: Method<Static<typeof Input>, Record<never, never>, (number | null)[]> = {
  name: 'marsrl_rewards',
  kind: 'reward',
  source: 'MarsRL: arXiv 2511.11373 §3.2; verified (text)',
  version: 1,
  needs: 'solutions and verdicts',
  summary: '1 for a right answer, and for a verifier that reports an error exactly when there is one.',
  params: {},
  input: Input,
  run: ({ steps }) => {
    let inForce: boolean | null | undefined;
    return steps.map((step, i) => {
      if (step.role !== 'verifier') {
        inForce = step.correct;
        return inForce === null ? null : Number(inForce);
      }
      if (inForce === undefined)
        refuseInput(`steps[${i}]`, 'a solver, because there is no solution to verify yet', step);
      return inForce === null ? null : Number(step.flags_error === !inForce);
    });
  },
};
