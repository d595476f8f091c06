import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { decodeText } from '../../ingest/events/decode.ts';
import type { Event } from '../../ingest/events/events.ts';
import type { DeadLetter } from '../../ingest/log/log.ts';
import { postgresBook, postgresLog } from '../../ingest/log/postgres.ts';
import { reconcile } from '../../store/log/reconcile.ts';
import { projectAll } from '../../store/projecting/projector.ts';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { anEpisode, event } from './support/events.ts';

describe('the reconciliation', () => {
  let fresh: TestDatabase;
  beforeEach(async () => {
    fresh = await freshDatabase();
  });
  afterEach(() => fresh.close());

  /** An endpoint as an import has one: takes what it can, records the rest as dead letters with its bytes. */
  async function bring(endpoint: string, lines: readonly string[]): Promise<void> {
    const events: Event[] = [];
    const rejected: DeadLetter[] = [];
    for (const [i, line] of lines.entries()) {
      const { event: one, refusal } = decodeText(line);
      if (one) events.push(one);
      else rejected.push({ place: `${i + 1}`, raw: Buffer.from(line), refusal });
    }
    const answers = await postgresLog(fresh.db).append(events);
    const count = (what: string) => answers.filter((answer) => answer === what).length;
    await postgresBook(fresh.db).report({
      endpoint,
      received: lines.length,
      acknowledged: count('accepted'),
      duplicates: count('duplicate'),
      rejected,
    });
  }
  const line = (id: string, data: object) => JSON.stringify({ id, source: 's', type: 'troupe.task.defined.v1', data });

  it('P8: adds up after imports with refused and repeated lines, and keeps the bytes of each refused one once', async () => {
    const lines = [
      line('a', { task_id: 'a' }),
      '{broken',
      line('b', { task_id: 5 }),
      line('a', { task_id: 'a' }),
      '\u0000',
    ];
    await bring('import', lines);
    await bring('import', lines);
    await bring('http', [line('c', { task_id: 'c' })]);
    expect(await reconcile(fresh.db)).toMatchObject({ ok: true, tables: { applied: 0, lag: 2 } });
    await projectAll(fresh.db);
    expect(await reconcile(fresh.db)).toEqual({
      ok: true,
      endpoints: [
        { endpoint: 'http', received: 1, acknowledged: 1, duplicates: 0, rejected: 0, balanced: true },
        { endpoint: 'import', received: 10, acknowledged: 1, duplicates: 3, rejected: 6, balanced: true },
      ],
      log: { events: 2, positions: 2, pruned: 0, gaps: 0 },
      tables: { applied: 2, dead: 0, lag: 0 },
      topics: [],
      dead_letters: 3,
      laid_aside: 6,
      orphans: {},
      feedback_without_step: 0,
      split_identities: [],
    });
    const { rows } = await fresh.db.query<{ raw: Buffer; attempts: number }>(
      'select raw, attempts from troupe.dead_letters order by raw',
    );
    expect(rows.map((row) => [row.raw.toString(), row.attempts])).toEqual([
      ['\u0000', 2],
      [lines[2], 2],
      ['{broken', 2],
    ]);
  });

  it('names an identity that lies under several keys', async () => {
    await postgresLog(fresh.db).append([
      event('task.defined', { task_id: 'b' }, { id: 'same' }),
      event('task.defined', { task_id: 'a' }, { id: 'same' }),
      event('task.defined', { task_id: 'a' }, { id: 'other' }),
    ]);
    expect((await reconcile(fresh.db)).split_identities).toEqual([
      { source: '/test', id: 'same', keys: ['t/a', 't/b'] },
    ]);
  });

  it('P8: says so when an event vanished, a position was skipped, or a endpoint does not add up', async () => {
    await postgresLog(fresh.db).append(anEpisode('e1'));
    await projectAll(fresh.db);
    expect(await reconcile(fresh.db)).toMatchObject({ ok: true });
    for (const [harm, undo] of [
      [
        'update troupe.log_partitions set next_position = next_position + 1 where partition = 3',
        'update troupe.log_partitions set next_position = next_position - 1 where partition = 3',
      ],
      [
        'update troupe.positions set applied = applied + 1 where partition = 3',
        'update troupe.positions set applied = applied - 1 where partition = 3',
      ],
      [`insert into troupe.ingest_counters values ('x', 3, 1, 1, 0)`, `delete from troupe.ingest_counters`],
      [
        `insert into facts.episodes (episode_id, steps) values ('ghost', 1)`,
        `delete from facts.episodes where episode_id = 'ghost'`,
      ],
      [
        `insert into facts.steps (episode_id, call_id, candidate, version) values ('e1', 'ghost', 0, '')`,
        `delete from facts.steps where call_id = 'ghost'`,
      ],
      [
        `update troupe.positions set dead = dead + 1 where partition = 3`,
        `update troupe.positions set dead = dead - 1 where partition = 3`,
      ],
      [`insert into troupe.ingest_counters values ('y', 1, 0, 0, 1)`, `delete from troupe.ingest_counters`],
      [`delete from troupe.events where name = 'agent.defined'`, 'select 1'],
    ] as const) {
      await fresh.db.query(harm);
      expect(await reconcile(fresh.db), harm).toMatchObject({ ok: false });
      await fresh.db.query(undo);
    }
  });
});
