import { readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { importFiles } from '../../ingest/files/import.ts';
import { fileArtifacts } from '../../ingest/log/artifacts.ts';
import { postgresBook, postgresLog } from '../../ingest/log/postgres.ts';
import { originalsIn } from '../../store/log/originals.ts';
import { projectAll } from '../../store/projecting/projector.ts';
import { checksum } from '../../store/projecting/rebuilding/checksum.ts';
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
  it('is durable once, with its artifacts, its refusals as dead letters and its endpoint counted', async () => {
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
      `select received::integer, acknowledged::integer, duplicates::integer, rejected::integer from troupe.ingest_counters where endpoint = 'import'`,
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

describe('a session that comes in parts, in imports of their own', () => {
  const lines = readFileSync(join(import.meta.dirname, 'formats/recorded/claude-code/session.jsonl'), 'utf8')
    .trim()
    .split('\n');
  const checked = async (name: string, files: readonly (readonly string[])[]) => {
    const place = await freshDatabase();
    try {
      const artifacts = fileArtifacts(join(dir, `.${name}`));
      for (const [i, part] of files.entries()) {
        const path = join(dir, `${name}-${i}.jsonl`);
        await writeFile(path, part.join('\n'));
        const { db } = place;
        const [log, book] = [postgresLog(db), postgresBook(db)];
        const { errors } = await importFiles([path], { log, book, artifacts, originals: originalsIn(db) });
        expect(errors).toEqual([]);
        await projectAll(db);
      }
      // The original records are those of each file; the log holds what each import read.
      await place.db.query(`delete from facts.artifacts where role = 'raw-record'`);
      await place.db.query('update facts.episodes set raw_artifact_id = null');
      const { events: _, ...tables } = (await checksum(place.db)).tables;
      return tables;
    } finally {
      await place.close();
    }
  };

  it('leaves the checksums of the whole, the later part first or last, and again after the whole', async () => {
    const [first, later] = [lines.slice(0, 7), lines.slice(7)];
    const whole = await checked('whole', [lines]);
    expect(await checked('forward', [first, later])).toEqual(whole);
    expect(await checked('backward', [later, first])).toEqual(whole);
    expect(await checked('after', [lines, later, first])).toEqual(whole);
  }, 120_000);
});

it('a session that holds answers of another, imported before, has them as context: they are found in the tables', async () => {
  const folder = await mkdtemp(join(dir, 'copied-'));
  const artifacts = fileArtifacts(join(folder, '.artifacts'));
  const lines = (sessionId: string, answers: number) =>
    Array.from({ length: answers }, (_, n) => [
      { type: 'user', uuid: `q${n}`, message: { role: 'user', content: `Question ${n}` } },
      { type: 'assistant', uuid: `a${n}`, message: { role: 'assistant', id: `r${n}`, model: 'm', content: 'Yes.' } },
    ])
      .flat()
      .map((line, i, all) => ({ ...line, sessionId, parentUuid: all[i - 1]?.uuid ?? null }))
      .map((line, i) => JSON.stringify({ ...line, timestamp: `2026-09-10T10:00:0${i}.000Z` }))
      .join('\n');
  const load = async (name: string, text: string) => {
    await writeFile(join(folder, name), text);
    const log = { log: postgresLog(home.db), book: postgresBook(home.db) };
    const report = await importFiles([join(folder, name)], { ...log, artifacts, originals: originalsIn(home.db) });
    await projectAll(home.db);
    return report;
  };
  expect(await load('first.jsonl', lines('session-1', 2))).toMatchObject({ calls: 2, errors: [] });
  expect([...(await originalsIn(home.db).answered(['r0', 'r9']))]).toEqual([['r0', ['session-1']]]);
  expect(await load('second.jsonl', lines('session-2', 3))).toMatchObject({ calls: 1, errors: [] });
});
