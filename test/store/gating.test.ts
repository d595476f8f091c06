import { describe, expect, it } from 'vitest';
import { type Gain, playPasses, TASK_DEVIATION } from '../../proofs/gate-simulation.ts';
import type { Both } from '../../store/evaluate/statistics/paired.ts';
import { decide, fewestTasks, type GateRules, type MeasuredTask } from '../../store/loop/comparison/gate.ts';
import { gateMarkdown } from '../../trainer/loop/comparison/report.ts';
import { tasksForGate } from '../../trainer/loop/comparison/size.ts';

const RULES: GateRules = {
  accept: 'better',
  margin: 0,
  level: 0.95,
  guardrails: { roles: null, families: null, tokens: null, latency: null },
};
const guarding = (of: Partial<GateRules['guardrails']>): GateRules => ({
  ...RULES,
  guardrails: { ...RULES.guardrails, ...of },
});

const measured = (task: number, pair: Both, more: Partial<MeasuredTask> = {}): MeasuredTask => ({
  task_id: `task-${task}`,
  family: null,
  roles: {},
  tokens: null,
  latency: null,
  ...pair,
  ...more,
});

describe('A gate decides over tasks', () => {
  const pairs = (differences: readonly number[], more: Partial<MeasuredTask> = {}) =>
    differences.map((difference, i) => measured(i, { incumbent: 0.5, candidate: 0.5 + difference }, more));
  const up = pairs([0.1, 0.2, 0.1, 0.3, 0.2, 0.1, 0.2, 0.3]);

  it('better passes, equal and worse do not', () => {
    expect(decide(up, RULES)).toMatchObject({ outcome: 'better', passed: true });
    expect(decide(pairs([0, 0, 0, 0, 0, 0]), RULES)).toMatchObject({ outcome: 'inconclusive', passed: false });
    const down = pairs([-0.1, -0.2, -0.1, -0.3, -0.1, -0.2]);
    expect(decide(down, RULES)).toMatchObject({ outcome: 'worse', passed: false });
  });

  it('so few tasks that models which are alike would differ on all of them in one direction by chance decide nothing', () => {
    const three = decide(pairs([0.4, 0.5, 0.3]), RULES);
    expect(three).toMatchObject({ outcome: 'no_data', passed: false, main: { tasks: 3, interval: null } });
    expect(three.reason).toBe('The candidate should be better, but there are only 3 tasks: at least 6 are needed.');
    // 2^-6 is below 2.5 %, and 2^-5 is not.
    expect(decide(pairs([0.1, 0.1, 0.1, 0.1, 0.1]), RULES).passed).toBe(false);
    expect(decide(pairs([0.1, 0.1, 0.1, 0.1, 0.1, 0.1]), RULES).passed).toBe(true);
    expect([0.5, 0.8, 0.9, 0.95, 0.99].map(fewestTasks)).toEqual([2, 4, 5, 6, 8]);
    for (const few of [pairs([]), pairs([1])])
      expect(decide(few, { ...RULES, accept: 'not_worse', margin: 1 })).toMatchObject({
        outcome: 'no_data',
        passed: false,
      });
  });

  it('says whether a guardrail was there to pass', () => {
    expect(decide(up, RULES).reason).toBe('The candidate is better; the gate has no guardrail.');
    const coder = { roles: { coder: { incumbent: 0.5, candidate: 0.6 } } };
    const tasks = up.map((task) => ({ ...task, ...coder }));
    expect(decide(tasks, guarding({ roles: 0.05 })).reason).toBe('The candidate is better and every guardrail passed.');
  });

  it('refuses a candidate that leaves samples unplayed which the incumbent plays, however good the others are', () => {
    const played = (share: number) => up.map(() => ({ incumbent: 1, candidate: share }));
    const over = (pairs: readonly Both[]) =>
      decide(up, RULES, [], 1000, [{ of: 'samples played', pairs, margin: 0.05 }]);
    expect(over(played(1))).toMatchObject({ outcome: 'better', passed: true });
    expect(over(played(0.5))).toMatchObject({ outcome: 'better', passed: false });
    expect(over(played(0.5)).reason).toContain('samples played (worse)');
    expect(over([])).toMatchObject({ passed: false, guardrails: [{ outcome: 'no_data' }] });
  });

  it('not worse within the margin passes only where the rules accept that', () => {
    const slight = pairs([-0.01, 0.01, -0.02, 0.01, -0.01, 0.02]);
    expect(decide(slight, { ...RULES, margin: 0.05 })).toMatchObject({ outcome: 'not_worse', passed: false });
    expect(decide(slight, { ...RULES, margin: 0.05, accept: 'not_worse' })).toMatchObject({ passed: true });
    expect(decide(slight, { ...RULES, margin: 0.001, accept: 'not_worse' }).passed).toBe(false);
  });

  it('a guardrail without data does not pass: a role that should be seen, tokens that nobody counted', () => {
    const rules = guarding({ roles: 0.05, tokens: 1.5 });
    const { passed, guardrails, reason } = decide(up, rules, ['verifier']);
    expect(passed).toBe(false);
    expect(guardrails).toMatchObject([
      { of: 'role verifier', tasks: 0, outcome: 'no_data', passed: false },
      { of: 'tokens', tasks: 0, outcome: 'no_data', passed: false },
    ]);
    expect(reason).toContain('role verifier (no data)');
  });

  it('a guardrail on roles that meets none does not pass', () => {
    const { passed, guardrails, reason } = decide(up, guarding({ roles: 0.05 }));
    expect([passed, guardrails]).toMatchObject([
      false,
      [{ of: 'any role', tasks: 0, outcome: 'no_data', passed: false }],
    ]);
    expect(reason).toContain('any role (no data)');
  });

  it('tokens and latency pass within their limit, as a multiple of what the incumbent takes', () => {
    const taking = (candidate: number) =>
      up.map((task, i) => ({ ...task, tokens: { incumbent: 100 + i, candidate: candidate + i } }));
    expect(decide(taking(110), guarding({ tokens: 1.2 })).passed).toBe(true);
    expect(decide(taking(130), guarding({ tokens: 1.2 }))).toMatchObject({ outcome: 'better', passed: false });
  });

  it('a family of tasks that is hurt is named', () => {
    const both = [
      ...up.map((task) => ({ ...task, family: 'algebra' })),
      ...pairs([-0.2, -0.3, -0.2, -0.1]).map((task) => ({ ...task, family: 'geometry' })),
    ];
    const found = decide(both, guarding({ families: 0.02 }));
    expect(found.guardrails.map(({ of, passed }) => [of, passed])).toEqual([
      ['family algebra', true],
      ['family geometry', false],
    ]);
    expect(found.passed).toBe(false);
  });

  it('the report as Markdown has a line for each comparison, and says what was pinned', () => {
    const rules = guarding({ roles: 0.05 });
    const tasks = up.map((task) => ({ ...task, roles: { solver: task } }));
    const page = gateMarkdown(
      {
        ...{ format: 'troupe-gate/1', kind: 'offline', measure: 'likelihood', unit: 'nats', deviation: 0.1, rules },
        ...decide(tasks, rules),
        models: { team: { incumbent: 'aa', candidate: 'bb' } },
        pinned: { task_set: 't1', scorer: 's1', models: 'm1', environment: 'e1' },
        left_out: { 'too long': 3 },
      },
      'nightly-1',
    );
    expect(page.split('\n').filter((line) => line.startsWith('| '))).toHaveLength(4);
    for (const part of ['passed', 'team: aa → bb', 'left out: 3 rows, too long', 'task set t1, scorer s1'])
      expect(page).toContain(part);
  });

  it.each([
    [110, 'within the limit'],
    [130, 'above the limit'],
    [120, 'inconclusive'],
    [null, 'no data'],
  ])('the report says of a limit of 1.2 that %s tokens for 100 are %s', (candidate, verdict) => {
    const rules = guarding({ tokens: 1.2 });
    const tasks = up.map((task, i) => ({
      ...task,
      tokens:
        candidate === null ? null : { incumbent: 100 + i, candidate: candidate + 1.2 * i + (i % 2 === 0 ? 2 : -2) },
    }));
    const page = gateMarkdown(
      {
        ...{ format: 'troupe-gate/1', kind: 'offline', measure: 'likelihood', unit: 'nats', deviation: 0.1, rules },
        ...decide(tasks, rules),
        ...{ models: {}, pinned: { task_set: 't', scorer: 's', models: 'm', environment: 'e' }, left_out: {} },
      },
      'nightly-1',
    );
    expect(page.split('\n').find((line) => line.startsWith('| tokens'))).toContain(`| ${verdict} `);
  });
});

describe('200 gates over simulated teams, of which the proof gate-rates has 1,000', () => {
  const RUNS = 200;
  const passing = (tasks: number, rules: GateRules, gain: Gain, runs = RUNS): number =>
    playPasses(rules, { tasks, gain, runs }) / runs;

  const deviation = TASK_DEVIATION;
  const size = { find: 0.05, deviation, partDeviation: deviation, guardrails: 0, power: 0.8 };
  const tasks = tasksForGate(RULES, size);

  it('wants 15 % more tasks than the normal approximation, ((1.96 + 0.84) σ / 0.05)²', () => {
    expect(tasks).toBe(Math.ceil(1.15 * Math.ceil((((1.959964 + 0.841621) * deviation) / 0.05) ** 2)));
  });

  it('an equal candidate is called better in at most 5 %', () => {
    expect(passing(tasks, RULES, 0)).toBeLessThanOrEqual(0.05);
  }, 120_000);

  it('one that is 5 points worse is refused in at least 95 %, also where not worse by 5 points is accepted', () => {
    expect(passing(tasks, RULES, -0.05)).toBeLessThanOrEqual(0.05);
    expect(passing(tasks, { ...RULES, accept: 'not_worse', margin: 0.05 }, -0.05)).toBeLessThanOrEqual(0.05);
  }, 120_000);

  it('one that is 5 points better is released in at least 80 % at the size that was computed', () => {
    expect(passing(tasks, RULES, 0.05)).toBeGreaterThanOrEqual(0.8);
  }, 120_000);
});
