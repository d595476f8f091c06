/** `troupe sql` beside its table: other forms, the plan, the views, and names that were mistyped. */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { tableFromIPC } from 'apache-arrow';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { postgresLog } from '../../ingest/log/postgres.ts';
import { arrowIn } from '../../store/datasets/parquet.ts';
import { projectAll } from '../../store/projecting/projector.ts';
import { anEpisode } from '../store/support/events.ts';
import { openConnection } from '../support/connection.ts';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { document, type Shell, warmShell } from './support/troupe.ts';

let database: TestDatabase;
let at: Shell;
beforeAll(async () => {
  database = await freshDatabase();
  await postgresLog(database.db).append([...anEpisode('e1'), ...anEpisode('e2', { reward: null })]);
  await projectAll(database.db);
  at = warmShell({ DATABASE_URL: database.url });
});
afterAll(async () => {
  await at.remove();
  await database.close();
});

const QUERY = 'select episode_id, reward, closed from traj.episodes order by 1';

/** Standard output as bytes. */
async function bytesOf(args: readonly string[]): Promise<Buffer> {
  const program = join(import.meta.dirname, '../../bin/troupe.js');
  const env = { ...process.env, DATABASE_URL: database.url };
  const options = { cwd: at.folder, env, encoding: 'buffer' as const };
  return (await promisify(execFile)(process.execPath, [program, ...args], options)).stdout;
}

const ROWS = [
  { episode_id: 'e1', reward: 1, closed: true },
  { episode_id: 'e2', reward: null, closed: true },
];

describe('troupe sql --format', () => {
  it('csv prints a line of names and the rows', async () => {
    const ended = await at.run(['sql', QUERY, '--format', 'csv']);
    expect(ended).toMatchObject({ code: 0, err: '', out: 'episode_id,reward,closed\r\ne1,1,true\r\ne2,,true\r\n' });
  });

  it('arrow prints a stream, parquet a file, both with the types of SQL', async () => {
    const arrow = tableFromIPC(await bytesOf(['sql', QUERY, '--format', 'arrow']));
    const parquet = tableFromIPC(arrowIn(await bytesOf(['sql', QUERY, '--format', 'parquet'])));
    for (const found of [arrow, parquet]) {
      expect(found.schema.fields.map(({ name, type }) => [name, String(type)])).toEqual([
        ['episode_id', 'Utf8'],
        ['reward', 'Float64'],
        ['closed', 'Bool'],
      ]);
      expect(found.toArray().map((row) => row?.toJSON())).toEqual(ROWS);
    }
  });

  it('says on standard error where it was cut', async () => {
    const ended = await at.run(['sql', QUERY, '--format', 'csv', '--limit', '1']);
    expect([ended.code, ended.out]).toEqual([0, 'episode_id,reward,closed\r\ne1,1,true\r\n']);
    expect(ended.err).toContain('Only the first 1 rows');
  });
});

describe('troupe explain', () => {
  it('prints the plan and does not run the query', async () => {
    const ended = await at.run(['explain', 'select 1 / (calls - calls) from traj.episodes']);
    expect(ended).toMatchObject({ code: 0, err: '' });
    expect(ended.out).toMatch(/cost=.*rows=/);
    const plan = document(await at.run(['explain', QUERY, '--json'])).plan;
    expect(plan[0]).toMatch(/cost=/);
  });

  it('refuses what is no query, as the guard does', async () => {
    for (const text of ['delete from traj.episodes', '(analyze) select 1', 'select 1; select 2']) {
      const ended = await at.run(['explain', text, '--json']);
      expect([text, ended.code, document(ended).error.code]).toEqual([text, 1, 'sql_refused']);
    }
  });
});

describe('troupe views', () => {
  it('lists every view with what it is', async () => {
    const { items: views } = document(await at.run(['views', '--json']));
    const { rows } = await database.db.query<{ name: string }>(
      `select schemaname || '.' || viewname as name from pg_views where schemaname in ('traj', 'report')`,
    );
    expect(views.map(({ name }: { name: string }) => name).sort()).toEqual(rows.map(({ name }) => name).sort());
    expect(views.every(({ about }: { about: string | null }) => about !== null)).toBe(true);
    expect((await at.run(['views'])).out).toContain('traj.teams\n  Multi-agent systems');
  });

  it('shows the columns of one, with their types and notes', async () => {
    const { columns } = document(await at.run(['views', 'show', 'traj.episodes', '--json']));
    expect(columns).toContainEqual({
      name: 'calls',
      type: 'integer',
      note: 'model calls; steps counts their candidates',
    });
    const shown = await at.run(['views', 'show', 'episodes']);
    expect(shown.out).toMatch(/calls +integer +model calls/);
  });

  it('names the view that was meant', async () => {
    const ended = await at.run(['views', 'show', 'epsodes', '--json']);
    expect([ended.code, document(ended).error.code]).toEqual([1, 'not_found']);
    expect(ended.err).toContain('Did you mean traj.episodes?');
  });
});

describe('a mistyped name in a query', () => {
  it.each([
    ['select * from traj.epsodes', 'Did you mean traj.episodes?'],
    ['select * from tool_cals', 'Did you mean traj.tool_calls?'],
    ['select rewrd from traj.episodes', 'Did you mean reward?'],
    ['select e.finish_at from traj.episodes e', 'Did you mean finished_at?'],
    ['select answer from traj.steps', 'It is a column of traj.episodes.'],
    ['select * from traj.outcoms', 'Did you mean report.outcomes?'],
  ])('%s: %s', async (text, expected) => {
    const ended = await at.run(['sql', text, '--json']);
    expect([ended.code, document(ended).error.code]).toEqual([1, 'sql_failed']);
    expect(ended.err).toContain(expected);
  });

  it('that is near nothing gets no guess', async () => {
    const ended = await at.run(['sql', 'select * from traj.zzzzzzzzzzzz']);
    expect(ended.err).not.toContain('Did you mean');
    expect(ended.err).toContain('troupe views');
  });
});

describe('troupe sql url', () => {
  it('prints an address at which a program logs in, and reads the views alone', async () => {
    const { code, out } = await at.run(['sql', 'url']);
    expect([code, out.trim().split('\n').length]).toEqual([0, 1]);
    const { url } = document(await at.run(['sql', 'url', '--json']));
    expect(url).toBe(out.trim());
    // As libpq reads it: the folder of the socket is a parameter.
    const address = new URL(url.replace('@/', '@localhost/'));
    expect(address.searchParams.get('host')).toMatch(/^\//);
    const connection = await openConnection(
      `postgres://${address.username}:${address.password}@${encodeURIComponent(address.searchParams.get('host')!)}:${address.searchParams.get('port')}${address.pathname}`,
    );
    try {
      const { rows } = await connection.query('select episode_id from episodes order by 1');
      expect(rows).toEqual([{ episode_id: 'e1' }, { episode_id: 'e2' }]);
      await expect(connection.query('select * from troupe.events')).rejects.toMatchObject({ code: '42501' });
    } finally {
      await connection.close();
    }
  });

  it('listen is refused on a server that has a port of its own', async () => {
    const ended = await at.run(['sql', 'listen', '0', '--json']);
    expect([ended.code, document(ended).error.code]).toEqual([2, 'usage']);
    expect(ended.err).toContain('troupe sql url');
  });
});

describe('options that do not go together', () => {
  it.each([
    [['sql']],
    [['sql', 'select 1', '--format', 'csv', '--out', 'a.arrow']],
    [['sql', 'select 1', '--format', 'csv', '--json']],
    [['sql', 'select 1', '--format', 'xml']],
    [['sql', 'select 1', '--out', 'a.txt']],
    [['sql', 'listen', 'high']],
  ])('%j ends with 2', async (args) => {
    expect((await at.run(args)).code).toBe(2);
  });
});
