import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Draft } from '../../../ingest/events/events.ts';
import { appendOwn } from '../../../ingest/log/own-event.ts';
import { postgresLog } from '../../../ingest/log/postgres.ts';
import { eventsBefore, snapshotAt } from '../../../store/datasets/as-of.ts';
import { freeze } from '../../../store/datasets/freeze.ts';
import { openDataset } from '../../../store/datasets/read.ts';
import { projectAll } from '../../../store/projecting/projector.ts';
import { freshDatabase, type TestDatabase } from '../../support/database.ts';

const BEFORE = '2026-05-01T10:00:00Z';
const BETWEEN = '2026-05-01T12:00:00Z';
const AFTER = '2026-05-01T14:00:00Z';

let database: TestDatabase;
let folder: string;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'troupe-as-of-'));
  database = await freshDatabase();
  const { db } = database;
  let n = 0;
  const event = (name: string, data: object) =>
    // All events name one time: what counts is when they came.
    ({ source: '/test', id: String(n++), time: BEFORE, name, data }) as Draft;
  const episode = (episode_id: string, group_id?: string) => [
    event('episode.started', { episode_id, ...(group_id === undefined ? {} : { group_id }) }),
    event('generation.completed', {
      ...{ episode_id, call_id: 'c', agent_id: 'a', response_id: `response-${episode_id}` },
      choices: [{ index: 0, text: 'yes' }],
    }),
    event('episode.finished', { episode_id, outcome: 'success' }),
  ];
  const reward = (target: { readonly kind: string; readonly id: string }) =>
    event('feedback.recorded', { feedback_id: target.id, target, kind: 'reward', name: 'reward', value: 1 });
  const came = async (at: string, drafts: readonly Draft[]) => {
    await appendOwn(postgresLog(db), drafts);
    await db.query(`update troupe.stored_events set recorded_at = $1 where recorded_at > '2026-06-01'`, [at]);
  };
  const earlier = ['whole', 'rewarded-late', 'rewarded-late-by-response', 'left-open'].map((id) => episode(id));
  await came(BEFORE, [...earlier.flat().slice(0, -1), ...episode('first-of-two', 'two'), ...episode('both', 'pair')]);
  await came(BEFORE, episode('both-too', 'pair'));
  await came(AFTER, [
    ...episode('later'),
    ...episode('second-of-two', 'two'),
    ...earlier.flat().slice(-1),
    reward({ kind: 'episode', id: 'rewarded-late' }),
    reward({ kind: 'foreign', id: 'response-rewarded-late-by-response' }),
  ]);
  await projectAll(db);
});
afterAll(async () => {
  await database.close();
  rmSync(folder, { recursive: true });
});

it('a dataset as of a time holds the episodes, in whole groups, to which nothing was added since', async () => {
  const asOf = await snapshotAt(database.db, BETWEEN);
  // 4 episodes of 3 events less one, and 3 of 3.
  expect(eventsBefore(asOf)).toBe(20);
  const { directory, manifest } = await freeze(
    database.db,
    { name: 'as-of', where: 'outcome = success' },
    { directory: folder, codeVersion: 'one', asOf },
  );
  const rows = [...(await openDataset(directory)).rows('train')];
  expect(rows.map(({ episode_id }) => episode_id)).toEqual(['both', 'both-too', 'whole']);
  expect(manifest.funnel.slice(0, 2)).toEqual([
    { name: "episodes where outcome = 'success'", of: 'episodes', before: 9, after: 9, dropped: [] },
    {
      ...{ name: `recorded whole by ${BETWEEN}`, of: 'episodes', before: 9, after: 3 },
      dropped: ['first-of-two', 'later', 'left-open'],
    },
  ]);
  const sum = Object.values(manifest.positions['facts/embedded']!).reduce((a, b) => a + b, 0);
  expect(sum).toBe(20);
});

it('a dataset as of now holds everything', async () => {
  const asOf = await snapshotAt(database.db, new Date().toISOString());
  const { manifest } = await freeze(
    database.db,
    { name: 'now', where: 'outcome = success' },
    { directory: folder, codeVersion: 'one', asOf },
  );
  expect(manifest.rows).toEqual({ train: 9 });
});
