import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { TroupeError } from '../../errors.ts';
import { postgresLog } from '../../ingest/log/postgres.ts';
import type { Db } from '../../store/db/pool.ts';
import { openReader, toolAddress } from '../../store/db/reader.ts';
import { ask, type SqlAnswer } from '../../store/explore/sql/sql.ts';
import { projectAll } from '../../store/projecting/projector.ts';
import { openConnection } from '../support/connection.ts';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { expectBelow } from '../support/measured.ts';
import { anEpisode } from './support/events.ts';

const V = 'traj.episodes';
const T = 'troupe.events';
const K = 'troupe.job_queue';
const J = 'troupe.job_queue';
const S = 'troupe';
const R = 'postgres';

/** What must be refused without any effect. */
const REJECT = [
  `COPY (SELECT 1) TO PROGRAM 'id'`,
  `COPY ${T} TO 'dump.csv'`,
  `SELECT pg_read_file('postgresql.conf')`,
  `SELECT pg_ls_dir('.')`,
  `SELECT * FROM dblink('host=127.0.0.1 user=postgres dbname=postgres','SELECT 1') AS t(a int)`,
  `SELECT lo_export(16400,'out.bin')`,
  `SELECT lo_create(0)`,
  `SET ROLE ${R}`,
  `SELECT set_config('role','${R}',false)`,
  `SELECT set_config('statement_timeout','0',false)`,
  `SELECT set_config('search_path','${S},analysis',false)`,
  `SELECT set_config('app.project','victim',true), count(*) FROM ${V}`,
  `SELECT 1; DROP TABLE ${T}`,
  `COMMIT; DELETE FROM ${T}`,
  `BEGIN READ WRITE`,
  `DO $$ BEGIN PERFORM pg_sleep(1); END $$`,
  `WITH d AS (DELETE FROM ${T} RETURNING *) SELECT count(*) FROM d`,
  `WITH i AS (INSERT INTO ${J} VALUES (9,'x') RETURNING 1) SELECT * FROM i`,
  `INSERT INTO ${J} VALUES (1,'evil')`,
  `UPDATE ${V} SET outcome='x'`,
  `DELETE FROM ${V}`,
  `TRUNCATE ${T} CASCADE`,
  `CREATE TABLE evil(a int)`,
  `CREATE TEMP TABLE t AS SELECT * FROM ${V}`,
  `CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'select 1'`,
  `SELECT * INTO evil FROM ${V}`,
  `SELECT * FROM ${V} FOR UPDATE`,
  `LISTEN jobs`,
  `NOTIFY jobs, 'run'`,
  `SELECT pg_notify('jobs','{"id":1}')`,
  `SELECT pg_advisory_lock(1)`,
  `SELECT pg_try_advisory_lock(g) FROM generate_series(1,100000) g`,
  `SELECT nextval('${S}.dead_letters_dead_letter_id_seq')`,
  `SELECT pg_terminate_backend(pid) FROM pg_stat_activity`,
  `SELECT query FROM pg_stat_activity`,
  `SELECT pg_stat_get_backend_activity(1)`,
  `SELECT pg_stat_get_backend_idset()`,
  `SELECT * FROM ${K}`,
  `SELECT * FROM pg_authid`,
  `SHOW hba_file`,
  `SELECT query_to_xml('select * from ${K}',true,true,'')`,
  `EXPLAIN ANALYZE DELETE FROM ${T}`,
  `EXPLAIN (ANALYZE) SELECT pg_sleep(30)`,
  `PREPARE p AS SELECT 1`,
  `DECLARE c CURSOR WITH HOLD FOR SELECT * FROM ${V}`,
  `FETCH ALL FROM _q`,
  `LOCK TABLE ${V}`,
  `VACUUM`,
  `ALTER SYSTEM SET shared_buffers='1GB'`,
  `ALTER ROLE CURRENT_USER SET statement_timeout=0`,
  `ALTER ROLE CURRENT_USER PASSWORD 'x'`,
  `CREATE EXTENSION dblink`,
  `CALL pg_sleep(1)`,
  `SELECT pg_sleep(30)`,
  `SELECT * FROM ${T}`,
  `SELECT * FROM facts.episodes`,
  `SELECT 1 AS a\u0000`,
  '',
];

/** What a limit must stop. */
const TIMEOUT = [
  'WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM t) SELECT count(*) FROM t',
  'SELECT count(*) FROM generate_series(1,1000000000000)',
  `SELECT count(*) FROM generate_series(1,100000) a, ${V} b, generate_series(1,100000) c, ${V} d`,
];

/** What the memory of its process must stop; the last two grow in small steps. */
const HUNGRY = [
  'SELECT array_fill(0::bigint, ARRAY[100000000])',
  `SELECT repeat('x', 900000000)`,
  'SELECT array_fill(0::bigint, ARRAY[40000000])',
  `SELECT array_agg(repeat('x', 100000)) FROM generate_series(1, 100000)`,
  `SELECT string_agg(repeat('x', 1000), '') FROM generate_series(1, 1000000)`,
];

const ALLOW = [
  `SELECT repeat('a',30) ~ '(a*)*(a*)*(a*)*b'`,
  'SELECT * FROM generate_series(1,50000)',
  `SELECT 'a; DROP TABLE x; --' AS s`,
  `/* c */ SELECT outcome, count(*) FROM ${V} GROUP BY 1`,
  `SELECT 1 AS "delete", 'COPY TO PROGRAM' AS "insert"`,
  'VALUES (1), (2);',
  'TABLE traj.tasks',
];

/** Everything a statement could have changed: tables, functions, roles, settings, sequences, locks. */
async function fingerprint(db: Db): Promise<unknown> {
  const { rows } = await db.query(
    `select (select count(*) from troupe.events) as events, (select count(*) from troupe.job_queue) as jobs,
            (select count(*) from pg_class) as relations, (select count(*) from pg_proc) as functions,
            (select count(*) from pg_largeobject_metadata) as objects, (select string_agg(s.setconfig::text, ',' order by s.setdatabase, s.setrole) from pg_db_role_setting s left join pg_roles r on r.oid = s.setrole where r.rolname is null or r.rolname !~ '^test_' or r.rolname = current_database() || '_reader') as role_settings,
            (select string_agg(rolname || coalesce(rolpassword, ''), ',' order by rolname) from pg_authid where rolname !~ '^test_' or rolname = current_database() || '_reader') as roles,
            (select count(*) from pg_locks where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())) as locks,
            (select last_value from troupe.dead_letters_dead_letter_id_seq) as sequence,
            (select count(*) from pg_prepared_xacts) as prepared, (select count(*) from pg_extension) as extensions`,
  );
  return rows[0];
}

const answerOf = (reader: Db, sql: string, options = {}): Promise<unknown> =>
  ask(reader, sql, { timeoutMs: 2000, ...options }).catch((error: unknown) => error);

describe('the SQL endpoint', () => {
  let fresh: TestDatabase;
  let reader: Db;
  beforeAll(async () => {
    fresh = await freshDatabase();
    await postgresLog(fresh.db).append([...anEpisode('e1'), ...anEpisode('e2', { reward: null })]);
    await projectAll(fresh.db);
    const opened = await openReader({ ...fresh, embedded: true });
    expect(opened).not.toBeNull();
    reader = opened!;
  });
  afterAll(async () => {
    await reader.close();
    await fresh.close();
  });

  it('P36: refuses what is not a question over the views, and nothing changes', async () => {
    const before = await fingerprint(fresh.db);
    const passed: string[] = [];
    for (const sql of REJECT) {
      const answer = await answerOf(reader, sql);
      if (!(answer instanceof TroupeError) || !['sql_refused', 'sql_failed'].includes(answer.code)) passed.push(sql);
    }
    expect(passed).toEqual([]);
    expect(await fingerprint(fresh.db)).toEqual(before);
  });

  it('P37: stops what runs too long, for the caller within its time and half a second', async () => {
    for (const sql of TIMEOUT) {
      const start = performance.now();
      expect(await answerOf(reader, sql, { timeoutMs: 300 }), sql).toMatchObject({ code: 'sql_timeout' });
      expectBelow(performance.now() - start, 800);
    }
    const { rows } = await fresh.db.query(
      `select 1 from pg_stat_activity where usename = current_database() || '_reader' and state = 'active'`,
    );
    expect(rows).toEqual([]);
  });

  it('counts the wait for a connection: one that has none in time gets an error that says so, and the connection is used by the next', async () => {
    const one = await freshDatabase({ max: 1 });
    const over: string[] = [];
    const asked = (name: string, sql: string, timeoutMs: number) =>
      answerOf(one.db, sql, { timeoutMs }).finally(() => over.push(name));
    const [, late] = await Promise.all([asked('long', 'select pg_sleep(2)', 20_000), asked('late', 'select 1', 100)]);
    expect(late).toMatchObject({ code: 'sql_timeout', message: expect.stringContaining('waited for a connection') });
    expect(over).toEqual(['late', 'long']);
    expect((await ask(one.db, 'select 1 as one')).rows).toEqual([[1]]);
    await one.close();
  });

  it('stops a query that fills the disk with what it sorts', async () => {
    const sql = `select n from (select n, repeat(md5(n::text), 1000) as t from generate_series(1, 60000) n) q order by t`;
    expect(await answerOf(reader, sql, { timeoutMs: 60_000 })).toMatchObject({
      code: 'sql_failed',
      message: expect.stringContaining('temp_file_limit'),
    });
  }, 90_000);

  it('ends a query whose process takes more than 512 MB, and the process and the server go on', async () => {
    const only = (await openReader({ ...fresh, embedded: true }, { max: 1 }))!;
    const backend = async () => (await ask(only, 'select pg_backend_pid()')).rows[0]![0];
    try {
      const pid = await backend();
      const started = await fresh.db.query('select pg_postmaster_start_time() as at');
      for (const sql of HUNGRY) {
        expect(await answerOf(only, sql, { timeoutMs: 60_000 }), sql).toMatchObject({
          code: 'sql_failed',
          message: expect.stringContaining('memory'),
        });
      }
      expect(await backend()).toBe(pid);
      expect((await fresh.db.query('select pg_postmaster_start_time() as at')).rows).toEqual(started.rows);
      // The most that it ever had, of which shared buffers are a part that others pay for.
      const [, most] = /VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))!;
      expect(Number(most)).toBeLessThan((512 + 256 + 32) * 1024);
    } finally {
      await only.close();
    }
  }, 120_000);

  it('has no second process for a query, which would have memory of its own', async () => {
    const { rows } = await reader.query(`select current_setting('max_parallel_workers_per_gather') as n`);
    expect(rows).toEqual([{ n: '0' }]);
  });

  it('refuses JSON that is nested deeper than it could be written again, and says where and how to read it', async () => {
    const nested = (levels: number) =>
      `select 1 as n, (repeat('[', ${levels}) || repeat(']', ${levels}))::jsonb as deep`;
    expect(await answerOf(reader, nested(5_000))).toMatchObject({
      code: 'too_large',
      message: 'A value of the column deep has more than 1000 levels of JSON.',
      detail: { hint: 'Select it as text, (…)::text, or a part of it.' },
    });
    expect(await answerOf(reader, `select array_agg(deep) as deep from (${nested(1_001)}) q`)).toMatchObject({
      code: 'too_large',
    });
    const { rows } = (await answerOf(reader, nested(1_000))) as SqlAnswer;
    expect(JSON.stringify(rows[0]![1])).toHaveLength(2_000);
  });

  it('refuses a value of more than 32 MiB, and answers one of just as much', async () => {
    const size = 32 * 1024 * 1024;
    expect((await ask(reader, `select repeat('x', ${size})`)).rows[0]).toEqual(['x'.repeat(size)]);
    for (const sql of [`select repeat('x', ${size + 1})`, `select repeat('é', ${size / 2 + 1})`]) {
      expect(await answerOf(reader, sql, { timeoutMs: 30_000 }), sql).toMatchObject({
        code: 'too_large',
        message: expect.stringContaining('32 MiB'),
      });
    }
    expect(await ask(reader, 'select 1')).toHaveProperty('rows', [[1]]);
  });

  it('P41: 32 hostile queries at once under ingest change nothing, no event is lost, and projecting goes on', async () => {
    const pools = await Promise.all(Array.from({ length: 7 }, () => openReader({ ...fresh, embedded: true })));
    const readers = [reader, ...pools.map((pool) => pool!)];
    const log = postgresLog(fresh.db);
    const before = (await fingerprint(fresh.db)) as { events: number };
    let appended = 0;
    let asking = true;
    let slowest = 0;
    const ingest = async () => {
      for (let i = 0; asking || i < 20; i++) {
        const answers = await log.append(anEpisode(`during-${i}`));
        appended += answers.filter((answer) => answer === 'accepted').length;
        const began = performance.now();
        await projectAll(fresh.db);
        slowest = Math.max(slowest, performance.now() - began);
      }
    };
    const statements = [...REJECT, ...TIMEOUT, ...HUNGRY.slice(0, 2)];
    const queue = [...statements];
    const passed: string[] = [];
    const ask32 = async () => {
      const work = Array.from({ length: 32 }, async (_, i) => {
        for (let sql = queue.pop(); sql !== undefined; sql = queue.pop()) {
          const answer = await answerOf(readers[i % readers.length]!, sql, { timeoutMs: 1000 });
          const code = answer instanceof TroupeError ? answer.code : 'answered';
          if (!['sql_refused', 'sql_failed', 'sql_timeout'].includes(code)) passed.push(`${code}: ${sql}`);
        }
      });
      await Promise.all(work);
      asking = false;
    };
    try {
      await Promise.all([ask32(), ingest()]);
      expect(passed).toEqual([]);
      const after = (await fingerprint(fresh.db)) as { events: number };
      expect(appended).toBeGreaterThan(0);
      // Milliseconds that an event waits for the tables at most, on two cores that 32 queries want too.
      expectBelow(slowest, 30_000);
      expect(after).toEqual({ ...before, events: before.events + appended });
    } finally {
      await Promise.all(pools.map((pool) => pool?.close()));
    }
  }, 180_000);

  it('P37: ends the process of a query that looks at no request, and the server goes on', async () => {
    const started = async () => (await fresh.db.query('select pg_postmaster_start_time() as at')).rows;
    const before = await started();
    for (const sql of [
      `select length(translate(repeat('a', 300000), repeat('b', 300000) || 'a', 'x'))`,
      `select strpos(repeat('a', 2000000), repeat('a', 50000) || 'b' || repeat('a', 50000))`,
      'select array_fill(1, array[100000]) && array_fill(2, array[500000])',
    ]) {
      expect(await answerOf(reader, sql, { timeoutMs: 200 })).toMatchObject({ code: 'sql_timeout' });
      const running = async () =>
        (
          await fresh.db.query(
            `select query from pg_stat_activity where query like 'declare answer%' and state = 'active'`,
          )
        ).rows;
      await expect.poll(running, { timeout: 10_000 }).toEqual([]);
    }
    expect(await started()).toEqual(before);
    expect(await ask(reader, 'select 1 as one')).toHaveProperty('rows', [[1]]);
  }, 60_000);

  it('P38: answers honest questions, cut at the limit and saying so', async () => {
    for (const sql of ALLOW) expect(await answerOf(reader, sql), sql).toHaveProperty('rows');
    const cut = await ask(reader, 'select g from generate_series(1, 11) g', { limit: 10 });
    expect([cut.rows.length, cut.truncated]).toEqual([10, true]);
    const whole = await ask(reader, 'select g from generate_series(1, 10) g', { limit: 10 });
    expect([whole.rows.length, whole.truncated]).toEqual([10, false]);
  });

  it('gives the columns with their types, also without rows, and null as null', async () => {
    const two = `select episode_id, reward, closed from episodes where episode_id in ('e1', 'e2') order by 1`;
    expect(await ask(reader, two)).toEqual({
      columns: [
        { name: 'episode_id', type: 'text' },
        { name: 'reward', type: 'double precision' },
        { name: 'closed', type: 'boolean' },
      ],
      rows: [
        ['e1', 1, true],
        ['e2', null, true],
      ],
      truncated: false,
    });
    expect((await ask(reader, 'select 1::bigint as n where false')).columns).toEqual([{ name: 'n', type: 'bigint' }]);
  });

  it('gives two columns of one name in their order', async () => {
    const { columns, rows } = await ask(reader, 'select 1 as n, 2 as n');
    expect([columns.map(({ name }) => name), rows]).toEqual([['n', 'n'], [[1, 2]]]);
  });

  it('gives bytes as the text that PostgreSQL writes, alone and in a list', async () => {
    const { rows } = await ask(reader, `select '\\x00ff'::bytea, array['\\x0a'::bytea, null]`);
    expect(rows).toEqual([['\\x00ff', ['\\x0a', null]]]);
  });

  it('P39: leaves the next caller the settings it had', async () => {
    const settings = `select string_agg(name || '=' || coalesce(setting, ''), ',' order by name) from pg_settings where name in ('statement_timeout', 'search_path', 'role', 'TimeZone', 'default_transaction_read_only')`;
    const before = await reader.query(settings);
    for (const sql of REJECT) await answerOf(reader, sql);
    for (let i = 0; i < 4; i++) expect((await reader.query(settings)).rows).toEqual(before.rows);
    const { rows } = await reader.query('select count(*)::integer as n from pg_cursors');
    expect(rows).toEqual([{ n: 0 }]);
  });

  it('lets two processes open the reader at once, and sees views that were added since', async () => {
    const both = await Promise.all([
      openReader({ ...fresh, embedded: true }),
      openReader({ ...fresh, embedded: true }),
    ]);
    await fresh.db.query('create view traj.added as select 1 as one');
    for (const other of both) {
      expect((await ask(other!, 'select one from added')).rows).toEqual([[1]]);
      await other?.close();
    }
    expect((await ask(reader, 'select one from added')).rows).toEqual([[1]]);
  });

  it('makes the login once: whoever opens it later writes nothing, unless something of it is missing', async () => {
    const made = async () =>
      (await fresh.db.query(`select xmin::text, rolpassword from pg_authid where rolname = $1`, [role])).rows;
    const role = `${new URL(fresh.url).pathname.slice(1)}_reader`;
    const before = await made();
    const again = await Promise.all(Array.from({ length: 4 }, () => openReader({ ...fresh, embedded: true })));
    expect(await made()).toEqual(before);
    await fresh.db.query(`revoke select on traj.episodes from ${role}`);
    again.push(await openReader({ ...fresh, embedded: true }));
    expect(await ask(again.at(-1)!, 'select count(*)::integer as n from episodes')).toHaveProperty('rows');
    await fresh.db.query(`alter role ${role} password 'other'`);
    await fresh.db.query(`comment on role ${role} is null`);
    again.push(await openReader({ ...fresh, embedded: true }, { max: 1 }));
    expect(await ask(again.at(-1)!, 'select 1 as one')).toHaveProperty('rows', [[1]]);
    for (const one of again) await one?.close();
  });

  it('reaches the database of its project and no other one', async () => {
    const other = await freshDatabase();
    const others = await openReader({ ...other, embedded: true });
    const address = (await toolAddress({ ...fresh, embedded: true }))!;
    for (const database of [new URL(other.url).pathname.slice(1), 'postgres', 'template1']) {
      const at = Object.assign(new URL(address), { pathname: database });
      await expect(openConnection(at.href), database).rejects.toThrow('permission denied for database');
    }
    await (await openConnection(address.href)).close();
    await others?.close();
    await other.close();
  });

  it('has no reader where no password is known', async () => {
    const url = new URL(fresh.url);
    url.password = '';
    expect(await openReader({ db: fresh.db, url: url.href, embedded: true })).toBeNull();
  });

  it('counts no function that does something among those left to everybody', async () => {
    const { rows } = await fresh.db.query<{ name: string }>(
      `select distinct p.proname as name from pg_proc p where p.provolatile = 'v' and p.pronamespace = 'pg_catalog'::regnamespace
       and exists (select from aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a where a.grantee = 0) order by 1`,
    );
    const harmless = ['clock_timestamp', 'gen_random_uuid', 'random', 'random_normal', 'timeofday', 'uuidv4', 'uuidv7'];
    expect(rows.map((row) => row.name).filter((name) => !harmless.includes(name))).toEqual([]);
  });

  it('without a reader a superuser still changes no table, but functions that act are not stopped', async () => {
    const { rows: before } = await fresh.db.query('select count(*) as n from troupe.events');
    const ran: string[] = [];
    for (const sql of REJECT.filter((text) => !/pg_sleep|terminate/.test(text))) {
      if (!((await answerOf(fresh.db, sql)) instanceof TroupeError)) ran.push(sql.slice(0, 40));
    }
    await fresh.db.query('select pg_advisory_unlock_all()');
    expect((await fresh.db.query('select count(*) as n from troupe.events')).rows).toEqual(before);
    // Measured, not wished for: the reason why the reader exists.
    expect(ran).toContain(`SELECT pg_read_file('postgresql.conf')`);
    expect(ran.some((sql) => /^(COPY|INSERT|UPDATE|DELETE|DROP|WITH|CREATE|ALTER)/.test(sql))).toBe(false);
  });
});
