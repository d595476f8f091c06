import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { findMethod } from '../../../store/evaluate/methods/find.ts';
import { groupFlags } from '../../../store/evaluate/methods/group-flags.ts';
import { runMethod } from '../../../store/evaluate/methods/run.ts';
import { expectClose } from './close.ts';

type Row = { readonly group: string; readonly reward: number };
type Advantages = (number | null)[];

const row = fc.record({
  group: fc.constantFrom('a', 'b', 'c'),
  reward: fc.integer({ min: -8, max: 8 }).map((n) => n / 4),
});
const rows = fc.array(row, { maxLength: 24 });

/** Each estimator over the same rows: one agent, one turn, one step a trajectory. */
const ESTIMATORS: Record<string, (rows: readonly Row[], params?: object) => Advantages> = {
  grpo_advantage: (of, params) =>
    run('grpo_advantage', { group: of.map(({ group }) => group), reward: of.map(({ reward }) => reward), ...params }),
  drmas_advantage: (of, params) => run('drmas_advantage', { steps: asSteps(of), ...params }),
  multiagent_grpo_advantage: (of, params) => run('multiagent_grpo_advantage', { steps: asSteps(of), ...params }),
  at_grpo_advantage: (of, params) =>
    run('at_grpo_advantage', {
      steps: of.map(({ group, reward }) => ({ env: group, turn: 0, agent: 'x', reward })),
      ...params,
    }),
};

function run(name: string, input: unknown): Advantages {
  return runMethod(findMethod(name), input) as Advantages;
}

function asSteps(of: readonly Row[]) {
  return of.map(({ group, reward }, i) => ({ query: group, traj: `t${i}`, agent: 'x', reward }));
}

function eachGroup(of: readonly Row[], check: (members: readonly number[]) => void): void {
  for (const name of new Set(of.map(({ group }) => group))) {
    check(of.flatMap(({ group }, i) => (group === name ? [i] : [])));
  }
}

describe.each(Object.entries(ESTIMATORS))('%s', (_, advantage) => {
  test('sums to 0 within each group of two or more', () => {
    fc.assert(
      fc.property(rows, fc.boolean(), (of, scale_std) => {
        const values = advantage(of, { scale_std });
        eachGroup(of, (members) => {
          if (members.length > 1)
            expectClose(
              members.reduce((total, i) => total + values[i]!, 0),
              0,
            );
        });
      }),
    );
  });

  test('does not change when a constant is added to every reward of groups of two or more', () => {
    fc.assert(
      fc.property(rows, fc.integer({ min: -5, max: 5 }), (of, constant) => {
        const before = advantage(of);
        const after = advantage(of.map(({ group, reward }) => ({ group, reward: reward + constant })));
        eachGroup(of, (members) => {
          if (members.length > 1) for (const i of members) expectClose(after[i], before[i]);
        });
      }),
    );
  });

  test('scaled advantages stay when rewards are multiplied, unscaled ones are multiplied too', () => {
    fc.assert(
      fc.property(rows, fc.integer({ min: 2, max: 9 }), (of, factor) => {
        const larger = of.map(({ group, reward }) => ({ group, reward: reward * factor }));
        eachGroup(of, (members) => {
          if (members.length < 2) return;
          for (const i of members) expectClose(advantage(larger)[i], advantage(of)[i], 1e-4);
        });
        const plain = advantage(of, { scale_std: false });
        expectClose(
          advantage(larger, { scale_std: false }),
          plain.map((value) => value! * factor),
        );
      }),
      { numRuns: 40 },
    );
  });

  test('moves with its rows when they are reordered', () => {
    fc.assert(
      fc.property(rows, (of) => {
        expectClose(advantage([...of].reverse()), advantage(of).reverse(), 1e-9);
      }),
    );
  });

  test('equals GRPO for one agent, one turn and one step a trajectory', () => {
    fc.assert(
      fc.property(rows, (of) => {
        expectClose(advantage(of), ESTIMATORS.grpo_advantage!(of), 1e-12);
      }),
    );
  });

  test('a group of one is measured against 0 and 1, equal rewards give 0', () => {
    expectClose(advantage([{ group: 'a', reward: 0.5 }]), [0.5 / (1 + 1e-6)], 1e-12);
    expectClose(advantage([{ group: 'a', reward: 0.5 }], { scale_std: false }), [0.5], 0);
    const equal = Array.from({ length: 3 }, () => ({ group: 'a', reward: 0.1 }));
    expect(advantage(equal)).toEqual([0, 0, 0]);
    expect(advantage(equal, { eps: 0 })).toEqual([0, 0, 0]);
    expect(advantage([])).toEqual([]);
  });
});

describe('missing rewards', () => {
  test('a null reward has a null advantage and does not change the others', () => {
    const group = ['q', 'q', 'q', 'z', 'z', 'n'];
    const reward = [1, null, 0, null, 0.7, null];
    const grpo = run('grpo_advantage', { group, reward });
    expectClose(grpo, [0.7071058, null, -0.7071058, null, 0.6999993, null]);
    const steps = group.map((query, i) => ({ query, traj: `t${i}`, agent: 'x', reward: reward[i] }));
    expect(run('drmas_advantage', { steps })).toEqual(grpo);
    expect(run('multiagent_grpo_advantage', { steps })).toEqual(grpo);
    const candidates = group.map((env, i) => ({ env, turn: 1, agent: 'x', reward: reward[i] }));
    expect(run('at_grpo_advantage', { steps: candidates })).toEqual(grpo);
    expectClose(run('floored_advantage', { steps }), [1, null, -1, null, 0, null]);
  });

  test('a step without a reward leaves the average of its trajectory to the others', () => {
    const step = (traj: string, reward: number | null) => ({ query: 'q', traj, agent: 'x', reward });
    const steps = [step('t1', 1), step('t1', null), step('t2', 0), step('t2', 0)];
    expectClose(run('multiagent_grpo_advantage', { steps }), [0.7071058, null, -0.7071058, -0.7071058]);
  });
});

describe('keys', () => {
  test('a number and its digits as text are two groups', () => {
    expectClose(run('grpo_advantage', { group: [1, '1', 1], reward: [1, 0.5, 0], scale_std: false }), [0.5, 0.5, -0.5]);
  });

  test('the same trajectory name under two queries is two trajectories', () => {
    const step = (query: string, traj: string, reward: number) => ({ query, traj, agent: 'x', reward });
    const steps = [step('q', 't', 1), step('p', 't', 0), step('q', 'u', 0), step('p', 'u', 1)];
    const half = Math.SQRT1_2 / (1 + 1e-6 * Math.SQRT2);
    expectClose(run('multiagent_grpo_advantage', { steps }), [half, -half, -half, half]);
  });
});

describe('floored_advantage', () => {
  const steps = (rewards: readonly number[]) =>
    rewards.map((reward, i) => ({ query: 'q', traj: i, agent: 'x', reward }));

  test('divides by the std where it is above the floor, and by the floor below it', () => {
    expectClose(run('floored_advantage', { steps: steps([1, 0]) }), [1, -1]);
    expectClose(run('floored_advantage', { steps: steps([0.51, 0.49]) }), [0.1, -0.1]);
    expectClose(run('floored_advantage', { steps: steps([0.51, 0.49]), floor: 0.001 }), [1, -1]);
    expectClose(run('floored_advantage', { steps: steps([0.7]) }), [0]);
  });

  test('keeps agents apart', () => {
    const both = [...steps([1, 0]), ...steps([0.3, 0.3]).map((step) => ({ ...step, agent: 'y' }))];
    expectClose(run('floored_advantage', { steps: both }), [1, -1, 0, 0]);
  });

  test('never exceeds what dividing by the std gives, and keeps its sign', () => {
    fc.assert(
      fc.property(rows, (of) => {
        const floored = run('floored_advantage', { steps: asSteps(of) });
        const centred = run('floored_advantage', { steps: asSteps(of), floor: 1e-9 });
        floored.forEach((value, i) => {
          expect(Math.abs(value!)).toBeLessThanOrEqual(Math.abs(centred[i]!) + 1e-9);
          expect(value! * centred[i]!).toBeGreaterThanOrEqual(0);
        });
      }),
    );
  });
});

describe('group flags', () => {
  test('each row says why its advantage must be read with care', () => {
    expect(groupFlags(['q', 'q', 'z', 'e', 'e', 'n', 'n'], [1, 0, 0.7, 2, 2, null, 3])).toEqual([
      null,
      null,
      'group_of_one',
      'zero_variance',
      'zero_variance',
      'missing_reward',
      'group_of_one',
    ]);
    expect(groupFlags([], [])).toEqual([]);
  });

  test('several columns form a group together', () => {
    const query = ['q', 'q', 'q', 'q'];
    const agent = ['c', 'v', 'c', 'v'];
    expect(groupFlags([query, agent], [1, 0.5, 0, 0.5])).toEqual([null, 'zero_variance', null, 'zero_variance']);
  });
});
