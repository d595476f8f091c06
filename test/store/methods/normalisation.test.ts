import { describe, expect, test } from 'vitest';
import { findMethod } from '../../../store/evaluate/methods/find.ts';
import { runMethod } from '../../../store/evaluate/methods/run.ts';
import { expectClose } from './close.ts';

type Column = (number | null)[];
const run = (name: string, input: object) => runMethod(findMethod(name), input);
const column =
  (name: string, params: object = {}) =>
  (rewards: Column) =>
    run(name, { group: rewards.map(() => 'q'), reward: rewards, ...params }) as Column;
const steps = (name: string) => (rewards: Column) =>
  run(name, {
    steps: rewards.map((reward, i) => ({ query: 'q', traj: i, env: 'q', turn: 0, agent: 'a', reward })),
  }) as Column;

const HALF = Math.SQRT1_2; // std of 2 and 1 with ddof 1; with ddof 0 it is 0.5
const VERL = { pair: 0.5 / (HALF + 1e-6), alone: 0.7 / (1 + 1e-6), equal: 0, missing: null };

type Row = {
  readonly of: (rewards: Column) => Column | null;
  /** Advantage of 2 beside 1. */
  readonly pair: number;
  /** Advantage of 0.7 in a group of one; null where the task is dropped, 'refused' where it cannot be computed. */
  readonly alone: number | null | 'refused';
  /** Advantage of each of three equal rewards; null where the task is dropped. */
  readonly equal: number | null;
  /** Advantage of a row without a reward; 'refused' where there must be one. */
  readonly missing: number | null | 'refused';
};

/** How each operator centres and scales: divisor of the std, eps and where it is added, and what a group without a signal gives. */
const TABLE: Record<string, Row> = {
  'GRPO (verl): std ddof 1 + 1e-6': { of: column('grpo_advantage'), ...VERL },
  'GRPO (TRL): std ddof 1 + 1e-4': {
    of: column('trl_advantage'),
    pair: 0.5 / (HALF + 1e-4),
    alone: 0,
    equal: 0,
    missing: 0,
  },
  'GRPO (TRL), the std of the batch': {
    of: column('trl_advantage', { scale: 'batch' }),
    pair: 0.5 / (HALF + 1e-4),
    alone: 0,
    equal: 0,
    missing: 0,
  },
  'GRPO (TRL), undivided': {
    of: column('trl_advantage', { scale: 'none' }),
    pair: 0.5,
    alone: 0,
    equal: 0,
    missing: 0,
  },
  'Dr. GRPO: undivided': {
    of: column('grpo_advantage', { scale_std: false }),
    pair: 0.5,
    alone: 0.7,
    equal: 0,
    missing: null,
  },
  'Dr. MAS: as verl': { of: steps('drmas_advantage'), ...VERL },
  'the baseline of Dr. MAS: as verl': { of: steps('multiagent_grpo_advantage'), ...VERL },
  'AT-GRPO: as verl': { of: steps('at_grpo_advantage'), ...VERL },
  'MATPO, the planner: as verl': {
    of: (rewards) => {
      const main = rewards.map((reward, id) => ({ id, query: 'q', reward }));
      return (run('matpo_advantage', { main, workers: [] }) as { main: Column }).main;
    },
    ...VERL,
  },
  'MetaAgent-X, designers: as verl': {
    of: (rewards) =>
      (run('metaagentx_advantage', { exec_rewards: rewards.map((one) => [one]) }) as { designer: Column }).designer,
    ...VERL,
  },
  'MARTI: std ddof 1 + 1e-9': {
    of: column('grpo_advantage', { eps: 1e-9 }),
    ...VERL,
    pair: 0.5 / (HALF + 1e-9),
    alone: 0.7 / (1 + 1e-9),
  },
  'RLOO: the mean of the others': { of: column('rloo_advantage'), pair: 1, alone: 0.7, equal: 0, missing: null },
  'MAGRPO: undivided': {
    of: (rewards) => (run('magrpo_returns', { tree: { rewards } }) as { advantages: Column }[])[0]!.advantages,
    pair: 0.5,
    alone: 0,
    equal: 0,
    missing: 'refused',
  },
  'MAGRPO, as its trainer does: std ddof 0, at least 1e-6': {
    of: (rewards) =>
      (run('magrpo_returns', { tree: { rewards }, normalise: true }) as { advantages: Column }[])[0]!.advantages,
    pair: 1,
    alone: 0,
    equal: 0,
    missing: 'refused',
  },
  'MARS: undivided, each row a trajectory of one turn': {
    of: (rewards) => {
      const trajectories = rewards.map((reward, id) => ({ id, player: 0, turn_rewards: [reward] }));
      return Object.values(run('mars_turn_advantage', { trajectories }) as object).flat() as Column;
    },
    pair: 0.5,
    alone: 0,
    equal: 0,
    missing: 'refused',
  },
  'CURE balance has no centre; its z-score: std ddof 0, no eps': {
    // Pass rates of 2 and 1 of 2 tests; a reward stands for the tests passed.
    of: (rewards) =>
      run('cure_code_reward', {
        gt_pass: rewards.map((one) => (one === null ? [null] : [one >= 1 ? 1 : 0, one >= 2 ? 1 : 0])),
      }) as Column | null,
    pair: 1,
    alone: null,
    equal: null,
    missing: 'refused',
  },
  'MARFT: std ddof 0 + 1e-8 over the whole batch': {
    of: (rewards) => {
      const input = { values: rewards.map(() => [0]), alive: rewards.map(() => 0), bootstrap: 0, normalise: true };
      const out = run('marft_gae', { ...input, rewards: rewards.map((one) => [one]) }) as { advantages: Column[] };
      return out.advantages.flat();
    },
    pair: 0.5 / (0.5 + 1e-8),
    alone: 0,
    equal: 0,
    missing: 'refused',
  },
  'whitening (verl): variance ddof 1 + 1e-8': {
    of: (rewards) => run('masked_whiten', { values: rewards, mask: rewards.map(() => 1) }) as Column,
    pair: (2 - 3 / (2 + 1e-8)) / Math.sqrt(0.5 + 1e-8),
    alone: 'refused',
    equal: 0,
    missing: 'refused',
  },
  'floored: the larger of std ddof 0 and 0.1': {
    of: steps('floored_advantage'),
    pair: 1,
    alone: 0,
    equal: 0,
    missing: null,
  },
};

describe.each(Object.entries(TABLE))('%s', (_, { of, pair, alone, equal, missing }) => {
  test('2 beside 1', () => expectClose(of([2, 1])?.[0], pair, 1e-8));

  test('a group of one', () => {
    if (alone === 'refused') expect(() => of([0.7])).toThrow();
    else expectClose(of([0.7])?.[0] ?? null, alone, 1e-12);
  });

  test('equal rewards, also where their mean is not exact', () => {
    for (const value of [0.1, 1, 0]) expect(of([value, value, value])).toEqual(equal === null ? null : [0, 0, 0]);
  });

  test('a missing reward', () => {
    if (missing === 'refused') return void expect(() => of([2, null, 1])).toThrow();
    const [first, second] = of([2, 1])!;
    expect(of([2, null, 1])).toEqual([first, missing, second]);
    expect(of([null])).toEqual([missing]);
  });
});
