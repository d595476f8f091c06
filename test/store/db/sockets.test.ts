import { chmodSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { prepareBinaries } from '../../../store/server/binaries.ts';
import { ensureCluster } from '../../../store/server/cluster.ts';
import { homeAt, openHome } from '../../../store/server/home.ts';
import { joinKeeper } from '../../../store/server/keeping.ts';
import { type Server, startServer } from '../../../store/server/launcher.ts';
import { openConnection } from '../../support/connection.ts';
import { freePort } from '../../support/free-port.ts';
import { cleanUp, openFolder, startUser, untilGone } from './processes.ts';

let folder: string;
let home: string;
beforeEach(() => {
  folder = openFolder();
  home = join(folder, 'home');
});
afterEach(() => cleanUp(folder, home));

async function ask<T>(url: string, sql: string): Promise<T> {
  const connection = await openConnection(url);
  const { rows } = await connection.query<{ v: T }>(sql);
  await connection.close();
  return rows[0]!.v;
}

const socketFolder = (url: string): string => decodeURIComponent(new URL(url).hostname);

async function startIn(place: string, port?: number): Promise<Server> {
  const binaries = prepareBinaries();
  mkdirSync(place, { recursive: true });
  const cluster = await ensureCluster(binaries, join(place, 'data'), false);
  return startServer(binaries, cluster, { durable: false, ...(port === undefined ? {} : { port }) });
}

describe('the embedded server', () => {
  test('listens on a socket in a folder that only its owner can enter, and on no TCP port unless one is asked for; its name may have quotes, commas and letters beyond ASCII', async () => {
    const place = join(folder, `it's "a", é b`);
    const server = await startIn(place);
    const url = server.url('postgres');
    expect(socketFolder(url)).toContain(place);
    expect(await ask(url, `select current_setting('listen_addresses') as v`)).toBe('');
    expect(statSync(socketFolder(url)).mode & 0o777).toBe(0o700);
    expect(statSync(join(socketFolder(url), '.s.PGSQL.5432')).mode & 0o777).toBe(0o700);
    await server.stop();
    expect(await openConnection(url).catch((error: Error) => error.message)).toBe(
      `Cannot reach PostgreSQL at ${socketFolder(url)}/.s.PGSQL.5432: nothing answers there. Is the server up?`,
    );
    const port = await freePort();
    const again = await startIn(place, port);
    const tcp = new URL(again.url('postgres'));
    tcp.hostname = '127.0.0.1';
    expect(tcp.port).toBe(String(port));
    expect(await ask(tcp.href, 'select 1 as v')).toBe(1);
    expect(await ask(again.url('postgres'), 'select 1 as v')).toBe(1);
    await again.stop();
  });

  test('has its socket at a short path where the home has a long one, and the same at the next start', async () => {
    const long = join(folder, 'a folder with "quotes", commas and é'.padEnd(120, 'x'));
    const server = await startIn(long);
    const url = server.url('postgres');
    const short = socketFolder(url);
    expect(short).toMatch(/^\/tmp\/troupe-\d+\/[0-9a-f]{24}$/);
    expect(statSync(short).mode & 0o777).toBe(0o700);
    expect(await ask(url, 'select 1 as v')).toBe(1);
    await server.stop();
    const again = await startIn(long);
    expect(again.url('postgres')).toBe(url);
    await again.stop();
    rmSync(short, { recursive: true });
  });
});

describe('the program that holds the embedded server', () => {
  test('listens on a socket that only its owner can reach, and cuts off who writes without end; folders that an earlier version left open to others, and the file of a program that has ended, are in no way', async () => {
    const first = startUser({ home });
    await first.opened;
    const { path } = JSON.parse(readFileSync(join(home, 'run', 'keeper.json'), 'utf8')) as { path: string };
    expect(statSync(dirname(path)).mode & 0o777).toBe(0o700);
    const stranger = connect(path).on('error', () => {});
    const write = () =>
      new Promise<boolean>((resolve) => stranger.write(Buffer.alloc(65_536, 'x'), (e) => resolve(!e)));
    let taken = 0;
    while (taken < 16 * 1024 * 1024 && (await write())) taken += 65_536;
    expect(taken).toBeLessThan(16 * 1024 * 1024);
    const entered = await joinKeeper(homeAt(home));
    expect(entered?.address.url).toContain(encodeURIComponent(join(home, 'data')));
    entered?.socket.destroy();
    await first.leave();
    await untilGone(home);
    for (const name of ['data', 'run']) chmodSync(join(home, name), 0o755);
    writeFileSync(join(home, 'run', 'keeper.json'), JSON.stringify({ port: await freePort(), token: 't', pid: 1 }));
    const user = startUser({ home });
    const { url } = await user.opened;
    expect(statSync(join(home, 'run')).mode & 0o777).toBe(0o700);
    expect(statSync(socketFolder(url)).mode & 0o777).toBe(0o700);
    await user.leave();
  });

  test('of an earlier version, which listens on a port, is shared as long as it runs', async () => {
    const address = { url: 'postgres://troupe:pw@127.0.0.1:1/postgres' };
    const earlier = createServer((socket) => {
      socket.once('data', (line) => socket.end(String(line) === 'secret\n' ? `${JSON.stringify(address)}\n` : ''));
    });
    await new Promise<void>((resolve) => earlier.listen(0, '127.0.0.1', resolve));
    const { port } = earlier.address() as { port: number };
    const { run } = openHome(home);
    writeFileSync(join(run, 'keeper.json'), JSON.stringify({ port, token: 'secret', pid: process.pid }));
    expect((await joinKeeper(homeAt(home)))?.address).toEqual(address);
    earlier.close();
  });
});
