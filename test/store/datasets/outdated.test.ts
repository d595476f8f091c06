import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { freeze } from '../../../store/datasets/freeze.ts';
import { outdated } from '../../../store/datasets/outdated.ts';
import { type OpenedDataset, openDataset } from '../../../store/datasets/read.ts';
import { freshDatabase, type TestDatabase } from '../../support/database.ts';
import { CREDIT, insert, seed } from './fixture.ts';

let database: TestDatabase;
let folder: string;
let dataset: OpenedDataset;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'troupe-outdated-'));
  database = await freshDatabase();
  await seed(database.db);
  const recipe = { name: 'solved', where: 'reward >= 1 and role = solver', credit: 'group_mean' };
  const frozen = await freeze(database.db, recipe, { directory: join(folder, 'datasets'), codeVersion: 'one' });
  dataset = await openDataset(frozen.directory);
});
afterAll(async () => {
  await database.close();
  rmSync(folder, { recursive: true });
});

const now = () => outdated(database.db, dataset, { folder, codeVersion: 'two' });
const idsOf = (rows: readonly { readonly episode_id: string; readonly step_id: string | null }[]) =>
  rows.map(({ episode_id, step_id }) => `${episode_id} ${step_id}`);

it('a dataset is not outdated while its recipe finds the same rows, whatever code freezes them', async () => {
  expect(await now()).toMatchObject({
    outdated: false,
    rows: { same: 12, added: [], removed: [], changed: [] },
    methods: [],
  });
});

it('late feedback adds rows, erasure removes them, and a reward that changed changes them', async () => {
  const { db } = database;
  await db.query(`update facts.episodes set reward = 1 where episode_id = 'ep-0-1'`);
  await db.query(`update facts.episodes set reward = 2 where episode_id = 'ep-1-0'`);
  await db.query(`delete from facts.episodes where episode_id = 'ep-2-0'`);
  const found = await now();
  const solver = ['call-0/0', 'call-0/1', 'call-2/0', 'call-2/1'];
  expect(found.outdated).toBe(true);
  expect(idsOf(found.rows.added)).toEqual(solver.map((step) => `ep-0-1 ${step}`));
  expect(idsOf(found.rows.removed)).toEqual(solver.map((step) => `ep-2-0 ${step}`));
  expect(idsOf(found.rows.changed)).toEqual(solver.map((step) => `ep-1-0 ${step}`));
  expect(found.rows.same).toBe(4);
});

it('names the judgements of a later version that would be read, and leaves nothing behind', async () => {
  const { db } = database;
  await insert(db, 'judged_methods', [
    { method_key: 'credit-2', method: 'group_mean', version: 99, kind: 'credit', params: {} },
  ]);
  expect((await now()).methods).toEqual([{ before: CREDIT, now: 'credit-2' }]);
  expect(readdirSync(folder)).toEqual(['datasets']);
});

it('a dataset whose recipe finds nothing any more has lost all its rows', async () => {
  await database.db.query('update facts.episodes set reward = 0');
  const { outdated, rows } = await now();
  expect(outdated).toBe(true);
  expect(rows).toMatchObject({ same: 0, added: [], changed: [] });
  expect(rows.removed).toHaveLength(12);
});
