import { expect, it } from 'vitest';
import { rowsOf } from '../../../store/tables/catalogue.ts';

/** Task and group of the row of a call whose headers were recorded as fields without a column. */
const rowOf = (source: string, unmapped: Readonly<Record<string, unknown>>, data: object = {}) => {
  const event = {
    ...{ name: 'generation.requested', key: 'e/one', source, id: 'call/requested', time: null, version: ' |call' },
    data: { episode_id: 'one', call_id: 'call', unmapped, ...data },
  };
  const row = rowsOf(event as never).find(([{ table }]) => table === 'calls')?.[1][0];
  return [row?.task_id, row?.group_id];
};

it('a call that the gateway of early 0.1.0 recorded has the task and the group of its headers', () => {
  const headers = { task_id: 'sum', group_id: 'sums' };
  expect(rowOf('/gateway', headers)).toEqual(['sum', 'sums']);
  expect(rowOf('/gateway', headers, { task_id: 'own' })).toEqual(['own', 'sums']);
  expect(rowOf('/gateway', { task_id: 5 })).toEqual([null, null]);
  expect(rowOf('/of-others', headers)).toEqual([null, null]);
});
