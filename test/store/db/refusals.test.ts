import { randomBytes } from 'node:crypto';
import { chmodSync, existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { DatabaseOptions } from '../../../store/db/database.ts';
import { openDatabase } from '../../../store/db/database.ts';
import { openPool } from '../../../store/db/pool.ts';
import { freshDatabase, testServerUrl } from '../../support/database.ts';
import { isRoot, NOBODY, openFolder, startUser } from './processes.ts';

let folder: string;
beforeEach(() => {
  folder = openFolder();
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** Exit code and the one line of a program that opens this database. */
async function refusal(options: DatabaseOptions, becoming?: typeof NOBODY) {
  const user = startUser(options, becoming ? { becoming } : {});
  const printed = await user.opened.then(
    () => 'it opened',
    (error: Error) => error.message,
  );
  expect(printed.trimEnd().split('\n')).toHaveLength(1);
  return { exit: await user.ended, line: printed.trimEnd() };
}

async function administer<T>(sql: string): Promise<T[]> {
  const admin = openPool(await testServerUrl());
  const { rows } = await admin.query<T>(sql);
  await admin.close();
  return rows;
}

/** Databases of the server, without those that other tests make and drop meanwhile. */
const databases = () =>
  administer<{ names: string }>(
    `select array_agg(datname order by datname) names from pg_database where datname !~ '^(test|behind)_'`,
  );

/** Everything a start could change in a database: its relations and what was migrated. */
async function fingerprint(url: string): Promise<unknown> {
  const db = openPool(url);
  const { rows } = await db.query(`select
    (select md5(string_agg(oid::text || relname || relfilenode, ',' order by oid)) from pg_class) as relations,
    (select json_agg(m order by number) from troupe.migrations m) as migrations`);
  await db.close();
  return rows[0];
}

describe('P54: refused with one line, a code that is not 0, and nothing changed', () => {
  test('a server that does not answer', async () => {
    const probe = createServer().listen(0, '127.0.0.1');
    await new Promise((resolve) => probe.once('listening', resolve));
    const { port } = probe.address() as { port: number };
    await new Promise((resolve) => probe.close(resolve));
    const home = join(folder, 'home');
    const { exit, line } = await refusal({ home, databaseUrl: `postgres://me:secret@127.0.0.1:${port}/x` });
    expect(line).toBe(
      `unreachable: Cannot reach PostgreSQL at 127.0.0.1:${port}: nothing answers there. Is the server up?`,
    );
    expect(exit).toBe(5);
    expect(existsSync(home)).toBe(false);
  });

  test('a host that does not exist', async () => {
    const { exit, line } = await refusal({ databaseUrl: 'postgres://me:secret@nowhere.invalid/x' });
    expect(line).toBe('unreachable: Cannot reach PostgreSQL at nowhere.invalid:5432: the host name is not known.');
    expect(exit).toBe(5);
  });

  test('a wrong password, which is not repeated', async () => {
    const url = new URL(await testServerUrl());
    url.password = 'a-wrong-secret';
    const { exit, line } = await refusal({ databaseUrl: url.href });
    expect(line).toMatch(/^unreachable: PostgreSQL at \/\S+ refused the login of user "troupe"/);
    expect(line).not.toContain('a-wrong-secret');
    expect(exit).toBe(5);
  });

  test('an address that is none, which is not repeated', async () => {
    const { exit, line } = await refusal({ databaseUrl: 'mysql://me:secret@host/x' });
    expect(line).toMatch(/^config_invalid: .* expected postgres:/);
    expect(line).not.toContain('secret');
    expect(exit).toBe(2);
  });

  test('a project name that is none', async () => {
    const home = join(folder, 'home');
    const { exit, line } = await refusal({ home, project: 'a"b' });
    expect(line).toMatch(/^config_invalid: "a"b" is not a project name/);
    expect(exit).toBe(2);
    expect(existsSync(home)).toBe(false);
  });

  test('a schema that is newer', async () => {
    const { db, url, close } = await freshDatabase();
    await db.query(`insert into troupe.migrations (number, name, sha256) values (9999, 'of tomorrow', '')`);
    const before = await fingerprint(url);
    const { exit, line } = await refusal({ databaseUrl: url });
    expect(line).toMatch(
      /^schema_newer: The database has schema 9999, this Troupe knows up to \d+ and does not work with migration 9999 \(of tomorrow\)/,
    );
    expect(exit).toBe(1);
    expect(await fingerprint(url)).toEqual(before);
    await close();
  });

  test('a schema that is behind, when migrating is not allowed', async () => {
    const name = `behind_${randomBytes(4).toString('hex')}`;
    await administer(`create database ${name}`);
    const { exit, line } = await refusal({ databaseUrl: await testServerUrl(name), migrate: false });
    expect(line).toMatch(/^schema_missing: Database "behind_\w+" at \/\S+ lacks \d+ migrations from 1 /);
    expect(exit).toBe(1);
    const db = openPool(await testServerUrl(name));
    expect((await db.query(`select 1 from pg_namespace where nspname = 'troupe'`)).count).toBe(0);
    await db.close();
    await administer(`drop database ${name}`);
  });

  test('a database that is missing, when migrating is not allowed', async () => {
    const before = await databases();
    const { exit, line } = await refusal({ databaseUrl: await testServerUrl(), project: 'absent', migrate: false });
    expect(line).toMatch(/^not_found: PostgreSQL at \/\S+ has no database "absent"\.$/);
    expect(exit).toBe(1);
    expect(await databases()).toEqual(before);
  });

  test('a database that is missing, for a user who may not create it, who gets the statement that makes it', async () => {
    await administer(`create role lowly login password 'pw'`);
    const url = new URL(await testServerUrl());
    url.username = 'lowly';
    url.password = 'pw';
    const { exit, line } = await refusal({ databaseUrl: url.href, project: 'absent' });
    const [, statement] = /user "lowly" may not create it; ask for: (CREATE DATABASE "absent" OWNER "lowly" .*;)$/.exec(
      line,
    )!;
    expect(exit).toBe(1);
    await administer(statement!);
    const opened = await openDatabase({ databaseUrl: url.href, project: 'absent' });
    expect((await opened.db.query('select from traj.episodes')).count).toBe(0);
    await opened.close();
    await administer('drop database absent');
    await administer('drop role lowly');
  });

  test('a database of somebody else, naming the owner that it should have', async () => {
    await administer(`create role guest login password 'pw'`);
    await administer('create database theirs');
    const url = new URL(await testServerUrl('theirs'));
    url.username = 'guest';
    url.password = 'pw';
    const { exit, line } = await refusal({ databaseUrl: url.href });
    expect(line).toMatch(/^config_invalid: User "guest" may not make Troupe's tables in database "theirs" at /);
    expect(line).toMatch(/ask for: ALTER DATABASE "theirs" OWNER TO "guest";$/);
    expect(exit).toBe(2);
    await administer('drop database theirs');
    await administer('drop role guest');
  });

  test('a home where a file is in the way', async () => {
    const home = join(folder, 'home');
    writeFileSync(home, 'mine');
    const { exit, line } = await refusal({ home });
    expect(line).toBe(
      `home_unwritable: Cannot write the home ${home}: a file is in the way. Set TROUPE_HOME or --home to a folder this user can write.`,
    );
    expect(exit).toBe(1);
    expect(readdirSync(folder)).toEqual(['home']);
  });

  test.skipIf(!isRoot)('a home that this user may not write', async () => {
    const home = join(folder, 'home');
    const { exit, line } = await refusal({ home }, NOBODY);
    expect(line).toMatch(/^home_unwritable: .*\/home: permission denied\./);
    expect(exit).toBe(1);
    expect(readdirSync(folder)).toEqual([]);
    mkdirSync(home);
    chmodSync(home, 0o755);
    expect((await refusal({ home }, NOBODY)).line).toMatch(/^home_unwritable: /);
    expect(readdirSync(home)).toEqual([]);
  });
});

describe('opening a database on a server that is configured', () => {
  test('creates the database of the project once, also when two open it at once, and sorts by code point', async () => {
    const project = `made-${randomBytes(4).toString('hex')}`;
    const databaseUrl = await testServerUrl();
    const [one, two] = await Promise.all([1, 2].map(() => openDatabase({ databaseUrl, project })));
    expect(one!.embedded).toBe(false);
    expect(new URL(one!.url).pathname).toBe(`/${project}`);
    const { rows } = await two!.db.query(
      `select current_database() as name, datlocale, pg_encoding_to_char(encoding) as encoding
       from pg_database where datname = current_database()`,
    );
    expect(rows).toEqual([{ name: project, datlocale: 'C.UTF-8', encoding: 'UTF8' }]);
    await Promise.all([one!.close(), two!.close()]);
    await administer(`drop database "${project}"`);
  });

  test('without a project takes the database that the address names', async () => {
    const { url, close } = await freshDatabase();
    const database = await openDatabase({ databaseUrl: url, migrate: false });
    expect(database.project).toBe(new URL(url).pathname.slice(1));
    await database.close();
    await close();
  });
});
