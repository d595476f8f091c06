/** The arguments of tool calls as the view shows them. */
import { afterEach, beforeEach, expect, it } from 'vitest';
import { freshDatabase, type TestDatabase } from '../../support/database.ts';
import { event } from '../support/events.ts';
import { record, rowsOf } from './attempts.ts';

let fresh: TestDatabase;
beforeEach(async () => {
  fresh = await freshDatabase();
});
afterEach(() => fresh.close());

it('arguments have the order and numbers of their text, and are the object where the text beside it is another thing', async () => {
  const texts = ['{"b": 1.0, "a": 2}', '{"b": 1.0, "a"', '[1]', 'b'];
  await record(
    fresh.db,
    texts.map((arguments_raw, i) =>
      event('tool.called', {
        episode_id: 'e',
        tool_call_id: `t${i}`,
        name: 'f',
        arguments: { b: 1, a: 2 },
        arguments_raw,
      }),
    ),
  );
  expect(await rowsOf(fresh.db, 'select arguments::text from traj.tool_calls order by tool_call_id')).toEqual(
    ['{"b": 1.0, "a": 2}', '{"a":2,"b":1}', '{"a":2,"b":1}', '{"a":2,"b":1}'].map((text) => ({ arguments: text })),
  );
});
