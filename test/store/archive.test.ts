/** From a log outside the database into the archive, shown on records made by hand: what a broker may give, it gives here. */
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { digestOf } from '../../ingest/events/decode.ts';
import type { Event } from '../../ingest/events/events.ts';
import { type LogRecord, writeRecord } from '../../ingest/log/kafka-record.ts';
import type { Reading } from '../../ingest/log/source.ts';
import { archiveIn } from '../../store/log/archive.ts';
import { reconcile } from '../../store/log/reconcile.ts';
import { applyPending } from '../../store/projecting/pending-changes.ts';
import { checksum } from '../../store/projecting/rebuilding/checksum.ts';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import '../support/replay.ts';
import { anEpisode, event } from './support/events.ts';
import { tablesOf } from './support/tables.ts';

const LOG = { log: 1, name: 'kafka:t', label: 'kafka:t' };
const TOPIC = `with l as (insert into troupe.logs (log, name, partitions) values (1, $1, 4))
  insert into troupe.positions (projection, log, partition, position, began)`;

function recordsOf(events: readonly Event[], first = 0): LogRecord[] {
  return events.map((one, i) => {
    const { key, value, headers } = writeRecord(one);
    return { offset: first + i, timestamp: '7', key: Buffer.from(key), value: Buffer.from(value), headers };
  });
}

const readingOf = (records: readonly LogRecord[], more: Partial<Reading> = {}): Reading => {
  const next = (records.at(-1)?.offset ?? -1) + 1;
  return { partition: 0, from: records[0]?.offset ?? 0, next, end: next, records, ...more };
};

describe('What is read of a log outside the database', () => {
  let fresh: TestDatabase;
  beforeEach(async () => {
    fresh = await freshDatabase();
    await fresh.db.query(
      `${TOPIC} select name, 1, i, 0, 0 from generate_series(0, 3) i, (values ('archive'), ('facts')) n (name)`,
      [LOG.name],
    );
  });
  afterEach(() => fresh.close());
  const take = async (...readings: Reading[]) => {
    const archived = await fresh.db.transaction((tx) => archiveIn(tx, LOG, readings));
    await applyPending(fresh.db);
    return archived;
  };
  const position = async (partition = 0): Promise<number> => {
    const { rows } = await fresh.db.query<{ position: number }>(
      `select position::integer as position from troupe.positions where projection = 'archive' and log = 1 and partition = $1`,
      [partition],
    );
    return rows[0]!.position;
  };

  it('is in the tables when it is archived, with its position, and a second time changes nothing', async () => {
    const records = recordsOf(anEpisode('e1'));
    expect(await take(readingOf(records))).toEqual({
      ...{ accepted: 12, duplicates: 0, dead: 0, skipped: 0 },
      keys: new Set(['t/task-1', 'e/e1']),
    });
    const { rows } = await fresh.db.query('select episode_id, reward from traj.episodes');
    expect(rows).toEqual([{ episode_id: 'e1', reward: 1 }]);
    const before = await checksum(fresh.db);
    expect(await take(readingOf(records))).toEqual({
      ...{ accepted: 0, duplicates: 0, dead: 0, skipped: 12 },
      keys: new Set(),
    });
    expect([await position(), await checksum(fresh.db)]).toEqual([12, before]);
  });

  it('P11: is not applied where the position moved on, and fails where it lies before', async () => {
    const records = recordsOf([...anEpisode('e1'), ...anEpisode('e2')]);
    await take(readingOf(records));
    expect((await take(readingOf(records.slice(3, 9), { end: 24 }))).skipped).toBe(6);
    await expect(take(readingOf(recordsOf(anEpisode('e3'), 30)))).rejects.toMatchObject({ code: 'fenced' });
    expect(await position()).toBe(24);
  });

  it('P12: gives the same tables when two read the same partition at once, whatever they were given of it', async () => {
    const events = Array.from({ length: 4 }, (_, i) => anEpisode(`e${i}`)).flat();
    const records = recordsOf(events);
    const cuts = [0, 10, 24, 30, 48];
    const lane = async (step: number) => {
      for (let i = 0; i < cuts.length - 1; i += step) {
        const to = cuts[Math.min(i + step, cuts.length - 1)]!;
        const part = records.slice(cuts[i], to);
        // Whoever is ahead is fenced and reads again from the stored position.
        for (;;) {
          const failed = await take(readingOf(part, { end: 48 })).catch((error) => error.code);
          if (failed !== 'fenced') break;
          await new Promise((resolve) => setTimeout(resolve, 5));
        }
      }
    };
    await Promise.all([lane(1), lane(2)]);
    expect(await checksum(fresh.db)).toEqual(await tablesOf(events, 12));
    expect((await reconcile(fresh.db)).ok).toBe(true);
  });

  it('P10: moves over gaps and over readings without any record, and never back', async () => {
    const [a, b] = [recordsOf(anEpisode('e1')), recordsOf(anEpisode('e2'), 20)];
    await take(readingOf(a));
    await take(readingOf([], { from: 12, next: 15, end: 40 }));
    await take(readingOf(b, { from: 15, next: 33, end: 40 }));
    await take(readingOf(a.slice(0, 2), { end: 40 }));
    expect(await position()).toBe(33);
    const { topics } = await reconcile(fresh.db);
    expect(topics[0]).toMatchObject({ position: 33, accepted: 24, gaps: 9, balanced: true });
  });

  it('P14: stops by name where the last record is another', async () => {
    const records = recordsOf(anEpisode('e1'));
    await take(readingOf(records));
    const others = recordsOf([...anEpisode('x').slice(0, 12), ...anEpisode('y')]);
    await expect(take(readingOf(others.slice(11)))).rejects.toMatchObject({ code: 'log_replaced' });
    expect(await position()).toBe(12);
    // The same record again, followed by others, is how every reader begins.
    const more = [...records.slice(11), ...recordsOf(anEpisode('e2'), 12)];
    expect(await take(readingOf(more))).toMatchObject({ accepted: 12, skipped: 1 });
  });

  it('P11: is fenced, and no sign of a log that was cut, where a reader slept on what it fetched before others went on', async () => {
    const records = recordsOf(anEpisode('e1'));
    await take(readingOf(records));
    await expect(take(readingOf(records.slice(0, 2), { end: 2 }))).rejects.toMatchObject({ code: 'fenced' });
    expect(await position()).toBe(12);
  });

  it('P5, P21, P22: lays poison and conflicts aside with place, bytes and reason, and applies their neighbours', async () => {
    const [first, other] = ['one', 'two'].map((content) =>
      event('message.sent', { episode_id: 'c', message_id: 'm', content }, { id: 'same' }),
    );
    const sound = recordsOf([...anEpisode('e1'), first!, other!, first!]);
    const poison = [null, Buffer.from('{'), Buffer.from('{"specversion":"1.0","type":"x"}')].map((value, i) => ({
      offset: 15 + i,
      timestamp: '7',
      key: null,
      value,
      headers: {},
    }));
    const after = recordsOf(anEpisode('e2'), 18);
    expect(await take(readingOf([...sound, ...poison, ...after]))).toEqual({
      accepted: 25,
      duplicates: 1,
      dead: 4,
      skipped: 0,
      keys: new Set(['t/task-1', 'e/e1', 'e/c', 'e/e2']),
    });
    const { rows } = await fresh.db.query<{ place: string; code: string; raw: Uint8Array }>(
      'select endpoint, place, code, raw from troupe.dead_letters order by place',
    );
    expect(rows.map(({ place, code }) => [place, code])).toEqual([
      ['t/0/13', 'id_conflict'],
      ['t/0/15', 'bad_shape'],
      ['t/0/16', 'bad_json'],
      ['t/0/17', 'unknown_event'],
    ]);
    expect(Buffer.from(rows[2]!.raw).toString()).toBe('{');
    expect((await reconcile(fresh.db)).ok).toBe(true);
  });

  it('P23: lays aside alone what the database cannot hold, and nothing when the environment fails', async () => {
    const own = writeRecord(anEpisode('e1')[1]!);
    // A record whose digest fits is not validated; an id with U+0000 is what no column holds.
    const odd = {
      ...recordsOf(anEpisode('e0'))[0]!,
      headers: { ...own.headers, ce_id: 'a\u0000b' },
      value: Buffer.from(own.value),
    };
    const time = 'yesterday';
    const late = {
      ...odd,
      offset: 1,
      headers: {
        ...own.headers,
        ce_time: time,
        troupe_digest: digestOf({ name: 'episode.started', type_version: 1, time }, own.value),
      },
    };
    expect(own.headers.ce_type).toBe('troupe.episode.started.v1');
    const records = [odd, late, ...recordsOf(anEpisode('e2'), 2)];
    expect(await take(readingOf(records))).toMatchObject({ accepted: 12, dead: 2 });
    await fresh.db.query('alter table troupe.stored_events rename to events_away');
    await expect(take(readingOf(recordsOf(anEpisode('e3'), 14)))).rejects.toThrow('events');
    await fresh.db.query('alter table troupe.events_away rename to stored_events');
    expect(await position()).toBe(14);
    expect(await take(readingOf(recordsOf(anEpisode('e3'), 14)))).toMatchObject({ accepted: 12, dead: 0 });
  });

  it('P4, P9: gives the tables of the embedded log, however the records are cut, repeated and spread', async () => {
    const events = [...anEpisode('e1', { group: 'g' }), ...anEpisode('e2', { group: 'g' }), ...anEpisode('e3')];
    const wanted = await tablesOf(events, events.length);
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.nat({ max: 3 }), { minLength: events.length, maxLength: events.length }),
        fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 4, maxLength: 12 }),
        async (spread, sizes) => {
          const own = await freshDatabase();
          try {
            await own.db.query(
              `${TOPIC} select name, 1, i, 0, 0 from generate_series(0, 3) i, (values ('archive'), ('facts')) n (name)`,
              [LOG.name],
            );
            const parts = [0, 1, 2, 3].map((p) => recordsOf(events.filter((_, i) => spread[i] === p)));
            const at = [0, 0, 0, 0];
            for (let n = 0; parts.some((part, p) => at[p]! < part.length); n++) {
              const size = sizes[n % sizes.length]!;
              const readings = parts.flatMap((part, partition) => {
                const from = Math.max(0, at[partition]! - (size % 3));
                const records = part.slice(from, at[partition]! + size);
                at[partition] = from + records.length;
                return records.length === 0 ? [] : [readingOf(records, { partition, end: part.length })];
              });
              await own.db.transaction((tx) => archiveIn(tx, LOG, readings));
              await applyPending(own.db);
            }
            expect(await checksum(own.db)).toEqual(wanted);
          } finally {
            await own.close();
          }
        },
      ),
      { numRuns: 4 },
    );
  });
});
