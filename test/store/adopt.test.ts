/** A topic that took the place of the one that was read: refused until it is adopted, and then a log of its own. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { adopt, lookToAdopt } from '../../store/log/adopt.ts';
import { bringIn } from '../../store/log/follow.ts';
import { listLogs } from '../../store/log/incarnations.ts';
import { reconcile } from '../../store/log/reconcile.ts';
import { checksum } from '../../store/projecting/rebuilding/checksum.ts';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { anEpisode } from './support/events.ts';
import { type MemoryTopic, memoryTopic } from './support/memory-topic.ts';
import { tablesOf } from './support/tables.ts';

let fresh: TestDatabase;
let topic: MemoryTopic;
beforeEach(async () => {
  fresh = await freshDatabase();
  topic = memoryTopic('t', 2);
});
afterEach(() => fresh.close());

const read = () => bringIn(fresh.db, topic.source);
const adoptNow = async (partitions = 2): Promise<string> => {
  const { known } = await lookToAdopt(fresh.db, topic.source);
  return adopt(fresh.db, topic.source, { known, partitions });
};
const places = async () =>
  (
    await fresh.db.query<{ log: string; events: number; places: number }>(
      `select log, count(*)::integer as events, count(distinct (partition, position))::integer as places from traj.events group by log order by log`,
    )
  ).rows;

describe('A topic that took the place of the one that was read', () => {
  beforeEach(async () => {
    topic.append(anEpisode('e1'));
    expect(await read()).toBe(12);
  });

  // A partition that was never read holds nothing to compare: what is read of it before the others are refused stays with the first.
  it.each([
    ['an empty one in another cluster', () => topic.replace('b', 2), /cluster a, and cluster b/],
    ['an empty one in the same cluster', () => topic.replace('a', 2), /was read up to offset \d+, and ends at 0/],
    ['one with fewer partitions', () => topic.replace('a', 1), /had 2 partitions, and has 1/],
    ['none at all', () => topic.replace('a', 0), /it is gone/],
    [
      'one that holds as many other records',
      () => {
        topic.replace('a', 2);
        topic.append(anEpisode('x1'));
        topic.append(anEpisode('x2'));
        topic.append(anEpisode('x3'));
      },
      /is not the one that was read there/,
    ],
  ])(
    '%s: stops the reader with log_replaced, and once adopted is read from 0 beside what is there',
    async (_, change, why) => {
      change();
      await expect(read()).rejects.toMatchObject({ code: 'log_replaced', message: expect.stringMatching(why) });
      expect((await lookToAdopt(fresh.db, topic.source)).why).toMatch(why);
      const tables = await checksum(fresh.db);
      expect(await adoptNow()).toBe('kafka:t#1');
      expect(await checksum(fresh.db)).toEqual(tables);

      await read();
      topic.append(anEpisode('e2'));
      // What was read from the first topic and is sent again is a duplicate.
      topic.append(anEpisode('e1'));
      expect(await read()).toBe(12);
      const [first, second] = await places();
      expect(first).toMatchObject({ log: 'kafka:t', events: first!.places });
      expect(second).toMatchObject({ log: 'kafka:t#1', events: second!.places });
      expect((await reconcile(fresh.db)).ok).toBe(true);
      expect((await lookToAdopt(fresh.db, topic.source)).why).toBeNull();
    },
  );

  it('one that lost records before they were read stops the reader with log_truncated, and can be adopted too', async () => {
    topic.append(anEpisode('e2'));
    topic.append(anEpisode('e3'));
    topic.expire();
    await expect(read()).rejects.toMatchObject({ code: 'log_truncated' });
    expect((await lookToAdopt(fresh.db, topic.source)).why).toMatch(/begins at \d+ now/);
    expect(await adoptNow()).toBe('kafka:t#1');
    topic.append(anEpisode('e4'));
    expect(await read()).toBe(12);
    expect(await checksum(fresh.db)).toEqual(await tablesOf([...anEpisode('e1'), ...anEpisode('e4')], 12));
    expect((await reconcile(fresh.db)).ok).toBe(true);
  });

  it('is adopted with other partitions, and a second time when it is replaced again', async () => {
    topic.replace('b', 0);
    await adoptNow(3);
    topic.append(anEpisode('e2'));
    expect(await read()).toBe(12);
    topic.replace('c', 1);
    expect(await adoptNow()).toBe('kafka:t#2');
    topic.append(anEpisode('e3'));
    expect(await read()).toBe(12);
    expect(
      (await listLogs(fresh.db)).map(({ log, cluster, partitions, read }) => ({ log, cluster, partitions, read })),
    ).toEqual([
      { log: 'kafka:t', cluster: 'a', partitions: 2, read: 12 },
      { log: 'kafka:t#1', cluster: 'b', partitions: 3, read: 12 },
      { log: 'kafka:t#2', cluster: 'c', partitions: 1, read: 12 },
    ]);
    expect((await reconcile(fresh.db)).ok).toBe(true);
  });

  it('is adopted by one of two who adopt at once', async () => {
    topic.replace('b', 2);
    const { known } = await lookToAdopt(fresh.db, topic.source);
    const both = await Promise.allSettled([1, 2].map(() => adopt(fresh.db, topic.source, { known, partitions: 2 })));
    expect(both.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
    expect(both.find((one) => one.status === 'rejected')).toMatchObject({ reason: { code: 'conflict' } });
    expect((await listLogs(fresh.db)).length).toBe(2);
  });

  it('is listed without the log in the database, until that one was used', async () => {
    const names = async () => (await listLogs(fresh.db)).map(({ log }) => log);
    expect(await names()).toEqual(['kafka:t']);
    await fresh.db.query('update troupe.log_partitions set next_position = 1 where partition = 3');
    expect(await names()).toEqual(['embedded', 'kafka:t']);
  });
});

it('A topic that was never read cannot be adopted, and while there is none nothing is brought in, at once', async () => {
  topic.replace('a', 0);
  await expect(lookToAdopt(fresh.db, topic.source)).rejects.toMatchObject({ code: 'not_found' });
  expect(await read()).toBe(0);
});
