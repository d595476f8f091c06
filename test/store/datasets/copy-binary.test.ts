import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { copyToArrow, readArrow } from '../../../store/datasets/arrow.ts';
import type { ColumnKind } from '../../../store/datasets/columns.ts';
import { copyBatches } from '../../../store/datasets/copy-binary.ts';
import { anyCharacter } from '../../support/character.ts';
import { freshDatabase, type TestDatabase } from '../../support/database.ts';

const TYPES: readonly (readonly [name: string, kind: ColumnKind, sql: string])[] = [
  ['t', 'text', 'text'],
  ['i', 'int4', 'integer'],
  ['b', 'int8', 'bigint'],
  ['r', 'float4', 'real'],
  ['d', 'float8', 'double precision'],
  ['o', 'bool', 'boolean'],
  ['z', 'timestamptz', 'timestamptz'],
  ['li', 'int4[]', 'integer[]'],
  ['ls', 'int2[]', 'smallint[]'],
  ['lr', 'float4[]', 'real[]'],
  ['m', 'mask', 'smallint[]'],
];
const COLUMNS = TYPES.map(([name, kind]) => ({ name, kind }));

const int4 = fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 });
const int2 = fc.integer({ min: -(2 ** 15), max: 2 ** 15 - 1 });
const real = fc.float({ noDefaultInfinity: false, noNaN: false });
const list = <T>(member: fc.Arbitrary<T>) =>
  fc.option(fc.array(fc.option(member, { freq: 6 }), { maxLength: 12 }), { freq: 5 });
const text = fc.string({ unit: anyCharacter, maxLength: 40 }).map((s) => s.replaceAll('\0', '').toWellFormed());
const row = fc.record({
  t: fc.option(text),
  i: fc.option(int4),
  b: fc.option(fc.maxSafeInteger()),
  r: fc.option(real),
  d: fc.option(fc.double()),
  o: fc.option(fc.boolean()),
  z: fc.option(
    fc
      .date({ min: new Date('1500-01-01'), max: new Date('2500-01-01'), noInvalidDate: true })
      .map((d) => d.toISOString()),
  ),
  li: list(int4),
  ls: list(int2),
  lr: list(real),
  m: list(fc.constantFrom(0, 1)),
});

/** What a plain SELECT gave, in the terms of a row of an Arrow file. */
function expected(selected: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const { b, z, ...same } = selected as Record<string, unknown>;
  // SELECT writes a real with as few digits as tell it from its neighbours; the column holds the real itself.
  same.r = typeof same.r === 'number' ? Math.fround(same.r) : same.r;
  same.lr =
    (same.lr as (number | null)[] | null)?.map((member) => (member === null ? null : Math.fround(member))) ?? null;
  const micros = z === null ? null : BigInt(Date.parse(z as string)) * 1000n;
  return { ...same, b: b === null ? null : BigInt(b as number), z: micros };
}

const plain = (value: unknown): unknown =>
  ArrayBuffer.isView(value) ? Array.from(value as unknown as ArrayLike<number>) : value;
const plainRow = (value: Readonly<Record<string, unknown>>) =>
  Object.fromEntries(Object.entries(value).map(([k, v]) => [k, plain(v)]));

async function arrowOf(source: AsyncIterable<Uint8Array>, options = {}, columns = COLUMNS): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  await copyToArrow(source, columns, (bytes) => void parts.push(Buffer.from(bytes)), options);
  return Buffer.concat(parts);
}

describe('binary COPY into Arrow', () => {
  let database: TestDatabase;
  beforeAll(async () => {
    database = await freshDatabase();
    await database.db.query(
      `create table probe (n integer, ${TYPES.map(([name, , sql]) => `${name} ${sql}`).join(', ')})`,
    );
  });
  afterAll(() => database.close());

  const names = TYPES.map(([name]) => name).join(', ');
  const load = async (rows: readonly Record<string, unknown>[]) => {
    await database.db.query('truncate probe');
    const places = TYPES.map(([, , sql], i) => `$${i + 2}::text::${sql}`).join(', ');
    for (const [n, values] of rows.entries()) {
      const texts = TYPES.map(([name]) => literal(values[name]));
      await database.db.query(`insert into probe values ($1, ${places})`, [n, ...texts]);
    }
  };
  const literal = (value: unknown): string | null => {
    if (value === null || value === undefined) return null;
    if (Array.isArray(value)) return `{${value.map((member) => literal(member) ?? 'NULL').join(',')}}`;
    return Object.is(value, -0) ? '-0' : String(value);
  };
  const copy = () => database.db.copyOut(`copy (select ${names} from probe order by n) to stdout (format binary)`);

  it('gives the rows that a plain SELECT gives: nulls, empty lists, nulls in lists, NaN, infinities, any text', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(row, { maxLength: 30 }), fc.integer({ min: 1, max: 9 }), async (rows, batchRows) => {
        await load(rows);
        const selected = (await database.db.query(`select ${names} from probe order by n`)).rows.map(expected);
        const frame = readArrow(await arrowOf(copy(), { batchRows }));
        expect([...frame.each()].map(plainRow)).toEqual(
          selected.map((one) => Object.fromEntries(COLUMNS.map(({ name }) => [name, one[name]]))),
        );
        for (const { name } of COLUMNS)
          expect(frame.column(name)!.map(plain)).toEqual(selected.map((one) => one[name]));
      }),
      { numRuns: 25 },
    );
  });

  it('gives the same bytes however the stream is cut into chunks', async () => {
    await load(fc.sample(row, { numRuns: 20, seed: 3 }));
    const whole = await buffer(copy());
    const once = await arrowOf(Readable.from([whole], { objectMode: true }));
    await fc.assert(
      fc.asyncProperty(fc.array(fc.integer({ min: 1, max: 400 }), { minLength: 1, maxLength: 40 }), async (sizes) => {
        const chunks: Buffer[] = [];
        for (let at = 0, i = 0; at < whole.length; i++) {
          const size = sizes[i % sizes.length]!;
          chunks.push(whole.subarray(at, at + size));
          at += size;
        }
        expect((await arrowOf(Readable.from(chunks, { objectMode: true }))).equals(once)).toBe(true);
      }),
      { numRuns: 60 },
    );
  });

  it('grows over many rows and over rows longer than a chunk', async () => {
    const sql =
      "select n, repeat('ä', n % 7), array(select generate_series(1, n % 5)) from generate_series(1, 5000) n union all select 5001, repeat('x', 3000000), null order by 1";
    const columns = [
      { name: 'n', kind: 'int4' },
      { name: 't', kind: 'text' },
      { name: 'l', kind: 'int4[]' },
    ] as const;
    const frame = readArrow(
      await arrowOf(database.db.copyOut(`copy (${sql}) to stdout (format binary)`), {}, columns as never),
    );
    expect(frame.rows).toBe(5001);
    const rows = [...frame.each()];
    expect(rows.every((one, i) => one.n === i + 1)).toBe(true);
    expect(rows[12]!.t).toBe('ä'.repeat(6));
    expect(plain(rows[13]!.l)).toEqual([1, 2, 3, 4]);
    expect((rows[5000]!.t as string).length).toBe(3_000_000);
  });

  it('ends a batch of long rows at twice its bytes, so that not all 64 rows of a slice are held', async () => {
    const source = database.db.copyOut(
      `copy (select repeat('x', 300000) from generate_series(1, 40)) to stdout (format binary)`,
    );
    const rows: number[] = [];
    for await (const [texts] of copyBatches(source, [{ kind: 'text' }], { batchBytes: 1_000_000 }))
      rows.push(texts!.length);
    expect(rows).toEqual([7, 7, 7, 7, 7, 5]);
  });

  it('holds zeros for what is null, also where a batch before had values in the same arrays', async () => {
    const [n, list] = ['nullif(n, greatest(n, 5))', 'array[nullif(n, greatest(n, 5))]'];
    const asked = `${n}, ${n}::bigint, ${n}::float8, ${n} > 0, timestamptz 'epoch' + ${n} * interval '1 s', ${list}`;
    const source = database.db.copyOut(`copy (select ${asked} from generate_series(1, 8) n) to stdout (format binary)`);
    const kinds = ['int4', 'int8', 'float8', 'bool', 'timestamptz', 'int4[]'] as const;
    const batches: string[] = [];
    for await (const batch of copyBatches(
      source,
      kinds.map((kind) => ({ kind })),
      { batchRows: 2 },
    ))
      batches.push(batch.map((column) => [...(column.child ?? column).values].join(' ')).join(', '));
    expect(batches.slice(2)).toEqual(['0 0, 0 0, 0 0, 0, 0 0, 0 0', '0 0, 0 0, 0 0, 0, 0 0, 0 0']);
    expect(batches[0]).toBe('1 2, 1 2, 1 2, 3, 1000000 2000000, 1 2');
  });

  it('writes an empty table as a file with columns and no rows', async () => {
    await database.db.query('truncate probe');
    const frame = readArrow(await arrowOf(copy()));
    expect([frame.rows, frame.columns]).toEqual([0, COLUMNS.map(({ name }) => name)]);
    expect(frame.column('t')).toEqual([]);
  });

  it('refuses what it cannot hold: nested arrays, a mask that is none, another number of columns, a stream cut short', async () => {
    const of = (sql: string, kind: ColumnKind) =>
      arrowOf(database.db.copyOut(`copy (${sql}) to stdout (format binary)`), {}, [{ name: 'x', kind }]);
    await expect(of('select array[[1,2],[3,4]]', 'int4[]')).rejects.toMatchObject({ code: 'sql_failed' });
    await expect(of('select array[300]::smallint[]', 'mask')).rejects.toMatchObject({ code: 'sql_failed' });
    await expect(of('select 1, 2', 'int4')).rejects.toMatchObject({ code: 'sql_failed' });
    await load(fc.sample(row, { numRuns: 5, seed: 1 }));
    const whole = await buffer(copy());
    for (const length of [0, 5, 30, whole.length - 3]) {
      await expect(arrowOf(Readable.from([whole.subarray(0, length)], { objectMode: true }))).rejects.toMatchObject({
        code: 'sql_failed',
      });
    }
    await expect(
      arrowOf(Readable.from([Buffer.from('this is not what a COPY looks like')], { objectMode: true })),
    ).rejects.toMatchObject({ code: 'sql_failed' });
  });

  it('leaves the connections usable after a refused stream', async () => {
    for (let i = 0; i < 8; i++) {
      const source = database.db.copyOut(
        'copy (select array[[1,2],[3,4]] from generate_series(1, 100000)) to stdout (format binary)',
      );
      await expect(arrowOf(source, {}, [{ name: 'x', kind: 'int4[]' }])).rejects.toMatchObject({ code: 'sql_failed' });
    }
    expect((await database.db.query('select 1 as one')).rows).toEqual([{ one: 1 }]);
  });
});
