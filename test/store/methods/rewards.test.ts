import { describe, expect, test } from 'vitest';
import { findMethod } from '../../../store/evaluate/methods/find.ts';
import { runMethod } from '../../../store/evaluate/methods/run.ts';
import { expectClose } from './close.ts';

const run = (name: string, input: unknown) => runMethod(findMethod(name), input);

describe('rewards of a retrieval team', () => {
  const reward = (change: object) =>
    run('mmoa_rewards', { f1: 1, subquestions: ['a'], selector: 'Document0', k: 3, answer: 'x', ...change }) as {
      rewriter: number;
      selector: number;
      generator: number;
    };

  test('the selection must name known documents once, without spaces or leading zeros', () => {
    for (const selector of ['', 'Document0', 'Document2,Document0']) expect(reward({ selector }).selector).toBe(1);
    for (const selector of [
      ' ',
      'Document3',
      'Document0,Document0',
      'Document0, Document1',
      'Document01',
      'document0',
      'Document0,',
    ]) {
      expect(reward({ selector }).selector, selector).toBe(0);
    }
  });

  test('the rewriter is charged once, for too many questions or too many characters', () => {
    expect(reward({ subquestions: ['a', 'b', 'c', 'd'] }).rewriter).toBe(1);
    expect(reward({ subquestions: ['x'.repeat(300)] }).rewriter).toBe(1);
    expect(reward({ subquestions: ['x'.repeat(301)] }).rewriter).toBe(0.5);
    expect(reward({ subquestions: Array(5).fill('x'.repeat(100)) }).rewriter).toBe(0.5);
  });

  test('an answer may have thirty words', () => {
    expect(reward({ answer: Array(30).fill('w').join(' ') }).generator).toBe(1);
    expect(reward({ answer: Array(31).fill('w').join(' ') }).generator).toBe(0);
  });

  test('words are counted as often as they stand on both sides', () => {
    expect(run('token_f1', { pred: 'a a', gold: 'a' })).toBeCloseTo(2 / 3, 12);
    expect(run('token_f1', { pred: '', gold: '' })).toBe(0);
    expect(run('token_f1', { pred: 'a', gold: 'b' })).toBe(0);
  });
});

describe('rewards of solvers, verifiers and roles', () => {
  test('a verifier judges the solution in force, and nobody knows about an unknown one', () => {
    const steps = [
      { role: 'solver', correct: false },
      { role: 'verifier', flags_error: true },
      { role: 'corrector', correct: null },
      { role: 'verifier', flags_error: true },
    ];
    expect(run('marsrl_rewards', { steps })).toEqual([0, 1, null, null]);
    expect(() => run('marsrl_rewards', { steps: steps.slice(1) })).toThrow('steps[0]');
  });

  test('ReMA: one variable is changed in order, so that a malus or a zero carries over to the reasoning role', () => {
    const rema = (mask_unfinished: boolean, meta: boolean, reasoning: boolean, max_turns = 1) =>
      run('rema_reward', {
        score: 1,
        mask_unfinished,
        finished: { 'meta-thinking': meta, reasoning },
        max_turns,
        boxed: true,
      });
    expect(rema(false, false, false)).toEqual({ 'meta-thinking': 0.75, reasoning: 1 });
    expect(rema(true, false, true, 30)).toEqual({ 'meta-thinking': 0, reasoning: 0 });
    expect(rema(true, true, false, 30)).toEqual({ 'meta-thinking': 1, reasoning: 0 });
    // A single boxed turn moves nothing where unfinished roles are masked.
    expect(rema(true, true, true)).toEqual({ 'meta-thinking': 1, reasoning: 1 });
    expect(rema(true, false, true)).toEqual({ 'meta-thinking': 0, reasoning: 0 });
  });

  test('an agent without a reward of its own has none', () => {
    expect(run('petting_mixed_reward', { team: 1, local: [null, 0.5] })).toEqual([null, 1.5]);
  });

  test('a final reward is spread by turn', () => {
    const spread = (mode: string, final: number) => run('petting_turn_reward', { mode, final, turns: [0, 7] });
    expectClose(spread('turn_weighted', 1), [0.125, 1]);
    expectClose(spread('discount', 1), [0.99 ** 8, 0.99]);
    expect(spread('binary', 0.5)).toEqual([0, 0]);
    expect(spread('normalized', -3)).toEqual([-1, -1]);
  });

  test('pass rates are clipped, and a reflection without a next turn earns 0', () => {
    expectClose(run('unitymas_code_rewards', { pass_rate: [-1, 2], reflections: 3 }), {
      planner_coder: [0, 1],
      reflection: [1, 0, 0],
    });
    expect(run('unitymas_search_rewards', { plan_f1: 0, answer_f1: [0.5] })).toEqual({
      plan: 0,
      answer_0: 0.5,
      turns: [],
    });
  });
});

describe('shaping', () => {
  test('the first turn is unchanged, and without an outcome nothing is added', () => {
    expectClose(run('marti_shaping', { rewards: [1, 0, 1] }), [1, 0, 1.25]);
    expectClose(run('marti_shaping', { name: 'margin', rewards: [1, 0] }), [1, -0.5]);
    expectClose(run('marti_shaping', { name: 'margin_with_outcome', rewards: [1, 0.4] }), [1.2, 0.3]);
    expect(run('marti_shaping', { rewards: [] })).toEqual([]);
  });

  test('a node without a family, or without a reward, stays as it is', () => {
    expect(run('mars2_tree_shaping', { rewards: [0.4, 0.8], parent: [null, null] })).toEqual([0.4, 0.8]);
    expectClose(run('mars2_tree_shaping', { rewards: [0.4, null, 0.8], parent: [-1, -1, -1] }), [0.2, null, 1]);
    expect(() => run('mars2_tree_shaping', { rewards: [0.4], parent: [1] })).toThrow('parent');
  });

  test('siblings are compared as they were when their family started', () => {
    expectClose(run('mars2_tree_shaping', { rewards: [0, 1], parent: [-1, -1], gamma: 1 }), [-1, 2]);
  });

  test('up to the buffer length costs nothing, beyond the limit more than factor', () => {
    const cost = (length: number) => run('dapo_overlong', { length, max_len: 100, buffer: 20 });
    expect(cost(80)).toBe(0);
    expectClose(cost(90), -0.5);
    expectClose(cost(120), -2);
  });

  test('a design is worth its known executions', () => {
    expect(
      run('metaagentx_rewards', {
        exec_rewards: [
          [1, null],
          [null, null],
        ],
      }),
    ).toEqual({
      designer: [1, null],
      executor: [
        [1, null],
        [null, null],
      ],
    });
  });

  test('without any agreement all agents weigh the same', () => {
    const out = run('comam_rewards', { global: [0, 0], local: { a: [1, 0], b: [0, 1] } });
    expect(out).toEqual({ ndcg: { a: 0, b: 0 }, weight: { a: 0.5, b: 0.5 }, reward: { a: [1, 0], b: [0, 1] } });
  });

  test('essay rewards need ground truth', () => {
    expect(() => run('essay_rewards', { gt_pass: [[]], generated_pass: [[1]], length: [1] })).toThrow('ground-truth');
  });
});
