import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { postgresLog } from '../../../ingest/log/postgres.ts';
import { judge, unjudged } from '../../../store/evaluate/judging/judge.ts';
import { ALL_SHARES } from '../../../store/evaluate/judging/lock.ts';
import { portionsOf } from '../../../store/evaluate/judging/portions.ts';
import { runJudge } from '../../../store/evaluate/judging/standing.ts';
import { projectAll } from '../../../store/projecting/projector.ts';
import { freshDatabase, type TestDatabase } from '../../support/database.ts';
import { anEpisode } from '../support/events.ts';

const METHODS = [{ method: 'grpo_advantage' }, { method: 'correctness_filter' }];

describe('what is judged at a time', () => {
  let fresh: TestDatabase;
  beforeEach(async () => {
    fresh = await freshDatabase({ max: 12 });
  });
  afterEach(() => fresh.close());
  const load = async (groups: number, members = 2) => {
    const events = Array.from({ length: groups }, (_, g) =>
      Array.from({ length: members }, (_, m) =>
        anEpisode(`e${g}-${m}`, { task: `task-${g}`, group: `g${g}`, reward: m }),
      ),
    ).flat(2);
    await postgresLog(fresh.db).append(events);
    await projectAll(fresh.db);
  };
  const now = () => new Date(Date.UTC(2026, 9, 1));
  const judgings = async () =>
    (await fresh.db.query<{ episodes: string[] }>('select episodes from facts.judgings')).rows.map(
      (row) => row.episodes,
    );

  it('whole groups, as many as fit: a group is never cut, and one asked for brings the others', async () => {
    await load(6, 3);
    await fresh.db.query('update facts.episodes set steps = 45000');
    const portions = await portionsOf(fresh.db, ['e0-0', 'e1-2', 'e2-1', 'e3-0', 'e4-0', 'e5-1']);
    expect(portions.map(({ episodes }) => episodes.length)).toEqual([3, 3, 3, 3, 3, 3]);
    expect(portions.flatMap(({ episodes }) => episodes).sort()).toEqual(
      Array.from({ length: 18 }, (_, i) => `e${Math.floor(i / 3)}-${i % 3}`),
    );
    for (const { episodes } of portions) expect(new Set(episodes.map((id) => id.split('-')[0])).size).toBe(1);
    // What runs at the same time must not wait for the same locks.
    const [even, odd] = [0, 1].map((lane) =>
      portions.filter((one) => one.lane === lane).flatMap(({ shares }) => shares),
    );
    expect(even!.filter((share) => odd!.includes(share))).toEqual([]);
    expect(Math.min(even!.length, odd!.length)).toBeGreaterThan(0);
    expect(await portionsOf(fresh.db, ['e0-0', 'e1-0'], { together: true })).toHaveLength(1);
    expect(await portionsOf(fresh.db, ['nobody'])).toEqual([]);
  });

  it('each portion has an event of its own, and all are reported as one run', async () => {
    await load(3);
    await fresh.db.query('update facts.episodes set steps = 150000');
    const seen: number[] = [];
    const options = { methods: METHODS, episodes: ['e0-0', 'e1-0', 'e2-0'], now };
    const judging = await judge(fresh.db, postgresLog(fresh.db), {
      ...options,
      onProgress: ({ judged, total }) => seen.push(judged, total),
    });
    expect(judging).toMatchObject({ episodes: 6, rows: { credits: 18, verdicts: 6 } });
    expect(seen).toEqual([2, 6, 4, 6, 6, 6]);
    await projectAll(fresh.db);
    expect((await judgings()).map((episodes) => episodes.length)).toEqual([2, 2, 2]);
  });

  it('a portion that fails ends the judging once the other lane has written what it began; judging again makes the rest', async () => {
    await load(8);
    await fresh.db.query('update facts.episodes set steps = 150000');
    const episodes = Array.from({ length: 8 }, (_, i) => `e${i}-0`);
    const log = postgresLog(fresh.db);
    let appends = 0;
    const failing = {
      ...log,
      append: (events: Parameters<typeof log.append>[0]) =>
        ++appends === 4 ? Promise.reject(new Error('the log is away')) : log.append(events),
    };
    const rows = async () =>
      (await fresh.db.query<{ n: number }>('select count(*)::integer as n from facts.credits')).rows[0]!.n;
    await expect(judge(fresh.db, failing, { methods: METHODS, episodes, now })).rejects.toThrow('the log is away');
    const written = await rows();
    // Whole portions of two episodes of three steps, each announced; nothing is written any more.
    expect([written % 6, written < 48]).toEqual([0, true]);
    expect(written / 6).toBe(appends - 1);
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect([await rows(), appends]).toEqual([written, appends]);
    await judge(fresh.db, log, { methods: METHODS, episodes, now });
    expect(await rows()).toBe(48);
  });

  it('shares are disjoint and together everything', async () => {
    await load(12);
    const all = await unjudged(fresh.db, METHODS, { now: now() });
    const parts = await Promise.all(
      ALL_SHARES.map((share) => unjudged(fresh.db, METHODS, { now: now(), shares: [share] })),
    );
    expect(parts.flat().sort()).toEqual([...all].sort());
    expect(all).toHaveLength(24);
    for (const part of parts) {
      for (const id of part) expect(part).toContain(id.endsWith('0') ? id.replace(/0$/, '1') : id.replace(/1$/, '0'));
    }
  });

  it('two judges that always run judge every group once, also what comes while they run, and end when asked to', async () => {
    const stop = new AbortController();
    const errors: unknown[] = [];
    const options = { methods: METHODS, signal: stop.signal, now, onError: (error: unknown) => errors.push(error) };
    const log = postgresLog(fresh.db);
    const running = [runJudge(fresh.db, log, options), runJudge(fresh.db, log, options)];
    await load(10);
    const credited = async () =>
      (await fresh.db.query<{ n: number }>('select count(distinct episode_id)::integer as n from facts.credits'))
        .rows[0]!.n;
    await expect.poll(credited, { timeout: 20_000 }).toBe(20);
    await postgresLog(fresh.db).append(anEpisode('late', { task: 'task-0', group: 'g0', reward: 0.5 }));
    await projectAll(fresh.db);
    await expect.poll(credited, { timeout: 20_000 }).toBe(21);
    await expect.poll(() => unjudged(fresh.db, METHODS, { now: now() }), { timeout: 20_000 }).toEqual([]);
    stop.abort();
    await Promise.all(running);
    await projectAll(fresh.db);
    const times = new Map<string, number>();
    for (const id of (await judgings()).flat()) times.set(id, (times.get(id) ?? 0) + 1);
    const again = [...times].filter(([, n]) => n > 1).map(([id]) => id);
    expect(times.size).toBe(21);
    expect(again.filter((id) => !['e0-0', 'e0-1'].includes(id))).toEqual([]);
    expect(errors).toEqual([]);
  });
});
