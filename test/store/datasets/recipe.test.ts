import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Value } from 'typebox/value';
import { describe, expect, it } from 'vitest';
import type { TroupeError } from '../../../errors.ts';
import { parseRecipe, readRecipe, recipeSchema, recipeText } from '../../../store/datasets/recipe.ts';

const YAML = `
name: solved-first
where: {field: outcome, op: '=', value: success}
verdicts:
  - method: is_solved
  - {method_key: abc, keep: false}
roles: [solver, critic, solver]
credit: {method: grpo, params: {scale: std}}
split: {held_out: 0.1, seed: 4}
layout: parquet
`;

const refusal = (value: unknown): TroupeError => {
  try {
    parseRecipe(value);
  } catch (error) {
    return error as TroupeError;
  }
  throw new Error('the recipe was taken');
};

describe('a recipe', () => {
  it('is read from YAML and from JSON into one canonical form', () => {
    const fromYaml = readRecipe(YAML);
    expect(fromYaml).toMatchObject({
      name: 'solved-first',
      unit: 'step',
      order: 'recorded',
      roles: ['critic', 'solver'],
      reward: null,
      credit: { method: 'grpo', version: null, params: { scale: 'std' }, method_key: null },
      verdicts: [
        { method: 'is_solved', keep: true },
        { method: null, method_key: 'abc', keep: false },
      ],
      split: { held_out: 0.1, seed: '4' },
      layout: ['arrow', 'parquet'],
      limit: null,
    });
    expect(readRecipe(JSON.stringify(fromYaml))).toEqual(fromYaml);
    expect(recipeText(parseRecipe(fromYaml))).toBe(recipeText(fromYaml));
  });

  it('says how the files of another trainer are written where a recipe asks for them', () => {
    const { message } = refusal({ name: 'x', layout: ['parquet', 'trl-sft'] });
    expect(message).toContain('troupe dataset export NAME --layout trl-sft');
  });

  it('parts the tasks into train and held out, or into train, validation and test', () => {
    const split = (value: object) => parseRecipe({ name: 'x', split: value }).split;
    expect(split({ held_out: 0.1 })).toEqual({ held_out: 0.1, seed: '0' });
    expect(split({ validation: 0.1, test: 0.2, seed: 7 })).toEqual({ validation: 0.1, test: 0.2, seed: '7' });
    expect(split({ test: 0.2 })).toEqual({ validation: 0, test: 0.2, seed: '0' });
    expect(refusal({ name: 'x', split: { held_out: 0.1, test: 0.1 } }).message).toMatch(/held_out beside/);
    expect(refusal({ name: 'x', split: { seed: 1 } }).message).toMatch(/names no share/);
    expect(refusal({ name: 'x', split: { validation: 0.6, test: 0.6 } }).message).toMatch(/1 at most/);
  });

  it('fits its own JSON Schema as written', () => {
    const schema = JSON.parse(JSON.stringify(recipeSchema));
    expect(schema.properties.unit.enum).toEqual(['step', 'episode', 'group', 'pair', 'triplet', 'branch']);
    const where = { not: { field: 'reward', op: 'is null' } };
    expect(Value.Check(recipeSchema, { name: 'x', where })).toBe(true);
    expect(Value.Check(recipeSchema, { name: 'x', where: { nand: [] } })).toBe(false);
  });

  it.each([
    [{ name: 'x', unti: 'step' }, 'unti', 'Did you mean unit?'],
    [{ name: 'x', unit: 'stap' }, 'unit', 'Did you mean step?'],
    [{ where: 'reward >= 1' }, undefined, 'should have name, but it is {"where":"reward >= 1"}'],
    [{ name: 'x', columns: ['advantge'] }, 'columns', 'Did you mean advantage?'],
    [{ name: 'x', columns: ['foo'] }, 'columns', 'unit step has no "foo". It has task_id, '],
    [
      { name: 'x', where: 'reward > 1e999' },
      'where.value',
      'a number up to ±1.7976931348623157e+308, but it is too large',
    ],
    [{ name: 'x', where: { field: 'tags.a', op: '=', value: Number.NaN } }, 'where.value', 'but it is NaN'],
    [{ name: 'x', unit: 'episode', columns: ['token_ids'] }, 'columns', 'unit episode has no'],
    [{ name: 'a/b' }, 'name', 'pattern'],
    [{ name: '..' }, 'name', 'pattern'],
    [{}, undefined, 'name'],
    [{ name: 'x', limit: 0 }, 'limit', 'at least 1'],
    [{ name: 'x', split: { held_out: 2 } }, 'split.held_out', 'at most 1'],
    [{ name: 'x', credit: {} }, 'credit', 'method'],
    [{ name: 'x', verdicts: [{ keep: true }] }, 'verdicts[0]', 'method'],
    [{ name: 'x', where: { field: 'rewrd', op: '>', value: 1 } }, 'where.field', 'Did you mean reward?'],
    ['x', undefined, 'a map of names to values'],
  ])('refuses %j at %s', (bad, field, words) => {
    const error = refusal(bad);
    expect([error.code, error.detail.field]).toEqual(['recipe_invalid', field]);
    expect(error.message).toContain(words);
  });

  it('is read from every example of docs/recipes.md', () => {
    const page = readFileSync(join(import.meta.dirname, '../../../docs/recipes.md'), 'utf8');
    const examples = [...page.matchAll(/```yaml\n([^`]*?^name: [^`]*)```/gmu)].map(([, text]) => text!);
    expect(examples.length).toBeGreaterThan(2);
    for (const text of examples) expect(recipeText(parseRecipe(readRecipe(text)))).toBe(recipeText(readRecipe(text)));
  });

  it('refuses text that is nested so deeply that reading it would end the process', () => {
    const nots = (deep: number) => `{"name":"x","where":${'{"not":'.repeat(deep)}"role = a"${'}'.repeat(deep)}}`;
    expect(readRecipe(nots(60)).name).toBe('x');
    for (const text of [nots(50_000), `name: x\nwhere: ${'['.repeat(50_000)}`, `${'- '.repeat(50_000)}a`])
      expect(() => readRecipe(text)).toThrow(/nested deeper than 200 levels/u);
  });

  it('refuses more comparisons, roles, caps and weights than a database answers in time, and a number above every place', () => {
    const many = (count: number) => Array.from({ length: count }, (_, i) => `reward > ${i}`).join(' or ');
    expect(parseRecipe({ name: 'x', where: many(1000) }).name).toBe('x');
    expect(refusal({ name: 'x', where: many(1001) }).message).toMatch(/at most 1000 comparisons/u);
    const cap = { of: 'task', rows: 1 };
    for (const bad of [
      { roles: Array(1001).fill('a') },
      { caps: Array(101).fill(cap) },
      { weight: Array(101).fill({ where: 'reward > 1', weight: 2 }) },
      { caps: [{ ...cap, rows: 1e300 }] },
    ])
      expect(refusal({ name: 'x', ...bad }).code).toBe('recipe_invalid');
  });

  it('refuses text that is neither YAML nor JSON', () => {
    expect(() => readRecipe('{"name": [')).toThrow(/neither YAML nor JSON/u);
  });
});
