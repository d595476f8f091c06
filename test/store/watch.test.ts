import { xoroshiro128plus } from 'pure-rand/generator/xoroshiro128plus';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { appendOwn } from '../../ingest/log/own-event.ts';
import { postgresLog } from '../../ingest/log/postgres.ts';
import { evidenceOf, type LiveUnit, watchedBy, watchMarkdown } from '../../store/loop/comparison/watch.ts';
import { lookAtWatches, watchNow, watchOf, watchSpec } from '../../store/loop/comparison/watching.ts';
import { inReleaseTurn, releasesOf } from '../../store/loop/release/releases.ts';
import { projectBatch } from '../../store/projecting/projector.ts';
import { requestJob } from '../../store/queue/jobs/jobs.ts';
import { freshDatabase, type TestDatabase } from '../support/database.ts';

const RULES = watchedBy({ metric: 'reward', fall: 0.1, at_least: 10 });

/** So many live episodes, each of a task of its own, with reward 1 at that rate. */
function live(n: number, rate: number, seed: number): LiveUnit[] {
  const random = xoroshiro128plus(seed);
  return Array.from({ length: n }, (_, i) => ({
    task: `t${i}`,
    value: (random.next() >>> 0) / 2 ** 32 < rate ? 1 : 0,
  }));
}

describe('The evidence of a watch', () => {
  const share = (runs: number, rate: number, after: number): number => {
    let fell = 0;
    for (let run = 0; run < runs; run++)
      if (evidenceOf(RULES, live(100, rate, 2 * run + 1), live(200, after, 2 * run + 2)).fell) fell++;
    return fell / runs;
  };

  it('finds a fall far beyond the limit, and at most in 5 of 100 one where the mean fell by no more than the limit', () => {
    expect(share(20, 0.8, 0.3)).toBe(1);
    expect(share(60, 0.6, 0.6)).toBeLessThanOrEqual(0.05);
    // Exactly as far as is accepted, looked at after each episode.
    expect(share(60, 0.6, 0.5)).toBeLessThanOrEqual(0.05);
  });

  it('says what it lacks where too few episodes have a value, on either side, or one lies outside of the range', () => {
    const [before, after] = [live(100, 0.8, 1), live(100, 0.1, 2)];
    expect(evidenceOf(RULES, before, after)).toMatchObject({ fell: true, lacks: null });
    expect(evidenceOf(RULES, before.slice(0, 9), after)).toMatchObject({ fell: false, capital: null });
    expect(evidenceOf(RULES, before, after.slice(0, 9)).lacks).toBe(
      'Episodes with a value after the release: 9; needed: 10.',
    );
    expect(evidenceOf(RULES, before, after.slice(0, 9)).fell).toBe(false);
    const unknown = evidenceOf(RULES, before, [...after, { task: 'x', value: null }]);
    expect(unknown.after).toMatchObject({ units: 100, unknown: 1 });
    expect(evidenceOf(RULES, before, [...after, { task: 'x', value: 7 }]).lacks).toContain('watch.range');
    const one = before.map((unit) => ({ ...unit, task: 'same' }));
    expect(evidenceOf(RULES, one, after)).toMatchObject({ fell: false, reference: null });
  });

  it('widens the reference where episodes are of few tasks', () => {
    const before = Array.from({ length: 100 }, (_, i) => ({ task: `t${i}`, value: i < 80 ? 1 : 0 }));
    const few = before.map((unit, i) => ({ ...unit, task: `t${Math.floor(i / 10)}` }));
    expect(evidenceOf(RULES, few, []).reference).toBeLessThan(evidenceOf(RULES, before, []).reference!);
  });
});

describe('A release that is watched', () => {
  let database: TestDatabase;
  let clock = '2026-01-02T00:00:00Z';
  const now = () => new Date(clock);
  const context = () => ({ db: database.db, log: postgresLog(database.db), now });
  const tell = async (drafts: Parameters<typeof appendOwn>[1]) => {
    await appendOwn(postgresLog(database.db), drafts);
    while ((await projectBatch(database.db)) > 0);
  };
  const released = (release_id: string, policies: object, time: string) =>
    tell([
      { name: 'policy.released', source: '/t', id: release_id, time, data: { release_id, policies, by: 'plan' } },
    ] as never);
  /** Live episodes, each answered once by `solver` with that checkpoint. */
  const episodes = (
    name: string,
    checkpoint: string,
    time: string,
    rewards: readonly number[],
    tags: object = {},
    by: object = { policy: 'solver' },
  ) =>
    tell(
      rewards.flatMap((reward, i) => {
        const episode_id = `${name}-${i}`;
        const say = (event: string, data: object) => ({
          ...{ name: event, source: '/t', id: `${episode_id}/${event}`, time },
          data: { episode_id, ...data },
        });
        return [
          say('episode.started', { tags, task_id: episode_id }),
          say('generation.requested', { call_id: `${episode_id}-c`, input: [{ role: 'user', content: 'x' }] }),
          say('generation.completed', {
            call_id: `${episode_id}-c`,
            ...by,
            checkpoint_id: checkpoint,
            choices: [],
          }),
          {
            ...{ name: 'feedback.recorded', source: '/t', id: `${episode_id}/r`, time },
            data: {
              ...{ feedback_id: `${episode_id}/r`, target: { kind: 'episode', id: episode_id, episode_id } },
              ...{ kind: 'reward', name: 'reward', value: reward },
            },
          },
          say('episode.finished', { outcome: 'success' }),
        ];
      }) as never,
    );
  const watch = async (job_id: string, release_id: string) => {
    const rules = { metric: 'reward' as const, fall: 0.1, at_least: 10, hours: 48 };
    await requestJob(context(), { job_id, kind: 'watch', spec: watchSpec(release_id, rules) });
    while ((await projectBatch(database.db)) > 0);
  };
  /** Projecting beside, as the process of that role does: a look waits for the tables. */
  const look = async () => {
    const stop = new AbortController();
    const projecting = (async () => {
      while (!stop.signal.aborted) if ((await projectBatch(database.db)) === 0) await new Promise(setImmediate);
    })();
    try {
      return await lookAtWatches(context());
    } finally {
      stop.abort();
      await projecting;
    }
  };
  const good = Array.from({ length: 40 }, (_, i) => (i % 5 === 0 ? 0 : 1));
  const bad = Array.from({ length: 40 }, (_, i) => (i % 5 === 0 ? 1 : 0));

  beforeAll(async () => {
    database = await freshDatabase();
    await released('r1', { solver: 'a', other: 'o1' }, '2026-01-01T00:00:00Z');
  });
  afterAll(() => database.close());

  it('has nothing to go back to where it is the first', async () => {
    await watch('w1', 'r1');
    expect(await look()).toMatchObject([{ outcome: 'no_data', rollback: null }]);
    expect(await look()).toEqual([]);
  });

  it('stays while live episodes do not fall, whatever rollouts and gates do, and ends once another takes its place', async () => {
    await episodes('before', 'a', '2026-01-01T01:00:00Z', good);
    await released('r2', { solver: 'b', other: 'o2' }, '2026-01-01T02:00:00Z');
    await watch('w2', 'r2');
    expect(await look()).toMatchObject([{ outcome: 'watching', evidence: { after: { units: 0 } } }]);
    await episodes('played', 'b', '2026-01-01T03:00:00Z', bad, { rollout: 'x' });
    await episodes('same', 'b', '2026-01-01T03:00:00Z', good);
    expect(await look()).toMatchObject([
      {
        outcome: 'watching',
        evidence: { before: { units: 40, mean: 0.8 }, after: { units: 40, mean: 0.8 }, fell: false },
      },
    ]);
    const later = await watchNow(
      database.db,
      'w2',
      watchSpec('r2', { metric: 'reward', fall: 0.1, at_least: 10, hours: 1 }),
      now(),
    );
    expect(later).toMatchObject({ outcome: 'held', rollback: null });
    const fewer = watchSpec('r2', { metric: 'reward', fall: 0.1, at_least: 41, hours: 1 });
    expect(await watchNow(database.db, 'w2', fewer, now())).toMatchObject({ outcome: 'no_data' });
    await released('r3', { solver: 'c', other: 'o3' }, '2026-01-01T04:00:00Z');
    expect(await look()).toMatchObject([{ outcome: 'superseded', rollback: null }]);
  });

  it('that fell beyond the limit is rolled back once, the whole map, with the reason', async () => {
    await watch('w3', 'r3');
    await episodes('fallen', 'c', '2026-01-01T05:00:00Z', bad);
    // Shown before anybody acts on it; then two processes look at once.
    const shown = await watchOf(database.db, 'r3', now());
    expect(shown).toMatchObject({ outcome: 'fell', rollback: null });
    expect(watchMarkdown(shown!)).toContain('The map goes back once `troupe run work` looks.');
    const reports = (await Promise.all([look(), look()])).flat();
    for (const { rollback } of reports) expect(rollback).toEqual({ release_id: 'w3/rollback', back_to: 'r2' });
    expect(reports[0]).toMatchObject({
      outcome: 'fell',
      evidence: { before: { mean: 0.8 }, after: { units: 40, mean: 0.2 }, fell: true },
      rollback: { release_id: 'w3/rollback', back_to: 'r2' },
    });
    const all = await releasesOf(database.db);
    expect(all.map(({ release_id }) => release_id)).toEqual(['r1', 'r2', 'r3', 'w3/rollback']);
    expect(all.at(-1)).toMatchObject({ policies: { solver: 'b', other: 'o2' }, by: 'rollback' });
    const { rows } = await database.db.query<{ reason: string }>(
      `select reason from facts.releases where release_id = 'w3/rollback'`,
    );
    expect(rows[0]!.reason).toContain(
      'back to release r2. The metric fell: the mean reward of 40 live episodes is 0.2',
    );
    expect(await watchOf(database.db, 'r3', now())).toMatchObject({ outcome: 'fell', rollback: { back_to: 'r2' } });
    expect(await look()).toEqual([]);
  });

  it('that was rolled back by a process that was killed before it recorded that is not rolled back again', async () => {
    await database.db.query(
      `update troupe.job_queue set state = 'waiting', outcome = null, result = null where job_id = 'w3'`,
    );
    expect(await look()).toMatchObject([{ outcome: 'fell', rollback: { release_id: 'w3/rollback', back_to: 'r2' } }]);
    expect(await releasesOf(database.db)).toHaveLength(4);
  });

  it('that fell is not rolled back where another release is recorded while that is decided', async () => {
    await released('r5', { solver: 'e' }, '2026-01-02T01:00:00Z');
    await watch('w5', 'r5');
    await episodes('fifth', 'e', '2026-01-02T02:00:00Z', bad);
    let looking: ReturnType<typeof look>;
    await inReleaseTurn(database.db, async () => {
      looking = look();
      // Its evidence is read, and it waits for its turn.
      await expect
        .poll(
          async () => {
            const { rows } = await database.db.query(
              `select from pg_locks join pg_database d on d.oid = database
               where locktype = 'advisory' and not granted and datname = current_database()`,
            );
            return rows.length;
          },
          { timeout: 30_000 },
        )
        .toBe(1);
      await released('by-hand', { solver: 'f' }, '2026-01-02T03:00:00Z');
    });
    const [report] = await looking!;
    expect(report).toMatchObject({ outcome: 'superseded', rollback: null });
    expect(report!.reason).toContain('Release by-hand took its place. The metric fell');
    expect((await releasesOf(database.db)).at(-1)!.release_id).toBe('by-hand');
  });

  it('the first one of a policy is rolled back to the model that its route falls back to', async () => {
    clock = '2026-01-04T00:00:00Z';
    const hosted = { policy: undefined, unmapped: { policy: 'solver' } };
    const [before, after] = [{ solver: 'upstream:far/gpt' }, { solver: 'own' }];
    await released('h/hosted', before, '2026-01-03T00:00:00Z');
    await episodes('gpt', 'upstream:far/gpt', '2026-01-03T01:00:00Z', good, {}, hosted);
    // The model answers for another policy of the team too, before and after.
    await episodes('other', 'upstream:far/gpt', '2026-01-03T01:00:00Z', bad, {}, { unmapped: { policy: 'checker' } });
    await released('h', after, '2026-01-03T02:00:00Z');
    await watch('h', 'h');
    await episodes('own', 'own', '2026-01-03T03:00:00Z', bad);
    const [report] = await look();
    expect(report).toMatchObject({
      outcome: 'fell',
      evidence: { before: { units: 40, mean: 0.8 }, after: { units: 40, mean: 0.2 } },
      rollback: { back_to: 'h/hosted' },
    });
    expect((await releasesOf(database.db)).at(-1)).toMatchObject({ policies: before, by: 'rollback' });
  });
});
