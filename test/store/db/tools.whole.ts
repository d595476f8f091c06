/** The login of other programs: what it may do, the port that takes it alone, and the clock outside its sessions. */
import { spawn } from 'node:child_process';
import { connect } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { BACKEND_BYTES, readerRole, toolAddress, toolRole } from '../../../store/db/reader.ts';
import { watchTools } from '../../../store/server/tool-clock.ts';
import { openToolPort, type ToolPort } from '../../../store/server/tool-port.ts';
import { type Connection, openConnection } from '../../support/connection.ts';
import { freshDatabase, type TestDatabase } from '../../support/database.ts';

let fresh: TestDatabase;
let address: URL;
let port: ToolPort;
beforeAll(async () => {
  fresh = await freshDatabase();
  address = (await toolAddress({ ...fresh, embedded: true }))!;
  const socket = `${decodeURIComponent(address.hostname)}/.s.PGSQL.${address.port}`;
  port = await openToolPort(0, socket, { user: toolRole(fresh), database: address.pathname.slice(1) });
});
afterAll(async () => {
  await port.close();
  await fresh.close();
});

/** The address at the port, with what is given changed. */
function atPort(changed: { username?: string; password?: string; pathname?: string } = {}): string {
  const url = new URL(address);
  url.hostname = '127.0.0.1';
  url.port = String(port.port);
  return Object.assign(url, changed).href;
}

const code = (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => 'done',
    (error) => String(error.code),
  );

async function session<T>(url: string, work: (session: Connection) => Promise<T>): Promise<T> {
  const opened = await openConnection(url);
  try {
    return await work(opened);
  } finally {
    await opened.close().catch(() => {});
  }
}

describe('the port of the tools', () => {
  it('keeps those who never answer the question for a password to 40, for 10 s, and lets the login in afterwards', async () => {
    const start = Buffer.from(`user\0${toolRole(fresh)}\0database\0${address.pathname.slice(1)}\0\0`);
    const head = Buffer.alloc(8);
    head.writeInt32BE(8 + start.length, 0);
    head.writeInt32BE(196608, 4);
    const asked = Array.from({ length: 60 }, () => connect(port.port, '127.0.0.1').on('error', () => {}));
    for (const one of asked) one.resume().write(Buffer.concat([head, start]));
    const open = () => asked.filter((one) => !one.closed).length;
    await expect.poll(open, { timeout: 5000 }).toBe(40);
    expect(await code(session(atPort(), (at) => at.query('select 1')))).toBe('busy');
    await expect.poll(open, { timeout: 15_000 }).toBe(0);
    expect(await code(session(atPort(), (at) => at.query('select 1')))).toBe('done');
  }, 30_000);
});

describe('the clock outside', () => {
  it('ends a query of our own that heeds no request, once its limit is over, where its process was killed', async () => {
    const stop = new AbortController();
    const [role, own] = [toolRole(fresh), readerRole(fresh)];
    const clock = watchTools(fresh.db, role, { ms: 60_000, bytes: BACKEND_BYTES, own, signal: stop.signal });
    const lib = JSON.stringify(join(import.meta.dirname, '../../../store'));
    const program = `
      const { openReader } = await import(${lib} + '/db/reader.ts');
      const { openPool } = await import(${lib} + '/db/pool.ts');
      const { ask } = await import(${lib} + '/explore/sql/sql.ts');
      const db = openPool(process.env.URL);
      const reader = await openReader({ db, url: process.env.URL, embedded: true });
      await ask(reader, "select length(translate(repeat('a', 300000), repeat('b', 300000) || 'a', 'x'))", { timeoutMs: 4000 });`;
    const killed = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', program], {
      env: { ...process.env, URL: fresh.url },
      stdio: 'ignore',
    });
    const there = async () =>
      (
        await fresh.db.query<{ n: number }>(
          `select count(*)::integer as n from pg_stat_activity where usename = $1 and state = 'active'`,
          [own],
        )
      ).rows[0]!.n;
    try {
      await expect.poll(there, { timeout: 30_000, interval: 20 }).toBe(1);
      killed.kill('SIGKILL');
      await expect.poll(there, { timeout: 20_000 }).toBe(0);
    } finally {
      killed.kill('SIGKILL');
      stop.abort();
      await clock;
    }
  }, 60_000);
});
