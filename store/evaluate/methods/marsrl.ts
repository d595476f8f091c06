/**
 * MarsRL: a solver and a corrector earn a right answer, a verifier earns a right judgement of the solution in force.
 *
 * Source: arXiv 2511.11373 §3.2. Verified (text). The solution in force is that of the latest solver or corrector; where nobody knows
 * whether it is right, it and the judgements of it have no reward. Dropped: how groups are formed and sampled.
 * Kept: 1 and 0, the verifier judged by whether it is right to complain. Open: nothing known.
 */

import { type Static, Type } from 'typebox';
import { type StepFacts, stepKey } from '../judging/facts.ts';
import { reward } from '../judging/judgement.ts';
import { truthsOn } from '../judging/named-feedback.ts';
import { onwardOf } from '../judging/over-episodes.ts';
import { method } from './method.ts';
import { refuseInput } from './refuse.ts';
import { nullable } from './shapes.ts';

const Answering = Type.Object({
  role: Type.Union([Type.Literal('solver'), Type.Literal('corrector')]),
  correct: nullable(Type.Boolean()),
});
const Judging = Type.Object({ role: Type.Literal('verifier'), flags_error: Type.Boolean() });

export const marsrlRewards = method({
  name: 'marsrl_rewards',
  kind: 'reward',
  source: 'MarsRL: arXiv 2511.11373 §3.2; verified (text)',
  version: 1,
  summary: '1 for a right answer, and for a verifier that reports an error exactly when there is one.',
  teams: 'solver, verifier and corrector',
  input: Type.Object({ steps: Type.Array(Type.Union([Answering, Judging])) }),
  run: ({ steps }): (number | null)[] => {
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
  judged: {
    over: 'episode',
    reads: ['feedback'],
    writes: ['rewards', 'scores'],
    /** MarsRL. A verifier before any solver, or without a recorded finding, verifies nothing. */
    each: (facts) => {
      const correct = truthsOn(facts.feedback, 'step', 'correct');
      const flags = truthsOn(facts.feedback, 'step', 'flags_error');
      return ({ steps }) => {
        const onward = new Set(onwardOf(steps));
        const reasons = new Map<StepFacts, string>();
        const rows: { step: StepFacts; row: Static<typeof Answering> | Static<typeof Judging> }[] = [];
        for (const step of steps) {
          const key = stepKey(step.episode_id, step.step_id);
          if (!onward.has(step)) reasons.set(step, 'not_chosen');
          else if (step.role === 'solver' || step.role === 'corrector')
            rows.push({ step, row: { role: step.role, correct: correct.get(key) ?? null } });
          else if (step.role !== 'verifier') reasons.set(step, 'other_role');
          else if (rows.length === 0) reasons.set(step, 'nothing_to_verify');
          else {
            const flags_error = flags.get(key);
            if (flags_error === undefined) reasons.set(step, 'no_flag');
            else rows.push({ step, row: { role: 'verifier', flags_error } });
          }
        }
        return {
          input: { steps: rows.map(({ row }) => row) },
          rows: (output) => {
            const values = new Map(rows.map(({ step }, i) => [step, output[i] ?? null]));
            return steps.map((step) => {
              const value = values.get(step) ?? null;
              return reward(step, value, reasons.get(step) ?? (value === null ? 'not_graded' : null));
            });
          },
        };
      };
    },
  },
});
