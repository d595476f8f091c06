/** Rows of a large batch are copied, and say what the same rows upserted one by one say. */
import fc from 'fast-check';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { copyRows } from '../../ingest/log/copy-rows.ts';
import { postgresLog } from '../../ingest/log/postgres.ts';
import type { Db } from '../../store/db/pool.ts';
import { batches, projectAll, projectBatch } from '../../store/projecting/projector.ts';
import { checksum } from '../../store/projecting/rebuilding/checksum.ts';
import { RowBuffer } from '../../store/projecting/row-buffer.ts';
import { writeBatch } from '../../store/projecting/write-batch.ts';
import { upsert } from '../../store/projecting/write-rows.ts';
import { calls as callTable } from '../../store/tables/calls.ts';
import type { TableRow, Target } from '../../store/tables/projection.ts';
import { steps as stepTable } from '../../store/tables/steps.ts';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import '../support/replay.ts';
import { anyCharacter } from '../support/character.ts';
import { anEpisode, aStory, at, event } from './support/events.ts';

const [CALLS_REQUESTED, CALLS_COMPLETED] = callTable.targets as [Target, Target];
const [STEPS] = stepTable.targets as [Target];

let fresh: TestDatabase;
let db: Db;
beforeAll(async () => {
  fresh = await freshDatabase();
  db = fresh.db;
});
afterAll(() => fresh.close());
beforeEach(() =>
  db.query(
    `truncate troupe.stored_events, troupe.bodies, troupe.positions, troupe.dead_letters, facts.calls, facts.steps, facts.episodes, facts.agents, facts.tasks,
       facts.messages, facts.tool_calls, facts.feedback;
     update troupe.log_partitions set next_position = 0`,
  ),
);

const strange = fc.oneof(
  fc.string({ unit: anyCharacter }),
  fc.constantFrom('', '\\N', '\\.', '\t', 'a\nb\r\\c', '{"a"}', 'NULL', '"'),
);
const text = strange.filter((value) => !value.includes('\u0000') && value.isWellFormed());
const plain = fc.oneof(text, fc.integer(), fc.double({ noNaN: true, noDefaultInfinity: true }), fc.boolean());
const json = fc.oneof(plain, fc.array(plain), fc.dictionary(text, plain));
/** What a column of 32-bit floats takes. */
const real = fc
  .float({ min: Math.fround(-1e6), max: Math.fround(1e6), noNaN: true })
  .filter((value) => value === 0 || Math.abs(value) > 1e-30);
const perhaps = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: null });

/** To the microsecond, before and after the year that the server counts from, with or without zeros at the end. */
const time = fc
  .tuple(fc.date({ min: new Date('0001-01-01'), max: new Date('9999-12-31'), noInvalidDate: true }), fc.nat(999))
  .map(([date, micros]) => `${date.toISOString().slice(0, -1)}${micros === 0 ? '' : String(micros).padStart(3, '0')}Z`);

const requested = fc.record({
  model: perhaps(text),
  params: perhaps(json),
  input: perhaps(fc.array(text)),
  copied: perhaps(fc.boolean()),
  requested_turn: perhaps(fc.integer()),
  requested_seq: perhaps(fc.maxSafeInteger()),
  requested_at: perhaps(time),
});
const completed = fc.record({
  latency_ms: perhaps(fc.double({ noNaN: true, noDefaultInfinity: true })),
  cached: perhaps(fc.boolean()),
  seed: perhaps(fc.oneof(fc.maxSafeInteger(), fc.bigInt(-(2n ** 63n), 2n ** 63n - 1n).map(String))),
  completed_at: perhaps(time),
});
const step = fc.record({
  text: perhaps(text),
  content: perhaps(json),
  token_ids: perhaps(fc.array(fc.integer({ min: 0, max: 2 ** 31 - 1 }))),
  logprobs: perhaps(fc.array(perhaps(real))),
  loss_mask: perhaps(fc.array(fc.integer({ min: -(2 ** 15), max: 2 ** 15 - 1 }))),
  chosen: perhaps(fc.boolean()),
});

/** Enough rows of a table to be copied, the made-up ones among them. */
const many = (rows: readonly object[], version: string): TableRow[] =>
  Array.from({ length: Math.max(70, rows.length) }, (_, i) => ({
    episode_id: `e${i % 7}`,
    call_id: `c${i}`,
    ...(rows[i] ?? {}),
    [version]: 'v|1',
  }));

const tableAfter = async (schemaWork: () => Promise<void>) => {
  await db.query('truncate facts.calls, facts.steps');
  await schemaWork();
  const { calls, steps } = (await checksum(db)).tables;
  return { calls, steps };
};

const inFacts = (work: Parameters<Db['transaction']>[0]) =>
  db.transaction(async (tx) => {
    await tx.query('set local search_path = facts, pg_catalog');
    await work(tx);
  });

describe('A batch', () => {
  it('copied holds what it holds upserted, whatever text, lists and JSON are in it', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(requested, { maxLength: 9 }),
        fc.array(completed, { maxLength: 9 }),
        fc.array(step, { maxLength: 9 }),
        async (calls, ends, steps) => {
          const rows: readonly (readonly [Target, TableRow[]])[] = [
            [CALLS_REQUESTED, many(calls, 'requested_version')],
            [CALLS_COMPLETED, many(ends, 'completed_version')],
            [STEPS, many(steps, 'version').map((row) => ({ ...row, candidate: 0 }))],
          ];
          const buffer = new RowBuffer();
          buffer.add(rows);
          const copied = await tableAfter(() => inFacts((tx) => writeBatch(tx, buffer, new Set(['e1']))));
          const upserted = await tableAfter(() =>
            inFacts(async (tx) => {
              for (const [target, list] of rows) await upsert(tx, target, list);
            }),
          );
          expect(copied).toEqual(upserted);
          expect(copied.calls?.rows).toBeGreaterThanOrEqual(70);
        },
      ),
      { numRuns: 25 },
    );
  });

  it.each([
    ['text that no UTF-8 can hold', 'text', 'a\ud800'],
    ['a whole number beyond its column', 'integer', 2 ** 31],
    ['a fraction where a whole number goes', 'bigint', 0.5],
    ['a number beyond 64 bits', 'bigint', '9223372036854775808'],
    ['a float beyond 32 bits', 'real[]', [1e39]],
    ['a float too small for 32 bits', 'real[]', [1e-60]],
    ['a number in the middle between two floats', 'real[]', [1 + 2 ** -24]],
    ['a day that no calendar has', 'timestamptz', '2026-02-30T00:00:00Z'],
    ['a time without a zone', 'timestamptz', '2026-02-03T00:00:00'],
    ['a text where a number goes', 'double precision', '1.5'],
    ['a list within a list', 'integer[]', [[1]]],
    ['no list where one goes', 'text[]', 'a'],
  ] as const)('%s is left to the server rather than changed', (_, type, value) => {
    const columns = [{ name: 'value', type, part: 0 }] as const;
    expect(() => [...copyRows([[{ value }]], columns)]).toThrow(RangeError);
  });
});

describe('The projector', () => {
  const crowd = () => [...aStory(), ...Array.from({ length: 40 }, (_, i) => anEpisode(`crowd-${i}`)).flat()];

  it('gives the same tables in large batches as one event at a time, and when all of it comes a second time', async () => {
    const story = crowd();
    await postgresLog(db).append(story);
    await projectAll(db);
    const large = await checksum(db);
    await db.query('delete from troupe.positions');
    await projectAll(db);
    expect(await checksum(db)).toEqual(large);
    const other = await freshDatabase();
    try {
      await postgresLog(other.db).append(story.toReversed());
      await projectAll(other.db, { perPartition: 1 });
      expect(await checksum(other.db)).toEqual(large);
    } finally {
      await other.close();
    }
  });

  it('gives the same tables when others project what it has read ahead', async () => {
    await postgresLog(db).append(crowd());
    await projectAll(db);
    const expected = await checksum(db);
    await db.query('delete from troupe.positions');
    const { next } = batches(db, { perPartition: 3 });
    for (let round = 0; (await next()).applied > 0; round++) {
      if (round % 2 === 1) await projectBatch(db, { perPartition: 2 });
    }
    expect(await checksum(db)).toEqual(expected);
  });

  it('an event that no table can hold does not stop a large batch: the others are there and it is a dead letter', async () => {
    const bad = event(
      'message.sent',
      { episode_id: 'crowd-1', message_id: 'late', content: 'at a time that no calendar has' },
      { id: 'bad', time: at(3) },
    );
    await postgresLog(db).append([...crowd(), bad]);
    await db.query(
      `update troupe.stored_events set time = 'infinity', data = '{"episode_id":"crowd-1","message_id":"late","turn":1e30}' where id = 'bad'`,
    );
    await projectAll(db);
    const { rows: letters } = await db.query(`select endpoint, code from troupe.dead_letters`);
    expect(letters).toEqual([{ endpoint: 'projector', code: 'bad_shape' }]);
    const { rows } = await db.query(`select count(*)::integer as n from traj.episodes where episode_id like 'crowd-%'`);
    expect(rows).toEqual([{ n: 40 }]);
  });
});
