import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { findMethod, METHODS } from '../../../store/evaluate/methods/find.ts';
import { runMethod } from '../../../store/evaluate/methods/run.ts';
import { LOSS_METHODS } from '../../../trainer/model/losses/catalogue.ts';
import { expectClose } from './close.ts';

const ALL = [...METHODS, ...LOSS_METHODS];
const run = (name: string, input: object) => runMethod(findMethod(name, ALL), input);

type Row = { readonly group: string; readonly reward: number };
const reward = fc.integer({ min: -8, max: 8 }).map((n) => n / 4);
const row: fc.Arbitrary<Row> = fc.record({ group: fc.constantFrom('a', 'b', 'c'), reward });
const rows = fc.array(row, { maxLength: 24 });
const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);
const mean = (values: readonly number[]) => sum(values) / values.length;

const columns = (name: string, params: object) => (of: readonly Row[]) =>
  run(name, { group: of.map(({ group }) => group), reward: of.map((one) => one.reward), ...params }) as number[];
const steps = (name: string, params: object) => (of: readonly Row[]) =>
  run(name, {
    steps: of.map(({ group, reward }, i) => ({ query: group, traj: i, env: group, turn: 0, agent: 'x', reward })),
    ...params,
  }) as number[];

/** Every estimator that centres within its group, divided by a std or not. */
const CENTRED: readonly {
  readonly name: string;
  readonly scaled: boolean;
  readonly of: (rows: readonly Row[]) => number[];
}[] = [
  { name: 'grpo', scaled: true, of: columns('grpo_advantage', {}) },
  { name: 'Dr. GRPO', scaled: false, of: columns('grpo_advantage', { scale_std: false }) },
  { name: 'trl by group', scaled: true, of: columns('trl_advantage', { scale: 'group' }) },
  { name: 'trl undivided', scaled: false, of: columns('trl_advantage', { scale: 'none' }) },
  { name: 'Dr. MAS', scaled: true, of: steps('drmas_advantage', {}) },
  { name: 'Dr. MAS undivided', scaled: false, of: steps('drmas_advantage', { scale_std: false }) },
  { name: 'AT-GRPO', scaled: true, of: steps('at_grpo_advantage', {}) },
  { name: 'AT-GRPO undivided', scaled: false, of: steps('at_grpo_advantage', { scale_std: false }) },
  { name: 'RLOO', scaled: false, of: columns('rloo_advantage', {}) },
  {
    name: 'a node of MAGRPO',
    scaled: false,
    of: (all) => {
      const values = new Array<number>(all.length);
      for (const members of groupsOf(all)) {
        const tree = { rewards: members.map((i) => all[i]!.reward) };
        const [node] = run('magrpo_returns', { tree }) as { advantages: number[] }[];
        members.forEach((i, k) => {
          values[i] = node!.advantages[k]!;
        });
      }
      return values;
    },
  },
];

const groupsOf = (all: readonly Row[]): number[][] =>
  [...new Set(all.map(({ group }) => group))].map((name) => all.flatMap(({ group }, i) => (group === name ? [i] : [])));
/** Rows of groups of two or more: of a group of one some estimators let the reward through. */
const compared = (all: readonly Row[]) => groupsOf(all).filter((members) => members.length > 1);

describe('what holds whatever the numbers', () => {
  it('1: centred advantages sum to 0 in every group of two or more', () => {
    fc.assert(
      fc.property(rows, fc.constantFrom(...CENTRED), (all, { of }) => {
        const values = of(all);
        for (const members of compared(all)) expectClose(sum(members.map((i) => values[i]!)), 0, 1e-9);
      }),
    );
  });

  it('2: a constant added to every reward changes none; a factor leaves scaled ones and multiplies the others', () => {
    fc.assert(
      fc.property(rows, fc.integer({ min: 2, max: 9 }), fc.constantFrom(...CENTRED), (all, factor, { of, scaled }) => {
        const before = of(all);
        const moved = of(all.map((one) => ({ ...one, reward: one.reward + factor })));
        const larger = of(all.map((one) => ({ ...one, reward: one.reward * factor })));
        for (const i of compared(all).flat()) {
          expectClose(moved[i], before[i], 1e-9);
          // Up to eps: at most 1e-4 beside a std of at least 0.05 here.
          if (scaled) expectClose(larger[i], before[i], 1e-2);
          else expectClose(larger[i], before[i]! * factor, 1e-9);
        }
      }),
    );
  });

  it('3: rows in another order give the same answers in that order', () => {
    const shuffled = rows.chain((all) =>
      fc.tuple(fc.constant(all), fc.shuffledSubarray([...all.keys()], { minLength: all.length })),
    );
    fc.assert(
      fc.property(shuffled, fc.constantFrom(...CENTRED), ([all, order], { of }) => {
        const before = of(all);
        const after = of(order.map((i) => all[i]!));
        expectClose(
          after,
          order.map((i) => before[i]),
          1e-9,
        );
      }),
    );
    fc.assert(
      fc.property(shuffled, ([all, order]) => {
        const kept = columns('reject_equal_reward', { atol: 0, rtol: 0 });
        const before = kept(all);
        const after = kept(order.map((i) => all[i]!)).map((i) => order[i]!);
        expect(after.toSorted((a, b) => a - b)).toEqual(before);
      }),
    );
  });

  it('4: with one agent, one turn and one step a trajectory, Dr. MAS, AT-GRPO and the baseline are GRPO', () => {
    fc.assert(
      fc.property(rows, (all) => {
        const grpo = columns('grpo_advantage', {})(all);
        for (const name of ['drmas_advantage', 'at_grpo_advantage', 'multiagent_grpo_advantage'])
          expectClose(steps(name, {})(all), grpo, 1e-12);
      }),
    );
  });

  it('5: without a future, MAGRPO is the reward minus the mean of the node', () => {
    fc.assert(
      fc.property(
        fc.array(reward, { minLength: 1, maxLength: 4 }),
        fc.array(reward, { minLength: 1 }),
        (own, below) => {
          const tree = { rewards: own, children: own.map(() => ({ rewards: below })) };
          const [root] = run('magrpo_returns', { tree, gamma: 0 }) as { advantages: number[] }[];
          const centre = mean(own);
          expectClose(
            root!.advantages,
            own.map((one) => one - centre),
            1e-12,
          );
        },
      ),
    );
  });

  it('6: RoC gives no row, n rows or all, none twice, and of the successes those with the lowest penalties', () => {
    const group = fc.array(fc.record({ reward: fc.constantFrom(0, 1), penalty: reward }), { maxLength: 20 });
    fc.assert(
      fc.property(
        group,
        fc.integer({ min: 1, max: 5 }).map((half) => 2 * half),
        (all, n) => {
          const rewards = all.map((one) => one.reward);
          const penalties = all.map(({ penalty }) => penalty);
          const kept = run('roc_select', { rewards, penalties, n, min_zero: 1, min_nonzero: 1 }) as number[];
          expect([0, n, all.length]).toContain(kept.length);
          expect(new Set(kept).size).toBe(kept.length);
          const worst = Math.max(...kept.filter((i) => rewards[i] === 1).map((i) => penalties[i]!));
          const left = rewards.flatMap((one, i) => (one === 1 && !kept.includes(i) ? [penalties[i]!] : []));
          if (kept.length > 0) for (const penalty of left) expect(penalty).toBeGreaterThanOrEqual(worst);
        },
      ),
    );
  });

  it('7: CURE rewards have mean 0 and population std 1, and balanced ones weigh the same on both sides', () => {
    const matrix = (tests: number) =>
      fc.array(fc.array(fc.constantFrom(0, 1), { minLength: tests, maxLength: tests }), { minLength: 2, maxLength: 8 });
    fc.assert(
      fc.property(matrix(4), (gt_pass) => {
        const rewards = run('cure_code_reward', { gt_pass }) as number[] | null;
        if (rewards === null) return;
        expectClose(mean(rewards), 0, 1e-9);
        expectClose(mean(rewards.map((one) => one ** 2)), 1, 1e-9);
      }),
    );
    fc.assert(
      fc.property(fc.array(reward, { maxLength: 12 }), (x) => {
        const balanced = run('cure_balance', { x }) as number[] | null;
        expect(balanced === null).toBe(!(x.some((one) => one > 0) && x.some((one) => one < 0)));
        if (balanced === null) return;
        expectClose(sum(balanced), 0, 1e-9);
        expectClose(mean(balanced.map((one) => one ** 2)), 1, 1e-9);
      }),
    );
  });

  it('8a: Shapley shares out the whole, equals get the same, and who changes nothing gets 0', () => {
    const values = fc.record({ none: reward, a: reward, b: reward, ab: reward });
    fc.assert(
      fc.property(values, ({ none, a, b, ab }) => {
        // c joins any coalition without effect; d does what a does.
        const of = (names: string) => {
          const [hasA, hasB] = [names.includes('a') || names.includes('d'), names.includes('b')];
          return hasA ? (hasB ? ab : a) : hasB ? b : none;
        };
        const agents = ['a', 'b', 'c', 'd'];
        const coalitions = Array.from({ length: 16 }, (_, bits) => agents.filter((_, i) => (bits >> i) & 1).join('+'));
        const input = { agents, values: Object.fromEntries(coalitions.map((key) => [key, of(key)])) };
        const { phi } = run('shapley', input) as { phi: Record<string, number> };
        expectClose(sum(Object.values(phi)), ab - none, 1e-9);
        expectClose(phi.a, phi.d, 1e-9);
        expectClose(phi.c, 0, 1e-12);
      }),
    );
  });

  it('8b: each round of DyLAN totals 1 where active agents are listened to by weights that sum to 1, and somebody agrees', () => {
    const names = ['a', 'b', 'c'];
    const weights = fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 3, maxLength: 3 });
    const turnWeights = fc.array(fc.array(weights, { minLength: 3, maxLength: 3 }), { minLength: 1, maxLength: 3 });
    fc.assert(
      fc.property(turnWeights, fc.integer({ min: 1, max: 7 }), (turns, agreeing) => {
        const edges = turns.map((listeners) =>
          Object.fromEntries(
            names.map((from, a) => [
              from,
              Object.fromEntries(names.map((to, b) => [to, listeners[b]![a]! / sum(listeners[b]!)])),
            ]),
          ),
        );
        const round = Object.fromEntries(
          names.map((one, i) => [one, { active: true, agrees: ((agreeing >> i) & 1) === 1 }]),
        );
        const rounds = Array.from({ length: turns.length + 1 }, () => round);
        const { per_round } = run('dylan_importance', { rounds, edges }) as { per_round: Record<string, number>[] };
        for (const one of per_round) expectClose(sum(Object.values(one)), 1, 1e-9);
      }),
    );
  });

  it('9: MARS with one turn a trajectory is the reward minus the mean of the player', () => {
    fc.assert(
      fc.property(rows, (all) => {
        const trajectories = all.map(({ group, reward }, id) => ({ id, player: group, turn_rewards: [reward] }));
        const out = run('mars_turn_advantage', { trajectories }) as Record<string, number[]>;
        for (const members of groupsOf(all))
          for (const i of members)
            expectClose(out[i], [all[i]!.reward - mean(members.map((k) => all[k]!.reward))], 1e-9);
      }),
    );
  });

  it('10: GAE with λ = γ = 1 and nothing masked: advantage plus value is the reward to go', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(reward, reward), { maxLength: 10 }), (tokens) => {
        const [rewards, values] = [tokens.map(([one]) => one), tokens.map(([, value]) => value)];
        const { returns } = run('gae', { rewards, values, mask: rewards.map(() => 1) }) as { returns: number[] };
        expectClose(
          returns,
          rewards.map((_, t) => sum(rewards.slice(t))),
          1e-9,
        );
      }),
    );
  });

  it('11: the two means of supervised fine-tuning are one where all sequences are equally long', () => {
    const even = fc.integer({ min: 1, max: 5 }).chain((n) =>
      fc.array(
        fc.array(
          reward.map((x) => -Math.abs(x)),
          { minLength: n, maxLength: n },
        ),
        { minLength: 1, maxLength: 5 },
      ),
    );
    fc.assert(
      fc.property(even, (logprobs) => {
        expectClose(run('sft_sequence_mean', { logprobs }), run('sft_token_mean', { logprobs }), 1e-9);
      }),
    );
  });

  it('12: k3 is never negative, k1 is where the reference likes the token better', () => {
    const logprob = fc.double({ min: -60, max: 0, noNaN: true });
    fc.assert(
      fc.property(logprob, logprob, (logp, ref_logp) => {
        const { k1, k3 } = run('kl_estimators', { logp, ref_logp }) as { k1: number; k3: number };
        expect(k3).toBeGreaterThanOrEqual(0);
        expect(Math.sign(k1)).toBe(Math.sign(logp - ref_logp));
      }),
    );
  });

  it('13: what a filter keeps it keeps again: equal rewards, dapo, consensus, format, RoC', () => {
    const again = (name: string, params: object, all: readonly Row[]) => {
      const kept = columns(name, params)(all).map((i) => all[i]!);
      expect(columns(name, params)(kept)).toEqual([...kept.keys()]);
    };
    fc.assert(
      fc.property(rows, (all) => {
        again('reject_equal_reward', {}, all);
        again('petting_group_filter', { mode: 'dapo' }, all);
        const [rewards, penalties] = [all.map((one) => Number(one.reward > 0)), all.map((one) => one.reward)];
        const limits = { n: 4, min_zero: 1, min_nonzero: 1 };
        const kept = run('roc_select', { rewards, penalties, ...limits }) as number[];
        const twice = run('roc_select', {
          rewards: kept.map((i) => rewards[i]),
          penalties: kept.map((i) => penalties[i]),
          ...limits,
        }) as number[];
        if (kept.length === 4 || kept.length === 0) expect(twice).toEqual([...kept.keys()]);
      }),
    );
    const critic = fc.record({ agree: fc.boolean(), content: fc.constantFrom('', ' [Disagree] ', 'no') });
    fc.assert(
      fc.property(fc.array(fc.array(critic, { maxLength: 3 }), { maxLength: 5 }), (rounds) => {
        const { pass, round } = run('consensus_filter', { rounds }) as { pass: boolean; round: number | null };
        if (!pass) return;
        expect(run('consensus_filter', { rounds: rounds.slice(0, round!) })).toEqual({ pass, round });
      }),
    );
    const text = fc.array(fc.constantFrom('<think>', '</think>', 'x', ' ')).map((parts) => parts.join(''));
    fc.assert(
      fc.property(fc.array(text, { maxLength: 5 }), (texts) => {
        const messages = texts.map((one) => ({ text: one }));
        const { bad } = run('format_filter', { messages }) as { bad: number[] };
        const kept = messages.filter((_, i) => !bad.includes(i));
        expect(run('format_filter', { messages: kept })).toEqual({ pass: true, bad: [] });
      }),
    );
  });
});
