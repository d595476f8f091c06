/** What a recipe takes away from the rows that meet its conditions: which rows are left, whatever the order of storage, and what the funnel says. */
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freeze } from '../../../store/datasets/freeze.ts';
import { openDataset } from '../../../store/datasets/read.ts';
import { parseRecipe } from '../../../store/datasets/recipe.ts';
import type { Db } from '../../../store/db/pool.ts';
import { freshDatabase, type TestDatabase } from '../../support/database.ts';
import { seed } from './fixture.ts';

let folder: string;
let database: TestDatabase;
let places = 0;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'thinning-'));
  database = await freshDatabase();
  await seed(database.db);
});
afterAll(async () => {
  await database.close();
  await rm(folder, { recursive: true, force: true });
});

const frozenIn = async (db: Db, recipe: object) =>
  openDataset(
    (await freeze(db, { name: 'few', ...recipe }, { directory: join(folder, `${places++}`), codeVersion: 'test' }))
      .directory,
  );
const frozen = (recipe: object) => frozenIn(database.db, recipe);
const idsOf = (rows: Iterable<Readonly<Record<string, unknown>>>) =>
  [...rows].map(({ episode_id, step_id }) => (step_id === undefined ? episode_id : `${episode_id} ${step_id}`));
const counts = (rows: Iterable<Readonly<Record<string, unknown>>>, by: string): Record<string, number> => {
  const found: Record<string, number> = {};
  for (const row of rows) found[String(row[by])] = (found[String(row[by])] ?? 0) + 1;
  return found;
};

describe('a cap', () => {
  it('leaves at most so many rows of a task, and the funnel says how many went and names three', async () => {
    const { rows, manifest } = await frozen({ caps: [{ of: 'task', rows: 5 }] });
    expect(counts(rows(), 'task_id')).toEqual({ 'task-0': 5, 'task-1': 5, 'task-2': 5 });
    const stage = manifest.funnel.at(-1)!;
    expect(stage).toMatchObject({ name: 'at most 5 of a task, by chance', of: 'steps', before: 36, after: 15 });
    const kept = idsOf(rows());
    expect(stage.dropped).toHaveLength(3);
    expect(stage.dropped.filter((id) => kept.includes(id))).toEqual([]);
    expect(
      await readFile(join((await frozen({ caps: [{ of: 'task', rows: 5 }] })).directory, 'README.md'), 'utf8'),
    ).toContain('15 of 36 steps pass `at most 5 of a task, by chance`; dropped, for example: `');
  });

  it('chooses the same rows in whatever order they were stored, and others with another seed', async () => {
    const other = await freshDatabase();
    await seed(other.db, {}, (rows) => rows.reverse());
    const recipe = { caps: [{ of: 'task', rows: 4, seed: 7 }] };
    const one = await frozen(recipe);
    expect((await frozenIn(other.db, recipe)).manifest.content_sha256).toBe(one.manifest.content_sha256);
    expect(idsOf((await frozen({ caps: [{ of: 'task', rows: 4, seed: 8 }] })).rows())).not.toEqual(idsOf(one.rows()));
    await other.close();
  });

  it('takes the rows that are worth most, by advantage, and keeps the order of rows', async () => {
    // The second candidate of each call is worth a quarter more: six of each task.
    const { rows } = await frozen({ credit: 'group_mean', caps: [{ of: 'task', rows: 6, take: 'best' }] });
    const kept = idsOf(rows());
    expect(kept).toEqual(idsOf((await frozen({ where: 'candidate = 1' })).rows()));
    expect(kept).toHaveLength(18);
  });

  it('is applied after the conditions and before the next cap and the limit', async () => {
    const recipe = {
      where: 'role = critic',
      caps: [
        { of: 'task', rows: 3 },
        { of: 'role', rows: 7 },
      ],
      limit: 5,
    };
    const { rows, manifest } = await frozen(recipe);
    expect([...rows()].every(({ role }) => role === 'critic')).toBe(true);
    expect(manifest.funnel.slice(-4).map(({ name, before, after }) => [name, before, after])).toEqual([
      ["where role = 'critic'", 36, 12],
      ['at most 3 of a task, by chance', 12, 9],
      ['at most 7 of a role, by chance', 9, 7],
      ['limit 5', 7, 5],
    ]);
  });

  it('counts whole episodes where those are the rows, and leaves all their steps', async () => {
    const { rows, manifest } = await frozen({ unit: 'episode', caps: [{ of: 'task', rows: 1, take: 'best' }] });
    // Only the first episode of each task has a reward.
    expect(idsOf(rows())).toEqual(['ep-0-0', 'ep-1-0', 'ep-2-0']);
    expect([...rows()].map(({ steps }) => JSON.parse(String(steps)).length)).toEqual([6, 6, 6]);
    expect(manifest.funnel.at(-1)).toMatchObject({
      of: 'episodes',
      before: 6,
      after: 3,
      dropped: ['ep-0-1', 'ep-1-1', 'ep-2-1'],
    });
  });

  it('keeps groups together, numbered without gaps', async () => {
    const { rows } = await frozen({ unit: 'group', caps: [{ of: 'group', rows: 2 }] });
    expect([...rows()].map(({ group_index }) => group_index)).toEqual([0, 0, 1, 1, 2, 2]);
  });

  it('counts pairs where those are the rows', async () => {
    const recipe = { unit: 'pair', credit: 'group_mean' };
    expect(counts((await frozen(recipe)).rows(), 'task_id')).toEqual({ 'task-0': 2, 'task-1': 2, 'task-2': 2 });
    const { rows, manifest } = await frozen({ ...recipe, caps: [{ of: 'task', rows: 1 }] });
    expect(counts(rows(), 'task_id')).toEqual({ 'task-0': 1, 'task-1': 1, 'task-2': 1 });
    expect(manifest.funnel.at(-1)).toMatchObject({ of: 'pairs', before: 6, after: 3 });
    const parts = await frozen({ ...recipe, caps: [{ of: 'task', rows: 1 }], split: { held_out: 0.5, seed: 3 } });
    expect(parts.splits.flatMap((split) => idsOf(parts.rows(split))).sort()).toEqual(idsOf(rows()).sort());
  });

  it('gives the same rows where episodes are too many to be listed', async () => {
    const many = await freshDatabase();
    await many.db.query(`
      insert into facts.episodes (episode_id, task_id) select 'e' || n, 't' || n % 3 from generate_series(1, 21000) n;
      insert into facts.calls (episode_id, call_id) select 'e' || n, 'c' from generate_series(1, 21000) n;
      insert into facts.steps (episode_id, call_id, candidate, version) select 'e' || n, 'c', 0, '|v' from generate_series(1, 21000) n;`);
    const { rows } = await frozenIn(many.db, { caps: [{ of: 'task', rows: 6900 }], columns: ['task_id'] });
    expect(counts(rows(), 'task_id')).toEqual({ t0: 6900, t1: 6900, t2: 6900 });
    await many.close();
  });

  it('of a role is refused for whole episodes, and a recipe without caps stays what it was', () => {
    expect(() => parseRecipe({ name: 'x', unit: 'episode', caps: [{ of: 'role', rows: 1 }] })).toThrow(
      /caps\[0\] is of a role, but a row of unit episode has several/,
    );
    expect(() => parseRecipe({ name: 'x', caps: [{ of: 'tasks', rows: 1 }] })).toThrow(/caps/);
    expect(parseRecipe({ name: 'x', caps: [] })).not.toHaveProperty('caps');
    const written = { name: 'x', caps: [{ of: 'task', rows: 2 }] };
    expect(parseRecipe(parseRecipe(written))).toEqual(parseRecipe(written));
  });
});
