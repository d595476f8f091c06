import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { checkSchema, migrate, migrationsFolder, readMigrations } from '../../../migrations/migrate.ts';
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
const files = () => readMigrations(folder);
const recorded = async () => (await db.query('select number, name from troupe.migrations order by number')).rows;
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
    writeFileSync(join(folder, '0002_second.sql'), newer[1]!.sql);
    await db.query('delete from troupe.migrations where number = 3');
    await db.query('alter table a add column if not exists n int');
    await migrate(db, files());
    rmSync(join(folder, '0002_second.sql'));
    rmSync(join(folder, '0003_third.sql'));
    await expect(migrate(db, files())).rejects.toMatchObject({ code: 'schema_newer', message: /schema 3/ });
  }
});

test('a migration names no code newer than its own as the oldest that works with it', () => {
  for (const { number, name: of, works_with } of readMigrations())
    expect(works_with ?? number, `${number} ${of}`).toBeLessThanOrEqual(number);
});

test('a file that fails leaves nothing of itself behind, and what came before it stays', async () => {
  write('0001_first.sql', 'create table a (n int);');
  write('0002_second.sql', 'create table b (n int); select 1/0;');
  await expect(migrate(db, files())).rejects.toMatchObject({ code: '22012' });
  expect(await hasTable('a')).toBe(true);
  expect(await hasTable('b')).toBe(false);
  write('0002_second.sql', 'create table b (n int);');
  expect(await migrate(db, files())).toEqual([2]);
});

test('of two migrators at once each file is applied by one, and both succeed', async () => {
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
  expect(await hasTable('b')).toBe(false);
  write('0002_slow.sql', 'create table b (n int);');
  expect(await migrate(db, files())).toEqual([2]);
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
  const known = readMigrations();
  expect(known.length).toBeGreaterThan(0);
  expect(migrationsFolder()).toMatch(/migrations$/);
  const { db: fresh, close } = await freshDatabase();
  expect(await checkSchema(fresh)).toEqual({ state: 'current', pending: [], why: null });
  await close();
});

test('Migration 48 lays what used an erasure beside it, and loses none', async () => {
  const all = readMigrations();
  await migrate(db, all.slice(0, 47));
  await db.query(
    `insert into troupe.erasures values ('one', 'episode', null, 3, 1, now()), ('two', 'subject', 'asked', 1, 1, now())`,
  );
  await db.query(
    `insert into troupe.erased_use values ('one', 'dataset', 'd', true), ('one', 'checkpoint', 'c', false)`,
  );
  const shown = async () => (await db.query('select * from traj.erasures order by erasure_id, used_by')).rows;
  const before = await shown();
  expect(before).toHaveLength(3);
  await migrate(db, all);
  expect(await shown()).toEqual(before);
});

test('Migration 49 lays a text of two keys down once, and every event is as before', async () => {
  const all = readMigrations();
  await migrate(db, all.slice(0, 48));
  const text = `Ask before you pay. ${'é'.repeat(1000)}`;
  const hash = '93f8d510-38a6-5c08-27e2-18a7952ce1ed';
  for (const [i, key] of ['e/one', 'e/two'].entries()) {
    await db.query('insert into troupe.bodies (key, hash, body) values ($1, $2, $3)', [key, hash, text]);
    await db.query(
      `insert into troupe.stored_events (position, partition, log, key, source, id, name, digest, data, type_version)
       values ($1, 0, 0, $2, '/test', 'a', 'agent.defined', 'x', json_build_object('system_instructions', E'\\uFFFE#${hash}'), 1)`,
      [i, key],
    );
  }
  const shown = async () =>
    (await db.query<{ data: string }>('select key, data::text from troupe.events order by key')).rows;
  const before = await shown();
  expect(before.map(({ data }) => JSON.parse(data))).toEqual([
    { system_instructions: text },
    { system_instructions: text },
  ]);
  await migrate(db, all);
  expect(await shown()).toEqual(before);
  expect(
    (
      await db.query(
        `select body, convert_from(bytes, 'UTF8') = $1 as same from troupe.bodies join troupe.blobs on sha256 = blob`,
        [text],
      )
    ).rows,
  ).toEqual([
    { body: '', same: true },
    { body: '', same: true },
  ]);
  expect((await db.query('select count(*)::integer as n from troupe.blobs')).rows).toEqual([{ n: 1 }]);
});
