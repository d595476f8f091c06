import { afterAll, beforeAll, expect, it } from 'vitest';
import { postgresLog } from '../../../ingest/log/postgres.ts';
import { analyzeGrown } from '../../../store/projecting/grown-tables.ts';
import { projectAll } from '../../../store/projecting/projector.ts';
import { freshDatabase, type TestDatabase } from '../../support/database.ts';
import { anEpisode } from '../support/events.ts';

let fresh: TestDatabase;
beforeAll(async () => {
  fresh = await freshDatabase();
});
afterAll(() => fresh.close());

it('what grew by an import is analysed once, and what did not is left alone', async () => {
  const { db } = fresh;
  const known = async () =>
    (
      await db.query<{ n: number }>(
        "select reltuples::float8 as n from pg_class where oid = 'facts.episodes'::regclass",
      )
    ).rows[0]!.n;
  await postgresLog(db).append(anEpisode('first'));
  await projectAll(db);
  expect(await analyzeGrown(db)).not.toContain('facts.episodes');
  await postgresLog(db).append(Array.from({ length: 1500 }, (_, i) => anEpisode(`e${i}`, { task: `t${i}` })).flat());
  await projectAll(db);
  expect(await analyzeGrown(db)).toEqual(expect.arrayContaining(['facts.episodes', 'troupe.stored_events']));
  expect(await known()).toBe(1501);
  expect(await analyzeGrown(db)).toEqual([]);
});
