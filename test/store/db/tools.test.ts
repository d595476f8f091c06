import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openPool } from '../../../store/db/pool.ts';
import { BACKEND_BYTES, openReader, toolAddress, toolRole, withoutReader } from '../../../store/db/reader.ts';
import { ask } from '../../../store/explore/sql/sql.ts';
import { watchTools } from '../../../store/server/tool-clock.ts';
import { openToolPort, type ToolPort } from '../../../store/server/tool-port.ts';
import { type Connection, openConnection } from '../../support/connection.ts';
import { freshDatabase, type TestDatabase } from '../../support/database.ts';

/** Without temporary files, whose limit would end it on a fast machine. */
const ENDLESS =
  'select count(*) from generate_series(1, 10000) a, generate_series(1, 10000) b, generate_series(1, 10000) c';

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

describe('a server where no login for queries can be made', () => {
  it('has a message of its own: no password to make its own from, or no right to make it', async () => {
    const open = { db: fresh.db, url: 'postgres://anna@127.0.0.1/t', embedded: false };
    expect(await openReader(open)).toBeNull();
    expect(withoutReader(open)).toMatch(/^DATABASE_URL has no password .* SQL over HTTP is refused$/);
    expect(withoutReader({ url: 'postgres://anna:secret@127.0.0.1/t' })).toMatch(/^the user of DATABASE_URL may not/);
  });
});

describe('the port of the tools', () => {
  it('takes the login, by SCRAM, and finds the views without their schema', async () => {
    const { rows } = await session(atPort(), (at) =>
      at.query('select current_user::text as who, count(*)::integer as n from episodes'),
    );
    expect(rows).toEqual([{ who: toolRole(fresh), n: 0 }]);
    const { rows: kept } = await fresh.db.query('select rolpassword from pg_authid where rolname = $1', [
      toolRole(fresh),
    ]);
    expect(kept[0]!.rolpassword).toMatch(/^SCRAM-SHA-256/);
  });

  it('P40: turns away every other login and database, and a wrong password', async () => {
    const { username, password } = new URL(fresh.url);
    for (const other of [{ username, password }, { pathname: '/postgres' }, { password: 'guessed' }]) {
      await expect(openConnection(atPort(other)), JSON.stringify(other)).rejects.toMatchObject({
        code: 'unreachable',
        message: expect.stringMatching(/alone|password authentication failed/),
      });
    }
  });

  it('passes a request to cancel on', async () => {
    const pool = openPool(atPort(), { max: 1 });
    const stop = new AbortController();
    try {
      const ended = code(pool.transaction((at) => at.query(ENDLESS), { signal: stop.signal }));
      const running = async () =>
        (
          await fresh.db.query(`select 1 from pg_stat_activity where usename = $1 and query = $2`, [
            toolRole(fresh),
            ENDLESS,
          ])
        ).rows.length;
      await expect.poll(running, { timeout: 20_000 }).toBe(1);
      stop.abort();
      expect(await ended).toBe('57014');
    } finally {
      await pool.close();
    }
  });

  it('ends what says nothing that PostgreSQL would understand', async () => {
    const answer = await fetch(`http://127.0.0.1:${port.port}/`).catch((error: Error) => error);
    expect(answer).toBeInstanceOf(Error);
  });
});

describe('the login of the tools', () => {
  it('P40: reads the views and nothing else, whatever it sets', async () => {
    await session(address.href, async (at) => {
      await at.query('set default_transaction_read_only = off; set statement_timeout = 0');
      for (const sql of [
        'select * from troupe.events',
        'select * from pg_authid',
        'delete from traj.episodes',
        'create table public.mine (a int)',
        'create temp table mine (a int)',
        `select pg_read_file('postgresql.conf')`,
        'select pg_sleep(1)',
        'select pg_advisory_lock(1)',
        'select query from pg_stat_activity',
        'set temp_file_limit = -1',
        `alter role current_user set temp_file_limit = '-1'`,
        'alter role current_user connection limit -1',
        'set role postgres',
        'set session authorization postgres',
      ]) {
        expect([sql, await code(at.query(sql))]).toEqual([sql, expect.stringMatching(/^(42501|25006|22023)$/)]);
      }
      const { rows } = await at.query(`select current_setting('temp_file_limit') as disk`);
      expect(rows).toEqual([{ disk: '1GB' }]);
    });
  });

  it('has 32 connections, and takes none from the queries of Troupe', async () => {
    const all = await Promise.all(Array.from({ length: 32 }, () => openConnection(address.href)));
    try {
      await expect(openConnection(address.href)).rejects.toMatchObject({ code: 'busy' });
      const reader = (await openReader({ ...fresh, embedded: true }))!;
      expect((await ask(reader, 'select 1')).rows).toEqual([[1]]);
      await reader.close();
    } finally {
      await Promise.all(all.map((one) => one.close()));
    }
  });
});

describe('an address that is asked for', () => {
  it('works again whatever a session has done to its login', async () => {
    await session(address.href, async (at) => {
      for (const sql of [
        'set default_transaction_read_only = off',
        `alter role current_user set local_preload_libraries = 'nothing'`,
        `alter role current_user in database "${address.pathname.slice(1)}" set search_path = 'nowhere'`,
        `alter role current_user password 'other'`,
        'drop owned by current_user',
      ])
        await at.query(sql);
    });
    expect(await code(openConnection(address.href))).not.toBe('done');
    const again = (await toolAddress({ ...fresh, embedded: true }))!;
    expect(again.href).toBe(address.href);
    const { rows } = await session(again.href, (at) =>
      at.query(`select count(*)::integer as n, current_setting('temp_file_limit') as disk from episodes`),
    );
    expect(rows).toEqual([{ n: 0, disk: '1GB' }]);
  });
});

describe('the clock outside', () => {
  it('limits the memory of a session, whatever it sets', async () => {
    const stop = new AbortController();
    const clock = watchTools(fresh.db, toolRole(fresh), { ms: 60_000, bytes: BACKEND_BYTES, signal: stop.signal });
    try {
      await session(address.href, async (at) => {
        const limit = () => readFileSync(`/proc/${at.pid}/limits`, 'utf8').match(/Max data size +(\d+)/)?.[1];
        await expect.poll(limit, { timeout: 5000 }).toBe(String(BACKEND_BYTES));
        await at.query(`set work_mem = '2GB'`);
        expect(await code(at.query('select array_fill(0::bigint, array[100000000])'))).toBe('53200');
      });
    } finally {
      stop.abort();
      await clock;
    }
  });

  it('ends the session of a query that heeds no request', async () => {
    const stop = new AbortController();
    const clock = watchTools(fresh.db, toolRole(fresh), { ms: 300, bytes: BACKEND_BYTES, signal: stop.signal });
    try {
      await session(address.href, async (at) => {
        await at.query('set statement_timeout = 0');
        const deaf = `select length(translate(repeat('a', 300000), repeat('b', 300000) || 'a', 'x'))`;
        expect(await code(at.query(deaf))).not.toBe('done');
        const there = async () => (await fresh.db.query('select from pg_stat_activity where pid = $1', [at.pid])).rows;
        await expect.poll(there, { timeout: 10_000 }).toEqual([]);
      });
    } finally {
      stop.abort();
      await clock;
    }
  }, 30_000);

  it('ends a session that keeps notifications from being removed, before they are a hundredth of what may be', async () => {
    const stop = new AbortController();
    const clock = watchTools(fresh.db, toolRole(fresh), { ms: 60_000, bytes: BACKEND_BYTES, signal: stop.signal });
    const usage = async () => {
      const { rows } = await fresh.db.query('select pg_notification_queue_usage() as share');
      return Number(rows[0]!.share);
    };
    try {
      await session(address.href, async (at) => {
        await at.query('set idle_in_transaction_session_timeout = 0; listen flood');
        await at.query('begin; select 1');
        await session(address.href, async (floods) => {
          const many = `do $$ begin for n in 1..9000 loop execute format('notify flood, %L', n || repeat('x', 7900)); end loop; end $$`;
          await floods.query(`${many}; ${many.replaceAll('1..9000', '9001..18000')}`).catch(() => {});
        });
        await expect.poll(usage, { timeout: 15_000 }).toBeLessThan(0.01);
        expect((await at.query<{ pid: number }>('select pg_backend_pid() as pid')).rows[0]!.pid).not.toBe(at.pid);
      });
    } finally {
      stop.abort();
      await clock;
    }
  }, 60_000);

  it('cancels what runs too long although the session has no limit of its own, and the session goes on', async () => {
    const stop = new AbortController();
    const clock = watchTools(fresh.db, toolRole(fresh), { ms: 300, bytes: BACKEND_BYTES, signal: stop.signal });
    try {
      await session(address.href, async (at) => {
        await at.query('set statement_timeout = 0');
        expect(await code(at.query(ENDLESS))).toBe('57014');
        expect(await code(at.query('select 1'))).toBe('done');
      });
    } finally {
      stop.abort();
      await clock;
    }
  });

  it('ends a session that waits in its transaction, and leaves the queries of Troupe alone', async () => {
    const reader = (await openReader({ ...fresh, embedded: true }))!;
    const stop = new AbortController();
    const own = ask(reader, ENDLESS, { timeoutMs: 5000 }).catch((error) => error);
    const clock = watchTools(fresh.db, toolRole(fresh), { ms: 300, bytes: BACKEND_BYTES, signal: stop.signal });
    try {
      await session(address.href, async (at) => {
        await at.query('begin; select 1');
        const there = async () =>
          (await fresh.db.query('select 1 from pg_stat_activity where pid = $1', [at.pid])).rows.length;
        await expect.poll(there, { timeout: 20_000 }).toBe(0);
        expect((await at.query<{ pid: number }>('select pg_backend_pid() as pid')).rows[0]!.pid).not.toBe(at.pid);
      });
      // Its own limit, not the clock's.
      expect(await own).toMatchObject({ code: 'sql_timeout' });
    } finally {
      stop.abort();
      await clock;
      await reader.close();
    }
  });
});
