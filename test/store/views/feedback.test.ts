/** Feedback on a step that does not exist is kept, and flagged whatever came first. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Event } from '../../../ingest/events/events.ts';
import { reconcile } from '../../../store/log/reconcile.ts';
import { freshDatabase, type TestDatabase } from '../../support/database.ts';
import { at, event } from '../support/events.ts';
import { attempt, marked, record, rowsOf } from './attempts.ts';

let fresh: TestDatabase;
beforeEach(async () => {
  fresh = await freshDatabase();
});
afterEach(() => fresh.close());

const flagged = async () =>
  Object.fromEntries(
    (await rowsOf(fresh.db, 'select target_id, no_such_step from traj.feedback order by target_id')).map((row) => [
      row.target_id,
      row.no_such_step,
    ]),
  );
const others = async () => (await reconcile(fresh.db)).feedback_without_step;

describe('feedback on a step', () => {
  const feedbackOf = (episode: string): Event[] =>
    ['c0/0', 'c0/1', 'c9/0', 'c0'].map((id) => marked(episode, id, true));
  const open = () => attempt('e', { says: [{}], outcome: null });

  it('is flagged once its call is complete without that candidate; other calls of an open episode may still come', async () => {
    await record(fresh.db, open(), feedbackOf('e'));
    expect(await flagged()).toEqual({ 'c0/0': false, 'c0/1': true, 'c9/0': false, c0: false });
    expect(await others()).toBe(1);
  });

  it('is flagged once its episode is closed without that step, and no longer when the call comes', async () => {
    await record(fresh.db, attempt('e', { says: [{}] }), feedbackOf('e'));
    expect(await flagged()).toEqual({ 'c0/0': false, 'c0/1': true, 'c9/0': true, c0: true });
    expect(await others()).toBe(3);
    const late = { episode_id: 'e', call_id: 'c9', choices: [{ index: 0, content: 'late' }] };
    await record(fresh.db, [event('generation.completed', late, { id: 'late', time: at(0) })]);
    expect(await flagged()).toMatchObject({ 'c9/0': false, 'c0/1': true });
    expect(await others()).toBe(2);
  });

  it('is not flagged while its call has been asked for only, or nothing of its episode has come', async () => {
    await record(fresh.db, feedbackOf('e'));
    expect(Object.values(await flagged())).toEqual([false, false, false, false]);
    await record(fresh.db, [
      event('generation.requested', { episode_id: 'e', call_id: 'c0' }, { id: 'asked', time: at(0) }),
    ]);
    expect(Object.values(await flagged())).toEqual([false, false, false, false]);
  });

  it('has the same flags when it came before what it is about, each event in a batch of its own', async () => {
    const events = [...attempt('e', { says: [{}] }), ...feedbackOf('e')];
    for (const one of events.reverse()) await record(fresh.db, [one]);
    expect(await flagged()).toEqual({ 'c0/0': false, 'c0/1': true, 'c9/0': true, c0: true });
    expect(await reconcile(fresh.db)).toMatchObject({ ok: true, feedback_without_step: 3 });
  });
});
