import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { findMethod } from '../../../store/evaluate/methods/find.ts';
import { runMethod } from '../../../store/evaluate/methods/run.ts';
import { expectClose } from './close.ts';

const run = (name: string, input: unknown) => runMethod(findMethod(name), input);
const reward = fc.integer({ min: -8, max: 8 }).map((n) => n / 4);
const sum = (values: readonly number[]) => values.reduce((a, b) => a + b, 0);

describe('trl_advantage and rloo_advantage', () => {
  const rows = fc.array(fc.record({ group: fc.constantFrom('a', 'b'), reward }), { maxLength: 16 });
  const columns = (of: readonly { group: string; reward: number }[]) => ({
    group: of.map(({ group }) => group),
    reward: of.map((row) => row.reward),
  });

  test.each([
    ['trl_advantage', { scale: 'group' }],
    ['trl_advantage', { scale: 'none' }],
    ['rloo_advantage', {}],
  ])('%s %o sums to 0 in groups of two or more, and does not see a constant', (name, params) => {
    fc.assert(
      fc.property(rows, (of) => {
        const values = run(name, { ...columns(of), ...params }) as number[];
        const moved = run(name, {
          ...columns(of.map((row) => ({ ...row, reward: row.reward + 3 }))),
          ...params,
        }) as number[];
        for (const key of ['a', 'b']) {
          const members = of.flatMap(({ group }, i) => (group === key ? [i] : []));
          if (members.length < 2) continue;
          expectClose(sum(members.map((i) => values[i]!)), 0);
          for (const i of members) expectClose(moved[i], values[i]);
        }
      }),
    );
  });

  test('RLOO is the reward minus the mean of the others', () => {
    fc.assert(
      fc.property(fc.array(reward, { minLength: 2, maxLength: 8 }), (rewards) => {
        const values = run('rloo_advantage', { group: rewards.map(() => 'q'), reward: rewards }) as number[];
        rewards.forEach((own, i) => {
          expectClose(values[i], own - (sum(rewards) - own) / (rewards.length - 1), 1e-9);
        });
      }),
    );
    expect(run('rloo_advantage', { group: ['a', 'b', 'b', 'b'], reward: [0.7, null, 0.1, 0.1] })).toEqual([
      0.7,
      null,
      0,
      0,
    ]);
  });

  test('a group of one has no advantage, and a row without a reward 0, as TRL has it', () => {
    expect(run('trl_advantage', { group: ['a', 'b', 'b'], reward: [0.7, null, 1] })).toEqual([0, 0, 0]);
    expectClose(run('trl_advantage', { group: ['a', 'a', 'a'], reward: [1, null, 0], scale: 'none' }), [0.5, 0, -0.5]);
  });

  test('the batch scale divides every group by the same std', () => {
    const input = { group: ['a', 'a', 'b', 'b'], reward: [2, 0, 1, 1], scale: 'batch' };
    const deviation = Math.sqrt(2 / 3) + 1e-4;
    expectClose(run('trl_advantage', input), [1 / deviation, -1 / deviation, 0, 0]);
  });

  test('several reward functions are summed with their weights before they are normalised', () => {
    const group = ['q', 'q'];
    const rewards = [
      [1, 0],
      [0, null],
    ];
    expectClose(run('trl_advantage', { group, reward: rewards, scale: 'none', weights: [2, 5] }), [1, -1]);
    const allNull = [
      [1, 0],
      [null, null],
    ];
    expect(run('trl_advantage', { group, reward: allNull, scale: 'none' })).toEqual([0, 0]);
    expect(() => run('trl_advantage', { group, reward: rewards, weights: [1] })).toThrow('weights');
    expect(() => run('trl_advantage', { group, reward: [[1, 0], [1]] })).toThrow('reward[1]');
  });

  test('or each is normalised in its group first, and the sum over the batch', () => {
    const group = ['q', 'q'];
    const rewards = [
      [1, 100],
      [0, 0],
    ];
    const first = 0.5 / (Math.SQRT1_2 + 1e-4) + 50 / (100 * Math.SQRT1_2 + 1e-4);
    const expected = first / (first * Math.SQRT2 + 1e-4);
    expectClose(run('trl_advantage', { group, reward: rewards, combine: 'normalize_then_sum' }), [expected, -expected]);
  });
});

describe('trees', () => {
  type Node = { rewards: number[]; children?: (Node | null)[] };
  const { node } = fc.letrec<{ node: Node }>((tie) => ({
    node: fc
      .record({
        rewards: fc.array(reward, { minLength: 2, maxLength: 3 }),
        children: fc.array(fc.option(tie('node'), { nil: null }), { maxLength: 2 }),
      })
      .map((value) => value as Node),
  }));
  type Out = { node: string; returns: number[]; advantages: number[] }[];

  test('MAGRPO: without a future, the advantage is the reward minus the mean of the node', () => {
    fc.assert(
      fc.property(node, (tree) => {
        const [root] = run('magrpo_returns', { tree, gamma: 0 }) as Out;
        const centre = sum(tree.rewards) / tree.rewards.length;
        expectClose(
          root!.advantages,
          tree.rewards.map((value) => value - centre),
        );
      }),
    );
  });

  test('MAGRPO: advantages sum to 0 in every node, whatever the depth', () => {
    fc.assert(
      fc.property(node, (tree) => {
        for (const { advantages } of run('magrpo_returns', { tree }) as Out) expectClose(sum(advantages), 0);
      }),
    );
  });

  test('MAGRPO: other baselines, a joint action alone, and more children than joint actions', () => {
    const tree = { rewards: [1, 0] };
    const advantages = (mode: string) => (run('magrpo_returns', { tree, mode }) as Out)[0]!.advantages;
    expect(advantages('raw')).toEqual([1, 0]);
    expect(advantages('max')).toEqual([0, -1]);
    expect(advantages('rloo')).toEqual([1, -1]);
    const alone = run('magrpo_returns', { tree: { rewards: [0.7] }, mode: 'rloo' }) as Out;
    expect(alone[0]!.advantages).toEqual([0]);
    expect(() => run('magrpo_returns', { tree: { rewards: [1], children: [null, null] } })).toThrow('children');
    expect(() => run('magrpo_cross', { k: 2, agents: 2, rewards: [1] })).toThrow('rewards');
  });

  test('MAGRPO: three agents, the first slowest', () => {
    const out = run('magrpo_cross', { k: 2, agents: 3, rewards: [1, 2, 3, 4, 5, 6, 7, 8] }) as { sums: number[] }[];
    expect(out.map(({ sums }) => sums)).toEqual([
      [10, 26],
      [14, 22],
      [16, 20],
    ]);
  });

  test('MAGRPO: crossed completions are compared as those of a node are, each agent’s sums by themselves', () => {
    const crossed = (params: object) =>
      (run('magrpo_cross', { k: 2, agents: 2, rewards: [3, 0, 1, 0], ...params }) as { advantages: number[] }[]).map(
        ({ advantages }) => advantages,
      );
    // The sums are 3 and 1 of the first agent, 4 and 0 of the second.
    expect(crossed({})).toEqual([
      [1, -1],
      [2, -2],
    ]);
    expect(crossed({ mode: 'raw' })).toEqual([
      [3, 1],
      [4, 0],
    ]);
    expect(crossed({ mode: 'max' })).toEqual([
      [0, -2],
      [0, -4],
    ]);
    expect(crossed({ mode: 'rloo' })).toEqual([
      [2, -2],
      [4, -4],
    ]);
    expect(crossed({ normalise: true })).toEqual([
      [1, -1],
      [1, -1],
    ]);
    expect(run('magrpo_cross', { k: 1, agents: 1, rewards: [0.7], mode: 'raw', normalise: true })).toEqual([
      { sums: [0.7], advantages: [0.7] },
    ]);
  });

  test('MALT: exactly a half is negative, also where it is computed from thirds', () => {
    const sixths = (right: number) => Array.from({ length: 6 }, (_, i) => (i < right ? 1 : 0));
    // 1/2, 5/6 and 1/6 have a mean of 0.5000000000000001 in double precision.
    const out = run('malt_values', { refinements: [[[1, 0]], [[1, 0], sixths(5), sixths(1)]] }) as {
      label_generator: boolean[];
    };
    expect(out.label_generator).toEqual([false, false]);
  });

  test('MetaAgent-X: executors are compared in the problem or in their design', () => {
    const exec_rewards = [
      [1, 0],
      [1, 1],
    ];
    const executor = (executor_group: string | null) =>
      (run('metaagentx_advantage', { exec_rewards, executor_group }) as { executor: number[] }).executor;
    expectClose(executor(null), executor('question'));
    expectClose(executor('design'), [0.7071058, -0.7071058, 0, 0]);
    const three = {
      exec_rewards: [
        [1, 0, 0],
        [1, 1, 1],
      ],
    };
    expectClose(
      run('metaagentx_advantage', three),
      run('metaagentx_advantage', { ...three, executor_group: 'design' }),
    );
  });

  test('MATPO: a padded worker has 0, one of an unknown planner is refused, a missing reward stays missing', () => {
    const main = [
      { id: 1, query: 'q', reward: 1 },
      { id: 2, query: 'q', reward: 0 },
      { id: 3, query: 'q', reward: null },
    ];
    const out = run('matpo_advantage', { main, workers: [{ parent: null }, { parent: 3 }] });
    expectClose(out, { main: [0.7071058, -0.7071058, null], worker: [0, null] });
    expect(() => run('matpo_advantage', { main, workers: [{ parent: 9 }] })).toThrow('workers[0].parent');
    expect(run('matpo_loss_scale', { loss: 0.5, batch_size: 8, num_main: 0 })).toBe(4);
    expect(run('matpo_loss_scale', { loss: 0.5, batch_size: 8, num_main: 1, aggregation: 'token-mean' })).toBe(0.5);
  });
});

describe('mars_turn_advantage', () => {
  const one = (id: string, player: number, turn_rewards: number[], tag?: string) => ({
    id,
    player,
    turn_rewards,
    ...(tag === undefined ? {} : { tag }),
  });

  test('with one turn it is the reward minus the mean of the player', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.constantFrom(0, 1), reward), { maxLength: 12 }), (games) => {
        const out = run('mars_turn_advantage', {
          trajectories: games.map(([player, value], i) => one(`t${i}`, player, [value])),
        }) as Record<string, number[]>;
        games.forEach(([player, value], i) => {
          const own = games.filter(([other]) => other === player).map(([, r]) => r);
          expectClose(out[`t${i}`], [value - sum(own) / own.length], 1e-9);
        });
      }),
    );
  });

  test('games with different tags have different means', () => {
    const out = run('mars_turn_advantage', { trajectories: [one('a', 0, [1], 'x'), one('b', 0, [3], 'y')] });
    expect(out).toEqual({ a: [0], b: [0] });
  });

  test('norms use the distinct values of a player', () => {
    const trajectories = [one('a', 0, [1]), one('b', 0, [0]), one('c', 0, [0]), one('d', 0, [0]), one('e', 1, [5])];
    expectClose(run('mars_turn_advantage', { trajectories, advantage_norm: 'mean' }), {
      a: [0.5],
      b: [-0.5],
      c: [-0.5],
      d: [-0.5],
      e: [0],
    });
    const scaled = run('mars_turn_advantage', { trajectories, advantage_norm: 'mean_std' }) as Record<string, number[]>;
    expectClose(scaled.a, [0.5 / (Math.SQRT1_2 + 1e-6)]);
  });

  test('two trajectories of one name are refused', () => {
    expect(() => run('mars_turn_advantage', { trajectories: [one('a', 0, [1]), one('a', 1, [1])] })).toThrow(
      'trajectories',
    );
  });
});

describe('GAE', () => {
  const tokens = fc.array(fc.tuple(reward, reward), { maxLength: 12 });

  test('with λ = γ = 1 and everything counted, advantage plus value is the reward to go', () => {
    fc.assert(
      fc.property(tokens, (of) => {
        const rewards = of.map(([r]) => r);
        const values = of.map(([, v]) => v);
        const { returns } = run('gae', { rewards, values, mask: of.map(() => 1), gamma: 1, lambda: 1 }) as {
          returns: number[];
        };
        expectClose(
          returns,
          rewards.map((_, t) => sum(rewards.slice(t))),
          1e-9,
        );
      }),
    );
  });

  test('an observation changes nothing for the tokens before it', () => {
    const without = run('gae', { rewards: [0, 1], values: [0.1, 0.5], mask: [1, 1], lambda: 0.9 }) as {
      advantages: number[];
    };
    const withOne = run('gae', { rewards: [0, 9, 1], values: [0.1, 7, 0.5], mask: [1, 0, 1], lambda: 0.9 }) as {
      advantages: number[];
    };
    expectClose([withOne.advantages[0], withOne.advantages[2]], without.advantages);
  });

  test('MARFT with one agent is GAE over turns', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(reward, reward), { minLength: 1, maxLength: 8 }), (of) => {
        const rewards = of.map(([r]) => r);
        const values = of.map(([, v]) => v);
        const discounts = { gamma: 0.9, lambda: 0.8 };
        const marft = run('marft_gae', {
          rewards: rewards.map((r) => [r]),
          values: values.map((v) => [v]),
          alive: of.map((_, t) => (t === of.length - 1 ? 0 : 1)),
          bootstrap: 5,
          ...discounts,
        }) as { advantages: number[][] };
        const plain = run('gae', { rewards, values, mask: of.map(() => 1), ...discounts }) as { advantages: number[] };
        expectClose(marft.advantages.flat(), plain.advantages, 1e-9);
      }),
    );
  });

  test('MARFT: the released behaviour cuts the chain inside the turn after an end', () => {
    const input = {
      rewards: [
        [0, 1],
        [0, 1],
      ],
      values: [
        [0, 0],
        [0, 0],
      ],
      alive: [0, 1],
      bootstrap: 0,
      gamma: 1,
      lambda: 1,
    };
    expectClose((run('marft_gae', input) as { advantages: unknown }).advantages, [
      [1, 1],
      [1, 1],
    ]);
    expectClose((run('marft_gae', { ...input, entry_mask: true }) as { advantages: unknown }).advantages, [
      [1, 1],
      [0, 1],
    ]);
  });

  test('MARFT: normalising leaves out entries that are exactly 0, and the returns', () => {
    const input = {
      rewards: [
        [1, 0],
        [3, 0],
      ],
      values: [
        [0, 0],
        [0, 0],
      ],
      alive: [1, 0],
      bootstrap: 0,
      gamma: 0,
      lambda: 0,
    };
    expectClose(run('marft_gae', { ...input, normalise: true }), {
      advantages: [
        [-1, -2],
        [1, -2],
      ],
      returns: [
        [1, 0],
        [3, 0],
      ],
    });
  });

  test('whitening needs two tokens, and gives mean 0 and variance 1 over those that count', () => {
    expect(() => run('masked_whiten', { values: [1, 2], mask: [1, 0] })).toThrow('at least two');
    fc.assert(
      fc.property(fc.array(reward, { minLength: 2, maxLength: 9 }), (values) => {
        fc.pre(new Set(values).size > 1);
        const out = run('masked_whiten', { values: [...values, 99], mask: [...values.map(() => 1), 0] }) as number[];
        expect(out.at(-1)).toBe(0);
        expectClose(sum(out), 0, 1e-5);
        expectClose(sum(out.map((value) => value ** 2)) / (values.length - 1), 1, 1e-5);
      }),
    );
  });
});

describe('Dr. MAMR', () => {
  test('a vector of zeros is near to nothing, and parts that do not vary count 0', () => {
    expect(
      run('cosine_groups', {
        embeddings: [
          [0, 0],
          [0, 0],
          [1, 0],
        ],
      }),
    ).toEqual([0, 1, 2]);
    expect(run('mamr_step_advantage', { outcome: [1, 1], influence: [0.3, 0.3], restart: [0, 0] })).toEqual([0, 0]);
    expect(run('mamr_step_advantage', { outcome: [1], influence: [2], restart: [3] })).toEqual([0]);
  });

  test('restarting helps when forgetting makes a right answer likelier, or a wrong one less likely', () => {
    const restart = (correct: boolean, without: number, withHistory: number) =>
      run('restart_reward', { correct, logp_without_history: without, logp_with_history: withHistory });
    expect([restart(true, -3, -2), restart(false, -3, -2), restart(false, -2, -3), restart(false, -2, -2)]).toEqual([
      -1, 1, -1, 0,
    ]);
  });
});

describe('diagnostics', () => {
  test('the precision of tests is the mean of their raw rewards', () => {
    const input = {
      generated_pass: [
        [1, 1, 0, 1],
        [1, 0, 0, 1],
        [1, 1, 1, 0],
      ],
      gt_pass: [
        [1, 1],
        [1, 0],
        [0, 0],
      ],
    };
    expectClose(run('cure_precision', input), { p_u: 0.75, p_01: 2 / 3, p_00: 0.5, precision: 0.125 });
    const { raw } = run('cure_test_reward', input) as { raw: number[] };
    expectClose(sum(raw) / raw.length, 0.125);
    expect(run('cure_precision', { ...input, gt_pass: [[0], [0], [0]] })).toBeNull();
  });

  test('an agent whose rewards are as the team’s has ratio 1, and one with half the spread a quarter', () => {
    const step = (agent: string, reward: number | null) => ({ query: 'q', traj: 't', agent, reward });
    const steps = [step('a', 2), step('a', -2), step('b', 1), step('b', -1), step('c', null)];
    expectClose(run('drmas_scale_ratio', { steps }), { a: 4 / 2.5, b: 1 / 2.5, c: null });
    expect(run('drmas_scale_ratio', { steps: [step('a', 1), step('b', 1)] })).toEqual({ a: null, b: null });
    // Team mean 0.5 and std 0.4; the agent's are 0.8 and 0.2.
    const team = [step('k', 1), step('k', 0.6), step('o', 0.2 + Math.sqrt(0.03)), step('o', 0.2 - Math.sqrt(0.03))];
    expectClose((run('drmas_scale_ratio', { steps: team }) as { k: number }).k, (0.04 + 0.09) / 0.125);
  });
});
