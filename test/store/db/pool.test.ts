import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import { buffer, text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { isTransient, sqlState } from '../../../store/db/faults.ts';
import { openPool } from '../../../store/db/pool.ts';
import { freshDatabase, type TestDatabase } from '../../support/database.ts';

let home: TestDatabase;
beforeAll(async () => {
  home = await freshDatabase();
});
afterAll(() => home.close());

const value = async (sql: string, params?: unknown[]): Promise<unknown> => {
  const { rows } = await home.db.query<{ v: unknown }>(`select ${sql} as v`, params);
  return rows[0]!.v;
};

describe('values', () => {
  test.each([
    ['9007199254740991::int8', 9007199254740991],
    ['9007199254740993::int8', '9007199254740993'],
    ['(-9223372036854775808)::int8', '-9223372036854775808'],
    ['count(*)', 1],
    ['0.1::numeric', '0.1'],
    ["'NaN'::float8", Number.NaN],
    ["'-Infinity'::float4", Number.NEGATIVE_INFINITY],
    ['0.1::float8 + 0.2::float8', 0.30000000000000004],
    ["timestamptz '2026-01-02 03:04:05.000006+02'", '2026-01-02T01:04:05.000006Z'],
    ["timestamptz 'infinity'", 'infinity'],
    ["timestamptz '0044-03-15 12:00:00+00 BC'", '0044-03-15 12:00:00+00 BC'],
    ["timestamp '2026-01-02 03:04:05.5'", '2026-01-02T03:04:05.5'],
    ["date '2026-01-02'", '2026-01-02'],
    [`'{"a":[1,null]}'::jsonb`, { a: [1, null] }],
    [`'null'::json`, null],
    ["'\\x00ff'::bytea", Buffer.from([0, 255])],
    ['array[1.5,2.5]::float8[]', [1.5, 2.5]],
    ["array['NaN','Infinity']::float8[]", [Number.NaN, Number.POSITIVE_INFINITY]],
    ['array[1,null,3]::int4[]', [1, null, 3]],
    ['array[[1,2],[3,4]]::int4[]', [[1, 2], [3, 4]]], // biome-ignore format: one row of the table
    ["'[2:3]={7,8}'::int4[]", [7, 8]],
    ["'{}'::float8[]", []],
    ['array[9007199254740993]::int8[]', ['9007199254740993']],
    ['array[1.10]::numeric[]', ['1.10']],
    ["array[timestamptz '2026-01-02 03:04:05Z', null]", ['2026-01-02T03:04:05Z', null]],
    [`array['{"a":"},{"}'::jsonb]`, [{ a: '},{' }]],
    ['array[true,false]', [true, false]],
    ['interval ' + "'1 day 02:00'", '1 day 02:00:00'],
  ])('%s arrives as %j', async (sql, expected) => {
    expect(await value(sql)).toEqual(expected);
  });

  test('arrays of any text come back as they were sent', async () => {
    const words = fc.array(
      fc.oneof(fc.string({ unit: 'binary-ascii' }), fc.constantFrom('NULL', '', '"', '\\', '{},')),
    );
    const noNul = words.map((list) => list.map((word) => word.replaceAll('\0', '')));
    await fc.assert(
      fc.asyncProperty(noNul, async (list) => {
        expect(await value('$1::text[]', [list])).toEqual(list);
      }),
      { numRuns: 200 },
    );
  });

  test('arrays of doubles come back exactly, but for the sign of zero, which the driver does not send', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.double().map((x) => x + 0)), async (list) => {
        expect(await value('$1::float8[]', [list])).toEqual(list);
      }),
      { numRuns: 200 },
    );
  });
});

describe('queries', () => {
  test('every connection uses UTC and ISO, whatever the database is set to', async () => {
    const { db, url, close } = await freshDatabase();
    const name = new URL(url).pathname.slice(1);
    await db.query(`alter database ${name} set timezone to 'Asia/Tokyo'`);
    await db.query(`alter database ${name} set datestyle to 'German'`);
    const fresh = openPool(url, { applicationName: 'a test' });
    const { rows } = await fresh.query(
      `select current_setting('timezone') z, current_setting('datestyle') d, current_setting('application_name') n`,
    );
    expect(rows).toEqual([{ z: 'UTC', d: 'ISO, MDY', n: 'a test' }]);
    await fresh.close();
    await close();
  });

  test('a named statement is prepared once on its connection', async () => {
    const { db, close } = await freshDatabase({ max: 1 });
    for (const n of [1, 2, 3]) {
      const { rows } = await db.query('select $1::int + 1 as n', [n], { name: 'successor' });
      expect(rows).toEqual([{ n: n + 1 }]);
    }
    const { rows } = await db.query('select name, generic_plans + custom_plans as runs from pg_prepared_statements');
    expect(rows).toEqual([{ name: 'successor', runs: 3 }]);
    await close();
  });

  test('a script gives the result of its last statement, and the extended protocol takes one statement only', async () => {
    const script = 'select 1 as a; select 2 as b';
    expect((await home.db.query(script)).rows).toEqual([{ b: 2 }]);
    await expect(home.db.query(script, [], { extended: true })).rejects.toMatchObject({ code: '42601' });
  });

  test('rows can come as arrays, with the names and types of the columns', async () => {
    const result = await home.db.query(`select 1 as a, 'x'::text as a`, [], { array: true });
    expect(result.rows).toEqual([[1, 'x']]);
    expect(result.columns).toEqual([
      { name: 'a', type: 23 },
      { name: 'a', type: 25 },
    ]);
  });

  test('a buffer is taken as the text of a json parameter', async () => {
    expect(await value('$1::json', [Buffer.from('{"a":"é"}')])).toEqual({ a: 'é' });
  });

  test('statements beyond the pool wait for their turn', async () => {
    const { db, close } = await freshDatabase({ max: 2 });
    const all = await Promise.all(
      Array.from({ length: 20 }, (_, i) => db.query('select pg_sleep(0.01), $1::int as i', [i])),
    );
    expect(all.map(({ rows }) => rows[0]!.i)).toEqual(Array.from({ length: 20 }, (_, i) => i));
    await close();
  });
});

describe('closing', () => {
  test('lets work that has begun or waits for its turn finish, and takes no more', async () => {
    const { url, close } = await freshDatabase();
    const db = openPool(url, { max: 1 });
    const work = [1, 2, 3].map((n) => db.query('select pg_sleep(0.05), $1::int as n', [n]));
    await Promise.all([db.close(), db.close()]);
    expect((await Promise.all(work)).map(({ rows }) => rows[0]!.n)).toEqual([1, 2, 3]);
    await expect(db.query('select 1')).rejects.toMatchObject({ code: 'internal' });
    await close();
  });
});

describe('transactions', () => {
  test('commit what was done, or nothing when the work throws', async () => {
    await home.db.query('create table moves (n int)');
    await home.db.transaction((tx) => tx.query('insert into moves values (1)'));
    const thrown = new Error('changed my mind');
    const doomed = home.db.transaction(async (tx) => {
      await tx.query('insert into moves values (2)');
      throw thrown;
    });
    await expect(doomed).rejects.toBe(thrown);
    expect((await home.db.query('select n from moves')).rows).toEqual([{ n: 1 }]);
  });

  test('a swallowed failure is not reported as a commit', async () => {
    const careless = home.db.transaction(async (tx) => {
      await tx.query('select 1/0').catch(() => {});
    });
    await expect(careless).rejects.toMatchObject({ code: 'internal' });
  });

  test('a session cannot be used after its transaction', async () => {
    const escaped = await home.db.transaction(async (tx) => tx);
    await expect(escaped.query('select 1')).rejects.toMatchObject({ code: 'internal' });
  });

  test('isolation and read only are as asked', async () => {
    await home.db.transaction(
      async (tx) => {
        const { rows } = await tx.query(
          `select current_setting('transaction_isolation') i, current_setting('transaction_read_only') r`,
        );
        expect(rows).toEqual([{ i: 'repeatable read', r: 'on' }]);
      },
      { isolation: 'repeatable read', readOnly: true },
    );
  });

  test('a socket that breaks under a statement is a lost connection, not an error of the server', () => {
    const broken = Object.assign(new Error('write EPIPE'), { code: 'EPIPE' });
    expect(sqlState(broken)).toBe(null);
    expect(isTransient(broken)).toBe(true);
  });

  test('a backend that is killed fails the transaction as transient, and the pool goes on', async () => {
    const { db, close } = await freshDatabase();
    const error = await db
      .transaction(async (tx) => {
        const { rows } = await tx.query<{ pid: number }>('select pg_backend_pid() as pid');
        await home.db.query('select pg_terminate_backend($1)', [rows[0]!.pid]);
        await tx.query('select 1');
      })
      .catch((error: unknown) => error);
    expect(isTransient(error)).toBe(true);
    expect((await db.query('select 1 as one')).rows).toEqual([{ one: 1 }]);
    await close();
  });
});

describe('streams', () => {
  test('a cursor gives every row in batches', async () => {
    const sizes: number[] = [];
    let sum = 0;
    for await (const rows of home.db.stream<{ n: number }>('select generate_series(1, $1::int) as n', [2500])) {
      sizes.push(rows.length);
      for (const { n } of rows) sum += n;
    }
    expect(sizes).toEqual([1000, 1000, 500]);
    expect(sum).toBe((2500 * 2501) / 2);
  });

  test('leaving a cursor early, failing in it and failing on the server all leave the pool usable', async () => {
    const { db, close } = await freshDatabase({ max: 1 });
    for await (const rows of db.stream('select generate_series(1, 100000)', [], { batch: 10 })) {
      expect(rows).toHaveLength(10);
      break;
    }
    const failing = async () => {
      for await (const _ of db.stream('select generate_series(1, 100000)')) throw new Error('mine');
    };
    await expect(failing()).rejects.toThrow('mine');
    const divided = async () => {
      for await (const _ of db.stream('select 1 / (500 - n) from generate_series(1, 1000) n', [], { batch: 100 }));
    };
    await expect(divided()).rejects.toMatchObject({ code: '22012' });
    expect((await db.query('select 1 as one')).rows).toEqual([{ one: 1 }]);
    await close();
  });

  test('a cursor that is left early does not end its transaction', async () => {
    await home.db.transaction(async (tx) => {
      for await (const _ of tx.stream('select generate_series(1, 5000)', [], { batch: 10 })) break;
      expect((await tx.query('select 1 as one')).rows).toEqual([{ one: 1 }]);
    });
  });

  test('what is copied in is copied out', async () => {
    const { db, close } = await freshDatabase();
    await db.query('create table copied (n int, t text)');
    const lines = Array.from({ length: 50_000 }, (_, i) => `${i}\tline ${i}\n`);
    async function* source() {
      for (let i = 0; i < lines.length; i += 1000) yield Buffer.from(lines.slice(i, i + 1000).join(''));
    }
    expect(await db.copyIn('copy copied from stdin', source())).toBe(50_000);
    expect(await db.copyIn('copy copied from stdin', Readable.from([Buffer.from('50000\tlast\n')]))).toBe(1);
    const out = await text(db.copyOut('copy (select * from copied order by n) to stdout'));
    expect(out).toBe(`${lines.join('')}50000\tlast\n`);
    await close();
  });

  test('a source that fails copies nothing and leaves the pool usable', async () => {
    const { db, close } = await freshDatabase({ max: 1 });
    await db.query('create table copied (n int)');
    async function* source() {
      yield Buffer.from('1\n2\n');
      throw new Error('source broke');
    }
    await expect(db.copyIn('copy copied from stdin', source())).rejects.toThrow('source broke');
    const wrong = db.copyIn('copy copied from stdin', Readable.from([Buffer.from('1\nnot a number\n')]));
    await expect(wrong).rejects.toMatchObject({ code: '22P02' });
    expect((await db.query('select count(*) as n from copied')).rows).toEqual([{ n: 0 }]);
    await close();
  });

  test('a copy out that is dropped half way, or fails on the server, never blocks the pool', async () => {
    const { db, close } = await freshDatabase({ max: 1 });
    const out = db.copyOut('copy (select repeat($$x$$, 1000) from generate_series(1, 100000)) to stdout');
    await out.next();
    await out.return();
    expect((await db.query('select 1 as one')).rows).toEqual([{ one: 1 }]);
    const failing = buffer(db.copyOut('copy (select 1 / (5000 - n) from generate_series(1, 10000) n) to stdout'));
    await expect(failing).rejects.toMatchObject({ code: '22012' });
    expect((await db.query('select 1 as one')).rows).toEqual([{ one: 1 }]);
    await close();
  });

  test('a copy out waits for a slow reader, and notices between its rows stay out of it', async () => {
    const { db, close } = await freshDatabase({ max: 1 });
    await db.query(`create function wide(n int) returns text language plpgsql as
      $$ begin if n % 1000 = 0 then raise notice 'at %', n; end if; return repeat(n || ' ', 100); end $$`);
    const pieces: Buffer[] = [];
    for await (const piece of db.copyOut('copy (select wide(n) from generate_series(1, 20000) n) to stdout')) {
      if (pieces.push(piece) % 8 === 0) await sleep(20);
    }
    const lines = Array.from({ length: 20_000 }, (_, i) => `${`${i + 1} `.repeat(100)}\n`);
    expect(Buffer.concat(pieces).equals(Buffer.from(lines.join('')))).toBe(true);
    expect((await db.query('select 1 as one')).rows).toEqual([{ one: 1 }]);
    await close();
  });

  test('a copy out whose pieces are used again has the same bytes, for a fast reader and a slow one, and the next query is whole', async () => {
    const { db, close } = await freshDatabase({ max: 1 });
    const sql = 'copy (select n, repeat(n || $$ $$, 100) from generate_series(1, 20000) n) to stdout';
    const lines = Array.from({ length: 20_000 }, (_, i) => `${i + 1}\t${`${i + 1} `.repeat(100)}\n`);
    for (const every of [0, 8]) {
      const [came, rooms] = [createHash('sha256'), new Set<ArrayBufferLike>()];
      let pieces = 0;
      for await (const piece of db.copyOut(sql, { again: true })) {
        came.update(piece);
        rooms.add(piece.buffer);
        if (every > 0 && ++pieces % every === 0) await sleep(20);
      }
      expect(came.digest('hex')).toBe(createHash('sha256').update(lines.join('')).digest('hex'));
      // 11 MB in pieces of 256 KB.
      expect(rooms.size).toBeLessThan(20);
      expect((await db.query('select repeat($$y$$, 300000) as y')).rows).toEqual([{ y: 'y'.repeat(300_000) }]);
    }
    await close();
  });

  test('a copy out dropped inside a transaction ends the transaction instead of blocking it', async () => {
    const { db, close } = await freshDatabase({ max: 1 });
    const work = db.transaction(async (tx) => {
      const out = tx.copyOut('copy (select repeat($$x$$, 1000) from generate_series(1, 100000)) to stdout');
      for await (const _ of out) break;
    });
    expect(isTransient(await work.catch((error: unknown) => error))).toBe(true);
    expect((await db.query('select 1 as one')).rows).toEqual([{ one: 1 }]);
    await close();
  });
});

describe('listening', () => {
  test('receives what is notified, and null after its connection was cut', async () => {
    const { db, close } = await freshDatabase();
    const payloads: (string | null)[] = [];
    await db.listen('a "channel"', (payload) => payloads.push(payload));
    const until = async (length: number) => {
      for (let i = 0; i < 200 && payloads.length < length; i++) await sleep(25);
    };
    await db.query(`select pg_notify('a "channel"', 'one')`);
    await until(1);
    await db.query(`select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and query like 'LISTEN%'`);
    await until(2);
    await db.query(`select pg_notify('a "channel"', 'two')`);
    await until(3);
    expect(payloads).toEqual(['one', null, 'two']);
    await close();
  });
});

describe('faults', () => {
  test.each([
    ['08006', true],
    ['53100', true],
    ['53300', true],
    ['57P01', true],
    ['40001', true],
    ['40P01', true],
    ['55P03', true],
    ['22P05', false],
    ['23505', false],
    ['42P01', false],
  ])('SQLSTATE %s: worth another attempt is %s', (code, expected) => {
    expect(isTransient(Object.assign(new Error('x'), { code }))).toBe(expected);
  });
});

test('queries that a transaction asks at once run one after the other, and the driver warns of nothing', async () => {
  const warnings: Error[] = [];
  const hear = (warning: Error) => warnings.push(warning);
  process.on('warning', hear);
  try {
    const found = await home.db.transaction((tx) =>
      Promise.all([1, 2, 3].map(async (n) => (await tx.query<{ v: number }>('select $1::int4 as v', [n])).rows[0]!.v)),
    );
    expect(found).toEqual([1, 2, 3]);
    await expect(
      home.db.transaction((tx) => Promise.allSettled([tx.query('select 1/0'), tx.query('select 1')])),
    ).rejects.toThrow('Nothing was committed');
    // A warning is emitted in the next turn.
    await sleep(10);
    expect(warnings).toEqual([]);
  } finally {
    process.off('warning', hear);
  }
});
