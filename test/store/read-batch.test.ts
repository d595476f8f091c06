/** Events that were just placed in the log, and the same events when they are read from it. */
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { decodeDraft } from '../../ingest/events/decode.ts';
import type { Draft, Event } from '../../ingest/events/events.ts';
import { PARTITIONS, partitionOf } from '../../ingest/log/partition.ts';
import { placeIn, postgresLog, withSplit, writePlaced } from '../../ingest/log/postgres.ts';
import { asRead, readBatch } from '../../store/projecting/read-batch.ts';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import '../support/replay.ts';
import { event } from './support/events.ts';

const portion = (perPartition: number) => ({ perPartition, most: 1e6, aside: 1e9 });
const LONG = `${'a long "text" '.repeat(60)}\u{1f600}`;

describe('Events that were just placed', () => {
  let fresh: TestDatabase;
  beforeAll(async () => {
    fresh = await freshDatabase();
  });
  afterAll(() => fresh.close());

  const undone = new Error('Every run begins with an empty log.');
  const time = fc.option(
    fc
      .tuple(fc.date({ min: new Date('0001-01-01'), max: new Date('9999-12-31'), noInvalidDate: true }), fc.nat(999999))
      .map(([date, micros]) => `${date.toISOString().slice(0, 19)}.${String(micros).padStart(6, '0')}Z`),
  );
  const round = fc.constantFrom('2026-01-02T10:00:10Z', '2026-01-02T10:00:10.5Z', '2026-01-02T10:00:00.000010Z');
  const json = fc.jsonValue({ noUnicodeString: false }) as fc.Arbitrary<never>;
  const drafts = fc.array(
    fc.record({
      name: fc.constantFrom(
        'task.defined',
        'span.recorded',
        'episode.started',
        'agent.defined',
        'message.sent',
        'tool.returned',
      ),
      time: fc.oneof(time, round),
      odd: fc.dictionary(fc.string(), json),
      value: fc.constantFrom<unknown>('x', LONG, [{ type: 'text', content: LONG }]),
    }),
    { minLength: 1, maxLength: 12 },
  );

  const dataOf = (name: string, { odd, value }: { odd: object; value: unknown }, id: string): object => {
    const about = { episode_id: id, unmapped: { ...odd, content: LONG } };
    if (name === 'agent.defined') return { ...about, agent_id: 'a', params: odd, system_instructions: value };
    if (name === 'message.sent') return { ...about, message_id: 'm', content: value };
    if (name === 'tool.returned') return { ...about, tool_call_id: 't', status: 'ok', output: value };
    if (name === 'task.defined') return { task_id: id, query: 'q', unmapped: odd };
    if (name === 'episode.started') return { episode_id: id, unmapped: odd };
    return { item: odd, format: 'made-up', episode_id: id };
  };

  it('are what the log gives back, to the last digit and key, in its order', async () => {
    await fc.assert(
      fc.asyncProperty(drafts, async (some) => {
        const events = some.flatMap(({ name, time, ...rest }, i): Event[] => {
          const id = `a${i}`;
          const { event } = decodeDraft({
            name,
            source: '/t',
            id,
            time,
            data: dataOf(name, rest, id),
          } as unknown as Draft);
          return event ? [event] : [];
        });
        // U+0000 is refused at ingestion.
        fc.pre(events.length > 0);
        await fresh.db
          .transaction(async (tx) => {
            const { rows } = await tx.query<{ partition: number; next_position: number }>(
              'select partition, next_position from troupe.log_partitions',
            );
            expect(rows).toHaveLength(PARTITIONS);
            const before = rows.map(({ partition, next_position }) => ({
              log: 0,
              partition,
              position: Number(next_position),
            }));
            const { answers, placed } = await placeIn(tx, events);
            expect(answers.every((answer) => answer === 'accepted')).toBe(true);
            await writePlaced(tx, placed);
            const read = asRead(placed.map(withSplit));
            const { events: batch } = await readBatch(tx, before, portion(100));
            expect(JSON.stringify(read)).toBe(JSON.stringify(batch));
            expect(read).toEqual(batch);
            throw undone;
          })
          .catch((error) => {
            if (error !== undone) throw error;
          });
      }),
      { numRuns: 60 },
    );
  });
});

describe('A batch that does not take all of a partition', () => {
  it('ends between keys, and within one only where that fills it', async () => {
    const { db, close } = await freshDatabase();
    try {
      const ids = Array.from({ length: 200 }, (_, i) => `a${i}`).filter((id) => partitionOf(`e/${id}`) === 0);
      const [one, two, long] = ids as [string, string, string];
      const messagesOf = (episode_id: string, times: number): Event[] =>
        Array.from({ length: times }, (_, i) =>
          event('message.sent', { episode_id, message_id: `m${i}`, content: 'x' }, { id: `${episode_id}-${i}` }),
        );
      await postgresLog(db).append([...messagesOf(one, 3), ...messagesOf(two, 4), ...messagesOf(long, 9)]);
      const keysFrom = async (position: number) => {
        const { events, all } = await db.transaction((tx) =>
          readBatch(tx, [{ log: 0, partition: 0, position }], portion(5)),
        );
        return { keys: events.map(({ key }) => key.slice(2)), all };
      };
      const times = (id: string, n: number) => new Array<string>(n).fill(id);
      expect(await keysFrom(0)).toEqual({ keys: times(one, 3), all: false });
      expect(await keysFrom(3)).toEqual({ keys: times(two, 4), all: false });
      expect(await keysFrom(7)).toEqual({ keys: times(long, 5), all: false });
      expect(await keysFrom(12)).toEqual({ keys: times(long, 4), all: true });
    } finally {
      await close();
    }
  });

  it('come in batches of some megabytes, the texts that they name included', async () => {
    const text = (n: number) => `${n} ${'what was said '.repeat(25_000)}`;
    const calls = Array.from({ length: 8 }, (_, n) =>
      event('tool.called', { episode_id: 'long', tool_call_id: `t${n}`, name: 'write', arguments: { text: text(n) } }),
    );
    const { db, close } = await freshDatabase();
    try {
      await postgresLog(db).append(calls);
      const before = [{ log: 0, partition: partitionOf('e/long'), position: 0 }];
      const batch = await db.transaction((tx) => readBatch(tx, before, portion(100)));
      expect([batch.events.length, batch.all]).toEqual([2, false]);
    } finally {
      await close();
    }
  });

  it('leave out the texts that rows name as events do', async () => {
    const { db, close } = await freshDatabase();
    try {
      const content = 'long '.repeat(200);
      await postgresLog(db).append([
        event('message.sent', { episode_id: 'named', message_id: 'm', from: 'user', content }),
      ]);
      const before = [{ log: 0, partition: partitionOf('e/named'), position: 0 }];
      const { events } = await db.transaction((tx) => readBatch(tx, before, portion(100)));
      expect((events[0]!.data as { content: string }).content).toMatch(/^\uFFFE#[0-9a-f-]{36}$/);
    } finally {
      await close();
    }
  });

  it('are refused where a text that they name is missing, by its key', async () => {
    const { db, close } = await freshDatabase();
    try {
      const content = 'long '.repeat(200);
      await postgresLog(db).append([
        event('tool.called', { episode_id: 'torn', tool_call_id: 't', name: 'write', arguments: { content } }),
      ]);
      await db.query('delete from troupe.bodies');
      const before = [{ log: 0, partition: partitionOf('e/torn'), position: 0 }];
      await expect(db.transaction((tx) => readBatch(tx, before, portion(100)))).rejects.toThrow(/torn/);
    } finally {
      await close();
    }
  });
});
