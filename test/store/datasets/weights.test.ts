/** Weights of rows: which number each row gets, what is refused, and which layouts hold it. */
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { exportDataset, layoutNamed } from '../../../store/datasets/export.ts';
import { freeze } from '../../../store/datasets/freeze.ts';
import { openDataset } from '../../../store/datasets/read.ts';
import { parseRecipe } from '../../../store/datasets/recipe.ts';
import { freshDatabase, type TestDatabase } from '../../support/database.ts';
import { seed } from './fixture.ts';

let folder: string;
let database: TestDatabase;
let places = 0;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'weights-'));
  database = await freshDatabase();
  await seed(database.db);
});
afterAll(async () => {
  await database.close();
  await rm(folder, { recursive: true, force: true });
});

const frozen = async (recipe: object) => {
  const options = { directory: join(folder, `${places++}`), codeVersion: 'test' };
  return openDataset((await freeze(database.db, { name: 'weighed', ...recipe }, options)).directory);
};
/** The different weights of the rows with the same value of a column. */
const weightsBy = (rows: Iterable<Readonly<Record<string, unknown>>>, column: string) => {
  const found: Record<string, number[]> = {};
  for (const row of rows) {
    const of = found[String(row[column])] ?? [];
    found[String(row[column])] = [...new Set([...of, row.weight as number])];
  }
  return found;
};

describe('a recipe with weights', () => {
  it('gives each row the number of the first rule that fits, and 1 where none does', async () => {
    const { rows, manifest, directory } = await frozen({
      weight: [
        { where: 'role = critic', weight: 0.5 },
        { where: 'task.difficulty = hard', weight: 3 },
      ],
    });
    expect(weightsBy(rows(), 'role')).toEqual({ solver: [1, 3], critic: [0.5] });
    expect(manifest.columns.at(-1)).toEqual({ name: 'weight', kind: 'float8' });
    // 12 of 36 steps are a critic's; of the other 24 those of one task in three are hard.
    const name =
      "weight 0.5 to 3, 1.278 on average: 0.5 where role = 'critic', 3 where task.difficulty = 'hard', 1 otherwise";
    expect(manifest.funnel.at(-1)).toEqual({ name, of: 'steps', before: 36, after: 36, dropped: [] });
    expect(await readFile(join(directory, 'README.md'), 'utf8')).toContain(name);
  });

  it('weighs by the pass rate of the task', async () => {
    // Of two episodes of a task one is solved; task 1 has its success in the episode without a reward.
    const { rows } = await frozen({
      pass_rate: { of: 'attempt = 0' },
      weight: [{ pass_rate: { least: 0.9 }, weight: 0.25 }],
    });
    expect(weightsBy(rows(), 'task_id')).toEqual({ 'task-0': [0.25], 'task-1': [0.25], 'task-2': [0.25] });
    const none = await frozen({ pass_rate: { of: 'attempt = 1' }, weight: [{ pass_rate: { most: 0 }, weight: 4 }] });
    // Attempt 1 has no reward, so its outcome counts: a failure but of task 1.
    expect(weightsBy(none.rows(), 'task_id')).toEqual({ 'task-0': [4], 'task-1': [1], 'task-2': [4] });
  });

  it('takes the advantage, and is refused with a count where that is unknown or not above 0', async () => {
    const recipe = { credit: 'group_mean', weight: 'advantage' };
    const { rows } = await frozen({ ...recipe, where: 'advantage > 0' });
    for (const { weight, advantage } of rows()) expect(weight).toBe(advantage);
    // The credit of the first candidates of task 0 is 0: three calls in two episodes.
    await expect(frozen(recipe)).rejects.toMatchObject({
      code: 'recipe_invalid',
      message: 'weight is the advantage, but of 0 rows it is unknown and of 6 not above 0.',
      detail: { hint: 'Add to where: advantage is not null and advantage > 0.' },
    });
  });

  it('weighs whole episodes, the advantage as the mean over its steps', async () => {
    const rules = [{ where: 'tags.arm = a', weight: 2 }];
    const { rows } = await frozen({ unit: 'episode', weight: rules });
    expect([...rows()].map(({ weight }) => weight)).toEqual([2, 1, 2, 1, 2, 1]);
    const mean = await frozen({ unit: 'episode', credit: 'group_mean', weight: 'advantage' });
    // The number of the task, and a quarter for one of two candidates.
    expect([...mean.rows()].map(({ weight }) => weight)).toEqual([0.125, 0.125, 1.125, 1.125, 2.125, 2.125]);
  });

  it('weighs a pair by its preferred answer, in the same way where rows are taken away', async () => {
    const recipe = { unit: 'pair', credit: 'group_mean', weight: [{ where: 'role = critic', weight: 2 }] };
    const wanted = { solver: [1], critic: [2] };
    expect(weightsBy((await frozen(recipe)).rows(), 'role')).toEqual(wanted);
    const thinned = await frozen({ ...recipe, near_duplicates: { threshold: 0.95 } });
    expect(weightsBy(thinned.rows(), 'role')).toEqual(wanted);
  });

  it('keeps the column where columns are named, and its identity where they are not weighed', () => {
    const weight = [{ where: 'role = critic', weight: 2 }];
    expect(parseRecipe({ name: 'x', columns: ['text'], weight }).columns).toEqual(['text', 'weight']);
    expect(parseRecipe({ name: 'x' })).not.toHaveProperty('weight');
    expect(parseRecipe({ name: 'x' }).columns).not.toContain('weight');
    const canonical = parseRecipe({ name: 'x', weight });
    expect(parseRecipe(canonical)).toEqual(canonical);
  });

  it.each([
    [{ weight: 'advantage' }, /weight is advantage, but the recipe names no credit/],
    [{ weight: [{ where: 'advantage > 1', weight: 2 }] }, /weight asks for advantage/],
    [{ weight: [{ weight: 2 }] }, /weight\[0\] fits every row/],
    [
      { weight: [{ pass_rate: { most: 0.5 }, weight: 2 }] },
      /weight\[0\] goes by pass rates, but the recipe counts none/,
    ],
    [{ unit: 'episode', weight: [{ where: 'role = critic', weight: 2 }] }, /looks at single steps/],
    [{ weight: [{ where: 'role = critic', weight: 0 }] }, /weight/],
    [{ weight: [{ where: 'rol = critic', weight: 2 }] }, /Did you mean role/],
  ])('refuses %j', (recipe, why) => {
    expect(() => parseRecipe({ name: 'x', ...recipe })).toThrow(why);
  });

  it('is written by layouts that can hold it, and others say that they do not', async () => {
    const dataset = await frozen({ weight: [{ where: 'role = critic', weight: 2 }] });
    const notHeld = async (name: string) => {
      const { manifest } = await exportDataset(dataset, layoutNamed(name), join(folder, `layout-${name}`));
      return manifest.not_held.filter(({ what }) => what === 'weight');
    };
    expect(await notHeld('everything')).toEqual([]);
    expect(await notHeld('trl-tokens')).toEqual([]);
    expect(await notHeld('atif')).toEqual([]);
    expect(await notHeld('trl-sft')).toEqual([{ what: 'weight', count: 36 }]);
    const { manifest } = await exportDataset(await frozen({}), layoutNamed('trl-sft'), join(folder, 'plain'));
    expect(manifest.not_held.map(({ what }) => what)).not.toContain('weight');
  });
});
