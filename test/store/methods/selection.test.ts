import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { findMethod } from '../../../store/evaluate/methods/find.ts';
import { runMethod } from '../../../store/evaluate/methods/run.ts';
import { expectClose } from './close.ts';

const run = (name: string, input: unknown) => runMethod(findMethod(name), input);
const rows = fc.array(
  fc.record({ group: fc.constantFrom('a', 'b', 'c'), reward: fc.constantFrom(0, 0, 1, 0.5, null) }),
  {
    maxLength: 20,
  },
);
type Row = { group: string; reward: number | null };
const columns = (of: readonly Row[]) => ({
  group: of.map(({ group }) => group),
  reward: of.map(({ reward }) => reward),
});

describe('filters on the rewards of a group', () => {
  test.each([
    ['reject_equal_reward', {}],
    ['petting_group_filter', { mode: 'dapo' }],
  ])('%s keeps what it kept when it is run again', (name, params) => {
    fc.assert(
      fc.property(rows, (of) => {
        const kept = (run(name, { ...columns(of), ...params }) as number[]).map((row) => of[row]!);
        expect(run(name, { ...columns(kept), ...params })).toEqual([...kept.keys()]);
      }),
    );
  });

  test('rewards are equal within a tolerance that grows with them', () => {
    expect(run('reject_equal_reward', { group: ['a', 'a'], reward: [1000, 1000.009] })).toEqual([]);
    expect(run('reject_equal_reward', { group: ['a', 'a'], reward: [1000, 1000.011] })).toEqual([0, 1]);
    expect(run('reject_equal_reward', { group: ['a'], reward: [1] })).toEqual([]);
    expect(run('reject_equal_reward', { group: ['a', 'a', 'a'], reward: [null, 1, 0] })).toEqual([1, 2]);
  });

  test('the spread lies between 0 and a quarter', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: -50, max: 50 }), { minLength: 1, maxLength: 12 }), (rewards) => {
        const value = run('range_normalized_variance', { rewards }) as number;
        expect(value).toBeGreaterThanOrEqual(0);
        expect(value).toBeLessThanOrEqual(0.25 + 1e-12);
      }),
    );
    expect(run('range_normalized_variance', { rewards: [0, 1, null] })).toBe(0.25);
  });

  test('each mode drops what its name says', () => {
    const group = ['a', 'a', 'b', 'b', 'c'];
    const reward = [0, 1, 2, 2, 9];
    const keep = (mode: string, filter_ratio: number) =>
      run('petting_group_filter', { group, reward, mode, filter_ratio });
    expect(keep('dapo', 0)).toEqual([0, 1]);
    expect(keep('std', 0.4)).toEqual([0, 1, 4]);
    expect(keep('mean', 0.4)).toEqual([0, 1, 2, 3]);
    expect(keep('mean', 0.3)).toEqual([0, 1, 2, 3, 4]);
    expect(keep('uid', 0.5)).toEqual([1, 3, 4]);
    expect(
      run('petting_group_filter', { group: ['a', 'a', 'a'], reward: [0, 0, 3], mode: 'uid', filter_ratio: 0.34 }),
    ).toEqual([0, 1]);
  });

  test('a difficulty band keeps queries by their solve rate', () => {
    const group = [...'aaaabbbbcccc'];
    const outcome = [1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0];
    expect(run('difficulty_band', { group, outcome })).toEqual([4, 5, 6, 7]);
    expect(run('difficulty_band', { group, outcome, lo: 0.5, hi: 1 })).toEqual([0, 1, 2, 3]);
    expect(run('difficulty_band', { group, outcome, hi: 0.25 })).toEqual([4, 5, 6, 7, 8, 9, 10, 11]);
    expect(run('difficulty_band', { group: ['a', 'a', 'a'], outcome: [1, null, 0] })).toEqual([0, 2]);
  });
});

describe('roc_select', () => {
  const group = fc.array(
    fc.record({
      reward: fc.constantFrom(0, 0, 1, 1, -1, 0.5),
      penalty: fc.integer({ min: 0, max: 4 }).map((p) => p / 4),
    }),
    { maxLength: 24 },
  );

  test('returns none, n or all rows, once each, and the positives with the lowest penalties', () => {
    fc.assert(
      fc.property(group, fc.constantFrom(2, 4, 6, 8), fc.boolean(), (of, n, seeded) => {
        const rewards = of.map(({ reward }) => reward);
        const penalties = of.map(({ penalty }) => penalty);
        const failure_order = seeded ? 'seeded' : 'first';
        const chosen = run('roc_select', {
          rewards,
          penalties,
          n,
          min_zero: 1,
          min_nonzero: 1,
          failure_order,
        }) as number[];
        expect([0, n, of.length]).toContain(chosen.length);
        expect(new Set(chosen).size).toBe(chosen.length);
        const taken = chosen.filter((row) => rewards[row]! > 0).map((row) => penalties[row]!);
        const left = [...of.keys()]
          .filter((row) => rewards[row]! > 0 && !chosen.includes(row))
          .map((row) => penalties[row]!);
        if (chosen.length > 0 && left.length > 0) expect(Math.max(0, ...taken)).toBeLessThanOrEqual(Math.min(...left));
      }),
    );
  });

  test('a group of exactly n is kept whole, so that selecting again changes nothing', () => {
    fc.assert(
      fc.property(group, (of) => {
        const pick = (from: typeof of) =>
          (
            run('roc_select', {
              rewards: from.map(({ reward }) => reward),
              penalties: from.map(({ penalty }) => penalty),
              n: 4,
            }) as number[]
          ).map((row) => from[row]!);
        const once = pick(of);
        if (once.length === 4) expect(pick(once)).toEqual(once);
      }),
    );
  });

  test('two exact halves round to even, where rounding up would give one row too many', () => {
    const rewards = [0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1];
    const chosen = run('roc_select', {
      rewards: rewards.slice(0, 12),
      penalties: rewards.slice(0, 12).map(() => 0),
      n: 6,
    });
    expect((chosen as number[]).length).toBe(6);
    // 5·n/L and 7·n/L with n = 6 and L = 12 are 2.5 and 3.5.
    expect((chosen as number[]).filter((row) => row < 5)).toEqual([0, 1]);
  });

  test('quotas that cannot add up to n are refused', () => {
    const rewards = [0, 0, 0, 1, 1, 1];
    const input = { rewards, penalties: rewards.map(() => 0), n: 3, min_zero: 1, min_nonzero: 1 };
    expect(() => run('roc_select', input)).toThrow('3 successes and 3 failures');
  });

  test('failures drawn with a seed are the same for the same seed and differ for others', () => {
    const rewards = Array.from({ length: 32 }, (_, row) => (row % 4 === 0 ? 1 : 0));
    const draw = (seed: number) =>
      run('roc_select', { rewards, penalties: rewards.map(() => 0), failure_order: 'seeded', seed });
    expect(draw(1)).toEqual(draw(1));
    expect(draw(1)).not.toEqual(draw(2));
  });

  test('penalties: no answer tags, unpaired ones and no turns cost 1', () => {
    const penalty = (open_tags: number, close_tags: number, closed_pairs: number, turns: number) =>
      run('roc_format_penalty', { open_tags, close_tags, closed_pairs, turns });
    expect(penalty(1, 1, 1, 3)).toBe(0);
    expect(penalty(9, 9, 9, 2)).toBe(1);
    for (const [o, c, k, t] of [
      [0, 0, 0, 3],
      [1, 0, 0, 3],
      [2, 2, 1, 3],
      [1, 1, 1, 0],
    ] as const) {
      expect(penalty(o, c, k, t)).toBe(1);
    }
    expect(run('roc_tool_penalty', { tool_responses: [] })).toBe(0.5);
  });
});

describe('selection of queries and teams', () => {
  test('the lowest system wins a tie, and without a minimum all queries are kept', () => {
    const input = {
      scores: [
        [1, 1],
        [0, 0],
      ],
      clusters: { all: [0, 1] },
    };
    expect(run('inter_consistency_select', input)).toEqual({ all: { mas: 0, total: 1, kept: [0] } });
    expect(run('inter_consistency_select', { ...input, min_score: null })).toEqual({
      all: { mas: 0, total: 1, kept: [0, 1] },
    });
    expect(() => run('inter_consistency_select', { ...input, clusters: { all: [2] } })).toThrow('clusters.all');
  });

  test('a rewrite must execute and be scored no worse', () => {
    const accept = (refined_score: number | null, executable: boolean) =>
      run('intra_consistency_accept', { base_score: 0.5, refined_score, executable });
    expect([accept(0.5, true), accept(0.4, true), accept(1, false), accept(null, true)]).toEqual([
      true,
      false,
      false,
      false,
    ]);
  });

  test('categories take turns by name, and equal scores stay in order', () => {
    const items = ['b1', 'b2', 'a1', 'B1'].map((id) => ({ id, category: id[0], score: 1 }));
    expect(run('diversity_select', { items })).toEqual(['B1', 'a1', 'b1', 'b2']);
    expect(run('diversity_select', { items, n: 0 })).toEqual([]);
  });

  test('no queries are consistent with nothing', () => {
    expect(run('inter_consistency_score', { cluster: [], mas: [] })).toBeNull();
  });
});

describe('decisions on generated data', () => {
  test('a blueprint fails at its first failing stage, and a tied committee rejects', () => {
    const decide = (format_ok: boolean, execution_ok: boolean, policy_ok: boolean, votes: number[]) =>
      run('apigen_mt_blueprint', { format_ok, execution_ok, policy_ok, votes });
    expect(decide(false, false, false, [1])).toEqual({ accept: false, stage: 'format' });
    expect(decide(true, false, false, [1])).toEqual({ accept: false, stage: 'execution' });
    expect(decide(true, true, false, [1])).toEqual({ accept: false, stage: 'policy' });
    expect(decide(true, true, true, [1, 0])).toEqual({ accept: false, stage: 'committee' });
    expect(decide(true, true, true, [])).toEqual({ accept: false, stage: 'committee' });
  });

  test('final states are compared as JSON, whatever the order of their keys', () => {
    const same = (final_state: unknown, gold_state: unknown) =>
      run('apigen_mt_trajectory', { final_state, gold_state, gold_outputs: [], agent_outputs: [] });
    expect(same({ a: 1, b: [1, { c: null }] }, { b: [1, { c: null }], a: 1 })).toBe(true);
    for (const [a, b] of [
      [{ a: 1 }, { a: 1, b: null }],
      [{ a: null }, { b: null }],
      [
        [1, 2],
        [2, 1],
      ],
      [[], {}],
      ['1', 1],
      [null, {}],
    ]) {
      expect(same(a, b)).toBe(false);
    }
    const outputs = { final_state: 1, gold_state: 1, gold_outputs: ['54'], agent_outputs: ['54.04'] };
    expect(run('apigen_mt_trajectory', outputs)).toBe(false);
  });

  test('a run without a reward is neither success nor failure, and the first best wins', () => {
    const steps = [{ agent: 'a', id: 1 }];
    const regenerated = { correct: true, steps };
    expect(run('sirius_library', { trajectories: [{ id: 't', reward: null, steps, regenerated }] })).toEqual({
      library: {},
      augmented: [],
    });
    const trajectories = [null, 0.9, 0.9].map((reward, id) => ({ id, query: 'q', reward }));
    expect(run('mrag_select', { trajectories })).toEqual([1]);
    expect(run('mrag_select', { trajectories: trajectories.slice(0, 1) })).toEqual([]);
  });

  test('no gap between the models scores every sample 0', () => {
    const input = { ifd_small: [0.5, 0.2], ifd_large: [0.5, 0.9], referee: ['generated', 'base'] };
    expect(run('star_agents_score', input)).toEqual({ dual: [0, 0], score: [0, 0], pick: 0 });
    expect(run('star_agents_score', { ...input, ifd_small: [0.4, 0.2] })).toMatchObject({ dual: [0, 0] });
    expect(run('star_agents_score', { ifd_small: [], ifd_large: [], referee: [] })).toEqual({
      dual: [],
      score: [],
      pick: null,
    });
  });

  test('probabilities stay probabilities', () => {
    const p = run('star_agents_evolve', { p: [0.5, 0.5], pair: 0, score: -0.5 }) as number[];
    expectClose(p, [1 / 3, 2 / 3]);
    expect(() => run('star_agents_evolve', { p: [0.5, 0.5], pair: 2, score: 1 })).toThrow('pair');
    expect(() => run('star_agents_evolve', { p: [0.5, 0.5], pair: 0, score: -9 })).toThrow('probabilities');
  });

  test('subgoals met at different steps do not add up, and no agent has more milestones than there are', () => {
    expect(
      run('progress_rate', {
        subgoals_done: [
          [1, 0],
          [0, 1],
        ],
      }),
    ).toEqual([0.5, 0.5]);
    expect(() => run('milestone_kpi', { milestones: 2, per_agent: [3] })).toThrow('per_agent[0]');
  });

  test('an instruction that does not help leaves the perplexity as it is', () => {
    expect(run('ifd', { cond_logprobs: [-1, -2], uncond_logprobs: [-1, -2] })).toBe(1);
    expect(() => run('ifd', { cond_logprobs: [], uncond_logprobs: [] })).toThrow('cond_logprobs');
  });
});
