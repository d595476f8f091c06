/** Several projectors of one project: each works on partitions of its own, and what matters to those of another is applied in between. */
import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Event } from '../../ingest/events/events.ts';
import { type LogRecord, writeRecord } from '../../ingest/log/kafka-record.ts';
import { kafkaPartitionOf } from '../../ingest/log/partition.ts';
import { postgresLog } from '../../ingest/log/postgres.ts';
import type { Reading } from '../../ingest/log/source.ts';
import type { Db } from '../../store/db/pool.ts';
import { ARCHIVING, archiveIn } from '../../store/log/archive.ts';
import { reconcile } from '../../store/log/reconcile.ts';
import { fairShare, partitionShare } from '../../store/projecting/leases.ts';
import { applyPending } from '../../store/projecting/pending-changes.ts';
import { waitProjected } from '../../store/projecting/positions.ts';
import { batches, projectAll, runProjector } from '../../store/projecting/projector.ts';
import { checksum } from '../../store/projecting/rebuilding/checksum.ts';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import '../support/replay.ts';
import { anEpisode, aStory, event } from './support/events.ts';
import { tablesOf } from './support/tables.ts';

const PARTITIONS = 4;
const LOG = 'kafka:t';
const READ = { log: 1, name: LOG, label: LOG };

const recordsOf = (events: readonly Event[]): LogRecord[] =>
  events.map((one, offset) => {
    const { key, value, headers } = writeRecord(one);
    return { offset, timestamp: '7', key: Buffer.from(key), value: Buffer.from(value), headers };
  });

/** A database that knows a topic of which nothing was read. */
async function withTopic(): Promise<TestDatabase> {
  const fresh = await freshDatabase({ max: 12 });
  await fresh.db.query(
    `with l as (insert into troupe.logs (log, name, partitions) values (1, '${LOG}', ${PARTITIONS}))
     insert into troupe.positions (projection, log, partition, position, began)
     select name, 1, i, 0, 0 from generate_series(0, ${PARTITIONS - 1}) i, (values ('archive'), ('facts')) n (name)`,
  );
  return fresh;
}

/** Brings in each partition on its own, all at the same time, so many records at once. */
async function readAll(
  db: Db,
  events: readonly Event[],
  { partitionOf, size }: { readonly partitionOf: (event: Event, i: number) => number; readonly size: number },
): Promise<void> {
  const parts: Event[][] = Array.from({ length: PARTITIONS }, () => []);
  for (const [i, one] of events.entries()) parts[partitionOf(one, i)]!.push(one);
  const readPart = async (part: readonly Event[], partition: number): Promise<void> => {
    const records = recordsOf(part);
    for (let from = 0; from < records.length; from += size) {
      const some = records.slice(from, from + size);
      const reading: Reading = { partition, from, next: from + some.length, end: records.length, records: some };
      await db.transaction((tx) => archiveIn(tx, READ, [reading]), { settings: ARCHIVING });
      await applyPending(db);
    }
  };
  // Where one fails the others end before the test does.
  const ended = await Promise.allSettled(parts.map(readPart));
  for (const one of ended) if (one.status === 'rejected') throw one.reason;
  await applyPending(db);
}

describe('Projectors of one topic', () => {
  let fresh: TestDatabase;
  beforeEach(async () => {
    fresh = await withTopic();
  });
  afterEach(() => fresh.close());

  it('P9: give the tables of one, however a foreign producer spread the events of an episode', async () => {
    const events = [...aStory(), ...anEpisode('e3', { task: 'other' })];
    const expected = await tablesOf(events, 100);
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.integer({ min: 0, max: PARTITIONS - 1 }), { minLength: events.length, maxLength: events.length }),
        fc.integer({ min: 3, max: 12 }),
        async (places, size) => {
          // Each in a database of its own: what is left of one that fails must not fail the next.
          const { db, close } = await withTopic();
          try {
            await readAll(db, events, { partitionOf: (_, i) => places[i]!, size });
            expect(await checksum(db)).toEqual(expected);
            expect((await reconcile(db)).ok).toBe(true);
          } finally {
            await close();
          }
        },
      ),
      { numRuns: 3 },
    );
  }, 300_000);

  it('lie at the place of their record', async () => {
    const events = anEpisode('e1');
    await readAll(fresh.db, events, { partitionOf: ({ key }) => kafkaPartitionOf(key, PARTITIONS), size: 5 });
    const { rows } = await fresh.db.query<{ log: string; partition: number; key: string }>(
      'select distinct log, partition, key from traj.events order by key',
    );
    expect(rows).toEqual(
      ['e/e1', 't/task-1'].map((key) => ({ log: LOG, partition: kafkaPartitionOf(key, PARTITIONS), key })),
    );
  });

  it('do not wait for one that holds another partition, and apply with it what concerns both', async () => {
    const word = event('feedback.recorded', {
      ...{ feedback_id: 'w', kind: 'score', name: 'rating', value: 1 },
      target: { kind: 'foreign', id: 'resp' },
    });
    const placeOf = ({ key }: Event) => kafkaPartitionOf(key, PARTITIONS);
    const ids = Array.from({ length: 20 }, (_, i) => `e${i}`);
    const id = ids.find((one) => kafkaPartitionOf(`e/${one}`, PARTITIONS) !== placeOf(word))!;
    const call = event('generation.completed', { episode_id: id, call_id: 'c', choices: [], response_id: 'resp' });
    const readingOf = (one: Event): Reading => ({
      ...{ partition: placeOf(one), from: 0, next: 1, end: 1 },
      records: recordsOf([one]),
    });
    await fresh.db.transaction(
      async (held) => {
        await archiveIn(held, READ, [readingOf(call)]);
        // Were it to wait, the test would end by its time: the first transaction ends after it.
        await fresh.db.transaction((tx) => archiveIn(tx, READ, [readingOf(word)]), { settings: ARCHIVING });
        await applyPending(fresh.db);
      },
      { settings: ARCHIVING },
    );
    await applyPending(fresh.db);
    const { rows } = await fresh.db.query(
      'select resolved_episode_id as id, resolved_call_id as call from facts.feedback',
    );
    expect(rows).toEqual([{ id, call: 'c' }]);
    const { rows: summary } = await fresh.db.query('select calls from facts.episodes');
    expect(summary).toEqual([{ calls: 1 }]);
    expect((await fresh.db.query('select 1 from troupe.pending_changes')).rows).toEqual([]);
  });
});

describe('Projectors of the embedded log', () => {
  it('are even in their shares, and nobody has none', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 16 }), fc.array(fc.nat(), { maxLength: 60 }), (owners, turns) => {
        const leases = Array.from({ length: 16 }, (_, partition) => ({ partition, owner: null as string | null }));
        const claim = (owner: string) => {
          for (const partition of fairShare(leases, owner)) leases[partition] = { partition, owner };
        };
        for (const turn of turns) claim(`p${turn % owners}`);
        for (let round = 0; round < 3; round++) for (let i = 0; i < owners; i++) claim(`p${i}`);
        const sizes = Array.from({ length: owners }, (_, i) => leases.filter(({ owner }) => owner === `p${i}`).length);
        expect(sizes.reduce((a, b) => a + b)).toBe(16);
        expect(Math.max(...sizes) - Math.min(...sizes)).toBeLessThanOrEqual(1);
      }),
    );
  });

  it('take all partitions alone, half of them beside another, and those of one that is gone', async () => {
    const { db, close } = await freshDatabase();
    try {
      const [a, b] = [partitionShare(randomUUID()), partitionShare(randomUUID())];
      expect((await a.claim(db)).length).toBe(16);
      expect((await b.claim(db)).length).toBe(8);
      const later = partitionShare(randomUUID());
      await db.query(`update troupe.partition_leases set leased_until = clock_timestamp() - interval '1 second'`);
      expect((await later.claim(db)).length).toBe(16);
      await later.release(db);
      expect((await partitionShare(randomUUID()).claim(db)).length).toBe(16);
    } finally {
      await close();
    }
  });

  it('bring everything in beside each other, once, and the tables are those of one', async () => {
    const { db, close } = await freshDatabase({ max: 12 });
    try {
      const events = [...aStory(), ...Array.from({ length: 30 }, (_, i) => anEpisode(`f${i}`)).flat()];
      const expected = await tablesOf(events, 1000);
      const stop = new AbortController();
      const running = [1, 2].map(() => runProjector(db, { signal: stop.signal }));
      const log = postgresLog(db);
      for (let i = 0; i < events.length; i += 20) await log.append(events.slice(i, i + 20));
      await waitProjected(db);
      stop.abort();
      await Promise.all(running);
      expect(await checksum(db)).toEqual(expected);
      expect((await reconcile(db)).ok).toBe(true);
    } finally {
      await close();
    }
  });

  it('leave what another holds to it, without waiting', async () => {
    const { db, close } = await freshDatabase({ max: 8 });
    try {
      await postgresLog(db).append(anEpisode('e1'));
      const all = Array.from({ length: 16 }, (_, i) => i);
      const { next } = batches(db, { share: async () => all });
      await db.transaction(async (tx) => {
        await tx.query('select 1 from troupe.positions for update');
        expect((await next()).applied).toBe(0);
      });
      expect((await next()).applied).toBeGreaterThan(0);
      expect(await projectAll(db)).toBe(0);
    } finally {
      await close();
    }
  });
});
