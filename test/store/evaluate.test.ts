import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { postgresLog } from '../../ingest/log/postgres.ts';
import { episodesTagged, evaluateEpisodes } from '../../store/evaluate/judging/evaluate.ts';
import { projectAll } from '../../store/projecting/projector.ts';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { anEpisode, anExecution, event } from './support/events.ts';

describe('the evaluation of a set of episodes', () => {
  let fresh: TestDatabase;
  beforeAll(async () => {
    fresh = await freshDatabase();
    await postgresLog(fresh.db).append([
      ...anExecution('x'),
      ...anExecution('y'),
      ...anEpisode('plain'),
      event('episode.started', { episode_id: 'tagged', tags: { set: 'a', round: 3 } }),
    ]);
    await projectAll(fresh.db);
  });
  afterAll(() => fresh.close());

  it('scores their execution reports: half the programs are right, and neither test decides', async () => {
    // Programs: one right, one wrong. Tests: one holds with the truth and one does not; each passes one program.
    expect(await evaluateEpisodes(fresh.db, ['x', 'y', 'plain'])).toEqual({
      episodes: 2,
      pass_at_1: 0.5,
      best_of_n: 0.5,
      majority: expect.any(Number),
      verifier_precision: 0.5,
      rejection_rate: expect.any(Number),
    });
  });

  it('has null and not 0 where there is nothing to score', async () => {
    const nothing = {
      pass_at_1: null,
      best_of_n: null,
      majority: null,
      verifier_precision: null,
      rejection_rate: null,
    };
    expect(await evaluateEpisodes(fresh.db, ['plain'])).toEqual({ episodes: 0, ...nothing });
    expect(await evaluateEpisodes(fresh.db, [])).toEqual({ episodes: 0, ...nothing });
  });

  it('finds episodes by all of their tags, numbers and texts alike', async () => {
    expect(await episodesTagged(fresh.db, { set: 'a', round: 3 })).toEqual(['tagged']);
    expect(await episodesTagged(fresh.db, { set: 'a', round: 4 })).toEqual([]);
    expect(await episodesTagged(fresh.db, { kind: 'test' })).toEqual(['plain']);
    expect(await episodesTagged(fresh.db, {})).toHaveLength(4);
  });
});
