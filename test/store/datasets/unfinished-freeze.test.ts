import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { sha256 } from '../../../ingest/events/json.ts';
import { changedBetween, type Moment, momentOf } from '../../../store/datasets/moment.ts';
import { takeUp, unfinishedIn, whyAnew } from '../../../store/datasets/unfinished.ts';
import { freshDatabase, type TestDatabase } from '../../support/database.ts';
import { insert, seed } from './fixture.ts';

let small: TestDatabase;
let folder: string;
beforeAll(async () => {
  small = await freshDatabase();
  folder = mkdtempSync(join(tmpdir(), 'unfinished-'));
  await seed(small.db, { tasks: 40, callsOfEpisode: 4 });
}, 300_000);
afterAll(async () => {
  await small.close();
  rmSync(folder, { recursive: true });
});

it('a moment is another one after a row came, went or changed, also a judgement, and the same after a dataset was announced', async () => {
  const { db } = small;
  const moment = () => db.transaction((tx) => momentOf(tx, 1000)) as Promise<Moment>;
  let before = await moment();
  expect(await moment()).toEqual(before);
  const changed = async (text: string) => {
    await db.query(text);
    const now = await moment();
    const tables = changedBetween(before, now);
    before = now;
    return tables;
  };
  expect(await changed(`update facts.episodes set reward = reward where episode_id = 'ep-0-0'`)).toEqual([
    'facts.episodes',
  ]);
  const judgement = `method_key = (select min(method_key) from facts.credits)`;
  expect(await changed(`delete from facts.credits where ${judgement}`)).toEqual(['facts.credits']);
  await insert(db, 'datasets', [{ dataset_id: 'd', version: 'v' }]);
  await insert(db, 'artifacts', [{ key: 'x/d', artifact_id: 'd', role: 'dataset', version: 'v' }]);
  expect(await moment()).toEqual(before);
});

it('says why a freeze begins anew: another version, other files of the recipe, few of the rows that are recorded', () => {
  const frame = { asked: 'a', pinned: 'p', codeVersion: '1', moment: { 'facts.steps': '1 1' } };
  expect(whyAnew(frame, frame)).toBeNull();
  expect(whyAnew(frame, { ...frame, codeVersion: '2' })).toBe('it was of Troupe 1 and this one is 2');
  expect(whyAnew(frame, { ...frame, pinned: 'q' })).toMatch(/files or datasets that the recipe names are others/);
  expect(whyAnew(frame, { ...frame, moment: null })).toMatch(/^few of the recorded rows are frozen/);
});

it('a draft is taken only from a process that is dead, on this machine, for the same recipe, and by one', async () => {
  const parent = join(folder, 'drafts');
  const written = { splits: [], lineage: { bytes: 0, sha256: sha256('') }, weights: {} };
  const state = { asked: 'recipe', written, host: hostname(), pid: 2 ** 22 + 1 };
  const begin = (more: object = {}) => {
    const draft = join(parent, '.tmp-1-other');
    rmSync(parent, { recursive: true, force: true });
    mkdirSync(draft, { recursive: true });
    writeFileSync(join(draft, 'unfinished.json'), JSON.stringify({ ...state, ...more }));
  };
  begin();
  expect(await takeUp(parent, 'another')).toBeNull();
  begin({ pid: process.ppid });
  expect(await takeUp(parent, 'recipe')).toBeNull();
  begin({ host: 'elsewhere' });
  expect(await takeUp(parent, 'recipe')).toBeNull();
  begin({ written: undefined });
  expect(await unfinishedIn(parent)).toEqual([]);
  begin();
  expect(await takeUp(parent, 'recipe')).toMatchObject({ state: { asked: 'recipe' } });
  expect(await takeUp(parent, 'recipe')).toBeNull();
});
