/** The benchmarks over logs and tables, on sizes that say nothing of speed: both sides do the work, and their rows are compared. */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, describe, expect, it } from 'vitest';
import { countsNamed } from '../../bench/sizes.ts';
import { copiesOf, copyBack, emptyFacts, fillLog, sameTables, sumsOf } from '../../bench/tables.ts';
import { teamEvents } from '../../bench/team-events.ts';
import { projectAll } from '../../store/projecting/projector.ts';
import { freshDatabase } from '../support/database.ts';
import { compiledProgram } from '../support/program.ts';

const empty = mkdtempSync(join(tmpdir(), 'troupe-bench-tables-'));
afterAll(() => rmSync(empty, { recursive: true }));

/** A report made where there is neither Kafka nor a Python with peers. */
async function bench(...args: string[]) {
  const env = {
    ...process.env,
    XDG_CACHE_HOME: empty,
    TROUPE_KAFKA_JARS: empty,
    TROUPE_BENCH_PYTHON: join(empty, 'python'),
  };
  const program = await compiledProgram(join(import.meta.dirname, '../../bench/run.ts'));
  const child = spawn(process.execPath, [program, ...args, '--rounds', '5', '--json', '--quiet'], {
    env,
  });
  const [out, errors] = await Promise.all([text(child.stdout), text(child.stderr)]);
  expect(errors).toBe('');
  return JSON.parse(out).results;
}

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

  it('export writes every row, and says how to get the peer that is missing', { timeout: 120_000 }, async () => {
    const exported = await bench('export', '--sizes', '600');
    expect(exported).toHaveLength(4);
    for (const result of exported)
      expect(result).toMatchObject({ ours: { unit: 'rows/s' }, skipped: expect.stringMatching(/cannot be run/) });
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
