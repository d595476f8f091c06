/** The answer to a question as a file: the same as the answer itself, or no file. */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { tableFromIPC } from 'apache-arrow';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { postgresLog } from '../../ingest/log/postgres.ts';
import { readArrow } from '../../store/datasets/arrow.ts';
import { arrowIn } from '../../store/datasets/parquet.ts';
import { openReader } from '../../store/db/reader.ts';
import { ask } from '../../store/explore/sql/sql.ts';
import { askIntoFile } from '../../store/explore/sql/sql-file.ts';
import { projectAll } from '../../store/projecting/projector.ts';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { aStory } from './support/events.ts';

let fresh: TestDatabase;
const folder = mkdtempSync(join(tmpdir(), 'troupe-sql-file-'));
const path = join(folder, 'answer.arrow');
beforeAll(async () => {
  fresh = await freshDatabase();
  await postgresLog(fresh.db).append(aStory());
  await projectAll(fresh.db);
});
afterAll(async () => {
  await fresh.close();
  rmSync(folder, { recursive: true });
});

const rowsIn = (file: string) => [...readArrow(readFileSync(file)).each()];

describe('An answer in a file', () => {
  it('has the columns and rows of the answer, in its order', async () => {
    const sql = 'select step_id, turn, text, chosen, token_ids from traj.steps order by step_id desc -- as they came';
    const { rows, columns } = await ask(fresh.db, sql);
    const written = await askIntoFile(fresh.db, sql, path);
    expect(written).toMatchObject({ rows: rows.length, columns, bytes: readFileSync(path).length });
    const plain = (value: unknown) => (ArrayBuffer.isView(value) ? [...(value as Int32Array)] : value);
    expect(rowsIn(path).map((row) => Object.values(row).map(plain))).toEqual(rows);
    expect(rows.length).toBeGreaterThan(3);
  });

  it('keeps each type that Arrow has, and takes the others as text', async () => {
    const sql = `select 7::smallint as a, 1099511627776::bigint as b, 0.25::real as c, true as d, '2026-01-02 03:04:05.000006Z'::timestamptz as e,
      '{"x":1}'::json as f, 1.10::numeric as g, array[1,null]::integer[] as h, null::text as i, 'x' as "a b"`;
    expect((await askIntoFile(fresh.db, sql, path)).rows).toBe(1);
    expect(rowsIn(path)).toEqual([
      {
        a: 7,
        b: 2n ** 40n,
        c: 0.25,
        d: true,
        e: 1767323045000006n,
        f: '{"x":1}',
        g: '1.10',
        h: [1, null],
        i: null,
        'a b': 'x',
      },
    ]);
  });

  it.each([['answer.arrow', 'answer.parquet']])(
    'has a list for an array of any type, in %s and in %s',
    async (...files) => {
      const sql = `select array['a', null, 'b,"c"'] as texts, array[0.1::float8, 'NaN', '-Infinity', null] as numbers, array[true, null, false] as flags,
      array[9007199254740993, 1]::bigint[] as big, array['{"x":1}'::jsonb] as json, array[1.10, 2]::numeric[] as exact, '{}'::text[] as empty, null::text[] as none`;
      for (const name of files) {
        const file = join(folder, name);
        await askIntoFile(fresh.db, sql, file);
        const bytes = readFileSync(file);
        const row = tableFromIPC(name.endsWith('parquet') ? arrowIn(bytes) : bytes)
          .get(0)!
          .toJSON();
        const lists = Object.entries(row).map(([column, list]) => [column, list && [...list]]);
        expect(Object.fromEntries(lists)).toEqual({
          texts: ['a', null, 'b,"c"'],
          numbers: [0.1, Number.NaN, Number.NEGATIVE_INFINITY, null],
          flags: [true, null, false],
          big: ['9007199254740993', '1'],
          json: ['{"x": 1}'],
          exact: ['1.10', '2'],
          empty: [],
          none: null,
        });
        rmSync(file);
      }
    },
  );

  it.each(["array[array['a'], array['b']]", 'array[array[0.5::float8]]', 'array[array[1]]'])(
    'refuses an array of several dimensions, with what to do: %s',
    async (value) => {
      await expect(askIntoFile(fresh.db, `select ${value} as nested`, path)).rejects.toMatchObject({
        code: 'sql_failed',
        message: expect.stringContaining('Unnest it'),
      });
    },
  );

  it('refuses two columns of one name', async () => {
    await expect(askIntoFile(fresh.db, 'select 1 as n, 2 as n', path)).rejects.toMatchObject({
      code: 'sql_refused',
      message: expect.stringContaining('Two columns are called n'),
    });
  });

  it('of no rows is a file with columns, and a limit ends it', async () => {
    expect(await askIntoFile(fresh.db, 'select episode_id from traj.episodes where false', path)).toMatchObject({
      rows: 0,
    });
    expect(readArrow(readFileSync(path))).toMatchObject({ rows: 0, columns: ['episode_id'] });
    await askIntoFile(fresh.db, 'select n from generate_series(1, 200000) n', path, { limit: 100_000 });
    const { column } = readArrow(readFileSync(path));
    expect(column('n')!.every((n, i) => n === i + 1)).toBe(true);
    expect(column('n')).toHaveLength(100_000);
  });
});

describe('An answer in a file of Parquet', () => {
  const parquet = join(folder, 'answer.parquet');
  const rowsOfParquet = () => [...readArrow(arrowIn(readFileSync(parquet))).each()];

  it('has the rows of the Arrow file, over many batches, with lists and nulls, and leaves nothing beside it', async () => {
    const sql = `select n, 'text ' || n % 7 as words, case when n % 3 > 0 then array[n, null, 2] end as list, n % 2 = 0 as even,
      timestamptz '2026-01-02 03:04:05Z' + n * interval '1 us' as at from generate_series(1, 100000) n`;
    await askIntoFile(fresh.db, sql, path);
    const written = await askIntoFile(fresh.db, sql, parquet);
    expect(written).toMatchObject({ rows: 100_000, bytes: readFileSync(parquet).length });
    expect(rowsOfParquet()).toEqual(rowsIn(path));
    expect(readdirSync(folder).sort()).toEqual(['answer.arrow', 'answer.parquet']);
  });

  it('of no rows has its columns', async () => {
    expect(await askIntoFile(fresh.db, 'select 1 as n, null::text as words limit 0', parquet)).toMatchObject({
      rows: 0,
    });
    expect(readArrow(arrowIn(readFileSync(parquet)))).toMatchObject({ rows: 0, columns: ['n', 'words'] });
  });

  it('stays as it was where the question fails', async () => {
    writeFileSync(parquet, 'as it was');
    const failing = askIntoFile(fresh.db, 'select 1 / n from generate_series(100000, 0, -1) n', parquet);
    await expect(failing).rejects.toMatchObject({ code: 'sql_failed' });
    expect(readFileSync(parquet, 'utf8')).toBe('as it was');
    expect(readdirSync(folder).sort()).toEqual(['answer.arrow', 'answer.parquet']);
    rmSync(parquet);
  });
});

describe('A question that gets no file', () => {
  it.each([
    [`select 1) to stdout; drop table troupe.events; copy (select 1`, 'sql_refused'],
    [`select 1) to program 'id' --`, 'sql_refused'],
    [`delete from traj.episodes`, 'sql_refused'],
    [`with d as (delete from troupe.events returning 1) select * from d`, 'sql_refused'],
    [`select 1; select 2`, 'sql_refused'],
    [`select from traj.episodes`, 'sql_refused'],
    [`select 1 / n from generate_series(100000, 0, -1) n`, 'sql_failed'],
  ])('%s is refused, and what stood there stays', async (sql, code) => {
    const reader = await openReader({ db: fresh.db, url: fresh.url, embedded: true });
    writeFileSync(path, 'as it was');
    try {
      for (const db of [fresh.db, reader!]) {
        await expect(askIntoFile(db, sql, path)).rejects.toMatchObject({ code });
      }
    } finally {
      await reader?.close();
    }
    expect(readFileSync(path, 'utf8')).toBe('as it was');
    expect(readdirSync(folder)).toEqual(['answer.arrow']);
  });

  it('a path that cannot be written is reported before any query runs', async () => {
    await expect(askIntoFile(fresh.db, 'select 1', join(folder, 'no/such.arrow'))).rejects.toMatchObject({
      code: 'home_unwritable',
      message: expect.stringContaining('no/such.arrow'),
    });
  });
});
