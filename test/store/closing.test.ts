import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { postgresLog } from '../../ingest/log/postgres.ts';
import { closeIdle, closeImported } from '../../store/projecting/closing.ts';
import { projectAll } from '../../store/projecting/projector.ts';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { anEpisode, at, event } from './support/events.ts';

describe('episodes that nobody closes', () => {
  let fresh: TestDatabase;
  beforeEach(async () => {
    fresh = await freshDatabase();
  });
  afterEach(() => fresh.close());

  const open = (id: string, source = '/test') => [
    event('episode.started', { episode_id: id }, { id: `${id}-s`, time: at(0), source }),
    event('message.sent', { episode_id: id, message_id: 'm', content: 'hi' }, { id: `${id}-m`, time: at(5), source }),
  ];
  const bring = async (...events: ReturnType<typeof event>[]) => {
    await postgresLog(fresh.db).append(events);
    await projectAll(fresh.db);
  };
  /** Closes as if so many seconds had gone by. */
  const close = async (seconds: number, closeAfter = 1800) => {
    const now = new Date(Date.now() + seconds * 1000);
    const closed = await closeIdle(fresh.db, postgresLog(fresh.db), { now, closeAfter });
    await projectAll(fresh.db);
    return closed;
  };
  const episodes = async () =>
    (await fresh.db.query('select episode_id, closed, outcome, stop_reason, finished_at from traj.episodes order by 1'))
      .rows;
  const last = (second: number) => at(second).replace('.000', '');

  it('are closed after so long without an event, as unknown, at the time of their last event', async () => {
    await bring(...open('a'), ...anEpisode('b'));
    expect(await close(1700)).toBe(0);
    expect(await close(1900)).toBe(1);
    expect(await episodes()).toMatchObject([
      { episode_id: 'a', closed: true, outcome: 'unknown', stop_reason: 'idle', finished_at: last(5) },
      { episode_id: 'b', closed: true, outcome: 'success', stop_reason: null },
    ]);
    expect(await close(9000)).toBe(0);
  });

  it.each([
    ['whole seconds', '2026-09-10T10:00:05Z', '2026-09-10T10:00:05.412345Z', true],
    ['milliseconds', '2026-09-10T10:00:05.412Z', '2026-09-10T10:00:05.412345Z', true],
    ['microseconds', '2026-09-10T10:00:05.412345Z', '2026-09-10T10:00:05.412345Z', true],
    ['whole seconds, and more came in the next', '2026-09-10T10:00:05Z', '2026-09-10T10:00:06Z', false],
    ['milliseconds, and more came in the next', '2026-09-10T10:00:05.412Z', '2026-09-10T10:00:05.413Z', false],
    ['microseconds, and more came in the next', '2026-09-10T10:00:05.412345Z', '2026-09-10T10:00:05.412346Z', false],
  ])('are closed by an end whose time has %s', async (_, end, last, closed) => {
    await bring(
      event('message.sent', { episode_id: 'p', message_id: 'm', content: 'hi' }, { time: last }),
      event('episode.finished', { episode_id: 'p', outcome: 'success' }, { time: end }),
    );
    expect(await episodes()).toMatchObject([{ episode_id: 'p', closed }]);
  });

  it('stay open where the event that would close them is none, and that is reported with the reason', async () => {
    await bring(...open('a'), ...open('b'));
    await fresh.db.query(`update facts.episodes set totals = '"many"' where episode_id = 'a'`);
    const refused: unknown[] = [];
    const closed = await closeIdle(fresh.db, postgresLog(fresh.db), {
      now: new Date(Date.now() + 1e7),
      closeAfter: 60,
      onRefused: (episode, { field }) => refused.push([episode, field]),
    });
    expect(closed).toBe(1);
    expect(refused).toEqual([['a', 'data.totals']]);
  });

  it('are closed once by two workers, opened by a later event, and closed again with what was known', async () => {
    await bring(...open('a'));
    const now = new Date(Date.now() + 1e7);
    const both = await Promise.all(
      [1, 2].map(() => closeIdle(fresh.db, postgresLog(fresh.db), { now, closeAfter: 60 })),
    );
    expect(both.sort()).toEqual([0, 1]);
    await projectAll(fresh.db);
    await bring(
      event('episode.finished', { episode_id: 'a', outcome: 'success', answer: '4' }, { id: 'end', time: at(7) }),
    );
    await bring(event('message.sent', { episode_id: 'a', message_id: 'n', content: 'and' }, { time: at(9) }));
    expect(await episodes()).toMatchObject([{ closed: false, outcome: 'success' }]);
    expect(await close(1e4)).toBe(1);
    expect(await episodes()).toMatchObject([
      { closed: true, outcome: 'success', stop_reason: 'idle', finished_at: last(9) },
    ]);
    const { rows } = await fresh.db.query(`select answer from traj.episodes`);
    expect(rows).toEqual([{ answer: '4' }]);
  });

  it('are closed at once where all they hold was imported, and left alone where there is only feedback about them', async () => {
    await bring(
      ...open('i', '/import/atif'),
      ...open('live'),
      event('feedback.recorded', {
        feedback_id: 'f',
        target: { kind: 'episode', id: 'unseen' },
        kind: 'score',
        name: 's',
        value: 1,
      }),
    );
    expect(await closeImported(fresh.db, postgresLog(fresh.db))).toBe(1);
    expect(await close(1e5)).toBe(1);
    expect(await episodes()).toMatchObject([
      { episode_id: 'i', closed: true, stop_reason: 'end of import' },
      { episode_id: 'live', closed: true, stop_reason: 'idle' },
      { episode_id: 'unseen', closed: false },
    ]);
  });
});
