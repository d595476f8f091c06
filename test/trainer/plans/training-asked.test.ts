import { describe, expect, it } from 'vitest';
import { showSql } from '../../../store/filter/select.ts';
import { estimateTrainingMemory } from '../../../trainer/learn/memory.ts';
import { parsePlan } from '../../../trainer/loop/plan/plan.ts';
import { rolloutText } from '../../../trainer/loop/plan/plan-rollout.ts';
import { lacksSignal, requireRows, whereOf, withinRound, withoutGates } from '../../../trainer/loop/plan/round-rows.ts';
import { learnsFromSignal, loraBase, trainingKind, trainSpec } from '../../../trainer/loop/plan/training-asked.ts';
import { checkpointBytes, memoryOf } from '../../../trainer/loop/plan/training-cost.ts';
import { tinyConfig } from '../tiny-checkpoint.ts';

const policy = (train: object, recipe: object = { roles: ['a', 'b'] }, more: object = {}) =>
  ({ base: 'model', recipe, train, ...more }) as never;

describe('The training of a policy', () => {
  it('is asked for by its method, with numbers by role where it has them', async () => {
    const asked = (train: object, recipe?: object) => trainSpec(policy(train, recipe), 'no dataset is read');
    const numbers = { batch: 8, learning_rate: 0.1 };
    expect(await asked({ method: 'sft', steps: 3, ...numbers })).toEqual({
      steps: { a: 3, b: 3 },
      ...numbers,
    });
    expect(await asked({ engine: 'local', method: 'sft', steps: { a: 1 }, ...numbers })).toEqual({
      steps: { a: 1 },
      ...numbers,
    });
    for (const method of ['dpo', 'value'])
      expect(await asked({ engine: 'local', method, steps: 3, ...numbers })).toEqual({ steps: 3, ...numbers });
    expect(await asked({ method: 'rl', groups: 4, learning_rate: { a: 0.1, b: 0.2 }, kl: 0.5 })).toEqual({
      kl: 0.5,
      roles: [
        { role: 'a', groups: 4, learning_rate: 0.1 },
        { role: 'b', groups: 4, learning_rate: 0.2 },
      ],
    });
    const program = { engine: 'command', use: 'trl' };
    expect(await asked(program)).toEqual({ engine: 'trl', params: {} });
    expect(await asked({ ...program, layout: 'trl-sft', params: { a: 1 } })).toEqual({
      ...{ engine: 'trl', params: { a: 1 }, layout: 'trl-sft' },
    });
  });

  it('is a job of the kind of its method, and of a program one of its own', () => {
    const kinds = ['sft', 'dpo', 'rl', 'value'].map((method) => policy({ method }));
    expect(kinds.map(trainingKind)).toEqual(['sft', 'dpo', 'rl', 'value']);
    expect(trainingKind(policy({ engine: 'command', use: 'trl' }))).toBe('program');
    expect(kinds.map(learnsFromSignal)).toEqual([false, true, true, false]);
  });

  it('of an adapter names the base, which may have moved since', () => {
    expect(loraBase(policy({ method: 'sft', lora: {} }))).toEqual({ lora_base: 'model' });
    expect(loraBase(policy({ method: 'sft' }))).toEqual({});
    expect(loraBase(policy({ method: 'sft', lora: {} }, {}, { base: undefined }))).toEqual({});
  });

  it('takes memory for the rows of a step: of groups as many as the greatest has, and no more than there are', () => {
    const rows = (...groups: (string | null)[]) => groups.map((group_id) => ({ group_id })) as never[];
    const of = (tokensPerStep: number, more: object = {}) =>
      estimateTrainingMemory(tinyConfig, { tokensPerStep, longest: 7, adapter: null, sharedPrompts: false, ...more })
        .total;
    const memory = (train: object, shown = rows('g', 'g', 'g', 'h', 'h', 'i', 'i', 'i', 'i', null)) =>
      memoryOf(train as never, tinyConfig, { rows: shown, lengths: [3, 7, 5] });
    expect(memory({ method: 'sft', batch: 5 })).toBe(of(7 * 5));
    expect(memory({ method: 'sft' })).toBe(of(7 * 32));
    expect(memory({ method: 'dpo', batch: 5 })).toBe(of(7 * 10, { sharedPrompts: true }));
    expect(memory({ method: 'rl', groups: 2 })).toBe(of(7 * 8));
    expect(memory({ method: 'rl', groups: { a: 1, b: 1 } })).toBe(of(7 * 8));
    expect(memory({ method: 'rl' })).toBe(of(7 * 10));
    const lora = { r: 2, alpha: 4, targets: ['q_proj'] };
    expect(memory({ method: 'sft', batch: 5, lora })).toBe(of(7 * 5, { adapter: lora }));
    expect(checkpointBytes({ method: 'sft', lora } as never, tinyConfig)).toBeLessThan(
      checkpointBytes({ method: 'sft' } as never, tinyConfig),
    );
  });
});

describe('The rows of a round', () => {
  const stage = (name: string, before: number, after: number, of = 'steps') =>
    ({ name, of, before, after, dropped: [] }) as never;
  const counting = async () => 3;
  const lacks = (funnel: never[], where: unknown = null, rows: object = {}, count: () => Promise<number> = counting) =>
    lacksSignal({ rows: rows as never, funnel }, { where: where as never }, count);

  it('lack a signal where the stage that left none out looks at it, and not for another reason', async () => {
    expect(await lacks([stage('where advantage != 0', 4, 0)])).toBe(true);
    expect(await lacks([stage('where advantage != 0', 4, 1)], null, { train: 1 })).toBe(false);
    expect(await lacks([stage('all', 9, 4), stage('where advantage > 0.1', 4, 0), stage('later', 0, 0)])).toBe(true);
    // Nobody could compute it, which is a fault.
    expect(await lacks([stage('where advantage is not null', 4, 0)])).toBe(false);
    expect(await lacks([stage('role in nobody', 4, 0)])).toBe(false);
    expect(await lacks([stage('no two answers differ', 4, 0, 'pairs')])).toBe(true);
    // Nothing was there at all.
    expect(await lacks([])).toBe(false);
    expect(await lacks([stage('where advantage != 0', 0, 0)])).toBe(false);
  });

  it('lack a signal where their episodes are those of groups without one, and others were there', async () => {
    const signal = { field: 'group.signal', op: '=', value: true };
    const left = [stage('episodes where group.signal', 4, 0, 'episodes')];
    expect(await lacks(left, signal)).toBe(true);
    expect(await lacks(left, signal, {}, async () => 0)).toBe(false);
    expect(await lacks(left, { field: 'reward', op: '>=', value: 9 })).toBe(false);
    expect(await lacks([stage('role in nobody', 4, 0)], signal)).toBe(false);
  });

  it('have to be there, else the stage that left none is named', () => {
    const none = { dataset_id: 'd', directory: '/d', rows: { train: 0 }, funnel: [stage('role in nobody', 4, 0)] };
    expect(() => requireRows('solver', none)).toThrow(/^There is nothing to learn for solver: .*role in nobody/);
    expect(() => requireRows('solver', { ...none, rows: {} })).toThrow('nothing to learn');
    expect(() => requireRows('solver', { ...none, rows: { train: 1 } })).not.toThrow();
  });

  it('are of no gate, and where the round plays of its own episodes alone, beside the filter of the recipe', () => {
    const taken = { field: 'tags.rollout', op: '=', value: 'r' } as const;
    const sql = (recipe: { where?: unknown }) => showSql(recipe.where as never);
    const own = { where: 'reward >= 1' };
    for (const recipe of [{}, own]) {
      const text = sql(withoutGates(recipe));
      expect(text).toContain('gate');
      expect(text.includes('reward')).toBe(recipe === own);
      expect(withinRound(recipe, null)).toBe(recipe);
      const within = sql(withinRound(recipe, taken));
      expect(within).toContain('rollout');
      expect(within.includes('reward')).toBe(recipe === own);
    }
  });

  it('may be of the episodes that any recipe takes, before they are judged', async () => {
    const where = async (recipes: object[], gate: object = { kind: 'manual' }, taken: object | null = null) => {
      const train = { method: 'sft', steps: 1 };
      const policies = recipes.map((recipe, i) => [`p${i}`, { base: 'm', recipe, train }]);
      const plan = { name: 'n', policies: Object.fromEntries(policies), gate };
      return whereOf(await parsePlan(plan), taken as never);
    };
    const reward = { field: 'reward', op: '>=', value: 1 };
    expect(await where([{ where: 'reward >= 1' }])).toEqual({ or: [{ and: [reward] }] });
    // One that takes all, or chooses by a method or single steps alone, leaves none out.
    for (const all of [{}, { where: 'verdict(well_formed_filter)' }, { where: 'role = solver' }])
      expect(await where([{ where: 'reward >= 1' }, all])).toBeNull();
    expect(await where([{ where: 'reward >= 1 and episode.verdict(well_formed_filter)' }])).toEqual({
      or: [{ and: [reward] }],
    });
    const gate = { kind: 'offline', recipe: { where: 'reward >= 2' } };
    expect(await where([{ where: 'reward >= 1' }], gate)).toEqual({
      or: [{ and: [reward] }, { and: [{ ...reward, value: 2 }] }],
    });
    const taken = { field: 'tags.rollout', op: '=', value: 'r' };
    expect(await where([{}], { kind: 'manual' }, taken)).toEqual({ or: [{ and: [taken] }] });
  });
});

it('The report of a round names what was written and what is withheld, and is silent on what is not', () => {
  const report = {
    ...{
      rollout_id: 'r/1/rollout',
      episodes: 1,
      groups: { complete: 1, partial: 0 },
      left_out: [],
      stale: 0,
      unknown: 0,
    },
  };
  expect(rolloutText(report)).toBe('Rollout r/1/rollout: 1 group complete; stale: 0 of 1 episode.');
  const written = { episodes: 3, tasks: 1, left_out: { 'not accepted': 2 } };
  expect(rolloutText({ ...report, withheld: 2, written })).toBe(
    'Rollout r/1/rollout: 1 group complete; 1 task written by 3 episodes (2 not accepted); 2 episodes withheld, whose weights are too many releases behind; stale: 0 of 1 episode.',
  );
  expect(rolloutText({ ...report, written: { ...written, left_out: {} } })).toContain('1 task written by 3 episodes;');
});
