import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { postgresLog } from '../../../ingest/log/postgres.ts';
import { openPool } from '../../../store/db/pool.ts';
import type { JobContext } from '../../../store/queue/jobs/jobs.ts';
import type { ScheduleDefinition } from '../../../store/queue/schedules/definition-schema.ts';
import { scheduleOnce } from '../../../store/queue/schedules/scheduler.ts';
import { addSchedule } from '../../../store/queue/schedules/schedules.ts';
import { freshDatabase, type TestDatabase } from '../../support/database.ts';
import { expectBelow } from '../../support/measured.ts';

const NIGHTLY: ScheduleDefinition = {
  cron: '0 3 * * *',
  zone: 'UTC',
  job: { kind: 'count', spec: { n: 1 } },
  overlap: 'skip',
  catch_up_seconds: 86_400,
  jitter_seconds: 0,
};
const BY = { by: 'ann' };
const MINUTE = 60_000;

describe('The scheduler', () => {
  let fresh: TestDatabase;
  let clock: number;
  let context: JobContext;
  beforeEach(async () => {
    fresh = await freshDatabase();
    clock = Date.parse('2026-05-01T12:00:00Z');
    context = { db: fresh.db, log: postgresLog(fresh.db), now: () => new Date(clock) };
  });
  afterEach(() => fresh.close());
  const jobs = async () =>
    (
      await fresh.db.query<{ job_id: string }>(
        `select job_id from troupe.job_queue where kind = 'count' order by job_id`,
      )
    ).rows.map((row) => row.job_id);
  const events = async (name: string) =>
    (
      await fresh.db.query<{ data: Record<string, unknown> }>(
        `select data from traj.events where type like 'troupe.' || $1 || '.v%' order by recorded_at, data ->> 'job_id'`,
        [name],
      )
    ).rows.map((row) => row.data);

  it('P32: two schedulers with clocks that differ start each of 1,000 ticks once, within 50 ms of processor time a job', async () => {
    const { jitter_seconds, catch_up_seconds, job, zone } = NIGHTLY;
    const minutely: ScheduleDefinition = {
      jitter_seconds,
      catch_up_seconds,
      job,
      zone,
      overlap: 'queue',
      every_seconds: 60,
    };
    await addSchedule(context, 'often', minutely, BY);
    const pools = [openPool(fresh.url, { max: 2 }), openPool(fresh.url, { max: 2 })];
    const start = clock;
    const before = process.cpuUsage();
    try {
      for (let tick = 1; tick <= 1000; tick++) {
        await Promise.all(
          pools.map((db, i) => {
            // The second clock is 10 s behind to 39 s ahead, differently at each tick.
            const now = start + tick * MINUTE + i * (((tick * 7919) % 50) - 10) * 1000;
            return scheduleOnce({ db, log: postgresLog(db), now: () => new Date(now) });
          }),
        );
      }
    } finally {
      await Promise.all(pools.map((db) => db.close()));
    }
    const { user, system } = process.cpuUsage(before);
    const expected = Array.from(
      { length: 1000 },
      (_, i) => `schedule/often/${new Date(start + (i + 1) * MINUTE).toISOString().replace('.000Z', 'Z')}`,
    );
    expect(await jobs()).toEqual(expected);
    expect((await events('job.requested')).map((data) => data.job_id).sort()).toEqual(expected);
    expect(await events('schedule.skipped')).toEqual([]);
    expectBelow((user + system) / 1000 / 1000, 50);
  }, 240_000);
});
