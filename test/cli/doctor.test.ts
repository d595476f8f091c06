import { mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { decodeDraft } from '../../ingest/events/decode.ts';
import { postgresLog } from '../../ingest/log/postgres.ts';
import { projectAll } from '../../store/projecting/projector.ts';
import { requestJob, waitForJob } from '../../store/queue/jobs/jobs.ts';
import { registerProcess } from '../../store/queue/jobs/processes.ts';
import { claimBase, defaultBase } from '../../store/server/binaries.ts';
import { nameHome } from '../../store/server/elsewhere.ts';
import { isRoot } from '../store/db/processes.ts';
import { startProgram } from '../store/support/process.ts';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { document, type Shell, warmShell } from './support/troupe.ts';

type Check = { readonly check: string; readonly ok: boolean; readonly detail: string };

describe('troupe doctor', () => {
  let database: TestDatabase;
  let at: Shell;
  beforeAll(async () => {
    database = await freshDatabase();
    at = warmShell({ DATABASE_URL: database.url, TROUPE_PORT: '0' });
  });
  afterAll(async () => {
    await at.remove();
    await database.close();
  });
  const asked = async (shell: Shell) => {
    const ended = await shell.run(['doctor', '--json']);
    const checks = new Map((document(ended).checks as Check[]).map((one) => [one.check, one]));
    return { code: ended.code, wrong: [...checks.values()].filter(({ ok }) => !ok).map(({ check }) => check), checks };
  };

  it('looks at disk, memory, port, processes, lag and the login of SQL queries, and ends with 0 where all is well', async () => {
    const { code, wrong, checks } = await asked(at);
    expect([code, wrong]).toEqual([0, []]);
    expect([...checks.keys()]).toEqual(
      expect.arrayContaining(['node', 'disk', 'memory', 'port', 'database', 'processes', 'lag', 'sql']),
    );
    expect(checks.get('disk')!.detail).toMatch(/^[\d.]+ \w+ free of [\d.]+ \w+ at \//);
    expect(checks.get('lag')!.detail).toBe('0 events of the log not in the tables');
    expect(checks.get('sql')!.detail).toContain('only the views of schemas traj and report');
  }, 60_000);

  it('looks at the disk of a database that lies outside its home too', async () => {
    const elsewhere = mkdtempSync(join(tmpdir(), 'troupe-data-'));
    mkdirSync(join(at.folder, 'home'), { recursive: true });
    symlinkSync(elsewhere, join(at.folder, 'home', 'data'));
    const { checks } = await asked(at);
    expect(checks.get('disk')!.detail).toContain(` at ${at.folder}/home`);
    expect(checks.get('disk of the database')!.detail).toMatch(/ free of .* at /);
    expect(checks.get('disk of the database')!.detail).toContain(elsewhere);
    rmSync(elsewhere, { recursive: true });
    rmSync(join(at.folder, 'home', 'data'));
  }, 60_000);

  it.runIf(isRoot)(
    'names a database whose home was deleted, with its size and how to remove it, and ends with 0',
    async () => {
      const home = join(at.folder, 'gone');
      const made = mkdtempSync(join(claimBase(defaultBase()), 'data-'));
      nameHome(made, home);
      const { code, out } = await at.run(['doctor']);
      expect(code).toBe(0);
      expect(out).toMatch(
        new RegExp(`! left behind: ${made} .*database of the home ${home}, which is gone.*remove it: rm -r ${made}\\n`),
      );
      rmSync(made, { recursive: true });
    },
    60_000,
  );

  it('ends with 1 where another program has the port of the API', async () => {
    const server = createServer((socket) => socket.end('220 ready\r\n'));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    const taken = warmShell({ DATABASE_URL: database.url, TROUPE_PORT: String(port) });
    const { code, wrong, checks } = await asked(taken);
    expect([code, wrong]).toEqual([1, ['port']]);
    expect(checks.get('port')!.detail).toContain(`127.0.0.1 port ${port}`);
    server.close();
    await taken.remove();
  }, 60_000);

  it('names the job of another project that trains on this machine, as `jobs` does for the one that waits', async () => {
    const other = await startProgram('../../trainer/place-program.ts', 'troupe-training');
    await other.firstLine;
    const one = warmShell({ DATABASE_URL: database.url, TROUPE_PORT: '0', TROUPE_TRAININGS: '1' });
    const its = `job night/1/train-solver of project other in /elsewhere (process ${other.child.pid})`;
    const context = { db: database.db, log: postgresLog(database.db), now: () => new Date() };
    const listed = async () =>
      (
        document(await one.run(['jobs', '--json'])).items as { job_id: string; state: string; waits_for: string }[]
      ).find(({ job_id }) => job_id === 'ours');
    try {
      await requestJob(context, { job_id: 'ours', kind: 'sft', spec: {} });
      await projectAll(database.db);
      const work = one.start(['run', 'work', '--json']);
      await work.waitForOutput(/waits for job night/);
      expect(await listed()).toMatchObject({ state: 'requested', waits_for: its });
      expect((await asked(one)).checks.get('training')!.detail).toBe(`${its}; at most 1 at a time (setting trainings)`);
      await other.kill();
      await expect(waitForJob(database.db, 'ours')).rejects.toThrow("The job's spec does not fit");
      await projectAll(database.db);
      expect(await listed()).toMatchObject({ state: 'finished', waits_for: null });
      work.child.kill('SIGTERM');
      await work.ended;
    } finally {
      await other.kill();
      await one.remove();
    }
  }, 120_000);

  it('names who runs, and ends with 1 where events wait and nobody, or one that stands still, brings them to the tables', async () => {
    const { event } = decodeDraft({
      name: 'episode.started',
      source: '/test',
      id: 'waits',
      time: '2026-01-01T00:00:00Z',
      data: { episode_id: 'waits' },
    } as never);
    await postgresLog(database.db).append([event!]);
    const leave = await registerProcess(database.db, { processId: 'judge-here-1', role: 'judge' });
    const alone = await asked(at);
    expect(alone.checks.get('processes')!.detail).toBe('1 judge');
    expect([alone.code, alone.wrong]).toEqual([1, ['lag']]);
    expect(alone.checks.get('lag')!.detail).toContain('1 event of the log');
    const end = await registerProcess(database.db, { processId: 'project-here-1', role: 'project' });
    expect((await asked(at)).code).toBe(0);
    await database.db.query("update troupe.events set recorded_at = recorded_at - interval '61 s' where id = 'waits'");
    const still = await asked(at);
    expect([still.code, still.wrong]).toEqual([1, ['lag']]);
    expect(still.checks.get('lag')!.detail).toMatch(/the oldest has waited for 6\d s\. The projector stands still/);
    await Promise.all([leave(), end()]);
  }, 60_000);
});
