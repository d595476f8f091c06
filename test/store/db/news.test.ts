/** Work that waits for news. */
import { EventEmitter, once } from 'node:events';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { LOG_CHANNEL, postgresLog } from '../../../ingest/log/postgres.ts';
import { AT_ONCE, notify, onNotify } from '../../../store/db/notifications.ts';
import { waitProjected } from '../../../store/projecting/positions.ts';
import { projectAll } from '../../../store/projecting/projector.ts';
import { freshDatabase, type TestDatabase } from '../../support/database.ts';
import { anEpisode } from '../support/events.ts';

const AN_HOUR = 3_600_000;

describe('Work that waits for news', () => {
  let fresh: TestDatabase;
  beforeEach(async () => {
    fresh = await freshDatabase();
  });
  afterEach(() => fresh.close());

  it('rests where nobody waits for it, and goes on at once where somebody does', async () => {
    const { db } = fresh;
    const stop = new AbortController();
    const began = new EventEmitter();
    let done = 0;
    let asked = false;
    const working = onNotify(
      db,
      'news',
      { signal: stop.signal, pollMs: AN_HOUR, restMs: () => (done === 0 ? 0 : AN_HOUR) },
      async () => {
        began.emit('work');
        if (++done === 1) return false;
        expect(asked).toBe(true);
        stop.abort();
        return false;
      },
    );
    await once(began, 'work');
    const notifications = new EventEmitter();
    const subscription = await db.listen('news', () => void notifications.emit('news'));

    const plain = once(notifications, 'news');
    await notify(db, 'news');
    await plain;
    await new Promise((resolve) => setTimeout(resolve, 50));
    asked = true;
    await notify(db, 'news', AT_ONCE);
    await working;
    await subscription.close();

    expect(done).toBe(2);
  });

  it('gathers while more keeps coming, and goes on when no more comes', async () => {
    const { db } = fresh;
    const stop = new AbortController();
    const began = new EventEmitter();
    const starts: number[] = [];
    const working = onNotify(
      db,
      'news',
      { signal: stop.signal, pollMs: AN_HOUR, streamMs: () => AN_HOUR, quietMs: 1000 },
      async () => {
        starts.push(performance.now());
        began.emit('work');
        if (starts.length === 2) stop.abort();
        return false;
      },
    );
    await once(began, 'work');
    let last = 0;
    for (let n = 0; n < 5; n++) {
      last = performance.now();
      await notify(db, 'news');
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    await working;

    expect(starts[1]! - last).toBeGreaterThanOrEqual(1000);
  });

  it('is asked for at once by whoever waits for the tables, if they are behind', async () => {
    const { db } = fresh;
    const log = postgresLog(db);
    const payloads: (string | null)[] = [];
    const subscription = await db.listen(LOG_CHANNEL, (payload) => void payloads.push(payload));
    await waitProjected(db, { log });

    await log.append(anEpisode('e'));
    const waiting = waitProjected(db, { log });
    while (!payloads.includes(AT_ONCE)) await new Promise((resolve) => setTimeout(resolve, 5));
    await projectAll(db);
    await waiting;
    await subscription.close();

    expect(payloads).toEqual(['', AT_ONCE]);
  });
});
