import { afterAll, beforeAll, expect, it } from 'vitest';
import { writtenTasks } from '../../../store/loop/play/written-tasks.ts';
import { taskDrafts } from '../../../trainer/loop/play/episodes.ts';
import { freshDatabase, type TestDatabase } from '../../support/database.ts';

let database: TestDatabase;
beforeAll(async () => {
  database = await freshDatabase();
});
afterAll(() => database.close());

it('What was written is taken once each, in order, and everything else is counted with its reason', async () => {
  const wrote = (
    n: number,
    answer: unknown,
    { reward = 1, group = 'g' }: { reward?: number; group?: string | null } = {},
  ) =>
    database.db.query(
      `insert into facts.episodes (episode_id, group_id, reward, answer, tags) values ($1, $2, $3, $4, '{"rollout":"w"}')`,
      [`w/t/${n}`, group, reward, answer],
    );
  const task = { task_id: 'one', prompt: 'add 1 and 2', answer: '3', tags: { level: 'low' } };
  await wrote(0, JSON.stringify(task));
  await wrote(1, JSON.stringify({ ...task, prompt: 'another one under the same name' }));
  await wrote(2, '"only a text"');
  await wrote(3, null);
  await wrote(4, JSON.stringify({ answer: '3' }));
  await wrote(5, JSON.stringify({ task_id: 7, prompt: 'x' }));
  await wrote(6, JSON.stringify({ prompt: 'refused' }), { reward: 0 });
  await wrote(7, JSON.stringify({ input: { image: 'a' } }));
  await wrote(8, JSON.stringify({ prompt: 'above' }));
  // An attempt that failed is in no group.
  await wrote(9, JSON.stringify({ prompt: 'failed' }), { group: null });
  const taken = await writtenTasks(database.db, { rollout_id: 'w', accept: 'reward >= 1', at_most: 2 });
  expect(taken).toEqual({
    episodes: 9,
    tasks: [
      { ...task, tags: { level: 'low', written_by: 'w/t/0' } },
      { task_id: expect.stringMatching(/^task-/), input: { image: 'a' }, tags: { written_by: 'w/t/7' } },
    ],
    left_out: {
      'written before': 1,
      'the answer is no JSON object': 1,
      'no answer': 1,
      'the answer has no prompt': 1,
      'task_id is no text': 1,
      'not accepted': 1,
      'above at_most': 1,
    },
  });
});

it('A task is recorded with its reference and tests under their names, and other fields beside', () => {
  const task = { task_id: 'one', prompt: 'x', answer: '3', reference: { state: 1 }, tests: ['t'], note: 'kept' };
  expect(taskDrafts([task], '2026-01-01T00:00:00Z')).toMatchObject([
    { data: { query: 'x', ground_truth: '3', reference: { state: 1 }, tests: ['t'], unmapped: { note: 'kept' } } },
  ]);
});
