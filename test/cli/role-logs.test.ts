import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { roleLogs } from '../../cli/processes/role-logs.ts';
import { rotatedFile } from '../../cli/processes/rotated-file.ts';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { document, type Shell, shell } from './support/troupe.ts';

const linesOf = (path: string): string[] => readFileSync(path, 'utf8').trimEnd().split('\n');

describe('a log file', () => {
  let folder: string;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'troupe-logs-'));
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  it('begins anew when it is full, and only so many of its predecessors are kept', () => {
    const path = join(folder, 'full.log');
    const write = () =>
      rotatedFile(path, {
        maxBytes: 20,
        keep: 2,
        onTrouble: (error) => {
          throw error;
        },
      });
    const first = write();
    for (const line of ['one-----', 'two-----', 'three---', 'four----', 'five----']) first.write(line);
    // Another process goes on where the one before it ended.
    const second = write();
    for (const line of ['six-----', 'seven---', 'x'.repeat(50), 'nine----']) second.write(line);
    expect(readdirSync(folder).sort()).toEqual(['full.log', 'full.log.1', 'full.log.2']);
    expect(linesOf(path)).toEqual(['nine----']);
    expect(linesOf(`${path}.1`)).toEqual(['x'.repeat(50)]);
    expect(linesOf(`${path}.2`)).toEqual(['seven---']);
    expect(statSync(path).mode & 0o777).toBe(0o600);
  });

  it('loses no line when it begins anew', () => {
    const path = join(folder, 'whole.log');
    const onTrouble = (error: unknown) => expect.fail(String(error));
    const file = rotatedFile(path, { maxBytes: 4096, keep: 100, onTrouble });
    const lines = Array.from({ length: 3_000 }, (_, i) => JSON.stringify({ i, pad: 'x'.repeat((i * 7) % 90) }));
    for (const line of lines) file.write(line);
    const parts = readdirSync(folder)
      .filter((name) => name.startsWith('whole.log'))
      .sort((a, b) => Number(b.slice('whole.log.'.length)) - Number(a.slice('whole.log.'.length)));
    expect(parts.length).toBeGreaterThan(30);
    expect(parts.flatMap((name) => linesOf(join(folder, name)))).toEqual(lines);
  });

  it('goes on in a file of its name where somebody moved, removed or emptied it', () => {
    const path = join(folder, 'moved.log');
    const file = rotatedFile(path, { maxBytes: 20, keep: 1, onTrouble: (error) => expect.unreachable(String(error)) });
    file.write('one');
    renameSync(path, join(folder, 'elsewhere.log'));
    file.write('two');
    expect([linesOf(join(folder, 'elsewhere.log')), linesOf(path)]).toEqual([['one'], ['two']]);
    rmSync(path);
    file.write('three');
    expect(linesOf(path)).toEqual(['three']);
    truncateSync(path);
    for (const line of ['four', 'five', 'six', 'seven']) file.write(line);
    expect([linesOf(path), existsSync(`${path}.1`)]).toEqual([['four', 'five', 'six', 'seven'], false]);
  });

  it('that cannot be written is reported, and whoever writes goes on', () => {
    const troubles: unknown[] = [];
    const file = rotatedFile(join(folder, 'missing', 'x.log'), {
      maxBytes: 20,
      keep: 1,
      onTrouble: (error) => troubles.push(error),
    });
    file.write('lost');
    expect(troubles).toMatchObject([{ code: 'ENOENT' }]);
  });

  it('of a role has a JSON object on every line, also where Node or a library wrote something else', () => {
    const logs = roleLogs(folder, 'air');
    logs('judge', '{"level":"info","msg":"ready"}');
    logs('judge', 'Segmentation fault');
    logs('judge', '{ half');
    expect(linesOf(join(folder, 'judge-air.log')).map((line) => JSON.parse(line))).toMatchObject([
      { level: 'info', msg: 'ready' },
      { level: 'error', role: 'judge', msg: 'Segmentation fault' },
      { level: 'error', role: 'judge', msg: '{ half' },
    ]);
  });
});

describe('troupe up', () => {
  let database: TestDatabase;
  let at: Shell;
  beforeAll(async () => {
    database = await freshDatabase();
    at = shell({ DATABASE_URL: database.url });
  });
  afterAll(async () => {
    at.remove();
    await database.close();
  });

  it('keeps the log of each role in the home, where the request id that a 500 names is found with its cause', async () => {
    const up = at.start(['up', '--port', '0', '--json']);
    const output = await up.waitForOutput(/"url".*\n/);
    const { url, project } = JSON.parse(output.split('\n').find((line) => line.startsWith('{'))!);
    await database.db.query('alter view traj.episodes rename to episodes_away');
    const answer = await fetch(`${url}/v1/episodes`);
    expect(answer.status).toBe(500);
    const problem = (await answer.json()) as { request_id: string; detail: string };
    expect(problem.detail).not.toContain('traj.episodes');

    const path = join(at.folder, 'home', 'run', `serve-${project}.log`);
    const found = () =>
      (existsSync(path) ? linesOf(path) : [])
        .map((line) => JSON.parse(line))
        .filter((line) => line.request_id === problem.request_id);
    await expect.poll(found, { timeout: 60_000 }).toHaveLength(1);
    expect(found()[0]).toMatchObject({
      level: 'error',
      role: 'serve',
      route: '/v1/episodes',
      err: { code: '42P01', message: expect.stringContaining('traj.episodes') },
    });
    expect(Date.parse(found()[0].time)).toBeGreaterThan(Date.now() - 600_000);
    expect(answer.headers.get('x-request-id')).toBe(problem.request_id);

    up.child.kill('SIGTERM');
    expect((await up.ended).code).toBe(0);
  }, 180_000);

  it('ends with the sentence of a role that cannot work, which came as a line of its log', async () => {
    const open = shell({ DATABASE_URL: database.url, TROUPE_HOST: '0.0.0.0' });
    const ended = await open.run(['up', '--port', '0', '--json']).finally(open.remove);
    expect(ended.code).toBe(2);
    const { message } = document(ended).error;
    expect(message).toContain('Without an API key Troupe listens on this machine only');
  }, 180_000);
});
