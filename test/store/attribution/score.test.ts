import { describe, expect, it } from 'vitest';
import type { Blame, LabelledCase } from '../../../store/evaluate/attribution/cases.ts';
import { crossValidate } from '../../../store/evaluate/attribution/cross-validate.ts';
import type { CaseEntry } from '../../../store/evaluate/attribution/entries.ts';
import { score } from '../../../store/evaluate/attribution/score.ts';

const entry = (agent: string | null, text: string, seq: number | null): CaseEntry => ({
  kind: agent === null ? 'user' : 'agent',
  agent,
  text,
  episode_id: 'e',
  seq,
  step_id: null,
});

/** A message of a user, then these agents, each as long as its place says; the source counts from `first`. */
const labelled = (
  id: string,
  agents: readonly (readonly [string, number])[],
  truth: LabelledCase['truth'],
  { task = id, first = 0 as number | null } = {},
): LabelledCase => ({
  episode_id: id,
  task,
  question: 'q',
  reference: null,
  origin: 'here',
  difficulty: '1',
  mismatch: false,
  truth,
  entries: [
    entry(null, 'please', first),
    ...agents.map(([agent, length], i) => entry(agent, 'x'.repeat(length), first === null ? null : first + i + 1)),
  ],
});
const by = (name: string, blames: Readonly<Record<string, Blame>>) => ({
  name,
  blames: new Map(Object.entries(blames)),
});
const named = (scores: ReturnType<typeof score>, name: string) => scores.find((one) => one.name === name)!;

describe('scoring attributions', () => {
  const cases = [
    labelled(
      'one',
      [
        ['a', 5],
        ['b', 9],
        ['b', 1],
        ['a', 2],
      ],
      { agent: 'b', entry: 2 },
    ),
    labelled(
      'two',
      [
        ['a', 9],
        ['b', 1],
      ],
      { agent: 'a', entry: 1 },
    ),
  ];

  it('has every baseline, the random one as the mean of all that it could say', () => {
    const scores = score(cases, [], 'exact');
    const shares = Object.fromEntries(scores.map(({ name, agent, step }) => [name, [agent, step]]));
    expect(shares).toEqual({
      first: [0.5, 0.5],
      last: [0, 0],
      longest: [1, 1],
      most_frequent_agent: [0.5, 0.5],
      random: [0.5, (1 / 4 + 1 / 2) / 2],
    });
  });

  it('counts silence as wrong and says how often', () => {
    const one = named(score(cases, [by('half', { one: { agent: 'b', entry: 2 } })], 'exact'), 'half');
    expect(one).toMatchObject({ agent: 0.5, step: 0.5, silent: 1, n: 2 });
  });

  it('takes a step that is near within its tolerance, and a number that contains the true one only where asked', () => {
    const far = labelled(
      'far',
      Array.from({ length: 30 }, () => ['a', 3] as const),
      { agent: 'a', entry: 1 },
    );
    const blamed = by('blamed', { far: { agent: 'a', entry: 4 } });
    expect(named(score([far], [blamed], 'exact'), 'blamed').within).toEqual({ 1: 0, 3: 1, 5: 1 });
    const contains = by('blamed', { far: { agent: 'a', entry: 21 } });
    expect(named(score([far], [contains], 'exact'), 'blamed').step).toBe(0);
    expect(named(score([far], [contains], 'contains'), 'blamed').step).toBe(1);
  });

  it('compares with the best baseline of each measure, case by case; intervals hold the mean', () => {
    const many = Array.from({ length: 12 }, (_, i) =>
      labelled(
        `e${i}`,
        [
          ['a', 5],
          ['b', 9],
        ],
        i < 8 ? { agent: 'b', entry: 2 } : { agent: 'a', entry: 1 },
      ),
    );
    const right = by('right', Object.fromEntries(many.map((run) => [run.episode_id, run.truth])));
    const { agent_over_baseline: over, agent_interval: interval } = named(score(many, [right], 'exact'), 'right');
    expect(over).toMatchObject({ baseline: 'last', difference: 1 / 3 });
    expect(over!.interval[0]).toBeLessThanOrEqual(1 / 3);
    expect(over!.interval[1]).toBeGreaterThanOrEqual(1 / 3);
    expect(interval).toEqual([1, 1]);
  });

  it('says nothing of nothing', () => {
    expect(score([], [], 'exact')[0]).toMatchObject({ n: 0, agent: null, step: null, agent_interval: null });
  });
});

describe('cross-validation', () => {
  const many = (leak: boolean) =>
    Array.from({ length: 20 }, (_, i) =>
      labelled(
        `e${i}`,
        [
          ['a', 5],
          ['b', 9],
          ['a', 7],
        ],
        { agent: 'b', entry: 2 },
        { task: leak ? 'one task' : `t${i}` },
      ),
    );

  it('learns what holds on the other tasks', () => {
    const { attribution, coefficients } = crossValidate('failure_signs', many(false), 5);
    expect(attribution.blames.size).toBe(20);
    for (const blame of attribution.blames.values()) expect(blame).toEqual({ agent: 'b', entry: 2 });
    expect(coefficients.relative_length).toBeGreaterThan(0);
  });

  it('never sees another run of the same task: with one task alone nothing is learnt', () => {
    const { attribution } = crossValidate('failure_signs', many(true), 5);
    // Without a coefficient every entry has the same share, so the agent with two entries comes first.
    for (const blame of attribution.blames.values()) expect(blame).toEqual({ agent: 'a', entry: 1 });
  });

  it('with a reference leaves out the runs that have none', () => {
    expect(crossValidate('failure_signs_with_reference', many(false), 5).attribution.blames.size).toBe(0);
  });

  it('numbers entries by place where the source does not count', () => {
    const uncounted = Array.from({ length: 6 }, (_, i) =>
      labelled(
        `e${i}`,
        [
          ['a', 5],
          ['b', 9],
        ],
        { agent: 'b', entry: 2 },
        { first: null },
      ),
    );
    for (const blame of crossValidate('failure_signs', uncounted, 3).attribution.blames.values())
      expect(blame.entry).toBe(2);
  });
});
