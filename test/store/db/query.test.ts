/** Statements composed by kysely, compiled here and run by our pool. */
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  countOf,
  firstOf,
  literalSql,
  prepare,
  query,
  rowsOf,
  rowsOfPrepared,
  sql,
  streamOf,
} from '../../../store/db/query.ts';
import { anyCharacter } from '../../support/character.ts';
import { freshDatabase, type TestDatabase } from '../../support/database.ts';

let database: TestDatabase;
beforeAll(async () => {
  database = await freshDatabase();
});
afterAll(() => database.close());

const job = (job_id: string) => ({ job_id, kind: 'sft', spec: '{}' });

describe('A composed statement', () => {
  it('writes, counts and reads rows of the types that the pool reads', async () => {
    const { db } = database;
    expect(await countOf(db, query.insertInto('troupe.job_queue').values(['a', 'b', 'c'].map(job)))).toBe(3);
    const all = query.selectFrom('troupe.job_queue').select(['job_id', 'token', 'spec']).orderBy('job_id');
    expect(await rowsOf(db, all)).toEqual(['a', 'b', 'c'].map((job_id) => ({ job_id, token: 0, spec: {} })));
    expect((await firstOf(db, all))?.job_id).toBe('a');
    const batches: string[][] = [];
    for await (const rows of streamOf(db, all, { batch: 2 })) batches.push(rows.map((row) => row.job_id));
    expect(batches).toEqual([['a', 'b'], ['c']]);
  });

  it('is prepared once and runs with other values each time, whatever their order in the text', async () => {
    const { db } = database;
    const between = prepare<{ to: number; from: number }>('between')((value) =>
      query
        .selectNoFrom([
          sql<number>`${value('from')}::integer`.as('from'),
          sql<number>`${value('to')}::integer`.as('to'),
        ])
        .where(sql.lit(true), '=', true),
    );
    expect(await rowsOfPrepared(db, between, { from: 1, to: 2 })).toEqual([{ from: 1, to: 2 }]);
    expect(await rowsOfPrepared(db, between, { to: 4, from: 3 })).toEqual([{ from: 3, to: 4 }]);
  });

  it('with literals in place of parameters means the same: every text, number, truth value and list of texts', async () => {
    const { db } = database;
    const text = fc.string({ unit: anyCharacter }).filter((one) => !one.includes('\0'));
    await fc.assert(
      fc.asyncProperty(text, fc.double(), fc.boolean(), fc.array(text), async (a, b, c, d) => {
        const statement = query.selectNoFrom([
          sql`${a}::text`.as('a'),
          sql`${b}::float8`.as('b'),
          sql`${c}::boolean`.as('c'),
          sql`${d}::text[]`.as('d'),
          sql`${null}::text`.as('e'),
        ]);
        expect((await db.query(literalSql(statement))).rows).toEqual(await rowsOf(db, statement));
      }),
      { numRuns: 50 },
    );
  });
});
