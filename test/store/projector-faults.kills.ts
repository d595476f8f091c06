import { describe, expect, it } from 'vitest';
import type { Event } from '../../ingest/events/events.ts';
import { postgresLog } from '../../ingest/log/postgres.ts';
import { reconcile } from '../../store/log/reconcile.ts';
import { projectAll } from '../../store/projecting/projector.ts';
import { checksum } from '../../store/projecting/rebuilding/checksum.ts';
import { rebuild } from '../../store/projecting/rebuilding/rebuild.ts';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { anEpisode, at, event, aStory as story } from './support/events.ts';
import { startProgram } from './support/process.ts';
import { tablesOf } from './support/tables.ts';

const noJudge = async () => {};

describe('projectors that die or are too many', () => {
  const many = (): Event[] => [
    ...story(),
    ...Array.from({ length: 40 }, (_, i) => anEpisode(`m${i}`, { task: `t${i % 7}`, group: `g${i % 5}` })).flat(),
  ];
  const positions = async ({ db }: TestDatabase): Promise<number[]> =>
    (
      await db.query<{ position: number }>(
        `select position from troupe.positions where projection = 'facts' order by partition`,
      )
    ).rows.map((row) => Number(row.position));

  it('P1, P10: gives the same tables as without kills when the projector is killed at any moment', async () => {
    const events = many();
    const expected = await tablesOf(events, 1000);
    const fresh = await freshDatabase();
    try {
      await postgresLog(fresh.db).append(events);
      let before: number[] = [];
      let alive = 0;
      for (let kill = 0; kill < 10; kill++) {
        const projector = await startProgram('projecting.ts', fresh.url);
        await projector.firstLine;
        await new Promise((resolve) => setTimeout(resolve, 5 + 13 * kill));
        await projector.kill();
        const now = await positions(fresh);
        expect(now.every((position, i) => position >= (before[i] ?? 0))).toBe(true);
        if (now.some((position, i) => position > (before[i] ?? 0))) alive++;
        before = now;
      }
      expect(alive).toBeGreaterThan(0);
      await projectAll(fresh.db);
      expect(await checksum(fresh.db)).toEqual(expected);
    } finally {
      await fresh.close();
    }
  }, 240_000);

  it('P12: gives the same tables with two projectors as with one, while events still come', async () => {
    const events = many();
    const expected = await tablesOf(events, 1000);
    const fresh = await freshDatabase();
    try {
      const log = postgresLog(fresh.db);
      const programs = [await startProgram('projecting.ts', fresh.url), await startProgram('projecting.ts', fresh.url)];
      await Promise.all(programs.map((program) => program.firstLine));
      for (let i = 0; i < events.length; i += 50) await log.append(events.slice(i, i + 50));
      while ((await reconcile(fresh.db)).tables.lag > 0) await new Promise((resolve) => setTimeout(resolve, 20));
      await Promise.all(programs.map((program) => program.kill()));
      expect(await checksum(fresh.db)).toEqual(expected);
      expect(await reconcile(fresh.db)).toMatchObject({ ok: true, tables: { applied: events.length } });
    } finally {
      await fresh.close();
    }
  });

  it('P21, P22: lays an event that the tables cannot hold aside with its bytes, and applies its neighbours', async () => {
    const fresh = await freshDatabase();
    try {
      const poison = event('artifact.attached', { artifact_id: 'd', role: 'dataset', rows: { train: 5 } });
      await postgresLog(fresh.db).append([...anEpisode('e1'), poison, ...anEpisode('e2')]);
      expect(await projectAll(fresh.db)).toBe(25);
      const { rows } = await fresh.db.query<{ endpoint: string; raw: Buffer }>(
        'select endpoint, raw from troupe.dead_letters',
      );
      expect(rows.map((row) => [row.endpoint, JSON.parse(row.raw.toString()).data.artifact_id])).toEqual([
        ['projector', 'd'],
      ]);
      expect(await reconcile(fresh.db)).toMatchObject({ ok: true, tables: { applied: 24, dead: 1, lag: 0 } });
      const before = await checksum(fresh.db);
      await rebuild(fresh.db, { judge: noJudge });
      expect(await checksum(fresh.db)).toEqual(before);
      expect(await reconcile(fresh.db)).toMatchObject({ ok: true, tables: { dead: 1 }, dead_letters: 1 });
    } finally {
      await fresh.close();
    }
  });

  it('P23: lays nothing aside when the environment fails', async () => {
    const fresh = await freshDatabase();
    try {
      await postgresLog(fresh.db).append(anEpisode('e1'));
      await fresh.db.query('alter table facts.steps rename to away');
      await expect(projectAll(fresh.db)).rejects.toThrow('steps');
      await fresh.db.query('alter table facts.away rename to steps');
      expect(await projectAll(fresh.db)).toBe(12);
      expect(await reconcile(fresh.db)).toMatchObject({ ok: true, dead_letters: 0 });
    } finally {
      await fresh.close();
    }
  });
});

describe('definitions that compete', () => {
  const defined = (id: string, time: string | null, query: string, source = '/test') =>
    event('task.defined', { task_id: 'task-1', query }, { id, time, source });

  it('P9: shows the last by time, then id, then source, also within a second and beyond the basic plane', async () => {
    const second = at(1).slice(0, 19);
    const contests: [Event, Event][] = [
      [defined('z', `${second}Z`, 'older'), defined('a', `${second}.5Z`, 'newer')],
      [defined('z', `${second}.100001Z`, 'older'), defined('a', `${second}.1001Z`, 'newer')],
      [defined('z', null, 'older'), defined('a', at(1), 'newer')],
      [defined('same', at(1), 'older', '/a'), defined('same', at(1), 'newer', '/b')],
      [defined('\uFF5E', at(1), 'older'), defined('\u{1F600}', at(1), 'newer')],
    ];
    const fresh = await freshDatabase();
    try {
      for (const [older, newer] of contests) {
        for (const order of [
          [older, newer],
          [newer, older],
        ] as const) {
          for (const together of [true, false]) {
            await fresh.db.query('truncate troupe.stored_events, troupe.bodies, facts.tasks, troupe.positions');
            await fresh.db.query('update troupe.log_partitions set next_position = 0');
            const log = postgresLog(fresh.db);
            for (const one of order) {
              await log.append([one]);
              if (!together) await projectAll(fresh.db);
            }
            await projectAll(fresh.db);
            expect((await fresh.db.query('select query from traj.tasks')).rows).toEqual([{ query: 'newer' }]);
          }
        }
      }
    } finally {
      await fresh.close();
    }
  });
});
