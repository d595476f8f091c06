import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createAppendQueue } from '../../api/ingestion/append-queue.ts';
import { groupCommit } from '../../api/ingestion/group-commit.ts';
import { TroupeError } from '../../errors.ts';
import type { Event } from '../../ingest/events/events.ts';
import type { AppendResult } from '../../ingest/log/log.ts';
import { event } from '../store/support/events.ts';

const options = { weigh: () => 1, maxWeight: 10, maxWaiting: 1000 };
const ticks = async (n: number) => {
  for (let i = 0; i < n; i++) await new Promise(setImmediate);
};

describe('group commit', () => {
  it('gives each caller its own answer, keeps the order of arrival, and writes one group at a time', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.record({ size: fc.integer({ min: 0, max: 12 }), pause: fc.integer({ min: 0, max: 3 }) }), {
          maxLength: 40,
        }),
        fc.array(fc.integer({ min: 0, max: 3 }), { minLength: 1, maxLength: 10 }),
        async (callers, delays) => {
          const written: number[] = [];
          let [running, writes] = [0, 0];
          const group = groupCommit(
            async (items: readonly (readonly number[])[]) => {
              expect(++running).toBe(1);
              expect(items.length === 1 || items.flat().length <= 10).toBe(true);
              await ticks(delays[writes++ % delays.length]!);
              written.push(...items.flat());
              running--;
              return items.map((list) => list.map((n) => `done ${n}`));
            },
            { ...options, weigh: (list) => list.length },
          );
          let next = 0;
          const answers: Promise<unknown>[] = [];
          for (const { size, pause } of callers) {
            const own = Array.from({ length: size }, () => next++);
            answers.push(group.submit(own).then((answer) => expect(answer).toEqual(own.map((n) => `done ${n}`))));
            await ticks(pause);
          }
          await Promise.all(answers);
          await group.idle();
          expect(written).toEqual(Array.from({ length: next }, (_, i) => i));
        },
      ),
      { numRuns: 60 },
    );
  });

  it('makes few writes of many calls', async () => {
    let writes = 0;
    const group = groupCommit(
      async (items: readonly number[]) => {
        writes++;
        await ticks(2);
        return items;
      },
      { ...options, maxWeight: 1000 },
    );
    expect(await Promise.all(Array.from({ length: 500 }, (_, i) => group.submit(i)))).toEqual(
      Array.from({ length: 500 }, (_, i) => i),
    );
    expect(writes).toBe(1);
  });

  it('lets a bad item fail alone', async () => {
    const group = groupCommit(async (items: readonly number[]) => {
      if (items.includes(3)) throw new Error('three is not welcome');
      return items;
    }, options);
    const answers = await Promise.allSettled([1, 2, 3, 4].map((n) => group.submit(n)));
    expect(answers.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'rejected', 'fulfilled']);
  });

  it('fails the whole group once where the log is away, and goes on when it is back', async () => {
    let [away, writes] = [true, 0];
    const group = groupCommit(async (items: readonly number[]) => {
      writes++;
      if (away) throw new TroupeError('unreachable', 'away');
      return items;
    }, options);
    const answers = await Promise.allSettled([1, 2, 3].map((n) => group.submit(n)));
    expect(answers.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected']);
    expect(writes).toBe(1);
    away = false;
    expect(await group.submit(4)).toBe(4);
  });

  it('refuses as busy what would wait beyond its limit', async () => {
    const group = groupCommit(async (items: readonly number[]) => items, { ...options, maxWaiting: 3 });
    const answers = await Promise.allSettled([1, 2, 3, 4].map((n) => group.submit(n)));
    expect(answers.map((answer) => (answer.status === 'rejected' ? answer.reason.code : answer.value))).toEqual([
      1,
      2,
      3,
      'busy',
    ]);
  });
});

describe('the append queue', () => {
  it('answers each call for its own events, in their order', async () => {
    const seen = new Map<string, string>();
    const queue = createAppendQueue({
      append: async (events: readonly Event[]) => {
        await ticks(1);
        return events.map(({ id, digest }): AppendResult => {
          const before = seen.get(id);
          if (before === undefined) seen.set(id, digest);
          return before === undefined ? 'accepted' : before === digest ? 'duplicate' : 'conflict';
        });
      },
    });
    const say = (id: string, content: string) =>
      event('message.sent', { episode_id: 'e', message_id: 'm', content }, { id });
    const answers = await Promise.all([
      queue.append([say('a', '1'), say('b', '1')]),
      queue.append([]),
      queue.append([say('b', '1'), say('a', '2'), say('c', '1')]),
    ]);
    expect(answers).toEqual([['accepted', 'accepted'], [], ['duplicate', 'conflict', 'accepted']]);
  });
});
