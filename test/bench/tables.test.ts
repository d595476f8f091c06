import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { countsNamed } from '../../bench/sizes.ts';
import { copiesOf, copyBack, emptyFacts, fillLog, sameTables, sumsOf } from '../../bench/tables.ts';
import { teamEvents } from '../../bench/team-events.ts';
import { projectAll } from '../../store/projecting/projector.ts';
import { freshDatabase } from '../support/database.ts';

const empty = mkdtempSync(join(tmpdir(), 'troupe-bench-tables-'));
afterAll(() => rmSync(empty, { recursive: true }));

describe('A benchmark of log and tables', () => {
  it('copies back the rows that the projector made, and sees where one of them is another', async () => {
    const { db, close } = await freshDatabase();
    try {
      await fillLog(db, 700);
      expect(await projectAll(db)).toBe(700);
      const made = await sumsOf(db);
      const copies = await copiesOf(db);
      await emptyFacts(db);
      expect(Object.keys(await sumsOf(db))).toEqual(['events']);
      await copyBack(db, copies);
      expect(sameTables(made, await sumsOf(db))).toMatchObject({
        equal: true,
        how: expect.stringMatching(/ rows in 9 /),
      });
      await db.query(
        `update facts.messages set text = 'other' where message_id = (select min(message_id) from facts.messages)`,
      );
      expect(sameTables(made, await sumsOf(db))).toEqual({ equal: false, how: 'the tables messages differ' });
    } finally {
      await close();
    }
  });
});

describe('What they are made of', () => {
  it('the events are about a KiB, the same each time, and whole episodes of a team', () => {
    const events = [...teamEvents(2000)];
    expect([...teamEvents(2000)]).toEqual(events);
    const bytes = events.reduce((sum, { json, id, key }) => sum + json.length + id.length + key.length, 0) / 2000;
    expect(bytes).toBeGreaterThan(950);
    expect(bytes).toBeLessThan(1150);
    expect(new Set(events.map(({ name }) => name)).size).toBe(10);
  });

  it('tables that differ are named', () => {
    expect(sameTables({ a: '2 x', b: '1 y' }, { a: '2 x', b: '1 y' })).toEqual({
      equal: true,
      how: '3 rows in 2 tables with the same SHA-256',
    });
    expect(sameTables({ a: '2 x' }, { a: '2 x', b: '1 y' })).toEqual({ equal: false, how: 'the tables b differ' });
    expect(sameTables({}, {}).equal).toBe(false);
  });

  it('sizes are read as people write them', () => {
    expect(countsNamed('10k, 2M,20', [])).toEqual([10_000, 2_000_000, 20]);
    expect(countsNamed(null, [5])).toEqual([5]);
    expect(() => countsNamed('0', [])).toThrow(/10k, 100k or 1m/);
  });
});
