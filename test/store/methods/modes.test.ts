import { describe, expect, test } from 'vitest';
import { findMethod, METHODS } from '../../../store/evaluate/methods/find.ts';
import { runMethod } from '../../../store/evaluate/methods/run.ts';
import { LOSS_METHODS } from '../../../trainer/model/losses/catalogue.ts';
import { expectClose } from './close.ts';

/** Each mode with numbers that can be followed by hand. */
const run = (name: string, input: object) => runMethod(findMethod(name, [...METHODS, ...LOSS_METHODS]), input);

describe('filters by their modes', () => {
  const group = ['a', 'a', 'b', 'b', 'c', 'c', 'd', 'd'];
  const reward = [0, 1, 1, 1, 0, 0, 0, 4];
  const kept = (mode: string, filter_ratio: number) =>
    run('petting_group_filter', { group, reward, mode, filter_ratio });

  test('dapo keeps the groups with spread, whatever the ratio', () => {
    expect(kept('dapo', 0)).toEqual([0, 1, 6, 7]);
    expect(kept('dapo', 1)).toEqual([0, 1, 6, 7]);
  });

  test('std drops the half with the least spread, which are b and c', () =>
    expect(kept('std', 0.5)).toEqual([0, 1, 6, 7]));

  test('mean drops the half with the least mean, which are c (0) and a (0.5)', () =>
    expect(kept('mean', 0.5)).toEqual([2, 3, 6, 7]));

  test('uid drops one of two equally far samples, the first, and the furthest where one is', () => {
    expect(kept('uid', 0.5)).toEqual([1, 3, 5, 7]);
    const far = { group: ['x', 'x', 'x', 'y'], reward: [0, 0, 9, 5], mode: 'uid', filter_ratio: 0.34 };
    expect(run('petting_group_filter', far)).toEqual([0, 1, 3]);
  });

  test('the ratio is cut, not rounded: 3 of 4 groups at 0.74 lose two', () => {
    expect(kept('mean', 0.74)).toEqual([2, 3, 6, 7]);
  });

  test('a difficulty band keeps b by default, a from a half to 1, a and b from a quarter, b and c up to a quarter', () => {
    const queries = { group: [...'aaaabbbbcccc'], outcome: [1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0] };
    const rows = (params: object) => run('difficulty_band', { ...queries, ...params });
    expect(rows({})).toEqual([4, 5, 6, 7]);
    expect(rows({ lo: 0.5, hi: 1 })).toEqual([0, 1, 2, 3]);
    expect(rows({ lo: 0.25 })).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
    expect(rows({ hi: 0.25 })).toEqual([4, 5, 6, 7, 8, 9, 10, 11]);
  });
});

describe('rewards by their modes', () => {
  test('a final reward over turns: by turn, discounted, as a bit, clipped', () => {
    const spread = (mode: string, final: number, more: object = {}) =>
      run('petting_turn_reward', { mode, final, turns: [0, 3], max_turns: 4, ...more });
    expect(spread('turn_weighted', 2)).toEqual([0.5, 2]);
    expect(spread('discount', 1, { gamma: 0.5 })).toEqual([0.0625, 0.5]);
    expectClose(run('petting_turn_reward', { mode: 'discount', final: 1, turns: [7] }), [0.99]);
    expect(spread('binary', 0.5)).toEqual([0, 0]);
    expect(spread('binary', 0.51)).toEqual([1, 1]);
    expect(spread('normalized', 3)).toEqual([1, 1]);
    expect(spread('normalized', -2)).toEqual([-1, -1]);
    // A turn after the last one would earn more than the whole; a bit and a clipped reward do not look at turns.
    for (const mode of ['turn_weighted', 'discount'])
      expect(() => spread(mode, 1, { max_turns: 3 })).toThrow('turns[1] should be a turn before max_turns, which is 3');
    expect(spread('binary', 1, { max_turns: 3 })).toEqual([1, 1]);
  });

  test('a mixed reward weighs the team, and an agent without its own has none', () => {
    expect(run('petting_mixed_reward', { team: 1, local: [0.5, null], alpha: 0.5 })).toEqual([1, null]);
  });

  test('MARTI: quality, margin, and each with the outcome', () => {
    const shaped = (name: string) => run('marti_shaping', { name, rewards: [1, 0, 1] });
    expect(shaped('quality')).toEqual([1, 0, 1.25]);
    expect(shaped('margin')).toEqual([1, -0.5, 1.25]);
    expect(shaped('quality_with_outcome')).toEqual([1.5, 0.5, 1.75]);
    expect(shaped('margin_with_outcome')).toEqual([1.5, 0, 1.75]);
  });

  test('UnityMAS-O for mathematics gives every turn the accuracy and its format part', () => {
    const rewards = (more: object) => run('unitymas_math_rewards', { accuracy: 1, format: [0.1, 0, -0.2], ...more });
    expectClose(rewards({}), [1.1, 1, 0.8]);
    expectClose(rewards({ format_weight: 0.5 }), [1.05, 1, 0.9]);
    expect(run('unitymas_math_rewards', { accuracy: 1, format: [null, 0] })).toEqual([null, 1]);
    expect(run('unitymas_math_rewards', { accuracy: null, format: [0.5] })).toEqual([null]);
  });

  test('UnityMAS-O in terminal mode gives the last turn the outcome and every format reward', () => {
    const rewards = (more: object) =>
      run('unitymas_terminal_rewards', { outcome: 1, format: [0.1, 0.2, 0.1], ...more });
    expectClose(rewards({}), [0.1, 0.2, 1.4]);
    expectClose(rewards({ emit_intermediate: false }), [0, 0, 1.4]);
    expect(rewards({ outcome: null })).toEqual([0.1, 0.2, null]);
    expect(rewards({ format: [null, 0] })).toEqual([null, null]);
    expect(rewards({ format: [null, 0], emit_intermediate: false })).toEqual([0, null]);
    expect(rewards({ format: [] })).toEqual([]);
  });

  test('CURE in the later stage, and a task of full marks with efficient on', () => {
    const matrices = {
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
    expectClose(run('cure_test_reward', { ...matrices, post_stage: true }), {
      raw: [0, 0, -1, 0],
      reward: [0.57735, 0.57735, -1.732051, 0.57735],
    });
    expect(run('cure_code_reward', { gt_pass: [[1], [1]], efficient: true })).toEqual([1, 1]);
    expect(run('cure_code_reward', { gt_pass: [[1], [1]] })).toBeNull();
    expect(run('cure_code_reward', { gt_pass: [[0], [0]], efficient: true })).toBeNull();
  });

  test('the overlong penalty is 0 before the buffer, −1 at its end and goes on', () => {
    const penalties = [16384, 20480, 24576].map((length) => run('dapo_overlong', { length }));
    expect(penalties).toEqual([0, -1, -2]);
  });
});

describe('credit by its modes', () => {
  test('MAGRPO: the mean, nothing, the best and the mean of the others as baseline', () => {
    const advantages = (mode: string) =>
      (run('magrpo_returns', { tree: { rewards: [1, 0, 2] }, mode }) as { advantages: number[] }[])[0]!.advantages;
    expect(advantages('mean')).toEqual([0, -1, 1]);
    expect(advantages('raw')).toEqual([1, 0, 2]);
    expect(advantages('max')).toEqual([-1, -2, 0]);
    expect(advantages('rloo')).toEqual([0, -1.5, 1.5]);
  });

  test('MARS: no norm, the mean of the distinct values, and their std too', () => {
    const trajectories = [
      { id: 'a', player: 0, turn_rewards: [0, 1] },
      { id: 'b', player: 0, turn_rewards: [0, 0] },
    ];
    const turns = (more: object) => run('mars_turn_advantage', { trajectories, ...more });
    expectClose(turns({}), { a: [0.5, 0.75], b: [-0.5, -0.25] });
    expectClose(turns({ advantage_norm: 'mean' }), { a: [0.375, 0.625], b: [-0.625, -0.375] });
    expectClose(turns({ advantage_norm: 'mean_std' }), { a: [0.630125, 1.050208], b: [-1.050208, -0.630125] });
    expectClose(turns({ gamma: 0.5 }), { a: [0.125, 0.75], b: [-0.375, -0.25] });
  });

  test('MARS: a player with one distinct value gets 0, and a tag that is a number is not the same as text', () => {
    const one = (id: string, reward: number, tag: string | number) => ({ id, player: 0, tag, turn_rewards: [reward] });
    const input = { trajectories: [one('a', 1, 7), one('b', 1, 7)], advantage_norm: 'mean_std' };
    expect(run('mars_turn_advantage', input)).toEqual({ a: [0], b: [0] });
    expect(run('mars_turn_advantage', { trajectories: [one('a', 1, 7), one('b', 0, '7')] })).toEqual({
      a: [0],
      b: [0],
    });
  });

  test('AT-GRPO: an undivided group, and one that is alone in its turn', () => {
    const step = (turn: number, reward: number) => ({ env: 0, turn, agent: 'c', reward });
    const steps = [step(0, 1), step(0, 0), step(1, 3)];
    expect(run('at_grpo_advantage', { steps, scale_std: false })).toEqual([0.5, -0.5, 3]);
    const divided = 0.5 / (Math.SQRT1_2 + 1e-6);
    expectClose(run('at_grpo_advantage', { steps }), [divided, -divided, 2.999997]);
  });
});

describe('trees and diagnoses at their edges', () => {
  test('MASPRM: which trees are kept, what a certain node aims at, and the least factor of a path', () => {
    const keeps = [0.7, -0.7, 0.71, -0.71].map((root_q) => run('masprm_tree_keep', { root_q }));
    expect(keeps).toEqual([true, true, false, false]);
    expect(run('masprm_tree_keep', { root_q: 0, leaf_q: [1, -1] })).toBe(true);
    expect(run('masprm_tree_keep', { root_q: 0, leaf_q: [1, 0.5] })).toBe(false);
    expectClose(run('masprm_target', { q: 1 }), 1.831781);
    expectClose(run('masprm_target', { q: -1 }), -1.831781);
    expect(run('masprm_path_score', { values: [-1] })).toBe(1e-6);
    expectClose(run('uct', { q: 0, parent_visits: 8, child_visits: 2, c: 1 }), 1.019667);
    expect(run('uct', { q: 0.5, parent_visits: 0, child_visits: 0 })).toBe(0.5);
    const unfinished = { rollouts: [{ path: ['root'], correct: false }] };
    expect(run('masprm_backprop', unfinished)).toEqual({ root: { visits: 1, q: -1 } });
  });

  test('a clip range ends at a fifth of where it began', () => {
    const at = (step: number) => run('agentracer_clip', { b0: 0.3, step, total: 100 });
    expectClose([at(0), at(80), at(100), at(200)], [0.3, 0.06, 0.06, 0.06]);
  });

  test('every way to one number from losses of tokens, also where a sequence has no token', () => {
    const loss = [
      [1, 2, 3, 0],
      [4, 0, 0, 0],
      [9, 9, 9, 9],
    ];
    const mask = [
      [1, 1, 1, 0],
      [1, 0, 0, 0],
      [0, 0, 0, 0],
    ];
    const by = (mode: string, norm?: number) => run('agg_loss', { loss, mask, mode, ...(norm && { norm }) });
    expectClose(by('token-mean'), 2.5);
    expectClose(by('seq-mean-token-sum'), 5);
    expectClose(by('seq-mean-token-mean'), 3);
    expectClose(by('seq-mean-token-sum-norm'), 1.25);
    expectClose(by('token-sum-norm'), 2.5);
    expectClose(by('dr_grpo'), 10 / 12);
    expectClose(by('dr_grpo', 10), 1 / 3);
  });
});

describe('what would be answered wrongly is refused', () => {
  test('two roll-outs of one planner id, a node that is its own parent, an agent whose name reads like a coalition', () => {
    const main = [{ id: 'm', query: 'q', reward: 1 }];
    expect(() => run('matpo_advantage', { main: [...main, ...main], workers: [] })).toThrow('main');
    expect(() => run('mars2_tree_shaping', { rewards: [1, 2], parent: [-1, 1] })).toThrow('parent[1]');
    const values = { '': 0, a: 0, b: 0, 'a+b': 1 };
    expect(() => run('shapley', { agents: ['a', 'b', 'a+b'], values })).toThrow('agents[2]');
  });

  test('groups larger than a call can have arguments are no trouble', () => {
    const rewards = Array.from({ length: 200_000 }, (_, i) => i % 2);
    expect(run('range_normalized_variance', { rewards })).toBe(0.25);
    expect(run('range_normalized_variance', { rewards: [1.7e308, -1.7e308] })).toBe(0.25);
    expect(run('range_normalized_variance', { rewards: [null] })).toBeNull();
    const first = run('magrpo_returns', { tree: { rewards }, mode: 'max' }) as { advantages: number[] }[];
    expect(first[0]!.advantages.slice(0, 2)).toEqual([-1, 0]);
  });
});
