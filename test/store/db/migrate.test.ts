import { randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it, test } from 'vitest';
import { checkSchema, migrate, migrationsFolder, readSchema } from '../../../migrations/migrate.ts';
import { type Db, openPool } from '../../../store/db/pool.ts';
import { freshDatabase, testServerUrl } from '../../support/database.ts';

let folder: string;
let name: string;
let db: Db;
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'troupe-migrations-'));
  name = `empty_${randomBytes(6).toString('hex')}`;
  await administer(`create database ${name} template template0`);
  db = openPool(await testServerUrl(name));
});
afterEach(async () => {
  await db.close();
  await administer(`drop database ${name} with (force)`);
  rmSync(folder, { recursive: true });
});

async function administer(sql: string): Promise<void> {
  const admin = openPool(await testServerUrl());
  await admin.query(sql);
  await admin.close();
}

function write(file: string, sql: string) {
  writeFileSync(join(folder, file), sql);
}
const files = () => readSchema(folder);
const recorded = async () =>
  (await db.query('select number, name from troupe.migrations where number > 0 order by number')).rows;
const hasTable = async (table: string) =>
  (await db.query<{ there: boolean }>('select to_regclass($1) is not null as there', [table])).rows[0]!.there;

test('files are applied in order, once each, and recorded by number and name', async () => {
  write('0001_first.sql', '--! the first table\ncreate table a (n int);');
  write('0002_second.sql', 'insert into a values (1); create table b as select * from a;');
  expect(await migrate(db, files())).toEqual([1, 2]);
  expect(await migrate(db, files())).toEqual([]);
  expect(await recorded()).toEqual([
    { number: 1, name: 'the first table' },
    { number: 2, name: '0002_second' },
  ]);
  write('0003_third.sql', 'create table c (n int);');
  expect((await checkSchema(db, files())).pending.map(({ number }) => number)).toEqual([3]);
  expect(await migrate(db, files())).toEqual([3]);
});

test('the numbers of a folder are 1, 2, 3 … without gap or repetition', () => {
  write('0001_first.sql', '');
  write('0003_third.sql', '');
  expect(files).toThrow(/2 is not there once/);
  write('0002_second.sql', '');
  write('0002_other.sql', '');
  expect(files).toThrow(/3 is not there once/);
});

test('line ends of a checkout do not count as a change, another word does and is refused by name', async () => {
  write('0001_first.sql', '--! first\ncreate table a (n int);\n');
  await migrate(db, files());
  write('0001_first.sql', '--! first\r\ncreate table a (n int);\r\n');
  expect(await migrate(db, files())).toEqual([]);
  write('0001_first.sql', '--! first\ncreate table a (n bigint);\n');
  write('0002_second.sql', 'create table b (n int);');
  await expect(migrate(db, files())).rejects.toMatchObject({ code: 'conflict', message: /Migration 1 \(first\)/ });
  expect(await hasTable('b')).toBe(false);
});

test('P54: a database that is newer than the code is refused and left as it is', async () => {
  write('0001_first.sql', 'create table a (n int);');
  write('0002_second.sql', '--! of tomorrow\ncreate table b (n int);');
  await migrate(db, files());
  rmSync(join(folder, '0002_second.sql'));
  await expect(migrate(db, files())).rejects.toMatchObject({
    code: 'schema_newer',
    message: /schema 2 \(of tomorrow\)/,
  });
  expect(await recorded()).toHaveLength(2);
});

test('a database that newer code migrated is worked with where each newer file says so, and the reason is given', async () => {
  write('0001_first.sql', 'create table a (n int);');
  write('0002_second.sql', '--! a column more\n--! works with 1\nalter table a add column m int;');
  await migrate(db, files());
  const newer = files();
  rmSync(join(folder, '0002_second.sql'));
  expect(await migrate(db, files())).toEqual([]);
  expect(await checkSchema(db, files())).toEqual({
    state: 'compatible',
    pending: [],
    why: 'The database has schema 2 (a column more), this Troupe knows up to 1, and they work together; run the newer Troupe here too.',
  });
  // One that says nothing, or needs newer code than this, ends it.
  for (const header of ['', '--! works with 2\n']) {
    write('0003_third.sql', `${header}alter table a drop column n;`);
    writeFileSync(join(folder, '0002_second.sql'), newer.migrations[1]!.sql);
    await db.query('delete from troupe.migrations where number = 3');
    await db.query('alter table a add column if not exists n int');
    await migrate(db, files());
    rmSync(join(folder, '0002_second.sql'));
    rmSync(join(folder, '0003_third.sql'));
    await expect(migrate(db, files())).rejects.toMatchObject({ code: 'schema_newer', message: /schema 3/ });
  }
});

test('a migration names no code newer than its own as the oldest that works with it', () => {
  for (const { number, name: of, works_with } of readSchema().migrations)
    expect(works_with ?? number, `${number} ${of}`).toBeLessThanOrEqual(number);
});

test('a file that fails leaves nothing of the upgrade behind, and what was there stays', async () => {
  write('0001_first.sql', 'create table a (n int);');
  await migrate(db, files());
  write('0002_second.sql', 'create table b (n int);');
  write('0003_third.sql', 'create table c (n int); select 1/0;');
  await expect(migrate(db, files())).rejects.toMatchObject({ code: '22012' });
  expect(await Promise.all(['a', 'b', 'c'].map(hasTable))).toEqual([true, false, false]);
  write('0003_third.sql', 'create table c (n int);');
  expect(await migrate(db, files())).toEqual([2, 3]);
});

test('of two migrators at once one applies the files, and both succeed', async () => {
  for (const n of [1, 2, 3, 4]) write(`000${n}_file.sql`, `select pg_sleep(0.05); create table t${n} (n int);`);
  const other = openPool(await testServerUrl(name));
  const applied = await Promise.all([db, other, db, other].map((each) => migrate(each, files())));
  await other.close();
  expect(applied.flat().sort()).toEqual([1, 2, 3, 4]);
  expect(await recorded()).toHaveLength(4);
});

test('a migrator that is cut off midway leaves no half schema, and the next one finishes', async () => {
  write('0001_first.sql', 'create table a (n int);');
  write('0002_slow.sql', 'create table b (n int); select pg_sleep(20);');
  const cut = migrate(db, files()).catch((error: Error) => error.message);
  const admin = openPool(await testServerUrl());
  for (let killed = 0; killed === 0; await sleep(25)) {
    const { count } = await admin.query(
      `select pg_terminate_backend(pid) from pg_stat_activity where datname = $1 and query like '%pg_sleep(20)%'`,
      [name],
    );
    killed = count;
  }
  await admin.close();
  expect(await cut).toMatch(/terminat/);
  expect(await Promise.all(['a', 'b'].map(hasTable))).toEqual([false, false]);
  write('0002_slow.sql', 'create table b (n int);');
  expect(await migrate(db, files())).toEqual([1, 2]);
});

test('a table that others hold is waited for in short turns, so that nobody queues long behind the migration', async () => {
  write('0001_first.sql', 'create table a (n int);');
  await migrate(db, files());
  write('0002_second.sql', 'alter table a add column m int;');
  let longest = 0;
  const holding = db.transaction(async (tx) => {
    await tx.query('lock table a in access share mode');
    const end = performance.now() + 4000;
    while (performance.now() < end) {
      const start = performance.now();
      await db.query('select count(*) from a');
      longest = Math.max(longest, performance.now() - start);
      await sleep(20);
    }
  });
  await sleep(50);
  expect(await migrate(db, files())).toEqual([2]);
  await holding;
  expect(longest).toBeGreaterThan(1000);
  expect(longest).toBeLessThan(3500);
});

test("this code's own migrations are found, and a fresh test database has them all", async () => {
  expect(readSchema().migrations.length).toBeGreaterThan(0);
  expect(migrationsFolder()).toMatch(/migrations$/);
  const { db: fresh, close } = await freshDatabase();
  expect(await checkSchema(fresh)).toEqual({ state: 'current', pending: [], why: null });
  await close();
});

/** A schema traj with a table and the views `a` and `b`, of which b reads a. */
function writeViews(a: string, b = 'select n, m from traj.a') {
  mkdirSync(join(folder, 'views/traj'), { recursive: true });
  write('0001_first.sql', 'create schema traj; create table t (n int, m int); insert into t values (1, 2);');
  write('views/order.txt', 'traj.a\ntraj.b\n');
  write('views/traj/a.sql', `create view traj.a as ${a};`);
  write('views/traj/b.sql', `create view traj.b as ${b};`);
}
const shown = async (view: string) => (await db.query(`select * from ${view}`)).rows;

describe('Views', () => {
  it('are made after the numbered files, in the order of their list, and again when a text changed', async () => {
    writeViews('select n, m from t');
    expect(await migrate(db, files())).toEqual([1]);
    expect(await shown('traj.b')).toEqual([{ n: 1, m: 2 }]);
    expect((await checkSchema(db, files())).state).toBe('current');
    writeViews('select m, n + 10 as n from t');
    expect((await checkSchema(db, files())).state).toBe('behind');
    expect(await migrate(db, files())).toEqual([]);
    expect(await shown('traj.b')).toEqual([{ n: 11, m: 2 }]);
    expect((await checkSchema(db, files())).state).toBe('current');
  });

  it('do not stand in the way of a numbered file that changes what they read', async () => {
    writeViews('select n, m from t');
    await migrate(db, files());
    writeViews('select n, o as m from t');
    write('0002_second.sql', 'alter table t alter column n type bigint; alter table t rename column m to o;');
    expect(await migrate(db, files())).toEqual([2]);
    expect(await shown('traj.b')).toEqual([{ n: 1, m: 2 }]);
  });

  it('of other people that read ours stay, with their order, owner, rights, options, comments and indexes; so do the rights on ours', async () => {
    writeViews('select n, m from t');
    await migrate(db, files());
    await db.query(`
      create schema mine;
      create view mine.one with (security_barrier) as select n, m from traj.b;
      comment on view mine.one is 'of the course';
      comment on column mine.one.m is 'of the day';
      create materialized view mine.two as select n from mine.one;
      create unique index two_n on mine.two (n);
      alter view mine.one owner to pg_monitor;
      grant usage on schema mine, traj to pg_monitor;
      grant select on traj.b to pg_monitor;
      grant select on mine.one to pg_read_all_stats with grant option;
      grant select (m) on mine.one to public`);
    const theirs = `
      select c.oid::regclass::text as name, c.reloptions::text as options, pg_get_userbyid(c.relowner) as owner, c.relacl::text as rights,
             obj_description(c.oid) as about, (select array_agg(indexdef) from pg_indexes where tablename = c.relname) as indexes,
             (select json_agg(json_build_object('acl', attacl::text, 'note', col_description(c.oid, attnum)) order by attnum) from pg_attribute where attrelid = c.oid and attnum > 0) as columns
      from pg_class c where c.relkind in ('v', 'm') and c.relnamespace in ('mine'::regnamespace, 'traj'::regnamespace) order by 1`;
    const before = (await db.query(theirs)).rows;
    expect(before).toHaveLength(4);
    writeViews('select n + 10 as n, m from t');
    await migrate(db, files());
    expect((await db.query(theirs)).rows).toEqual(before);
    expect(await shown('mine.two')).toEqual([{ n: 11 }]);
  });

  it('of other people that need what is gone stop the upgrade by name, and everything stays', async () => {
    writeViews('select n, m from t');
    await migrate(db, files());
    await db.query('create schema mine; create view mine.one as select m from traj.b');
    writeViews('select n from t', 'select n from traj.a');
    await expect(migrate(db, files())).rejects.toMatchObject({
      code: 'conflict',
      message: /The view mine\.one is not/,
    });
    expect(await shown('mine.one')).toEqual([{ m: 2 }]);
  });

  it('of newer code stay where older code works with it', async () => {
    writeViews('select n, m from t');
    const older = files();
    await migrate(db, older);
    writeViews('select n + 10 as n, m from t');
    write('0002_second.sql', '--! works with 1\nalter table t add column o int;');
    await migrate(db, files());
    expect(await migrate(db, older)).toEqual([]);
    expect(await shown('traj.b')).toEqual([{ n: 11, m: 2 }]);
  });

  it('and the lines of their order are one for one', () => {
    writeViews('select n, m from t');
    write('views/order.txt', 'traj.a\n');
    expect(files).toThrow(/order\.txt does not name each file once: traj\.b/);
    write('views/order.txt', 'traj.a\ntraj.b\ntraj.c\n');
    expect(files).toThrow(/traj\.c/);
    write('views/order.txt', 'traj.a\ntraj.b\ntraj.a\n');
    expect(files).toThrow(/a repeated name/);
  });
});

test('a database made before the first file of now is refused in a sentence that says what to do, and left as it is', async () => {
  write('0001_first.sql', 'create table a (n int);');
  await migrate(db, files());
  await expect(migrate(db)).rejects.toMatchObject({
    code: 'conflict',
    message: /made by a Troupe up to commit b6a62b64.*export it.*import it.*docs\/upgrading\.md.*Nothing was changed/,
  });
  expect(await hasTable('troupe.stored_events')).toBe(false);
});
