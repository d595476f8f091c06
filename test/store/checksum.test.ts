import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { postgresLog } from '../../ingest/log/postgres.ts';
import { openPool } from '../../store/db/pool.ts';
import { judge } from '../../store/evaluate/judging/judge.ts';
import { projectAll } from '../../store/projecting/projector.ts';
import { checksum } from '../../store/projecting/rebuilding/checksum.ts';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { anEpisode, anExecution, aStory, event } from './support/events.ts';

type Cell = { readonly table: string; readonly column: string; readonly type: string; readonly nullable: boolean };

/** Another value of the type, as SQL over the old one, and of no other row: a neighbour's would hit the key of the table. */
function changed({ column, type }: Cell): string {
  const c = `t."${column}"`;
  if (type === 'text') return `coalesce(${c}, '') || 'x'`;
  if (type.startsWith('json')) return `case when ${c} is null then '1' else '[' || ${c}::text || ']' end::${type}`;
  if (type === 'uuid') return 'gen_random_uuid()';
  if (type === 'boolean') return `not coalesce(${c}, false)`;
  if (type.endsWith('[]')) return `array_append(coalesce(${c}, '{}'), null)`;
  if (type === 'bytea') return `set_byte(${c}, 0, 255 - get_byte(${c}, 0))`;
  if (type.startsWith('timestamp')) return `coalesce(${c}, '2000-01-01') + interval '1 microsecond'`;
  return `coalesce(${c} + 1000, 0)`;
}

/** The name of a table in the checksum: events are summed whole, as the view shows them. */
const summedAs = (table: string): string => (table === 'troupe.stored_events' ? 'events' : table.split('.')[1]!);

describe('the checksum', () => {
  let fresh: TestDatabase;
  let cells: Cell[];
  beforeAll(async () => {
    fresh = await freshDatabase();
    const log = postgresLog(fresh.db);
    await log.append([
      ...aStory(),
      ...anExecution('e5'),
      event('team.defined', { team_id: 'team', name: 'T' }),
      event('job.requested', { job_id: 'j', kind: 'sft' }),
      event('job.progressed', { job_id: 'j', step: 1, metrics: { loss: 1.5 } }),
      event('checkpoint.saved', { checkpoint_id: 'c' }),
      event('policy.released', { release_id: 'r', policies: { p: 'c' } }),
      event('decision.made', { episode_id: 'e1', kind: 'stop', decision: null }),
      event('environment.observed', { episode_id: 'e1', kind: 'state' }),
      event('artifact.attached', { artifact_id: 'd', role: 'dataset', rows: { train: [['e1', 'e1-c1', [0]]] } }),
    ]);
    await projectAll(fresh.db);
    await judge(fresh.db, log, {
      methods: [{ method: 'cosigned_rewards' }, { method: 'grpo_advantage' }, { method: 'well_formed_filter' }],
      episodes: ['e1', 'e2', 'e5'],
      now: () => new Date(0),
    });
    await projectAll(fresh.db);
    const { rows } = await fresh.db.query<Cell>(
      `select n.nspname || '.' || c.relname as table, a.attname as column, format_type(a.atttypid, null) as type, not a.attnotnull as nullable
       from pg_class c join pg_namespace n on n.oid = c.relnamespace join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
       where (n.nspname = 'facts' or n.nspname = 'troupe' and c.relname = 'stored_events') and c.relkind = 'r'
         and a.attname not in ('recorded_at', 'log', 'partition', 'position', 'revision', 'type_version') order by 1, 2`,
    );
    cells = rows;
    // A checksum sees every other value, those too that a table would refuse.
    await fresh.db.query(`do $$ declare one record; begin
      for one in select conrelid::regclass as name, conname from pg_constraint where connamespace = 'facts'::regnamespace and contype = 'c' loop
        execute format('alter table %s drop constraint %I', one.name, one.conname);
      end loop;
    end $$`);
  });
  afterAll(() => fresh.close());

  it('differs when any column of any table has another value or a NULL in one row', async () => {
    const before = await checksum(fresh.db);
    const empty = Object.entries(before.tables)
      .filter(([, { rows }]) => rows === 0)
      .map(([name]) => name);
    expect(empty).toEqual(['blames', 'told_tasks']);
    const filled = cells.filter(({ table }) => !empty.includes(summedAs(table)));
    expect(filled.length).toBeGreaterThan(200);
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...filled), fc.nat({ max: 1000 }), fc.boolean(), async (cell, n, toNull) => {
        const table = summedAs(cell.table);
        const row = n % before.tables[table]!.rows;
        const value = toNull && cell.nullable ? 'null' : changed(cell);
        const undo = new Error('undo');
        await fresh.db
          .transaction(async (tx) => {
            const { count } = await tx.query(
              `update ${cell.table} t set "${cell.column}" = ${value} where (tableoid, ctid) = (select tableoid, ctid from ${cell.table} order by tableoid, ctid offset ${row} limit 1)
               and ${value === 'null' ? `t."${cell.column}" is not null` : 'true'}`,
            );
            fc.pre(count === 1);
            // Read inside the transaction that changed the row, which is then undone.
            const after = await checksumInside(tx).catch((error: { readonly code?: string }) => {
              // An event that names a text nobody kept, as one under another key does, has no checksum.
              if (error.code !== 'XX001') throw error;
              return { tables: {} as typeof before.tables };
            });
            expect(after.tables[table]?.sha256, `${cell.table}.${cell.column}`).not.toBe(before.tables[table]?.sha256);
            throw undo;
          })
          .catch((error: unknown) => {
            if (error !== undo) throw error;
          });
      }),
      { numRuns: 60 },
    );
    expect(await checksum(fresh.db)).toEqual(before);
  });

  it('distinguishes NULL from empty text, and a value from its neighbour', async () => {
    const of = async (sql: string) => {
      await fresh.db.query(
        `truncate facts.teams; insert into facts.teams (team_id, version, name, team_version) values ${sql}`,
      );
      return (await checksum(fresh.db)).tables.teams?.sha256;
    };
    const sums = [
      `('a','v',null,null)`,
      `('a','v','',null)`,
      `('a','v',null,'')`,
      `('a','v','x,y','')`,
      `('a','v','x',',y')`,
      `('a','v',E'x\\n','')`,
      `('a','v',E'x\\\\n','')`,
    ];
    const seen = [];
    for (const sql of sums) seen.push(await of(sql));
    expect(new Set(seen).size).toBe(sums.length);
  });

  it('P16: is equal under other settings of the session, and does not count when something arrived', async () => {
    const before = await checksum(fresh.db);
    await fresh.db.query(
      `update troupe.events set recorded_at = now() + interval '1 day'; update facts.episodes set revision = revision + 7`,
    );
    const url = new URL(fresh.url);
    url.searchParams.set('options', '-c lc_messages=C -c intervalstyle=iso_8601 -c enable_sort=off -c work_mem=64kB');
    const other = openPool(url.href, { max: 2 });
    expect(await checksum(other)).toEqual(before);
    await other.close();
  });

  it('is one snapshot of all tables while events come in', async () => {
    const log = postgresLog(fresh.db);
    let going = true;
    const writing = (async () => {
      for (let i = 0; going; i++) {
        await log.append(anEpisode(`live-${i}`));
        await projectAll(fresh.db);
      }
    })();
    const counts = (await checksum(fresh.db)).tables;
    for (let i = 0; i < 5; i++) {
      const { tables } = await checksum(fresh.db);
      const [steps, calls] = [tables.steps!.rows - counts.steps!.rows, tables.calls!.rows - counts.calls!.rows];
      expect(steps / 3).toBe(calls / 2);
    }
    going = false;
    await writing;
  });
});

/** The checksum over what an open transaction sees. */
const checksumInside = (tx: Parameters<Parameters<TestDatabase['db']['transaction']>[0]>[0]) =>
  checksum({
    transaction: (work: (session: typeof tx) => Promise<unknown>) => work(tx),
  } as unknown as TestDatabase['db']);
