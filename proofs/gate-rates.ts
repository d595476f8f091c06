/**
 * Proof of the rates at which gates err: 1,000 simulated gates of each kind for each candidate whose true gain is known, each rate by its
 * exact upper 95 % bound. A canary is looked at after every episode.
 */

import type { GateRules } from '../store/loop/comparison/gate.ts';
import type { CanaryRules } from '../trainer/loop/comparison/canary.ts';
import { episodesForCanary, tasksForGate } from '../trainer/loop/comparison/size.ts';
import {
  canaryPasses,
  EPISODE_DEVIATION,
  type Gain,
  playPasses,
  TASK_DEVIATION,
  upperBound,
} from './gate-simulation.ts';
import type { Outcome, Proof, Setting } from './proof.ts';

const RULES: GateRules = {
  accept: 'better',
  margin: 0,
  level: 0.95,
  guardrails: { roles: null, families: null, tokens: null, latency: null },
};
const WITH_ROLES: GateRules = { ...RULES, guardrails: { ...RULES.guardrails, roles: 0.05 } };
const LIVE: Omit<CanaryRules, keyof GateRules | 'share'> = {
  metric: 'reward',
  range: [0, 1],
  at_least: 1,
  bake_hours: 0,
  hours: 168,
  at_most: 1e6,
  unknown: 0.05,
};
const FIND = { find: 0.05, power: 0.8 };

/** A candidate, and how often it may come to what it should not. */
type Case = { readonly name: string; readonly gain: Gain; readonly shouldPass: boolean; readonly most: number };

const PLAIN: readonly Case[] = [
  { name: 'equal', gain: 0, shouldPass: false, most: 0.05 },
  { name: '5 points worse', gain: -0.05, shouldPass: false, most: 0.05 },
  { name: '5 points better', gain: 0.05, shouldPass: true, most: 0.2 },
];
const BY_ROLE: readonly Case[] = [
  {
    name: 'a role 5 points worse, the mean 5 better',
    gain: { solver: 0.15, verifier: -0.05 },
    shouldPass: false,
    most: 0.05,
  },
  { name: 'both roles 5 points better', gain: { solver: 0.05, verifier: 0.05 }, shouldPass: true, most: 0.2 },
];

type Gate = {
  readonly name: string;
  readonly size: string;
  readonly cases: readonly Case[];
  readonly passes: (gain: Gain, runs: number) => number;
};

export const proof: Proof = {
  name: 'gate-rates',
  needs: [],
  async run({ short, say }: Setting): Promise<Outcome> {
    const runs = short ? 200 : 1000;
    const gates = short ? [play(RULES), canary(RULES, 0.5)] : allGates();
    const lines: string[] = [];
    let ok = true;
    for (const { name, size, cases, passes } of gates) {
      for (const { name: candidate, gain, shouldPass, most } of cases) {
        const passed = passes(gain, runs);
        const wrong = shouldPass ? runs - passed : passed;
        const bound = upperBound(wrong, runs);
        // A few runs cannot show a rate below its goal: there the rate itself is held to it.
        const held = (short ? wrong / runs : bound) <= most;
        ok &&= held;
        const line = `${held ? 'ok' : 'FAILED'}: ${name} (${size}), ${candidate}: ${shouldPass ? 'not released' : 'released'} ${percent(wrong / runs)}, at most ${percent(bound)}, goal ${percent(most)}`;
        say(line);
        lines.push(line);
      }
    }
    return { ok, lines };
  },
};

const allGates = (): Gate[] => [
  play(RULES),
  play(WITH_ROLES),
  canary(RULES, 0.1),
  canary(RULES, 0.5),
  canary(WITH_ROLES, 0.1),
];

/** Roles whose rewards vary as those of all do; the mean of two varies less. */
const sizeOf = (rules: GateRules, deviation: number) =>
  rules.guardrails.roles === null
    ? { ...FIND, deviation, partDeviation: deviation, guardrails: 0 }
    : { ...FIND, deviation: deviation / Math.SQRT2, partDeviation: deviation, guardrails: 2 };

function play(rules: GateRules): Gate {
  const tasks = tasksForGate(rules, sizeOf(rules, TASK_DEVIATION));
  return {
    name: 'play',
    size: `${tasks} tasks`,
    cases: casesOf(rules),
    passes: (gain, runs) => playPasses(rules, { tasks, gain, runs }),
  };
}

function canary(of: GateRules, share: number): Gate {
  const rules: CanaryRules = { ...of, ...LIVE, share };
  const episodes = episodesForCanary(rules, sizeOf(of, EPISODE_DEVIATION));
  return {
    name: `canary, share ${share}`,
    size: `${episodes} episodes`,
    cases: casesOf(of),
    passes: (gain, runs) => canaryPasses(rules, { episodes, gain, runs }),
  };
}

const casesOf = ({ guardrails }: GateRules): readonly Case[] => (guardrails.roles === null ? PLAIN : BY_ROLE);

const percent = (rate: number): string => `${Number((100 * rate).toFixed(1))} %`;
