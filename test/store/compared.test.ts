import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { comparedText } from '../../api/operations/judge/text.ts';
import { postgresLog } from '../../ingest/log/postgres.ts';
import { comparedBy } from '../../store/evaluate/judging/compared.ts';
import { projectAll } from '../../store/projecting/projector.ts';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { anEpisode, at, event } from './support/events.ts';

describe('what a judging could not compare', () => {
  let fresh: TestDatabase;
  beforeEach(async () => {
    fresh = await freshDatabase();
  });
  afterEach(() => fresh.close());

  it('is counted with its reason: groups of one, open episodes, and episodes that wait for their group', async () => {
    const unplaced = [
      event('episode.started', { episode_id: 'u' }, { time: at(0) }),
      event('episode.finished', { episode_id: 'u', outcome: 'success' }, { time: at(1) }),
    ];
    await postgresLog(fresh.db).append([
      ...anEpisode('a', { task: 'both' }),
      ...anEpisode('b', { task: 'both' }),
      ...anEpisode('c', { task: 'alone' }),
      ...unplaced,
      ...anEpisode('w', { task: 'x', group: 'g' }),
      event('episode.started', { episode_id: 'o', group_id: 'g' }, { time: at(0) }),
      ...anEpisode('r', { task: 'again' }),
      event('message.sent', { episode_id: 'r', message_id: 'late', content: 'more' }, { time: at(59) }),
    ]);
    await projectAll(fresh.db);
    const compared = await comparedBy(fresh.db, ['a', 'b', 'c', 'u'], { now: new Date(at(60)), closeAfter: 1800 });
    expect(compared).toEqual({
      groups: 3,
      of_one: { alone: 1, unplaced: 1 },
      partial: 0,
      open: { unfinished: 1, reopened: 1 },
      waiting: 1,
    });
    expect(comparedText(compared, 1800)).toEqual([
      'Groups with one episode: 2 of 3 (1 without task and group, 1 the only episode of its task or group). Methods that compare the episodes of a group have nothing to compare there.',
      'Open and not judged: 2 episodes (1 without episode.finished, which the program that records sends (`troupe run work` closes them after 1800 s without events), 1 with an event after its episode.finished).',
      'Waiting for open or missing members of their group: 1 closed episode.',
    ]);
  });

  it('counts groups of which fewer are closed than were announced, open members among them', async () => {
    const started = (episode: string, group: string, size: number) =>
      event(
        'episode.started',
        { episode_id: episode, group_id: group, group_size: size },
        { id: `${episode}-size`, time: at(5) },
      );
    await postgresLog(fresh.db).append([
      ...anEpisode('a', { group: 'short' }),
      started('a', 'short', 3),
      ...anEpisode('b', { group: 'short' }),
      started('open', 'short', 3),
      ...anEpisode('c', { group: 'whole' }),
      ...anEpisode('d', { group: 'whole' }),
      started('c', 'whole', 2),
      ...anEpisode('e', { task: 'no-group' }),
      ...anEpisode('f', { task: 'no-group' }),
    ]);
    await projectAll(fresh.db);
    const later = { now: new Date(Date.parse(at(60)) + 3_600_000), closeAfter: 1800 };
    const compared = await comparedBy(fresh.db, ['a', 'b', 'c', 'd', 'e', 'f'], later);
    expect(compared).toMatchObject({ groups: 3, partial: 1, waiting: 0 });
    expect(comparedText(compared, 1800)).toContain(
      'Groups with fewer closed members than announced: 1 of 3; the reason of their credits is partial_group.',
    );
  });

  it('is nothing where everything was compared', async () => {
    await postgresLog(fresh.db).append([...anEpisode('a'), ...anEpisode('b')]);
    await projectAll(fresh.db);
    expect(comparedText(await comparedBy(fresh.db, ['a', 'b'], { now: new Date(at(60)) }), 1800)).toEqual([]);
  });
});
