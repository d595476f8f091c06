/** Rows by the pass rate of their task: which rows stay, in what order they stand, and over which episodes the rate is counted. */
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freeze } from '../../../store/datasets/freeze.ts';
import { openDataset } from '../../../store/datasets/read.ts';
import { parseRecipe } from '../../../store/datasets/recipe.ts';
import { freshDatabase, type TestDatabase } from '../../support/database.ts';
import { seed } from './fixture.ts';

let folder: string;
let database: TestDatabase;
let places = 0;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'pass-rates-'));
  database = await freshDatabase();
  await seed(database.db, { tasks: 4, episodesOfTask: 4, callsOfEpisode: 1, candidates: 1 });
  // Solved of known, attempts 0 to 3: task-0 one of four, task-1 three of four, task-2 none known, task-3 one of two.
  const rewards = ['1,0,0,0', '0,1,1,1', ',,,', '1,0,,'].flatMap((line, t) =>
    line.split(',').map((reward, k) => `('ep-${t}-${k}', ${reward === '' ? 'null' : reward}::float8)`),
  );
  await database.db.query(
    `update facts.episodes e set outcome = 'unknown', reward = r.reward, spoke_weights = '{ck-1}' from (values ${rewards.join(', ')}) r (id, reward) where r.id = e.episode_id`,
  );
});
afterAll(async () => {
  await database.close();
  await rm(folder, { recursive: true, force: true });
});

const freezeIt = (recipe: object) =>
  freeze(database.db, { name: 'by-rate', ...recipe }, { directory: join(folder, `${places++}`), codeVersion: 'test' });
const frozen = async (recipe: object) => {
  const made = await freezeIt(recipe);
  const { rows, manifest, splits } = await openDataset(made.directory);
  return { ...made, manifest, rows: splits.flatMap((split) => [...rows(split)]) };
};
const tasksOf = (rows: readonly Readonly<Record<string, unknown>>[]) => [...new Set(rows.map((row) => row.task_id))];
const ALL = 'count(steps) >= 0';

describe('a band of pass rates', () => {
  it('leaves rows of tasks inside it, both ends included, and the funnel counts unknown ones by themselves', async () => {
    const { rows, manifest, directory } = await frozen({ pass_rate: { of: ALL, least: 0.25, most: 0.5 } });
    expect(tasksOf(rows)).toEqual(['task-0', 'task-3']);
    expect(rows).toHaveLength(8);
    expect(manifest.funnel.slice(-2)).toEqual([
      {
        name: 'task with a pass rate, over 10 episodes with a known outcome where count(steps) >= 0',
        of: 'steps',
        before: 16,
        after: 12,
        dropped: ['ep-2-0 call-0/0', 'ep-2-1 call-0/0', 'ep-2-2 call-0/0'],
      },
      {
        name: 'pass rate of the task from 0.25 to 0.5',
        of: 'steps',
        before: 12,
        after: 8,
        dropped: ['ep-1-0 call-0/0', 'ep-1-1 call-0/0', 'ep-1-2 call-0/0'],
      },
    ]);
    expect(await readFile(join(directory, 'README.md'), 'utf8')).toContain(
      '8 of 12 steps pass `pass rate of the task from 0.25 to 0.5`',
    );
  });

  it('counts the episodes that it names, whichever rows the recipe takes', async () => {
    // Attempts 0 and 1: task-0 one of two, task-1 one of two, task-3 one of two. The rows are solved episodes.
    const half = { of: 'attempt <= 1', least: 0.5, most: 0.5 };
    const { rows } = await frozen({ where: 'reward >= 1', pass_rate: half });
    expect(rows.map(({ episode_id }) => episode_id)).toEqual(['ep-0-0', 'ep-1-1', 'ep-1-2', 'ep-1-3', 'ep-3-0']);
    const of = "task.difficulty = 'easy'";
    expect(tasksOf((await frozen({ pass_rate: { of, most: 0.9 } })).rows)).toEqual(['task-0']);
  });

  it.each(['episode', 'group'] as const)('leaves out rows of unit %s', async (unit) => {
    const { rows } = await frozen({ unit, pass_rate: { of: ALL, least: 0.6 } });
    expect(tasksOf(rows)).toEqual(['task-1']);
    expect(rows).toHaveLength(4);
  });

  it('takes pairs of answers of such tasks alone', async () => {
    const { rows } = await frozen({ unit: 'pair', pass_rate: { of: ALL, most: 0.6 } });
    expect(tasksOf(rows)).toEqual(['task-0', 'task-3']);
  });
});

describe('the order by pass rates', () => {
  it.each([
    ['easy_first', ['task-1', 'task-3', 'task-0', 'task-2']],
    ['hard_first', ['task-0', 'task-3', 'task-1', 'task-2']],
  ] as const)('%s puts tasks without a known outcome last, and counts them', async (order, tasks) => {
    for (const unit of ['step', 'episode', 'group'] as const) {
      const { rows, manifest, warnings } = await frozen({ unit, order, pass_rate: { of: ALL } });
      expect(tasksOf(rows)).toEqual(tasks);
      expect(rows).toHaveLength(16);
      expect(manifest.funnel.at(-1)!.name).toBe(
        `${order}: by the pass rate of the task, over 10 episodes with a known outcome where count(steps) >= 0; rows without one come last: 4 (tasks: 1)`,
      );
      expect(warnings).toEqual([expect.stringMatching(/^Answers come from 2 models: /)]);
    }
    const pairs = await frozen({ unit: 'pair', order, pass_rate: { of: ALL } });
    expect(tasksOf(pairs.rows)).toEqual(tasks.filter((task) => task !== 'task-2'));
  });

  it('is the order in which a limit takes rows and groups, and inside each split', async () => {
    const rate = { order: 'easy_first', pass_rate: { of: ALL } };
    expect(tasksOf((await frozen({ ...rate, limit: 5 })).rows)).toEqual(['task-1', 'task-3']);
    const groups = (await frozen({ ...rate, unit: 'group', limit: 2 })).rows;
    expect(tasksOf(groups)).toEqual(['task-1', 'task-3']);
    expect([...new Set(groups.map(({ group_index }) => group_index))]).toEqual([0, 1]);
    const { directory } = await freezeIt({ ...rate, split: { held_out: 0.5, seed: 1 } });
    const parts = await openDataset(directory);
    const inOrder = ['task-1', 'task-3', 'task-0', 'task-2'];
    const [train, heldOut] = parts.splits.map((split) => tasksOf([...parts.rows(split)]));
    expect(train).toEqual(inOrder.filter((task) => train!.includes(task)));
    expect(heldOut).toEqual(inOrder.filter((task) => !train!.includes(task)));
  });
});

describe('the episodes that pass rates are counted over', () => {
  it('bring a warning where several weights played them, and none where one is named', async () => {
    await database.db.query(`update facts.episodes set spoke_weights = '{ck-2}' where episode_id = 'ep-0-0'`);
    const mixed = await frozen({ pass_rate: { of: ALL, least: 0.1 } });
    expect(mixed.warnings).toEqual([
      expect.stringContaining('The pass rates pool episodes of 2 teams or weights: ck-1 (9), ck-2 (1).'),
      'Answers come from 2 models: checkpoint ck-1 (8), checkpoint ck-0 (4).',
    ]);
    expect(mixed.manifest.funnel.at(-2)!.name).toMatch(/of 2 teams or weights together$/);
    const { warnings, rows } = await frozen({ pass_rate: { of: 'episode_id != ep-0-0', least: 0.1 } });
    expect(warnings).toEqual([]);
    expect(tasksOf(rows)).toEqual(['task-1', 'task-3']);
    await database.db.query(`update facts.episodes set spoke_weights = '{ck-1}' where episode_id = 'ep-0-0'`);
  });

  it('are chosen by fields of whole episodes, and a value that nothing has is a warning', async () => {
    expect(() => parseRecipe({ name: 'x', pass_rate: { of: 'role = solver', least: 0.1 } })).toThrow(
      /chooses whole episodes, but "role = 'solver'" looks at single steps/,
    );
    const { warnings } = await freezeIt({ order: 'hard_first', pass_rate: { of: 'task_id = task-9' } });
    expect(warnings.join(' ')).toMatch(/task-9/);
    await expect(freezeIt({ pass_rate: { of: 'task_id = task-9', least: 0.1 } })).rejects.toMatchObject({
      code: 'dataset_empty',
      message: expect.stringContaining('"task with a pass rate, over 0 episodes'),
    });
  });

  it('have to be named for an order, and a recipe that does nothing with them is refused', () => {
    const refused = (recipe: object, why: RegExp) => expect(() => parseRecipe({ name: 'x', ...recipe })).toThrow(why);
    refused({ order: 'easy_first' }, /names no episodes to count them over/);
    refused({ pass_rate: { of: ALL } }, /takes no row, and orders and weighs none/);
    refused({ pass_rate: { of: ALL, least: 0.6, most: 0.4 } }, /least is 0.6, above pass_rate.most/);
    refused({ pass_rate: { least: 0.6 } }, /pass_rate/);
    const written = { name: 'x', order: 'hard_first', pass_rate: { of: ALL, most: 0.9 } };
    expect(parseRecipe(parseRecipe(written))).toEqual(parseRecipe(written));
    expect(parseRecipe({ name: 'x' })).not.toHaveProperty('pass_rate');
  });
});
