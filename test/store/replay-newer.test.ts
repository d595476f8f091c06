/** What newer code wrote waits as a dead letter where older code read it, and is as if it had been understood at once. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { readiness } from '../../api/health/readiness.ts';
import type { Event } from '../../ingest/events/events.ts';
import { rawOf, writeRecord } from '../../ingest/log/kafka-record.ts';
import { appendIn, postgresLog, writeLetters } from '../../ingest/log/postgres.ts';
import { readSchema } from '../../migrations/migrate.ts';
import { archiveIn } from '../../store/log/archive.ts';
import { reconcile } from '../../store/log/reconcile.ts';
import { awaitedTypes, replayNewer } from '../../store/log/replay-newer.ts';
import { projectAll } from '../../store/projecting/projector.ts';
import { checksum } from '../../store/projecting/rebuilding/checksum.ts';
import { scheduleHistory } from '../../store/queue/schedules/history.ts';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { anEpisode, at, event } from './support/events.ts';
import { tablesOf } from './support/tables.ts';

const LOG = { log: 1, name: 'kafka:t', label: 'kafka:t' };
const recordOf = (one: Event, offset: number, type?: string) => {
  const { key, value, headers } = writeRecord(one);
  const kept = type === undefined ? headers : { ...headers, ce_type: type };
  return { offset, timestamp: '7', key: Buffer.from(key), value: Buffer.from(value), headers: kept };
};

describe('An event of newer code', () => {
  let fresh: TestDatabase;
  beforeEach(async () => {
    fresh = await freshDatabase();
    await fresh.db.query(
      `with l as (insert into troupe.logs (log, name, partitions) values (1, $1, 4))
       insert into troupe.positions (projection, log, partition, position, began)
       select name, 1, i, 0, 0 from generate_series(0, 3) i, (values ('archive'), ('facts')) n (name)`,
      [LOG.name],
    );
  });
  afterEach(() => fresh.close());
  const take = (records: ReturnType<typeof recordOf>[]) => {
    const next = records.at(-1)!.offset + 1;
    const reading = { partition: 0, from: records[0]!.offset, next, end: next, records };
    return fresh.db.transaction((tx) => archiveIn(tx, LOG, [reading]));
  };
  const letters = async () =>
    (
      await fresh.db.query<{ code: string; waits: boolean }>(
        'select code, replayed_at is null as waits from troupe.dead_letters order by dead_letter_id',
      )
    ).rows;
  const ready = () => readiness({ db: fresh.db, log: postgresLog(fresh.db), known: readSchema(), ingestOnly: false });

  it('waits as unknown_version where this code does not know it, stops nothing, and is named in readiness', async () => {
    const [first, ...rest] = anEpisode('e1');
    const records = [recordOf(first!, 0, 'troupe.task.defined.v7'), ...rest.map((one, i) => recordOf(one, i + 1))];
    expect(await take(records)).toMatchObject({ accepted: 11, dead: 1 });
    expect(await replayNewer(fresh.db)).toBe(0);
    expect(await letters()).toEqual([{ code: 'unknown_version', waits: true }]);
    await fresh.db.query(`update troupe.dead_letters set last_at = now() - interval '3 days'`);
    expect(await ready()).toMatchObject({
      status: 'ready',
      dead_letters: [
        '1 event of type troupe.task.defined.v7, known to a newer Troupe only, which applies what waits once it is started.',
      ],
    });
  });

  it('is applied at its own place by the first process that knows it, once', async () => {
    // Older code that did not know two of these types read them, and buried them as it read them.
    const events = anEpisode('e1');
    const late = [events[1]!, events[5]!];
    const records = events.map((one, i) => recordOf(one, i, late.includes(one) ? 'troupe.later.v1' : undefined));
    expect(await take(records)).toMatchObject({ accepted: 10, dead: 2 });
    await fresh.db.query('delete from troupe.dead_letters');
    await fresh.db.transaction((tx) =>
      writeLetters(
        tx,
        'kafka',
        late.map((one) => ({
          place: `t/0/${events.indexOf(one)}`,
          raw: rawOf(recordOf(one, events.indexOf(one))),
          refusal: { code: 'unknown_event', field: 'type', expected: 'others', got: `"troupe.${one.name}.v1"` },
        })),
      ),
    );
    expect(await awaitedTypes(fresh.db)).toHaveLength(2);

    expect(await replayNewer(fresh.db)).toBe(2);
    expect(await replayNewer(fresh.db)).toBe(0);
    expect((await letters()).map(({ waits }) => waits)).toEqual([false, false]);
    expect(await checksum(fresh.db)).toEqual(await tablesOf(events, 100));
    const { rows } = await fresh.db.query(
      'select position::integer as at, name from troupe.events where log = 1 order by position',
    );
    expect(rows).toEqual(events.map(({ name }, i) => ({ at: i, name })));
    const { ok, topics } = await reconcile(fresh.db);
    expect([ok, topics[0]]).toMatchObject([true, { accepted: 12, dead: 0 }]);
    expect((await ready()).dead_letters).toEqual([]);

    // An older process that still runs beside it reads a repetition: the letter waits again.
    await fresh.db.transaction((tx) =>
      writeLetters(tx, 'kafka', [
        {
          place: 't/0/1',
          raw: rawOf(recordOf(late[0]!, 1)),
          refusal: { code: 'unknown_event', field: 'type', expected: 'others', got: '"troupe.episode.started.v1"' },
        },
      ]),
    );
    expect((await letters())[0]!.waits).toBe(true);
    expect(await replayNewer(fresh.db)).toBe(1);
    expect((await reconcile(fresh.db)).ok).toBe(true);
    expect(await checksum(fresh.db)).toEqual(await tablesOf(events, 100));
  });

  it('in the embedded log is passed over by older code, and applied by the newer', async () => {
    const events = anEpisode('e1');
    await fresh.db.transaction((tx) => appendIn(tx, events));
    const started = `source = '/test' and id = 'e1-1'`;
    await fresh.db.query(`update troupe.stored_events set type_version = 9 where ${started}`);
    await projectAll(fresh.db);
    expect(await letters()).toEqual([{ code: 'unknown_version', waits: true }]);
    expect((await fresh.db.query('select task_id from traj.episodes')).rows).toEqual([{ task_id: null }]);
    expect((await fresh.db.query(`select type from traj.events where ${started}`)).rows).toEqual([
      { type: 'troupe.episode.started.v9' },
    ]);

    // Now as code that knows version 9 sees it.
    await fresh.db.query(`update troupe.stored_events set type_version = 1 where ${started}`);
    await fresh.db.query(
      `update troupe.dead_letters set raw = convert_to(replace(convert_from(raw, 'UTF8'), '.v9"', '.v1"'), 'UTF8')`,
    );
    expect(await replayNewer(fresh.db)).toBe(1);
    expect(await checksum(fresh.db)).toEqual(await tablesOf(events, 100));
    expect((await reconcile(fresh.db)).ok).toBe(true);
  });

  it('that it knows in an old version is shown in the words of today', async () => {
    const skipped = event(
      'schedule.skipped',
      { schedule: 'n', first_due_at: 'b', last_due_at: 'c', count: 1, reason: 'missed', detail: null },
      { id: 'new', time: at(2) },
    );
    const data = { schedule: 'n', due_at: 'a', until: 'b', count: 2, reason: 'paused', detail: null };
    const old = event('schedule.skipped', data as never, { id: 'old', time: at(1), type_version: 1 });
    await postgresLog(fresh.db).append([old, skipped]);
    expect((await scheduleHistory(fresh.db, 'n', 10)).skipped).toEqual([
      { due_at: 'b', until: 'c', count: 1, reason: 'missed', detail: null },
      { due_at: 'a', until: 'b', count: 2, reason: 'paused', detail: null },
    ]);
    const { rows } = await fresh.db.query('select data, type from traj.events order by time');
    expect(rows[0]).toEqual({ type: 'troupe.schedule.skipped.v1', data });
  });
});
