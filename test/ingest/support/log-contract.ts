/** What every event log promises, whatever it is made of. Each implementation is run through the same suite. */
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Event } from '../../../ingest/events/events.ts';
import type { AppendResult, EventLog } from '../../../ingest/log/log.ts';
import type { Db } from '../../../store/db/pool.ts';
import { at, event } from '../../store/support/events.ts';
import { startProgram } from '../../store/support/process.ts';

export type Kept = Pick<Event, 'key' | 'source' | 'id' | 'json'> & {
  readonly partition: number;
  readonly position: number;
};

/** One log under test: how it is opened by itself, by another process, and read back. */
export type Subject = {
  readonly log: EventLog;
  /** True: an append answers duplicates and conflicts; false: they are found where the log is read, and it answers `accepted`. */
  readonly answersDuplicates: boolean;
  /** The partition where a key is at home. */
  readonly home: (key: string) => number;
  /** Arguments by which the appender program finds it. */
  readonly address: string;
  readonly kept: () => Promise<Kept[]>;
  readonly close: () => Promise<void>;
};

/** What stands in the archive. */
export const archived = async (db: Db): Promise<Kept[]> =>
  (
    await db.query<Kept>(
      'select key, source, id, data::text as json, partition, position from troupe.events order by partition, position',
    )
  ).rows;

let names = 0;
const message = (episode: string, text: string, id = `n${names++}`): Event =>
  event('message.sent', { episode_id: episode, message_id: id, content: text }, { id });

export function logContract(name: string, open: () => Promise<Subject>): void {
  describe(`the ${name} log`, () => {
    let subject: Subject;
    beforeAll(async () => {
      subject = await open();
    });
    afterAll(() => subject.close());
    const answersOf = (answers: readonly AppendResult[]) =>
      subject.answersDuplicates ? answers : answers.map(() => 'accepted');
    const of = async (episode: string): Promise<Kept[]> =>
      (await subject.kept()).filter((row) => row.key === `e/${episode}`);

    it('takes nothing and answers nothing for an empty batch', async () => {
      expect(await subject.log.append([])).toEqual([]);
    });

    it('keeps what it accepted, byte for byte, in the order given for each key', async () => {
      const texts = ['one', 'two \uFFFE😀"\\\n', 'three'];
      const events = texts.flatMap((text) => [message('a', text), message('b', text)]);
      expect(await subject.log.append(events)).toEqual(events.map(() => 'accepted'));
      for (const key of ['a', 'b']) {
        expect((await of(key)).map((row) => row.json)).toEqual(
          events.filter((one) => one.key === `e/${key}`).map((one) => one.json),
        );
      }
    });

    it('P4: takes an event once, also when it comes twice in a batch, reversed, or at once from many sides', async () => {
      const events = [message('twice', '1'), message('twice', '2'), message('twice', '3')];
      expect(await subject.log.append([...events, ...events])).toEqual(
        answersOf([...events.map(() => 'accepted' as const), ...events.map(() => 'duplicate' as const)]),
      );
      const fresh = [message('sides', '1'), message('sides', '2')];
      const answers = await Promise.all(
        Array.from({ length: 8 }, (_, i) => subject.log.append(i % 2 ? fresh : [...fresh].reverse())),
      );
      const counts = (wanted: AppendResult) => answers.flat().filter((answer) => answer === wanted).length;
      expect([counts('accepted'), counts('duplicate')]).toEqual(subject.answersDuplicates ? [2, 14] : [16, 0]);
      expect(await of('twice')).toHaveLength(3);
      expect(await of('sides')).toHaveLength(2);
    });

    it('P5: keeps the first of two bodies under one identity and calls the other a conflict, in a batch and after it', async () => {
      const [first, other] = [message('conflict', 'first', 'same'), message('conflict', 'other', 'same')];
      expect(await subject.log.append([first, other, first])).toEqual(answersOf(['accepted', 'conflict', 'duplicate']));
      expect(await subject.log.append([other])).toEqual(answersOf(['conflict']));
      expect((await of('conflict')).map((row) => row.json)).toEqual([first.json]);
    });

    it('distinguishes identities by key, source and id, also when their texts run together', async () => {
      const events = [
        event('message.sent', { episode_id: 'x\n/test', message_id: 'm' }, { id: 'i', source: 's' }),
        event('message.sent', { episode_id: 'x', message_id: 'm' }, { id: 'i', source: '/test\ns' }),
        event('message.sent', { episode_id: 'x', message_id: 'm' }, { id: 'i', source: 's' }),
        event('message.sent', { episode_id: 'x', message_id: 'm' }, { id: 's\ni', source: '/test' }),
      ];
      expect(await subject.log.append(events)).toEqual(events.map(() => 'accepted'));
    });

    it('distinguishes the same facts at another time from a repetition', async () => {
      const [a, b] = [null, at(1)].map((time) =>
        event('episode.started', { episode_id: 'timed' }, { id: 'start', time }),
      );
      expect(await subject.log.append([a!, b!])).toEqual(answersOf(['accepted', 'conflict']));
    });

    it('gives positions without gaps, save where repetitions lie, and keeps the order of each key when many append at once', async () => {
      await fc.assert(
        fc.asyncProperty(
          fc.array(fc.array(fc.integer({ min: 0, max: 5 }), { minLength: 1, maxLength: 8 }), {
            minLength: 2,
            maxLength: 8,
          }),
          async (lanes) => {
            const run = names++;
            const batches = lanes.map((lane, i) =>
              lane.map((key, n) => message(`r${run}-${i % 2}-${key}`, `${i} ${n}`)),
            );
            await Promise.all(batches.map((batch) => subject.log.append(batch)));
            const kept = await subject.kept();
            const next = new Map<number, number>();
            for (const row of kept) {
              const least = next.get(row.partition) ?? 0;
              if (subject.answersDuplicates) expect(Number(row.position)).toBe(least);
              else expect(Number(row.position)).toBeGreaterThanOrEqual(least);
              expect(row.partition).toBe(subject.home(row.key));
              next.set(row.partition, Number(row.position) + 1);
            }
            const place = new Map(kept.map((row) => [row.id, Number(row.position)]));
            for (const batch of batches) {
              for (const [i, one] of batch.entries()) {
                for (const later of batch.slice(i + 1)) {
                  if (later.key === one.key) expect(place.get(later.id)).toBeGreaterThan(place.get(one.id)!);
                }
              }
            }
          },
        ),
        { numRuns: 15 },
      );
    });

    it('P1: loses no acknowledged event and doubles none when the appender is killed', async () => {
      const acknowledged: string[] = [];
      for (let round = 0; round < 4; round++) {
        const appender = await startProgram('appender.ts', subject.address, `kill${round}`);
        await appender.firstLine;
        await new Promise((resolve) => setTimeout(resolve, 20 + 90 * round));
        await appender.kill();
        acknowledged.push(...appender.lines.flatMap((line) => line.split(' ')));
      }
      const ids = (await subject.kept()).map((row) => row.id).filter((id) => id.startsWith('kill'));
      const kept = new Set(ids);
      expect(acknowledged.length).toBeGreaterThan(20);
      expect(kept.size).toBe(ids.length);
      expect(acknowledged.filter((id) => !kept.has(id))).toEqual([]);
      // A batch is in the log whole or not at all.
      const batches = new Map<string, number>();
      for (const id of ids) {
        const batch = id.slice(0, id.lastIndexOf('-'));
        batches.set(batch, (batches.get(batch) ?? 0) + 1);
      }
      expect([...batches.values()].filter((size) => size !== 3)).toEqual([]);
      // Sending again what was left unknown makes it present once.
      const last = message('after', 'a kill');
      expect(await subject.log.append([last, last])).toEqual(answersOf(['accepted', 'duplicate']));
    });
  });
}
