import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { METHOD_EXAMPLES } from '../../../api/operations/method/examples.ts';
import { TroupeError } from '../../../errors.ts';
import { findMethod, METHODS } from '../../../store/evaluate/methods/find.ts';
import { runMethod } from '../../../store/evaluate/methods/run.ts';
import { LOSS_METHODS } from '../../../trainer/model/losses/catalogue.ts';
import { expectClose } from './close.ts';

/** What holds for every method, seen from the one small input that each has. */
const ALL = [...METHODS, ...LOSS_METHODS];
type Path = readonly (string | number)[];

const exampleOf = (name: string): object => JSON.parse(METHOD_EXAMPLES[name]!);

function leaves(value: unknown, at: Path = []): [Path, unknown][] {
  if (typeof value !== 'object' || value === null) return [[at, value]];
  const members = Array.isArray(value) ? [...value.entries()] : Object.entries(value);
  return members.flatMap(([key, member]) => leaves(member, [...at, key]));
}

function withLeaf(value: unknown, [key, ...rest]: Path, leaf: unknown): unknown {
  if (key === undefined) return leaf;
  if (Array.isArray(value)) return value.map((one, i) => (i === key ? withLeaf(one, rest, leaf) : one));
  const record = value as Record<string, unknown>;
  return { ...record, [key]: withLeaf(record[key], rest, leaf) };
}

const fieldName = (path: Path) =>
  path.reduce<string>(
    (name, key) => (typeof key === 'number' ? `${name}[${key}]` : name === '' ? key : `${name}.${key}`),
    '',
  );

function frozen<T>(value: T): T {
  if (typeof value === 'object' && value !== null) {
    Object.freeze(value);
    for (const member of Object.values(value)) frozen(member);
  }
  return value;
}

function refusalOf(work: () => unknown): TroupeError | null {
  try {
    work();
    return null;
  } catch (error) {
    if (error instanceof TroupeError) return error;
    throw error;
  }
}

test('every method has an example, and every example its method', () => {
  expect(Object.keys(METHOD_EXAMPLES).toSorted()).toEqual(ALL.map(({ name }) => name).toSorted());
});

describe.each(ALL.map(({ name }) => name).filter((name) => name in METHOD_EXAMPLES))('%s', (name) => {
  const method = findMethod(name, ALL);
  const example = exampleOf(name);

  test('has an example that runs, changes nothing of it, and says the same twice', () => {
    const input = frozen(exampleOf(name));
    const output = runMethod(method, input);
    expect(runMethod(method, exampleOf(name))).toEqual(output);
    expect(input).toEqual(exampleOf(name));
  });

  test('refuses NaN and infinity wherever a number stands, by its field', () => {
    const numbers = leaves(example).filter(([, leaf]) => typeof leaf === 'number');
    for (const [path] of numbers) {
      for (const bad of [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]) {
        const error = refusalOf(() => runMethod(method, withLeaf(example, path, bad)));
        expect([fieldName(path), error?.code]).toEqual([fieldName(path), 'method_input']);
        // A value that may be of several shapes is named as a whole.
        expect(fieldName(path).startsWith(error!.detail.field!), `${error!.message} at ${fieldName(path)}`).toBe(true);
      }
    }
    for (const [param, value] of Object.entries(method.params as object)) {
      if (typeof value !== 'number') continue;
      const error = refusalOf(() => runMethod(method, { ...example, [param]: Number.NaN }));
      expect([param, error?.detail.field]).toEqual([param, param]);
    }
  });

  test('refuses null, a list, text and nothing as its input, and a field it does not know', () => {
    for (const bad of [null, [], 'text', 7, true, undefined])
      expect(refusalOf(() => runMethod(method, bad))?.detail.field).toBe('input');
    expect(refusalOf(() => runMethod(method, { ...example, no_such_field_at_all: 1 }))?.message).toContain(
      'no_such_field_at_all',
    );
  });

  test('with any number anywhere answers with finite numbers and nulls, or refuses', () => {
    const numbers = leaves(example).filter(([, leaf]) => typeof leaf === 'number');
    if (numbers.length === 0) return;
    const any = fc.oneof(
      fc.constantFrom(0, -0, 1, -1, 5e-324, 1e-320, 1e308, -1e308, 2 ** 53, 0.1),
      fc.integer({ min: -3, max: 12 }),
      fc.double({ noNaN: true, noDefaultInfinity: true }),
    );
    const changes = fc.array(fc.tuple(fc.constantFrom(...numbers.map(([path]) => path)), any), { maxLength: 4 });
    fc.assert(
      fc.property(changes, (made) => {
        const input = made.reduce<unknown>((now, [path, value]) => withLeaf(now, path, value), example);
        let output: unknown = null;
        const error = refusalOf(() => {
          output = runMethod(method, input);
        });
        if (error !== null) expect(['method_input']).toContain(error.code);
        for (const [, leaf] of leaves(output)) if (typeof leaf === 'number') expect(Number.isFinite(leaf)).toBe(true);
        expect(leaves(output).some(([, leaf]) => leaf === undefined)).toBe(false);
      }),
      { numRuns: 60 },
    );
  });
});

describe('a missing reward', () => {
  type Row = { readonly group: string; readonly reward: number | null };
  const rows = fc.array(
    fc.record({ group: fc.constantFrom('a', 'b'), reward: fc.option(fc.integer({ min: -4, max: 4 }), { nil: null }) }),
    { maxLength: 12 },
  );
  const BY_ROW: Record<string, (rows: readonly Row[]) => object> = {
    ...Object.fromEntries(
      ['grpo_advantage', 'rloo_advantage', 'trl_advantage'].map((name) => [
        name,
        (all: readonly Row[]) => ({ group: all.map(({ group }) => group), reward: all.map(({ reward }) => reward) }),
      ]),
    ),
    ...Object.fromEntries(
      ['drmas_advantage', 'at_grpo_advantage', 'multiagent_grpo_advantage', 'floored_advantage'].map((name) => [
        name,
        (all: readonly Row[]) => ({
          steps: all.map(({ group, reward }, i) =>
            name === 'at_grpo_advantage'
              ? { env: group, turn: 0, agent: 'x', reward }
              : { query: group, traj: i, agent: 'x', reward },
          ),
        }),
      ]),
    ),
  };

  test.each(Object.entries(BY_ROW))('%s: the others come out as if it were not there', (name, input) => {
    const method = findMethod(name);
    fc.assert(
      fc.property(rows, (all) => {
        const whole = runMethod(method, input(all)) as (number | null)[];
        const known = all.filter(({ reward }) => reward !== null);
        const without = runMethod(method, input(known)) as number[];
        expectClose(
          whole.filter((_, i) => all[i]!.reward !== null),
          without,
          1e-9,
        );
        for (const [i, { reward }] of all.entries())
          if (reward === null) expect(whole[i]).toBe(name === 'trl_advantage' ? 0 : null);
      }),
    );
  });

  test.each(['reject_equal_reward', 'petting_group_filter'])('%s: neither kept nor counted', (name) => {
    const method = findMethod(name);
    fc.assert(
      fc.property(rows, (all) => {
        const input = (of: readonly Row[]) => ({
          group: of.map(({ group }) => group),
          reward: of.map((one) => one.reward),
        });
        const at = [...all.keys()].filter((i) => all[i]!.reward !== null);
        const without = runMethod(method, input(at.map((i) => all[i]!))) as number[];
        expect(runMethod(method, input(all))).toEqual(without.map((i) => at[i]));
      }),
    );
  });

  test('a tree, a chain of executions and a library keep it apart from 0', () => {
    const run = (name: string, input: object) => runMethod(findMethod(name), input);
    expect(run('mars2_tree_shaping', { rewards: [null, 1, 0], parent: [-1, 0, 0] })).toEqual([null, 1.5, -0.5]);
    expect(run('metaagentx_rewards', { exec_rewards: [[1, null], [null]] })).toEqual({
      designer: [1, null],
      executor: [[1, null], [null]],
    });
    const trajectories = [{ id: 't', reward: null, steps: [{ agent: 'a', id: 1 }] }];
    expect(run('sirius_library', { trajectories, epsilon: -1 })).toEqual({ library: {}, augmented: [] });
    expect(run('mrag_select', { trajectories: [{ id: 1, query: 'q', reward: null }], threshold: -1 })).toEqual([]);
  });
});
