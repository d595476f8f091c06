/** Of the tasks that the records of one episode name, one with a name beats one made of a text. */
import { afterEach, beforeEach, expect, it } from 'vitest';
import { taskIdOfText } from '../../ingest/formats/kit/native.ts';
import { postgresLog } from '../../ingest/log/postgres.ts';
import { projectAll } from '../../store/projecting/projector.ts';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { at, event } from './support/events.ts';

let fresh: TestDatabase;
beforeEach(async () => {
  fresh = await freshDatabase();
});
afterEach(() => fresh.close());

const DERIVED = taskIdOfText('How long?');
const started = (id: string, task_id: string | null, second: number) =>
  event('episode.started', { episode_id: 'a', task_id }, { id, time: at(second) });
const called = (task_id: string) =>
  event('generation.requested', { episode_id: 'a', call_id: 'c', task_id } as never, { id: 'c' });
const shown = async (...batches: readonly (readonly ReturnType<typeof started>[])[]) => {
  for (const batch of batches) {
    await postgresLog(fresh.db).append(batch);
    await projectAll(fresh.db);
  }
  const { rows } = await fresh.db.query<{ task_id: string }>('select task_id from traj.episodes');
  return rows.map(({ task_id }) => task_id);
};

it('a name that is recorded first stays when a text or nothing is recorded later', async () => {
  expect(await shown([started('1', 'math-1', 1)], [started('2', DERIVED, 2)], [started('3', null, 3)])).toEqual([
    'math-1',
  ]);
});

it('a name of an earlier time shows when it comes last', async () => {
  expect(await shown([started('2', DERIVED, 2), started('3', null, 3)], [started('1', 'math-1', 1)])).toEqual([
    'math-1',
  ]);
});

it('of two names the later shows, of one batch too', async () => {
  expect(await shown([started('1', 'math-1', 1), started('2', 'math-2', 2), started('3', DERIVED, 3)])).toEqual([
    'math-2',
  ]);
});

it('a text stands where nothing else is known', async () => {
  expect(await shown([started('1', DERIVED, 1), started('2', null, 2)])).toEqual([DERIVED]);
});

it('a name that a call brings beats a text', async () => {
  expect(await shown([started('1', DERIVED, 1), called('math-3')])).toEqual(['math-3']);
});
