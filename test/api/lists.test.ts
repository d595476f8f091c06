/** Lists of operations, page by page. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { pageOf } from '../../api/operations/lists.ts';
import { type TestApp, testApp } from './support/app.ts';

const ROWS = ['b', 'a', 'd', 'c', 'e'].map((name, i) => ({ name, kind: i < 3 ? 'x' : null }));

/** The names on each page, until there is no next. */
function pages(sort: string, limit: number): string[][] {
  const seen: string[][] = [];
  let after: string | undefined;
  do {
    const { items, next, total } = pageOf(ROWS, 'name', { sort, limit, ...(after === undefined ? {} : { after }) });
    expect(total).toBe(ROWS.length);
    seen.push(items.map(({ name }) => name));
    after = next ?? undefined;
  } while (after !== undefined);
  return seen;
}

it('shows every row once, in order, whatever is equal or unknown', () => {
  expect(pages('name', 2)).toEqual([['a', 'b'], ['c', 'd'], ['e']]);
  expect(pages('-name', 3)).toEqual([
    ['e', 'd', 'c'],
    ['b', 'a'],
  ]);
  expect(pages('kind', 2)).toEqual([['c', 'e'], ['a', 'b'], ['d']]);
  expect(pages('-kind', 2)).toEqual([['d', 'b'], ['a', 'e'], ['c']]);
  expect(pages('name', 5)).toEqual([['a', 'b', 'c', 'd', 'e']]);
});

it('sorts numbers by their size', () => {
  const rows = [9, 10, 2].map((sent) => ({ name: `r${sent}`, sent }));
  expect(pageOf(rows, 'name', { sort: '-sent', limit: 3 }).items.map(({ sent }) => sent)).toEqual([10, 9, 2]);
});

let at: TestApp;
beforeAll(async () => {
  at = await testApp();
  for (let i = 1; i <= 12; i++)
    await at.db.query(
      `insert into troupe.dead_letters (endpoint, place, code, field, expected, got, raw, digest) values ('file', $1, $2, '', 'JSON', 'other', '{}', $1)`,
      [String(i), i % 2 === 0 ? 'bad_json' : 'too_deep'],
    );
});
afterAll(() => at.close());

it.each([
  ['dead_letter_id', '', [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]],
  ['-dead_letter_id', '', [12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1]],
  ['-dead_letter_id', '&code=bad_json', [12, 10, 8, 6, 4, 2]],
])('reads a list of the database to its end: sort=%s%s', async (sort, more, ids) => {
  const seen: number[] = [];
  let after = '';
  do {
    const { items, next, total } = (await at.app.inject(`/v1/deadletters?sort=${sort}&limit=5${more}${after}`)).json();
    expect(total).toBe(ids.length);
    seen.push(...items.map(({ dead_letter_id }: { dead_letter_id: number }) => dead_letter_id));
    after = next === null ? '' : `&after=${next}`;
  } while (after !== '');
  expect(seen).toEqual(ids);
});

it('refuses a place that no page gave', async () => {
  const places = [
    ['soon', '1'],
    ['1', 'x'],
  ].map((place) => Buffer.from(JSON.stringify(place)).toString('base64url'));
  for (const after of ['nonsense', ...places]) {
    const answer = await at.app.inject(`/v1/deadletters?after=${after}`);
    expect([answer.statusCode, answer.json().field]).toEqual([400, 'after']);
  }
});
