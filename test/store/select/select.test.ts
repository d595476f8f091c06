import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { TroupeError } from '../../../errors.ts';
import { type Expression, query, rowsOf, type SqlBool, sql } from '../../../store/db/query.ts';
import {
  type Comparison,
  type Filter,
  lowerFilter,
  parseFilter,
  showSql,
  splitFilter,
  tagReads,
} from '../../../store/filter/select.ts';
import { freshDatabase, type TestDatabase } from '../../support/database.ts';
import { insert } from '../datasets/fixture.ts';

type Values = Readonly<Record<string, unknown>>;

/** Plain evaluation of a filter over a row, written without a look at SQL: a comparison with a missing value is false. */
function holds(filter: Filter, row: Values): boolean {
  if ('and' in filter) return filter.and.every((part) => holds(part, row));
  if ('or' in filter) return filter.or.some((part) => holds(part, row));
  if ('not' in filter) return !holds(filter.not, row);
  const { field, op, value } = filter;
  const tags = row.tags as Record<string, unknown> | null;
  const at = field.startsWith('tags.') ? (tags?.[field.slice(5)] ?? null) : (row[field] ?? null);
  if (op === 'is null') return at === null;
  if (op === '!=') return !equal(at, value);
  if (at === null) return false;
  switch (op) {
    case '=':
      return equal(at, value);
    case 'in':
      return (value as readonly unknown[]).some((member) => equal(at, member));
    case 'has':
      return Array.isArray(at) ? at.includes(value) : Object.hasOwn(at as object, value as string);
    case 'like':
      return typeof at === 'string' && like(at, value as string);
    default: {
      if (typeof at !== typeof value) return false;
      const sign =
        field === 'started_at'
          ? Date.parse(at as string) - Date.parse(value as string)
          : typeof at === 'string'
            ? Buffer.compare(Buffer.from(at), Buffer.from(value as string))
            : (at as number) - (value as number);
      return { '<': sign < 0, '<=': sign <= 0, '>': sign > 0, '>=': sign >= 0 }[op];
    }
  }
}

const equal = (a: unknown, b: unknown) => typeof a === typeof b && a === b;

/** % is any text, _ any character, a backslash takes the next one as it is. */
function like(text: string, pattern: string): boolean {
  let source = '';
  const characters = [...pattern];
  for (let i = 0; i < characters.length; i++) {
    const c = characters[i]!;
    if (c === '\\') source += literalOf(characters[++i]!);
    else source += c === '%' ? '[^]*' : c === '_' ? '[^]' : literalOf(c);
  }
  return new RegExp(`^${source}$`, 'u').test(text);
}
const literalOf = (c: string) => c.replace(/[\\^$.*+?()[\]{}|/-]/u, '\\$&');

const word = fc.constantFrom(
  'success',
  'failure',
  "it's",
  'a\\b',
  'ä',
  '😀',
  '\uFFFD',
  'a%c',
  'abc',
  '',
  'A',
  '$1',
  "E'x'",
  '1',
  'true',
);
const count = fc.constantFrom(-1, 0, 1, 2, 2.5, 7, 1e300, -0);
const time = fc.constantFrom(
  '2026-01-01T00:00:00Z',
  '2026-01-01T01:00:00+01:00',
  '2026-06-01T12:30:00.250Z',
  '2025-12-31T23:59:59Z',
);
const key = fc.constantFrom('iteration', 'arm', "o'k", 'a.b', 'gone');

const rowValues = fc.record({
  outcome: fc.option(fc.constantFrom('success', 'failure', 'aborted')),
  answer: fc.option(word),
  attempt: fc.option(fc.constantFrom(-1, 0, 1, 2, 7)),
  reward: fc.option(count),
  closed: fc.option(fc.boolean()),
  started_at: fc.option(time),
  tags: fc.option(
    fc.dictionary(key, fc.oneof(word, count, fc.boolean(), fc.constant(null)), { maxKeys: 3, noNullPrototype: true }),
  ),
  flags: fc.option(fc.array(word, { maxLength: 3 })),
});

const compare = fc.constantFrom('=', '!=', '<', '<=', '>', '>=');
const scalar = fc.oneof(word, count);
const comparison: fc.Arbitrary<Comparison> = fc.oneof(
  fc.record({ field: fc.constantFrom('outcome', 'answer'), op: compare, value: word }),
  fc.record({ field: fc.constantFrom('attempt', 'reward'), op: compare, value: count }),
  fc.record({ field: fc.constant('started_at'), op: fc.constantFrom('<', '<=', '>', '>='), value: time }),
  fc.record({ field: fc.constant('closed'), op: fc.constantFrom('=', '!='), value: fc.boolean() }),
  fc.record({
    field: fc.constantFrom('outcome', 'answer'),
    op: fc.constant('in'),
    value: fc.array(word, { maxLength: 3 }),
  }),
  fc.record({
    field: fc.constantFrom('attempt', 'reward'),
    op: fc.constant('in'),
    value: fc.array(count, { maxLength: 3 }),
  }),
  fc.record({
    field: fc.constantFrom('outcome', 'answer'),
    op: fc.constant('like'),
    value: fc.constantFrom('%', 'a%', '_', 'a\\%c', '%\\\\%', "%'%", ''),
  }),
  fc.record({ field: key.map((k) => `tags.${k}`), op: compare, value: scalar }),
  fc.record({ field: key.map((k) => `tags.${k}`), op: fc.constantFrom('=', '!='), value: fc.boolean() }),
  fc.record({
    field: key.map((k) => `tags.${k}`),
    op: fc.constant('in'),
    value: fc.array(fc.oneof(scalar, fc.boolean()), { maxLength: 3 }),
  }),
  fc.record({
    field: fc.oneof(
      fc.constantFrom('outcome', 'reward', 'tags', 'flags'),
      key.map((k) => `tags.${k}`),
    ),
    op: fc.constant('is null'),
  }),
  fc.record({ field: fc.constant('flags'), op: fc.constant('has'), value: word }),
  fc.record({ field: fc.constant('tags'), op: fc.constant('has'), value: key }),
) as fc.Arbitrary<Comparison>;

const { filter } = fc.letrec<{ filter: Filter }>((tie) => ({
  filter: fc.oneof(
    { maxDepth: 3, withCrossShrink: true },
    comparison,
    fc.array(tie('filter'), { maxLength: 3 }).map((and) => ({ and })),
    fc.array(tie('filter'), { maxLength: 3 }).map((or) => ({ or })),
    tie('filter').map((not) => ({ not })),
  ),
}));

const code = (run: () => unknown): TroupeError => {
  try {
    run();
  } catch (error) {
    return error as TroupeError;
  }
  throw new Error('nothing was thrown');
};

describe('a typed filter', () => {
  let database: TestDatabase;
  let rows: readonly (Values & { readonly episode_id: string })[];

  beforeAll(async () => {
    database = await freshDatabase();
    rows = fc
      .sample(rowValues, { numRuns: 150, seed: 7 })
      .map((row, i) => ({ episode_id: `e${String(i).padStart(3, '0')}`, ...row }));
    await insert(database.db, 'episodes', rows);
  });
  afterAll(() => database.close());

  const select = async (where: Expression<SqlBool>) => {
    const chosen = query.selectFrom('facts.episodes as e').select('e.episode_id').where(where).orderBy('e.episode_id');
    return (await rowsOf(database.db, chosen)).map((row) => row.episode_id);
  };

  it('selects in SQL, with parameters and with literals, exactly the rows that plain evaluation selects', async () => {
    await fc.assert(
      fc.asyncProperty(filter, async (generated) => {
        const parsed = parseFilter(generated);
        const expected = rows.filter((row) => holds(generated, row)).map((row) => row.episode_id);
        expect(await select(lowerFilter(parsed))).toEqual(expected);
        expect(await select(sql.raw(showSql(parsed)))).toEqual(expected);
      }),
      { numRuns: 300 },
    );
  });

  it('finds by its tag, with an index, the episode of many that has it: by filter, by task, through the views', async () => {
    const { db, close } = await freshDatabase();
    try {
      await db.query(`
        insert into facts.tasks (task_id, tags, version) select 't' || n, jsonb_build_object('kind', 'k' || n), '|t' from generate_series(1, 5000) n;
        insert into facts.episodes (episode_id, task_id, tags) select 'e' || n, 't' || n, jsonb_build_object('n', n, 'of', 'o' || n) from generate_series(1, 5000) n`);
      await db.query('vacuum analyze facts.episodes');
      await db.query('vacuum analyze facts.tasks');
      const episodes = query
        .selectFrom('facts.episodes as e')
        .leftJoin('facts.tasks as t', 't.task_id', 'e.task_id')
        .select('e.episode_id');
      const shown = query.selectFrom('traj.episodes').select('episode_id');
      for (const [statement, index, found] of [
        [episodes.where(lowerFilter({ field: 'tags.n', op: '=', value: 7 })), 'episodes_tags', ['e7']],
        [
          episodes.where(lowerFilter({ field: 'tags.of', op: 'in', value: ['o8', 'o9', 'x'] })),
          'episodes_tags',
          ['e8', 'e9'],
        ],
        [episodes.where(lowerFilter({ field: 'tags', op: 'has', value: 'gone' })), 'episodes_tags', []],
        [episodes.where(lowerFilter({ field: 'task.tags.kind', op: '=', value: 'k5' })), 'tasks_tags', ['e5']],
        [shown.where(tagReads('tags', 'n', '3')), 'episodes_tags', ['e3']],
        [shown.where(tagReads('tags', 'of', 'o3')), 'episodes_tags', ['e3']],
      ] as const) {
        const { sql: text, parameters } = statement.compile();
        const { rows: plan } = await db.query<{ 'QUERY PLAN': string }>(`explain ${text}`, parameters);
        expect(plan.map((line) => line['QUERY PLAN']).join('\n')).toContain(`Bitmap Index Scan on ${index}`);
        expect((await rowsOf(db, statement)).map((row) => row.episode_id).sort()).toEqual(found);
      }
    } finally {
      await close();
    }
  });

  it('finds the judgement of a step by an index, among all of a long episode; a step is judged once by a method', async () => {
    const { db, close } = await freshDatabase();
    try {
      await db.query(`
        insert into facts.judged_methods (method_key, method, version, kind, params) values ('m', 'gae', 1, 'credit', '{}');
        insert into facts.credits (episode_id, step_id, method_key, value) select 'e', 'c' || n || '/0', 'm', n from generate_series(1, 5000) n`);
      await db.query('vacuum analyze facts.credits');
      const steps = query
        .selectFrom(
          sql<{ episode_id: string; call_id: string; candidate: number }>`(values ('e', 'c7', 0))`.as<'s'>(
            sql`s (episode_id, call_id, candidate)`,
          ),
        )
        .select('s.call_id')
        .where(lowerFilter(parseFilter('credit(gae) = 7')));
      const { sql: text, parameters } = steps.compile();
      const { rows: plan } = await db.query<{ 'QUERY PLAN': string }>(`explain ${text}`, parameters);
      expect(plan.map((line) => line['QUERY PLAN']).join('\n')).toContain('credits_once');
      expect((await rowsOf(db, steps)).map((row) => row.call_id)).toEqual(['c7']);
      const again = `insert into facts.credits (episode_id, step_id, method_key, value) values ('e', 'c7/0', 'm', 1)`;
      await expect(db.query(again)).rejects.toThrow('credits_once');
    } finally {
      await close();
    }
  });

  it.each([
    ['n', '5', true],
    ['n', '5.0', false],
    ['f', 'true', true],
    ['t', '5', true],
    ['list', '5', false],
    ['none', 'null', false],
    ['big', '9007199254740993', false],
    ['big', '9007199254740992', true],
  ])('reads the tag %s as the text %s: %s', async (key, text, expected) => {
    const tags = `'{"n": 5, "f": true, "t": "5", "list": ["5", 5], "none": null, "big": 9007199254740992}'::jsonb`;
    const reads = query.selectNoFrom(tagReads(tags, key, text).as('reads'));
    expect(await rowsOf(database.db, reads)).toEqual([{ reads: expected }]);
  });

  it('quotes hostile text so that it stays text, whatever the setting of standard_conforming_strings', async () => {
    for (const setting of ['on', 'off']) {
      await database.db.transaction(async (tx) => {
        await tx.query(`set local standard_conforming_strings = ${setting}`);
        for (const text of ["'; drop table x; --", "\\'; select 1; --", '\\', "a'\\'b", '$$', '\u{1F600}\n']) {
          const sql = showSql(parseFilter({ field: 'answer', op: '=', value: text })).replace('e.answer', '$1::text');
          const { rows: answer } = await tx.query<{ same: boolean }>(`select ${sql} as same`, [text]);
          expect(answer[0]!.same, `${setting} ${text}`).toBe(true);
        }
      });
    }
  });

  it('comes back unchanged when parsed twice, and is the same for any order of a list', () => {
    fc.assert(
      fc.property(filter, (generated) => {
        const once = parseFilter(generated);
        expect(parseFilter(once)).toEqual(once);
      }),
    );
    const of = (value: readonly string[]) => parseFilter({ field: 'episode_id', op: 'in', value });
    expect(of(['b', 'a', 'b'])).toEqual(of(['a', 'b']));
  });

  it('refuses an unknown field and names the nearest one', () => {
    const error = code(() => parseFilter({ and: [{ field: 'outcom', op: '=', value: 'x' }] }));
    expect(error.code).toBe('recipe_invalid');
    expect(error.message).toContain('Did you mean outcome?');
    expect(error.detail.field).toBe('where.and[0].field');
  });

  it.each([
    [{ field: 'reward', op: '=', value: '1' }, 'where.value'],
    [{ field: 'outcome', op: '=', value: null }, 'where.value'],
    [{ field: 'outcome', op: '~', value: 'x' }, 'where.op'],
    [{ field: 'outcome', op: 'in', value: 'x' }, 'where.value'],
    [{ field: 'outcome', op: 'in', value: ['a', 1] }, 'where.value[1]'],
    [{ field: 'reward', op: 'like', value: 'x' }, 'where.op'],
    [{ field: 'answer', op: 'like', value: 'x\\' }, 'where.value'],
    [{ field: 'started_at', op: '<', value: '2026-01-01' }, 'where.value'],
    [{ field: 'closed', op: '<', value: true }, 'where.op'],
    [{ field: 'tags', op: '=', value: 'x' }, 'where.op'],
    [{ field: 'outcome', op: 'is null', value: true }, 'where.value'],
    [{ or: { field: 'outcome', op: 'is null' } }, 'where.or'],
    [{ not: { field: 'outcome', op: 'is null' }, and: [] }, 'where'],
    ['outcome', 'where'],
  ])('refuses %j at %s', (bad, field) => {
    const error = code(() => parseFilter(bad));
    expect(error).toBeInstanceOf(TroupeError);
    expect([error.code, error.detail.field]).toEqual(['recipe_invalid', field]);
  });

  it('refuses a filter nested without end', () => {
    let deep: unknown = { field: 'outcome', op: 'is null' };
    for (let i = 0; i < 1000; i++) deep = { not: deep };
    expect(code(() => parseFilter(deep)).code).toBe('recipe_invalid');
  });

  it('separates the parts that choose episodes from those that choose among their steps', () => {
    const parts = splitFilter(
      parseFilter({
        and: [
          { field: 'tags.iteration', op: '=', value: 7 },
          {
            and: [
              { field: 'role', op: '=', value: 'solver' },
              { field: 'task.difficulty', op: '=', value: 'hard' },
            ],
          },
          {
            or: [
              { field: 'outcome', op: 'is null' },
              { field: 'chosen', op: '=', value: true },
            ],
          },
        ],
      }),
    );
    expect([parts.episode.length, parts.step.length]).toEqual([2, 2]);
  });

  it('shows a filter as SQL that a person can read', () => {
    expect(
      showSql(
        parseFilter({
          and: [{ field: 'outcome', op: '=', value: "it's" }, { not: { field: 'reward', op: '<', value: 0.5 } }],
        }),
      ),
    ).toBe("((e.outcome = 'it''s') and not coalesce(e.reward < 0.5, false))");
  });
});
