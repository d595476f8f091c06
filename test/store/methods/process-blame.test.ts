import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { findMethod } from '../../../store/evaluate/methods/find.ts';
import { MAST_MODES } from '../../../store/evaluate/methods/mast.ts';
import { runMethod } from '../../../store/evaluate/methods/run.ts';
import { expectClose } from './close.ts';

const run = (name: string, input: unknown) => runMethod(findMethod(name), input);
const sum = (values: readonly number[]) => values.reduce((a, b) => a + b, 0);

describe('search trees', () => {
  test('a tree is kept at both limits, and not with an undecided leaf', () => {
    expect(run('masprm_tree_keep', { root_q: 0.7 })).toBe(true);
    expect(run('masprm_tree_keep', { root_q: 0.71 })).toBe(false);
    expect(run('masprm_tree_keep', { root_q: 0, leaf_q: [1, -1] })).toBe(true);
    expect(run('masprm_tree_keep', { root_q: 0, leaf_q: [1, 0.5] })).toBe(false);
  });

  test('a certain node has a finite target, and a hopeless one does not hide the rest of a path', () => {
    expectClose(run('masprm_target', { q: 1 }), Math.atanh(0.95));
    expectClose(run('masprm_target', { q: -1 }), -Math.atanh(0.95));
    expectClose(run('masprm_path_score', { values: [-1, 1] }), 1e-6, 1e-15);
    expect(run('masprm_path_score', { values: [] })).toBe(1);
  });

  test('nodes that were never visited count as visited once', () => {
    expect(run('uct', { q: 0.5, parent_visits: 0, child_visits: 0 })).toBe(0.5);
  });
});

describe('DyLAN', () => {
  const agents = ['A', 'B', 'C'];

  test('each round totals 1 when every active listener listens to active agents only, and somebody agrees', () => {
    const round = fc.record({ active: fc.subarray(agents, { minLength: 1 }), agrees: fc.subarray(agents) });
    const weights = fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 9, maxLength: 9 });
    fc.assert(
      fc.property(fc.array(fc.tuple(round, weights), { minLength: 1, maxLength: 4 }), (of) => {
        const last = of.at(-1)![0];
        fc.pre(last.agrees.some((agent) => last.active.includes(agent)));
        const rounds = of.map(([{ active, agrees }]) =>
          Object.fromEntries(
            agents.map((agent) => [agent, { active: active.includes(agent), agrees: agrees.includes(agent) }]),
          ),
        );
        const edges = of.slice(1).map(([, raw], t) => {
          const speakers = of[t]![0].active;
          const weight = (from: string, to: string) =>
            speakers.includes(from) ? raw[agents.indexOf(from) * 3 + agents.indexOf(to)]! : 0;
          return Object.fromEntries(
            agents.map((from) => [
              from,
              Object.fromEntries(
                agents.map((to) => [to, weight(from, to) / sum(agents.map((other) => weight(other, to)))]),
              ),
            ]),
          );
        });
        const { per_round, total } = run('dylan_importance', { rounds, edges }) as {
          per_round: Record<string, number>[];
          total: Record<string, number>;
        };
        for (const values of per_round) expectClose(sum(Object.values(values)), 1);
        expectClose(sum(Object.values(total)), rounds.length);
      }),
    );
  });

  test('nobody agreeing leaves nobody important, and rounds without activity at the end count 0', () => {
    const quiet = { A: { active: false, agrees: true } };
    expect(run('dylan_importance', { rounds: [{ A: { active: true, agrees: false } }, quiet], edges: [{}] })).toEqual({
      per_round: [{ A: 0 }, { A: 0 }],
      total: { A: 0 },
    });
    expect(run('dylan_importance', { rounds: [{ A: { active: true, agrees: true } }, quiet], edges: [{}] })).toEqual({
      per_round: [{ A: 1 }, { A: 0 }],
      total: { A: 1 },
    });
    expect(() => run('dylan_importance', { rounds: [quiet, quiet], edges: [] })).toThrow('edges');
  });

  test('who was not active has no importance, whoever is recorded as listening', () => {
    const rounds = [
      { A: { active: true, agrees: false }, B: { active: false, agrees: false } },
      { A: { active: true, agrees: true }, B: { active: false, agrees: true } },
    ];
    const { per_round } = run('dylan_importance', { rounds, edges: [{ A: { A: 0.5 }, B: { A: 0.5 } }] }) as {
      per_round: unknown;
    };
    expect(per_round).toEqual([
      { A: 0.5, B: 0 },
      { A: 1, B: 0 },
    ]);
  });

  test('ratings out of range, or of the wrong number, weigh nothing', () => {
    expectClose(run('dylan_edge_weights', { ratings: [9, 0.5, 5], n_peers: 3 }), [0.5, 0, 0.5]);
    expectClose(run('dylan_edge_weights', { ratings: [5], n_peers: 2 }), [0.5, 0.5]);
    expect(run('dylan_edge_weights', { ratings: [], n_peers: 0 })).toEqual([]);
  });

  test('consensus is more than two thirds of those who may answer', () => {
    const agree = (answers: (string | null)[], n: number) => run('dylan_consensus', { answers, n });
    expect(agree(['a', 'a'], 3)).toBe(false);
    expect(agree(['a', 'a', 'a'], 3)).toBe(true);
    expect(agree(['a', 'a', 'b'], 4)).toBe(false);
    expect(agree([null, null, null], 3)).toBe(false);
  });
});

describe('who failed', () => {
  test('no decisive error in a success, or where no correction helped', () => {
    const replays = [{ step: 0, agent: 'a', fixed: 1 }];
    expect(run('decisive_error', { outcome: 1, replays })).toBeNull();
    expect(run('decisive_error', { outcome: 0, replays: [{ ...replays[0], fixed: 0 }] })).toBeNull();
    expect(run('decisive_error', { outcome: 0, replays: [] })).toBeNull();
  });

  test('an injection is a label only where it turned success into failure', () => {
    const label = (base_outcome: number, injected_outcome: number) =>
      run('injected_label', { base_outcome, injected_outcome, agent: 'a', step: 1 });
    expect([label(1, 1), label(0, 0), label(0, 1)]).toEqual([null, null, null]);
  });

  test('a wrong format earns nothing, a missing prediction is wrong', () => {
    const input = { pred_step: null, true_step: 1, pred_agent: 'a', true_agent: 'a' };
    expect(run('agentracer_reward', { ...input, format_ok: false })).toBe(0);
    expect(run('agentracer_reward', { ...input, format_ok: true })).toBe(0.5);
    expectClose(run('agentracer_clip', { b0: 0.3, step: 99, total: 100 }), 0.06);
  });

  test('the published matching calls step 1 right for 12, exact matching does not', () => {
    const cases = [{ pred_agent: null, true_agent: 'a', pred_step: 12, true_step: 1 }];
    expect(run('who_when_accuracy', { cases })).toEqual({ agent: 0, step: 0 });
    expect(run('who_when_accuracy', { cases, match: 'contains' })).toEqual({ agent: 0, step: 1 });
    expect(run('who_when_accuracy', { cases: [] })).toEqual({ agent: null, step: null });
  });
});

describe('Aegis', () => {
  const coef = { pair: 1, agent: 0.5, error: 0.3, false_positive: 0.2, dup: 0.4, quant: 0.1, bonus: 0, malformed: -1 };
  const reward = (gold: string[][], pred: string[][], change = {}) =>
    run('aegis_reward', { malformed: false, gold, pred, coef: { ...coef, ...change } });

  test('a perfect diagnosis earns 1, a malformed one its own value', () => {
    expect(
      reward(
        [
          ['a', 'x'],
          ['b', 'y'],
        ],
        [
          ['b', 'y'],
          ['a', 'x'],
        ],
      ),
    ).toBe(1);
    expect(run('aegis_reward', { malformed: true, gold: [], pred: [], coef })).toBe(-1);
  });

  test('an agent or a mode is rewarded once, a repeat costs, and so does saying too much', () => {
    expectClose(
      reward(
        [['a', 'x']],
        [
          ['a', 'y'],
          ['a', 'z'],
        ],
      ),
      0.5 - 0.2,
    );
    expectClose(
      reward(
        [['a', 'x']],
        [
          ['b', 'x'],
          ['c', 'x'],
        ],
      ),
      0.3 - 0.2,
    );
    expectClose(
      reward(
        [['a', 'x']],
        [
          ['a', 'x'],
          ['a', 'x'],
        ],
      ),
      1 - 0.4,
    );
    expectClose(
      reward(
        [['a', 'x']],
        [
          ['a', 'x'],
          ['b', 'y'],
          ['c', 'y'],
        ],
      ),
      1 - 0.4 - 0.1,
    );
    expectClose(
      reward(
        [['a', 'x']],
        [
          ['a', 'x'],
          ['a', 'y'],
          ['b', 'x'],
        ],
      ),
      1 - 2 * 0.2 - 0.1,
    );
    expect(() => reward([], [])).toThrow('coef');
  });

  test('F1: pairs are sets, and two empty sets give 0', () => {
    const nothing = { micro: 0, macro: 0 };
    expect(run('attribution_f1', { cases: [] })).toEqual({ pair: nothing, agent: nothing, error: nothing });
    const cases = [
      {
        gold: [
          ['a', 'x'],
          ['a', 'y'],
        ],
        pred: [
          ['a', 'x'],
          ['a', 'x'],
        ],
      },
    ];
    expectClose(run('attribution_f1', { cases }), {
      pair: { micro: 2 / 3, macro: 0.5 },
      agent: { micro: 1, macro: 1 },
      error: { micro: 2 / 3, macro: 0.5 },
    });
  });
});

describe('shapley', () => {
  const names = ['c', 'a', 'b'];
  const keyOf = (members: readonly string[]) => [...members].sort().join('+');
  const coalitions = ['', 'a', 'b', 'c', 'a+b', 'a+c', 'b+c', 'a+b+c'];
  const games = fc
    .array(fc.integer({ min: -10, max: 10 }), { minLength: 8, maxLength: 8 })
    .map((values) => Object.fromEntries(coalitions.map((key, i) => [key, values[i]! / 10])));
  type Out = { phi: Record<string, number>; blame: Record<string, number> };
  const of = (values: Record<string, number>, agents = names) => run('shapley', { agents, values }) as Out;

  test('shares out exactly what repairing everybody changes, and blame sums to 1', () => {
    fc.assert(
      fc.property(games, (values) => {
        const { phi, blame } = of(values);
        expectClose(sum(Object.values(phi)), values['a+b+c']! - values['']!, 1e-9);
        expectClose(sum(Object.values(blame)), 1, 1e-9);
      }),
    );
  });

  test('an agent that never changes anything has 0, and two that change the same have the same', () => {
    fc.assert(
      fc.property(games, (values) => {
        const without = (key: string, agent: string) =>
          keyOf(key.split('+').filter((one) => one !== '' && one !== agent));
        const dummy = Object.fromEntries(coalitions.map((key) => [key, values[without(key, 'c')]!]));
        expectClose(of(dummy).phi.c, 0, 1e-9);
        const swapped = (key: string) =>
          keyOf(
            key
              .split('')
              .filter((c) => c !== '+')
              .map((c) => (c === 'a' ? 'b' : c === 'b' ? 'a' : c)),
          );
        const even = Object.fromEntries(coalitions.map((key) => [key, values[key]! + values[swapped(key)]!]));
        expectClose(of(even).phi.a, of(even).phi.b, 1e-9);
      }),
    );
  });

  test('blame is uniform when nobody helps, and a missing coalition is named', () => {
    expect(of({ '': 1, p: 0, q: 0, 'p+q': 0 }, ['p', 'q']).blame).toEqual({ p: 0.5, q: 0.5 });
    expect(() => of({ '': 1, p: 0, q: 0 }, ['p', 'q'])).toThrow('values["p+q"]');
    expect(() => of({ '': 1, p: 0 }, ['p', 'p'])).toThrow('agents');
  });
});

describe('interventions', () => {
  test('two runs decide, and only faithful ones can refute', () => {
    const verdict = (...runs: [boolean, boolean, number][]) =>
      run('dover_verdict', { runs: runs.map(([success, fulfilled, progress]) => ({ success, fulfilled, progress })) });
    expect(verdict([true, false, 0], [true, false, 0])).toBe('validated');
    expect(verdict([true, true, 0], [false, true, 0])).toBe('refuted');
    expect(verdict([false, false, 1], [false, false, 1], [false, true, 1])).toBe('inconclusive');
    expect(verdict()).toBe('inconclusive');
  });
});

describe('MAST and annotators', () => {
  test('codes may carry their prefix, and unknown ones are refused by their place', () => {
    expect(run('mast_distribution', { traces: [['FM-1.3', '1.3']] })).toMatchObject({ modes: { '1.3': 1 } });
    expect(() => run('mast_distribution', { traces: [[], ['1.3', '4.1']] })).toThrow('traces[1][1]');
    expect(run('mast_distribution', { traces: [] })).toEqual({ modes: {}, categories: { FC1: 0, FC2: 0, FC3: 0 } });
    expect(Object.keys(MAST_MODES)).toHaveLength(14);
  });

  test('κ is 1 for full agreement, 0 for what chance gives, and 1 where chance leaves no choice', () => {
    expect(run('cohen_kappa', { a: [1, 0, 1], b: [1, 0, 1] })).toBe(1);
    expect(run('cohen_kappa', { a: [1, 1, 0, 0], b: [1, 0, 1, 0] })).toBe(0);
    expect(run('cohen_kappa', { a: ['x', 'x'], b: ['x', 'x'] })).toBe(1);
    expect(() => run('cohen_kappa', { a: [], b: [] })).toThrow('a should be');
  });
});
