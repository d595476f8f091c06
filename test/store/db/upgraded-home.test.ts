/** A home that was filled under the first files of the schema and is upgraded by one more migration. */
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { importFiles } from '../../../ingest/files/import.ts';
import { postgresLog } from '../../../ingest/log/postgres.ts';
import { type Migration, migrate, readSchema, type Schema } from '../../../migrations/migrate.ts';
import { type Db, openPool } from '../../../store/db/pool.ts';
import { judge, judgeAgain } from '../../../store/evaluate/judging/judge.ts';
import { reconcile } from '../../../store/log/reconcile.ts';
import { projectAll } from '../../../store/projecting/projector.ts';
import { checksum } from '../../../store/projecting/rebuilding/checksum.ts';
import { rebuild } from '../../../store/projecting/rebuilding/rebuild.ts';
import { memoryLog } from '../../ingest/support/memory-log.ts';
import { freshDatabase, type TestDatabase, testServerUrl } from '../../support/database.ts';
import { anEpisode, anExecution } from '../support/events.ts';

/** A log that has every event of the vocabulary. */
const EVERY_EVENT = join(import.meta.dirname, '../golden/0.1.0.jsonl');

/** It changes the type of a column that views show. */
const NEXT: Migration = {
  number: readSchema().migrations.length + 1,
  name: 'longer names of models',
  sha256: 'a digest of its own',
  sql: 'alter table facts.calls alter column response_model type varchar;',
  works_with: null,
};
const upgraded = (): Schema => ({ ...readSchema(), migrations: [...readSchema().migrations, NEXT] });

/** What the catalogue says of our tables and views, without what an order of creation decides. */
const CATALOGUE = `
  select c.relkind::text as kind, c.oid::regclass::text as relation, a.attname || ' ' || format_type(a.atttypid, a.atttypmod) || ' ' || a.attnotnull as what
  from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
  where c.relnamespace::regnamespace::text in ('troupe', 'facts', 'traj', 'report') and c.relkind <> 'i'
  union all
  select 'definition', conrelid::regclass::text, conname || ' ' || pg_get_constraintdef(oid) from pg_constraint
  where connamespace::regnamespace::text in ('troupe', 'facts')
  union all
  select 'definition', tablename, indexdef from pg_indexes where schemaname in ('troupe', 'facts')
  union all
  select 'definition', viewname, definition from pg_views where schemaname in ('traj', 'report')
  order by 1, 2, 3`;

describe('A home of the first schema, after the next migration', () => {
  let home: TestDatabase;
  let next: Db;
  const name = `next_${randomBytes(6).toString('hex')}`;
  let before: Awaited<ReturnType<typeof checksum>>;
  const admin = async (sql: string) => {
    const pool = openPool(await testServerUrl());
    await pool.query(sql);
    await pool.close();
  };
  beforeAll(async () => {
    home = await freshDatabase({ max: 8 });
    const log = postgresLog(home.db);
    const memory = memoryLog();
    await importFiles([EVERY_EVENT], memory);
    await log.append([
      ...memory.events,
      ...anEpisode('won', { reward: 1 }),
      ...anEpisode('lost', { reward: 0 }),
      ...anExecution('tried'),
    ]);
    await projectAll(home.db);
    const methods = [{ method: 'rloo_advantage' }, { method: 'cure_code_reward' }];
    await judge(home.db, log, { methods, episodes: ['won', 'lost', 'tried'], now: () => new Date() });
    await projectAll(home.db);
    before = await checksum(home.db);
    await home.db.query(`
      create schema mine;
      create view mine.solved with (security_barrier) as select episode_id, solved from report.outcomes where reward is not null;
      grant select on mine.solved to pg_monitor`);
    await migrate(home.db, upgraded());
    await admin(`create database ${name} template template0`);
    next = openPool(await testServerUrl(name));
    await migrate(next, upgraded());
  });
  afterAll(async () => {
    await next.close();
    await home.close();
    await admin(`drop database ${name} with (force)`);
  });

  it('has the tables, indexes, constraints and views of a new one', async () => {
    const [old, now] = await Promise.all([home.db.query(CATALOGUE), next.query(CATALOGUE)]);
    expect(now.rows.length).toBeGreaterThan(500);
    expect(old.rows).toEqual(now.rows);
    const { rows } = await home.db.query(`select pg_typeof(response_model)::text as type from traj.steps limit 1`);
    expect(rows).toEqual([{ type: 'character varying' }]);
  });

  it('has the views of other people on ours, with their rights and options', async () => {
    const { rows } = await home.db.query(`
      select c.reloptions::text as options, has_table_privilege('pg_monitor', c.oid, 'select') as granted,
             (select count(*)::integer from mine.solved where episode_id in ('won', 'lost')) as n
      from pg_class c where c.oid = 'mine.solved'::regclass`);
    expect(rows).toEqual([{ options: '{security_barrier=true}', granted: true, n: 2 }]);
  });

  it('lost nothing: its tables have the checksums of before, and so has a rebuild of it', async () => {
    expect(before.tables.events?.rows).toBeGreaterThan(50);
    expect(await checksum(home.db)).toEqual(before);
    expect((await reconcile(home.db)).ok).toBe(true);
    await rebuild(home.db, { judge: judgeAgain });
    expect(await checksum(home.db)).toEqual(before);
  });
});

it('An empty project has at most 250 relations, and the read of one episode is planned within a millisecond', async () => {
  const { db, close } = await freshDatabase();
  try {
    const { rows } = await db.query<{ n: number }>('select count(*)::integer as n from pg_class where oid >= 16384');
    expect(rows[0]!.n).toBeLessThanOrEqual(250);
    const planned: number[] = [];
    for (let i = 0; i < 20; i++) {
      const { rows: plan } = await db.query<{ 'QUERY PLAN': readonly { 'Planning Time': number }[] }>(
        `explain (summary, format json) select * from traj.steps where episode_id = 'e1'`,
      );
      planned.push(plan[0]!['QUERY PLAN'][0]!['Planning Time']);
    }
    // The least of many: a busy machine must not fail it.
    expect(Math.min(...planned)).toBeLessThan(1);
  } finally {
    await close();
  }
});
