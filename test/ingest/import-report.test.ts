import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { importFiles } from '../../ingest/files/import.ts';
import { fileArtifacts } from '../../ingest/log/artifacts.ts';
import { postgresBook, postgresLog } from '../../ingest/log/postgres.ts';
import { originalsIn } from '../../store/log/originals.ts';
import { projectAll } from '../../store/projecting/projector.ts';
import { freshDatabase, type TestDatabase } from '../support/database.ts';

const RECORDED = join(import.meta.dirname, 'formats/recorded');
const KINDS = [
  'claude-code',
  'codex',
  'openai-chat',
  'prime-rl',
  'inspect',
  'atif',
  'langfuse',
  'weave',
  'crewai',
  'tau2-bench',
];

let home: TestDatabase;
let dir: string;
beforeAll(async () => {
  home = await freshDatabase();
  dir = await mkdtemp(join(tmpdir(), 'troupe-report-'));
});
afterAll(async () => {
  await home.close();
  await rm(dir, { recursive: true });
});

describe('The report of an import of many kinds', () => {
  it('counts what the tables hold, also of runs that several records state', async () => {
    const paths = KINDS.map((kind) => join(RECORDED, kind));
    const report = await importFiles([...paths, ...paths.slice(3, 5)], {
      log: postgresLog(home.db),
      book: postgresBook(home.db),
      artifacts: fileArtifacts(join(dir, '.artifacts')),
      originals: originalsIn(home.db),
    });
    await projectAll(home.db);
    const { rows } = await home.db.query<Record<string, number>>(
      `select (select count(*) from traj.episodes)::integer as episodes,
              (select count(*) from facts.calls where completed_version is not null)::integer as calls,
              (select count(*) from traj.steps)::integer as steps,
              (select count(*) from traj.tool_calls where name is not null)::integer as tool_calls,
              (select count(*) from traj.feedback)::integer as feedback`,
    );
    const { episodes, calls, steps, tool_calls, feedback } = report;
    expect({ episodes, calls, steps, tool_calls, feedback }).toEqual(rows[0]);
    expect(calls).toBeGreaterThan(50);
  });
});
