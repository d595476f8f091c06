/** Gates with guardrails over simulated teams, of which the proof gate-rates has 1,000: each compares as often as the team has roles. */
import { describe, expect, it } from 'vitest';
import { type Gain, playPasses, TASK_DEVIATION } from '../../proofs/gate-simulation.ts';
import type { GateRules } from '../../store/loop/comparison/gate.ts';
import { tasksForGate } from '../../trainer/loop/comparison/size.ts';

const RULES: GateRules = {
  ...{ accept: 'better', margin: 0, level: 0.95 },
  guardrails: { roles: null, families: null, tokens: null, latency: null },
};
const guarded: GateRules = { ...RULES, guardrails: { ...RULES.guardrails, roles: 0.05 } };
const passing = (tasks: number, rules: GateRules, gain: Gain, runs = 200): number =>
  playPasses(rules, { tasks, gain, runs }) / runs;

describe('200 gates over simulated teams', () => {
  /** The mean of two roles varies less than one of them. */
  const two = tasksForGate(guarded, {
    ...{ find: 0.05, partDeviation: TASK_DEVIATION, power: 0.8 },
    ...{ deviation: TASK_DEVIATION / Math.SQRT2, guardrails: 2 },
  });

  it('a role that is hurt by 5 points is refused in at least 95 %, though the mean is 5 points better', () => {
    expect(passing(two, guarded, { solver: 0.15, verifier: -0.05 })).toBeLessThanOrEqual(0.05);
    expect(passing(two, RULES, { solver: 0.15, verifier: -0.05 }, 100)).toBeGreaterThanOrEqual(0.8);
  }, 240_000);

  it('with guardrails too, one that is 5 points better is released in at least 80 %', () => {
    expect(passing(two, guarded, { solver: 0.05, verifier: 0.05 })).toBeGreaterThanOrEqual(0.8);
  }, 240_000);
});
