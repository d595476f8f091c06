/** Events that would hold the others up are applied beside them, one at a time. */
import { randomBytes } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { kafkaPartitionOf, partitionOf } from '../../ingest/log/partition.ts';
import { postgresLog } from '../../ingest/log/postgres.ts';
import { followLog } from '../../store/log/follow.ts';
import { lateEvents } from '../../store/projecting/late.ts';
import { applyPending } from '../../store/projecting/pending-changes.ts';
import { waitProjected } from '../../store/projecting/positions.ts';
import { batches, projectAll } from '../../store/projecting/projector.ts';
import { checksum } from '../../store/projecting/rebuilding/checksum.ts';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { event } from './support/events.ts';
import { memoryTopic } from './support/memory-topic.ts';
import { tablesOf } from './support/tables.ts';

const ALL = async () => Array.from({ length: 16 }, (_, partition) => partition);
const never = { signal: new AbortController().signal };

/** About 1 MB that does not become small when it is stored. */
const members = () =>
  Object.fromEntries(
    randomBytes(480_000)
      .toString('hex')
      .match(/.{24}/g)!
      .map((one, i) => [`m${i}`, one]),
  );
const message = (episode: string, id: string, more: object = {}) =>
  event('message.sent', { episode_id: episode, message_id: id, content: id, ...more } as never, {
    id: `${episode}-${id}`,
  });
const large = (episode: string, id: string) => message(episode, id, { unmapped: members() });

/** An episode whose events lie in the partition of another. */
const neighbourOf = (episode: string): string =>
  Array.from({ length: 1000 }, (_, i) => `n${i}`).find((id) => partitionOf(`e/${id}`) === partitionOf(`e/${episode}`))!;

describe('An event that is large', () => {
  let fresh: TestDatabase;
  beforeEach(async () => {
    fresh = await freshDatabase();
  });
  afterEach(() => fresh.close());
  const messages = async () =>
    (await fresh.db.query<{ id: string }>(`select message_id as id from facts.messages order by 1`)).rows.map(
      ({ id }) => id,
    );
  const letters = async () =>
    (
      await fresh.db.query<{ place: string; code: string; raw: string }>(
        `select place, code, convert_from(raw, 'UTF8') as raw from troupe.dead_letters`,
      )
    ).rows;

  it('leaves the events behind it in its partition to be read at once, and is in the tables after them', async () => {
    const events = [large('e', 'a'), large('e', 'b'), message('e', 'c'), message(neighbourOf('e'), 'small')];
    await postgresLog(fresh.db).append(events);
    await batches(fresh.db, { share: ALL }).next();
    expect(await messages()).toEqual(['c', 'small']);
    await expect(waitProjected(fresh.db, { timeoutMs: 50 })).rejects.toMatchObject({ code: 'busy' });
    await lateEvents().next(fresh.db, never);
    await applyPending(fresh.db);
    await waitProjected(fresh.db, { timeoutMs: 10_000 });
    expect(await checksum(fresh.db)).toEqual(await tablesOf(events, 10));
  }, 120_000);

  it('is a span too: its trace is whole once it was applied, though later spans came before it', async () => {
    const span = (id: string, more: object = {}) => {
      const told = {
        name: 'message.sent',
        source: '/t',
        id,
        time: null,
        data: { episode_id: 't', message_id: id, content: id, ...more },
      };
      return event('span.recorded', { episode_id: 't', format: 'erased', item: { told: [told] } } as never, {
        id: `s-${id}`,
      });
    };
    const events = [span('a', { unmapped: members() }), span('b'), message('t', 'c')];
    await postgresLog(fresh.db).append(events);
    await batches(fresh.db, { share: ALL }).next();
    await lateEvents().next(fresh.db, never);
    await applyPending(fresh.db);
    expect(await messages()).toEqual(['a', 'b', 'c']);
    expect(await checksum(fresh.db)).toEqual(await tablesOf(events, 10));
  }, 120_000);

  it('is applied by whoever needs the tables whole, without a projector that runs', async () => {
    const events = [large('e', 'a'), message('e', 'b')];
    await postgresLog(fresh.db).append(events);
    await batches(fresh.db, { share: ALL }).next();
    await projectAll(fresh.db);
    expect(await checksum(fresh.db)).toEqual(await tablesOf(events, 10));
  }, 120_000);

  it('becomes a dead letter with its place where the database gives up on it alone, and the others are there', async () => {
    await givesUpOn('a');
    await postgresLog(fresh.db).append([large('e', 'a'), message('e', 'b')]);
    await batches(fresh.db, { share: ALL }).next();
    const { next } = lateEvents();
    for (let tries = 0; tries < 3; tries++) await next(fresh.db, never);
    expect(await messages()).toEqual(['b']);
    const [letter, ...more] = await letters();
    expect([letter!.place, letter!.code, more]).toEqual([`embedded/${partitionOf('e/e')}/0`, 'too_large', []]);
    expect(JSON.parse(letter!.raw)).toMatchObject({ id: 'e-a' });
    await applyPending(fresh.db);
    await waitProjected(fresh.db, { timeoutMs: 10_000 });
  }, 120_000);

  it('is found among small ones, whose batch the database gives up on, in smaller and smaller parts', async () => {
    await givesUpOn('n33');
    const events = Array.from({ length: 100 }, (_, i) => message('e', `n${i}`));
    await postgresLog(fresh.db).append(events);
    const { next } = batches(fresh.db, { share: ALL });
    let failures = 0;
    for (let applied = 1; applied > 0; ) {
      applied = await next().then(
        (batch) => batch.applied,
        () => ++failures,
      );
      expect(failures).toBeLessThan(12);
    }
    expect((await messages()).length).toBe(99);
    const late = lateEvents();
    for (let tries = 0; tries < 3; tries++) await late.next(fresh.db, never);
    expect((await letters()).map(({ raw }) => JSON.parse(raw).id)).toEqual(['e-n33']);
  }, 120_000);

  const givesUpOn = (id: string) =>
    fresh.db.query(`create function facts.gives_up() returns trigger language plpgsql as $$
      begin raise exception 'it idled' using errcode = '25P03'; end $$;
      create trigger gives_up before insert on facts.messages for each row when (new.message_id = '${id}') execute function facts.gives_up()`);
});

describe('A log outside the database', () => {
  it('goes on behind a record that cannot be archived alone, which becomes a dead letter after three tries', async () => {
    const fresh = await freshDatabase();
    try {
      await fresh.db.query(`create function troupe.gives_up() returns trigger language plpgsql as $$
        begin raise exception 'it idled' using errcode = '25P03'; end $$;
        create trigger gives_up before insert on troupe.stored_events for each row when (new.id = 'e-n7') execute function troupe.gives_up()`);
      const topic = memoryTopic('t', 1);
      topic.append(Array.from({ length: 20 }, (_, i) => message('e', `n${i}`)));
      const stop = new AbortController();
      let events = 0;
      let alone = 0;
      await followLog(fresh.db, topic.source, {
        signal: AbortSignal.any([stop.signal, AbortSignal.timeout(60_000)]),
        onTrouble: () => alone++,
        onBatch: (batch) => {
          events += batch.events;
          if (events === 19) stop.abort();
        },
      });
      expect(events).toBe(19);
      // The batch, and the record alone.
      expect(alone).toBeLessThanOrEqual(6);
      const { rows } = await fresh.db.query<{ place: string; code: string; raw: string }>(
        `select place, code, convert_from(raw, 'UTF8') as raw from troupe.dead_letters`,
      );
      expect(rows).toMatchObject([{ place: 't/0/7', code: 'too_large' }]);
      expect(JSON.parse(rows[0]!.raw)).toMatchObject({ id: 'e-n7' });
    } finally {
      await fresh.close();
    }
  }, 120_000);

  it('that is far behind is brought in by parts, the records of each partition before the later ones of others', async () => {
    const fresh = await freshDatabase();
    try {
      const topic = memoryTopic('t', 2);
      const of = (partition: number) =>
        Array.from({ length: 1000 }, (_, i) => `k${i}`).find((id) => kafkaPartitionOf(`e/${id}`, 2) === partition)!;
      const text = 'x'.repeat(3_000_000);
      topic.append(Array.from({ length: 6 }, (_, i) => message(of(0), `b${i}`, { content: text })));
      topic.append(Array.from({ length: 3000 }, (_, i) => message(of(0), `m${i}`)));
      topic.append([message(of(1), 'small')]);
      const sizes: number[] = [];
      const stop = new AbortController();
      const following = followLog(fresh.db, topic.source, {
        signal: stop.signal,
        onBatch: ({ events }) => {
          sizes.push(events);
          if (sizes.reduce((a, b) => a + b) === 3007) stop.abort();
        },
      });
      await following;
      expect(Math.max(...sizes)).toBeLessThanOrEqual(2000);
      expect(sizes.length).toBeGreaterThan(5);
      const { rows } = await fresh.db.query('select count(*)::integer as n from facts.messages');
      expect(rows).toEqual([{ n: 3007 }]);
    } finally {
      await fresh.close();
    }
  }, 120_000);
});
