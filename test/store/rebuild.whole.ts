import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { postgresLog } from '../../ingest/log/postgres.ts';
import { judgeAgain } from '../../store/evaluate/judging/judge.ts';
import { reconcile } from '../../store/log/reconcile.ts';
import { projectAll } from '../../store/projecting/projector.ts';
import { checksum } from '../../store/projecting/rebuilding/checksum.ts';
import { rebuild } from '../../store/projecting/rebuilding/rebuild.ts';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { anEpisode, event } from './support/events.ts';

describe('a rebuild', () => {
  let fresh: TestDatabase;
  beforeEach(async () => {
    fresh = await freshDatabase({ max: 8 });
  });
  afterEach(() => fresh.close());

  it('P16: cuts portions by the bytes of the texts that events name, within an episode too, and loses none', async () => {
    const messagesOf = (episode_id: string, texts: number) =>
      Array.from({ length: texts }, (_, n) =>
        event(
          'message.sent',
          {
            episode_id,
            message_id: `m${n}`,
            from: 'user',
            content: [{ type: 'text', content: `${n} ${'what was said '.repeat(100_000)}` }],
          },
          { id: `${episode_id}-${n}` },
        ),
      );
    await postgresLog(fresh.db).append([...messagesOf('long', 14), ...messagesOf('short', 2)]);
    await projectAll(fresh.db);
    const before = await checksum(fresh.db);
    const portions: number[] = [];
    const { events } = await rebuild(fresh.db, {
      judge: judgeAgain,
      onProgress: ({ applied }) => portions.push(applied),
    });
    expect(events).toBe(16);
    expect(portions.length).toBeGreaterThan(1);
    expect(await checksum(fresh.db)).toEqual(before);
  });

  it('P17: runs beside live appends and projection, and readers never see half', async () => {
    const log = postgresLog(fresh.db);
    const append = async (from: number, to: number) => {
      for (let i = from; i < to; i++) await log.append(anEpisode(`e${i}`, { task: `t${i}` }));
    };
    await append(0, 40);
    await projectAll(fresh.db);
    let going = true;
    const seen: number[] = [];
    const torn: unknown[] = [];
    const reading = (async () => {
      while (going) {
        const { rows } = await fresh.db.query<{ n: number; torn: number }>(
          `select (select count(*)::integer from traj.episodes) as n,
                  (select count(*)::integer from traj.episodes where closed and calls <> 2) as torn`,
        );
        seen.push(rows[0]!.n);
        if (rows[0]!.torn > 0) torn.push(rows[0]);
      }
    })();
    const writing = append(40, 60);
    const projecting = (async () => {
      while (going) await projectAll(fresh.db);
    })();
    await rebuild(fresh.db, { judge: judgeAgain, portion: 40 });
    await rebuild(fresh.db, { judge: judgeAgain });
    await writing;
    going = false;
    await Promise.all([reading, projecting]);
    await projectAll(fresh.db);
    expect(Math.min(...seen)).toBe(40);
    expect(seen.every((n, i) => i === 0 || n >= seen[i - 1]!)).toBe(true);
    expect(torn).toEqual([]);
    expect(await reconcile(fresh.db)).toMatchObject({ ok: true, tables: { applied: 60 * 12, lag: 0 } });
    const after = await checksum(fresh.db);
    await rebuild(fresh.db, { judge: judgeAgain });
    expect(await checksum(fresh.db)).toEqual(after);
  });
});
