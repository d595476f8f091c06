/** `/readyz` says that the tables stand still while events wait, whatever keeps the projector. */
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { readiness } from '../../api/health/readiness.ts';
import { postgresLog } from '../../ingest/log/postgres.ts';
import { readSchema } from '../../migrations/migrate.ts';
import { runProjector } from '../../store/projecting/projector.ts';
import { anEvent, post, type TestApp, testApp } from './support/app.ts';

let at: TestApp;
beforeAll(async () => {
  at = await testApp();
});
afterAll(() => at.close());

const ready = async () => {
  const answer = await at.app.inject('/readyz');
  const { status, reasons, lag_events } = answer.json();
  return { code: answer.statusCode, status, reasons, lag_events };
};
const minuteLater = () =>
  at.db.query("update troupe.events set recorded_at = recorded_at - interval '61 seconds' where id = 'waits'");

it('is degraded while a projector hangs, by the age of the oldest event that waits, and ready once it goes on', async () => {
  const stop = new AbortController();
  let end = () => {};
  const held = new Promise<void>((resolve) => {
    end = resolve;
  });
  let locked = () => {};
  const isLocked = new Promise<void>((resolve) => {
    locked = resolve;
  });
  const other = at.db.transaction(async (tx) => {
    await tx.query('lock table facts.messages in access exclusive mode');
    locked();
    await held;
  });
  await isLocked;
  const projector = runProjector(at.db, { signal: stop.signal, onTrouble: () => {} });
  await post(at.app, anEvent('waits'));
  expect(await ready()).toMatchObject({ code: 200, status: 'ready', reasons: [], lag_events: 1 });
  await minuteLater();
  expect(await ready()).toEqual({
    code: 200,
    status: 'degraded',
    reasons: [expect.stringMatching(/^The oldest event that is not in the tables, of 1, has waited for 6\d s: /)],
    lag_events: 1,
  });
  end();
  await other;
  await vi.waitFor(async () => expect((await ready()).status).toBe('ready'), 10_000);
  stop.abort();
  await projector;
}, 30_000);

it('is degraded where nobody reads on in a log outside the database, from a minute after that was first seen', async () => {
  let now = performance.now();
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => now);
  let records = 5;
  const log = {
    ...postgresLog(at.db),
    name: 'topic',
    partitions: async () => [{ partition: 0, begin: 0, end: records }],
  };
  const state = async () => {
    const { status, reasons } = await readiness({ db: at.db, log, known: readSchema(), ingestOnly: false });
    return [status, reasons];
  };
  try {
    expect(await state()).toEqual(['ready', []]);
    now += 59_000;
    records = 9;
    expect(await state()).toEqual(['ready', []]);
    now += 2000;
    const reason = expect.stringMatching(/^Records of topic have been left unread for 61 s: no projector runs/);
    expect(await state()).toEqual(['degraded', [reason]]);
    records = 0;
    expect(await state()).toEqual(['ready', []]);
    records = 9;
    expect(await state()).toEqual(['ready', []]);
  } finally {
    clock.mockRestore();
  }
});
