/** Rows of frozen datasets among those of a new one: how many, which, and which source they name. */
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freeze } from '../../../store/datasets/freeze.ts';
import { outdated } from '../../../store/datasets/outdated.ts';
import { openDataset } from '../../../store/datasets/read.ts';
import { parseRecipe } from '../../../store/datasets/recipe.ts';
import type { Db } from '../../../store/db/pool.ts';
import { freshDatabase, type TestDatabase } from '../../support/database.ts';
import { seed } from './fixture.ts';

/** 36 steps of three tasks; the old dataset has the twelve of the first. */
const OLD = { name: 'old', where: 'task_id = task-0' };
const NEW = { name: 'new', where: 'task_id != task-0', replay: [{ dataset: 'old', share: 0.25 }] };

let folder: string;
let database: TestDatabase;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'replay-'));
  database = await freshDatabase();
  await seed(database.db);
  await freezeIn(OLD);
});
afterAll(async () => {
  await database.close();
  await rm(folder, { recursive: true, force: true });
});

const freezeIn = (recipe: object, db: Db = database.db, home = 'home') =>
  freeze(db, recipe, { directory: join(folder, home), codeVersion: 'test' });
const frozen = async (recipe: object, db?: Db, home?: string) =>
  openDataset((await freezeIn(recipe, db, home)).directory);
const replayedOf = (dataset: Awaited<ReturnType<typeof openDataset>>) =>
  dataset.lineage().filter(({ replay }) => replay !== undefined);

describe('a recipe that replays a dataset', () => {
  it('takes so many of its rows that they are the share asked for, and their lineage names it', async () => {
    const dataset = await frozen(NEW);
    const old = await frozen(OLD);
    // 24 rows of its own; 8 of 32 are a quarter.
    expect(dataset.manifest.rows).toEqual({ train: 32 });
    const replayed = replayedOf(dataset);
    expect(replayed).toHaveLength(8);
    expect(new Set(replayed.map(({ replay }) => replay))).toEqual(new Set([old.manifest.dataset_id]));
    expect(replayed.every(({ episode_id }) => episode_id.startsWith('ep-0-'))).toBe(true);
    expect(dataset.manifest.funnel.at(-1)).toEqual({
      name: `replay of old (${old.manifest.dataset_id}), 25 % of train`,
      of: 'steps',
      before: 24,
      after: 32,
      dropped: [],
    });
    expect(await readFile(join(dataset.directory, 'README.md'), 'utf8')).toContain('8 steps more by `replay of old (');
  });

  it('has the columns and the credit of its own recipe in every row', async () => {
    const { rows } = await frozen({ ...NEW, credit: 'group_mean', columns: ['task_id', 'candidate', 'advantage'] });
    for (const { task_id, candidate, advantage } of rows())
      expect(advantage).toBe(Number(String(task_id).slice(5)) + Number(candidate) / 4);
  });

  it('chooses the same rows in whatever order they were stored, and others with another seed', async () => {
    const other = await freshDatabase();
    await seed(other.db, {}, (rows) => rows.reverse());
    await freezeIn(OLD, other.db, 'elsewhere');
    const there = await frozen(NEW, other.db, 'elsewhere');
    const here = await frozen(NEW);
    expect(there.manifest.dataset_id).toBe(here.manifest.dataset_id);
    const seeded = await frozen({ ...NEW, replay: [{ dataset: 'old', share: 0.25, seed: 1 }] });
    expect(seeded.manifest.content_sha256).not.toBe(here.manifest.content_sha256);
    await other.close();
  });

  it('pins the dataset, so that freezing it again finds the same rows', async () => {
    const dataset = await frozen(NEW);
    const old = await frozen(OLD);
    expect(dataset.manifest.recipe.replay).toEqual([{ dataset: old.manifest.dataset_id, share: 0.25, seed: '0' }]);
    expect((await outdated(database.db, dataset, { folder, codeVersion: 'test' })).outdated).toBe(false);
  });

  it('takes no row twice and says when there are fewer than the share asks for', async () => {
    const { manifest, warnings, directory } = await freezeIn({ ...NEW, where: 'task_id in (task-0, task-1)' });
    expect(manifest.rows).toEqual({ train: 24 });
    expect(warnings).toEqual([
      'replay of old adds 0 rows, not 8: of its 12 rows in train 0 are recorded, not there already, and of a task that is in train here.',
      'Answers come from 2 models: checkpoint ck-0 (12), checkpoint ck-1 (12).',
      '12 of 24 answers are from episodes that failed.',
    ]);
    expect(replayedOf(await openDataset(directory))).toEqual([]);
    const more = await freezeIn({ ...NEW, replay: [{ dataset: 'old', share: 0.5 }] });
    expect(more.manifest.rows).toEqual({ train: 36 });
    expect(more.warnings[0]).toContain('replay of old adds 12 rows, not 24');
  });

  it('takes none whose task is in another part, and counts the share over train alone', async () => {
    const parts = [0, 1, 2, 3, 4, 5, 6, 7].map((seed) => ({ ...NEW, split: { held_out: 0.5, seed } }));
    let replayed = 0;
    for (const recipe of parts) {
      const dataset = await frozen(recipe);
      const tasks = (split: string) => new Set([...dataset.rows(split)].map(({ task_id }) => task_id));
      expect([...tasks('train')].filter((task) => tasks('held_out').has(task))).toEqual([]);
      const lines = replayedOf(dataset);
      expect(lines.filter(({ split }) => split !== 'train')).toEqual([]);
      const own = dataset.manifest.rows.train! - lines.length;
      if (lines.length > 0) expect(lines.length).toBe(own / 3);
      replayed += lines.length;
    }
    expect(replayed).toBeGreaterThan(0);
  });

  it('takes whole episodes where those are the rows, and rows of several datasets', async () => {
    await freezeIn({ ...OLD, name: 'old-episodes', unit: 'episode' });
    const dataset = await frozen({
      ...NEW,
      unit: 'episode',
      replay: [{ dataset: 'old-episodes', share: 1 / 3 }],
    });
    // Four episodes of its own and two of the old ones.
    expect(dataset.manifest.rows).toEqual({ train: 6 });
    expect(replayedOf(dataset).map(({ episode_id }) => episode_id)).toEqual(['ep-0-0', 'ep-0-1']);
    // However many steps an episode has, it is drawn as one.
    for (const seed of [1, 2, 3, 4]) {
      const replay = [{ dataset: 'old-episodes', share: 1 / 3, seed }];
      expect(replayedOf(await frozen({ ...NEW, unit: 'episode', replay }))).toHaveLength(2);
    }
    await freezeIn({ name: 'other', where: 'task_id = task-1' });
    const two = await frozen({
      ...NEW,
      where: 'task_id = task-2',
      replay: [
        { dataset: 'old', share: 0.2 },
        { dataset: 'other', share: 0.4 },
      ],
    });
    // 12 rows are two fifths of 30.
    expect(two.manifest.rows).toEqual({ train: 30 });
    const of = (task: string) => [...two.rows()].filter(({ task_id }) => task_id === task).length;
    expect([of('task-0'), of('task-1'), of('task-2')]).toEqual([6, 12, 12]);
  });

  it('is refused for datasets that are not there or have other rows', async () => {
    await expect(freezeIn({ ...NEW, replay: [{ dataset: 'none', share: 0.5 }] })).rejects.toMatchObject({
      code: 'not_found',
    });
    await expect(freezeIn({ ...NEW, unit: 'episode' })).rejects.toMatchObject({
      code: 'recipe_invalid',
      message: 'replay names old, whose rows are of unit step; those of this recipe are of unit episode.',
    });
  });

  it.each([
    [{ unit: 'pair' }, /a pair has two/],
    [{ limit: 5 }, /limit would cut replayed rows off/],
    [{ replay: [0.5, 0.5].map((share) => ({ dataset: 'old', share })) }, /a share of 1 of the rows, which leaves none/],
    [{ replay: [{ dataset: 'old', share: 0 }] }, /replay/],
  ])('is refused with %j', (recipe, why) => {
    expect(() => parseRecipe({ ...NEW, ...recipe })).toThrow(why);
  });
});
