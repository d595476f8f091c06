import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { fileArtifacts } from '../../ingest/artifacts.ts';
import { importFiles } from '../../ingest/import.ts';
import { postgresBook, postgresLog } from '../../ingest/log/postgres.ts';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { completion, FAILURE_LOG, SERVICE_RUN } from './support/native-samples.ts';

let home: TestDatabase;
let dir: string;
beforeAll(async () => {
  home = await freshDatabase();
  dir = await mkdtemp(join(tmpdir(), 'troupe-import-pg-'));
});
afterAll(async () => {
  await home.close();
  await rm(dir, { recursive: true });
});

describe('an import into the embedded log', () => {
  it('is durable once, with its artifacts, its refusals as dead letters and its door counted', async () => {
    const records = [
      SERVICE_RUN,
      FAILURE_LOG,
      completion('run-1', 0, 'zero \u0000 \ud800'),
      completion('run-1', 1, 'b'),
    ];
    for (const [i, record] of records.entries()) await writeFile(join(dir, `${i}.json`), JSON.stringify(record));
    await writeFile(join(dir, 'bad.jsonl'), `${JSON.stringify(completion('run-2', 0, 'c'))}\n{"request": \n`);
    const artifacts = fileArtifacts(join(dir, '.artifacts'));
    const run = () => importFiles([dir], { log: postgresLog(home.db), book: postgresBook(home.db), artifacts });

    const first = await run();
    expect(first).toMatchObject({ format: 'mixed', files: 5, episodes: 4, events: { duplicates: 0, rejected: 1 } });
    const events = await home.db.query<{ n: number }>('select count(*)::integer as n from troupe.events');
    expect(events.rows[0]!.n).toBe(first.events.accepted);
    const raw = await home.db.query<{ id: string }>(
      `select data ->> 'artifact_id' as id from troupe.events where name = 'artifact.attached'`,
    );
    expect(raw.rows).toHaveLength(5);
    for (const { id } of raw.rows) JSON.parse(String(Buffer.from(await artifacts.get(id))));

    const second = await run();
    expect(second.events).toEqual({ ...first.events, accepted: 0, duplicates: first.events.accepted });
    const letters = await home.db.query<{ place: string; attempts: number }>(
      'select place, attempts::integer as attempts from troupe.dead_letters',
    );
    expect(letters.rows).toEqual([{ place: `${join(dir, 'bad.jsonl')}:2`, attempts: 2 }]);
    const counts = await home.db.query<Record<string, number>>(
      `select received::integer, acknowledged::integer, duplicates::integer, rejected::integer from troupe.door_counts where door = 'import'`,
    );
    expect(counts.rows).toEqual([
      {
        received: 2 * first.events.received,
        acknowledged: first.events.accepted,
        duplicates: first.events.accepted,
        rejected: 2,
      },
    ]);
  });
});
