import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Draft } from '../../../ingest/events/events.ts';
import { appendOwn } from '../../../ingest/log/own-event.ts';
import { postgresLog } from '../../../ingest/log/postgres.ts';
import { type AsOf, eventsBefore } from '../../../store/datasets/as-of.ts';
import { groupId } from '../../../store/loop/play/ids.ts';
import { projectAll, projectBatch } from '../../../store/projecting/projector.ts';
import { type JobContext, waitForJob } from '../../../store/queue/jobs/jobs.ts';
import { runJobs } from '../../../store/queue/jobs/worker.ts';
import { dayBudgetOver } from '../../../store/queue/schedules/day-budget.ts';
import type { ScheduleDefinition } from '../../../store/queue/schedules/definition-schema.ts';
import { driftNow } from '../../../store/queue/schedules/drift.ts';
import { scheduleHistory } from '../../../store/queue/schedules/history.ts';
import { runScheduler, scheduleOnce } from '../../../store/queue/schedules/scheduler.ts';
import {
  addSchedule,
  backfillSchedule,
  endBackfill,
  findSchedule,
  listSchedules,
  pauseSchedule,
  removeSchedule,
  resumeSchedule,
  runScheduleNow,
} from '../../../store/queue/schedules/schedules.ts';
import { freshDatabase, type TestDatabase } from '../../support/database.ts';

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

  const look = async (at: string): Promise<number | null> => {
    clock = Date.parse(at);
    return scheduleOnce(context);
  };
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
  const endJobs = () =>
    fresh.db.query(`update troupe.job_queue set state = 'finished', outcome = 'done' where kind = 'count'`);

  it('requests the job of a tick under an id of schedule and tick, and says when the next one comes', async () => {
    await addSchedule(context, 'nightly', NIGHTLY, BY);
    expect(await look('2026-05-02T02:00:00Z')).toBe(60 * MINUTE);
    expect(await jobs()).toEqual([]);
    expect(await look('2026-05-02T03:00:00Z')).toBe(24 * 60 * MINUTE);
    expect(await look('2026-05-02T03:00:01Z')).toBe(24 * 60 * MINUTE - 1000);
    expect(await jobs()).toEqual(['schedule/nightly/2026-05-02T03:00:00Z']);
    expect(await events('job.requested')).toMatchObject([
      { kind: 'count', spec: { n: 1 }, schedule: 'nightly', due_at: '2026-05-02T03:00:00Z' },
    ]);
    await projectAll(fresh.db);
    const { rows } = await fresh.db.query(`select job_id, kind, state from traj.jobs`);
    expect(rows).toEqual([{ job_id: 'schedule/nightly/2026-05-02T03:00:00Z', kind: 'count', state: 'requested' }]);
  });

  it('records each tick that it skips with its reason, and shows it beside the jobs', async () => {
    await addSchedule(context, 'nightly', NIGHTLY, BY);
    await look('2026-05-02T03:00:00Z');
    await look('2026-05-03T03:00:00Z');
    await endJobs();
    // No scheduler works for three days.
    await look('2026-05-06T09:00:00Z');
    const ended = { job_id: 'schedule/nightly/2026-05-02T03:00:00Z', outcome: 'done' as const };
    await appendOwn(context.log, [{ name: 'job.finished', source: '/test', id: 'ended', time: null, data: ended }]);
    await projectAll(fresh.db);
    const { runs, skipped } = await scheduleHistory(fresh.db, 'nightly', 10);
    expect(runs.map((run) => [run.due_at, run.state])).toEqual([
      ['2026-05-06T03:00:00Z', 'requested'],
      ['2026-05-02T03:00:00Z', 'finished'],
    ]);
    // Runs say the same of each job.
    const { rows } = await fresh.db.query(`select job_id, state, outcome, result from traj.jobs order by job_id desc`);
    expect(runs.map(({ job_id, state, outcome, result }) => ({ job_id, state, outcome, result }))).toEqual(rows);
    expect(skipped).toEqual([
      {
        due_at: '2026-05-04T03:00:00Z',
        until: '2026-05-05T03:00:00Z',
        count: 2,
        reason: 'missed',
        detail: 'no scheduler worked then; the job of 2026-05-06T03:00:00Z stands for them',
      },
      {
        due_at: '2026-05-03T03:00:00Z',
        until: '2026-05-03T03:00:00Z',
        count: 1,
        reason: 'overlap',
        detail: 'job schedule/nightly/2026-05-02T03:00:00Z had not ended',
      },
    ]);
  });

  it('carries out what a scheduler decided that died before it did, once', async () => {
    await addSchedule(context, 'nightly', NIGHTLY, BY);
    const dying = {
      ...context,
      log: {
        ...context.log,
        append: async () => {
          throw new Error('it dies here');
        },
      },
    };
    clock = Date.parse('2026-05-04T03:00:00Z');
    await expect(scheduleOnce(dying)).rejects.toThrow('it dies here');
    expect(await jobs()).toEqual([]);
    await look('2026-05-04T03:00:20Z');
    await look('2026-05-04T03:00:40Z');
    expect(await jobs()).toEqual(['schedule/nightly/2026-05-04T03:00:00Z']);
    expect(await events('schedule.skipped')).toMatchObject([{ first_due_at: '2026-05-02T03:00:00Z', count: 2 }]);
    expect((await findSchedule(fresh.db, 'nightly')).state.pending).toBe(null);
  });

  it('starts nothing while a schedule is paused, and says at its end who paused it and which ticks it left out', async () => {
    await addSchedule(context, 'nightly', NIGHTLY, BY);
    await pauseSchedule(context, 'nightly', { by: 'bob', reason: 'labels are checked' });
    await expect(pauseSchedule(context, 'nightly', { by: 'ann', reason: 'x' })).rejects.toMatchObject({
      code: 'conflict',
    });
    expect(await look('2026-05-04T04:00:00Z')).toBe(null);
    const resumed = await resumeSchedule(context, 'nightly', { ...BY, reason: 'labels are right' });
    expect(resumed.state.paused).toBe(null);
    await expect(resumeSchedule(context, 'nightly', BY)).rejects.toMatchObject({ code: 'conflict' });
    await look('2026-05-04T05:00:00Z');
    expect(await jobs()).toEqual([]);
    await look('2026-05-05T03:00:00Z');
    expect(await jobs()).toEqual(['schedule/nightly/2026-05-05T03:00:00Z']);
    const { skipped } = await scheduleHistory(fresh.db, 'nightly', 10);
    expect(skipped).toMatchObject([{ count: 3, reason: 'paused', detail: 'paused by bob: labels are checked' }]);
    expect(await events('schedule.changed')).toMatchObject([
      { change: 'added', by: 'ann', definition: { cron: '0 3 * * *' } },
      { change: 'paused', by: 'bob', reason: 'labels are checked' },
      { change: 'resumed', by: 'ann', reason: 'labels are right' },
    ]);
  });

  it('runs a schedule at once when asked, but not beside its job that has not ended', async () => {
    await addSchedule(context, 'nightly', NIGHTLY, BY);
    const first = await runScheduleNow(context, 'nightly');
    expect(first).toBe('schedule/nightly/2026-05-01T12:00:00Z');
    clock += 1000;
    await expect(runScheduleNow(context, 'nightly')).rejects.toMatchObject({
      ...{ code: 'conflict', detail: { hint: 'troupe jobs cancel schedule/nightly/2026-05-01T12:00:00Z ends it.' } },
    });
    await endJobs();
    expect(await runScheduleNow(context, 'nightly')).toBe('schedule/nightly/2026-05-01T12:00:01Z');
  });

  it('refuses a name that is taken or unknown, and forgets a removed schedule but not its jobs', async () => {
    await addSchedule(context, 'nightly', NIGHTLY, BY);
    await expect(addSchedule(context, 'nightly', NIGHTLY, BY)).rejects.toMatchObject({ code: 'conflict' });
    await expect(addSchedule(context, 'a/b', NIGHTLY, BY)).rejects.toMatchObject({ code: 'usage' });
    const never = { ...NIGHTLY, hours: { from: '08:00', to: '09:00' } };
    await expect(addSchedule(context, 'never', never, BY)).rejects.toThrow('No tick');
    await expect(removeSchedule(context, 'weekly', BY)).rejects.toThrow('there are nightly');
    await look('2026-05-02T03:00:00Z');
    await removeSchedule(context, 'nightly', BY);
    expect(await listSchedules(fresh.db)).toEqual([]);
    await look('2026-05-03T03:00:00Z');
    expect(await jobs()).toEqual(['schedule/nightly/2026-05-02T03:00:00Z']);
  });

  const record = async (...events: readonly Pick<Draft, 'name' | 'data'>[]) =>
    appendOwn(
      context.log,
      events.map((one) => ({ source: '/test', id: randomUUID(), time: null, ...one }) as Draft),
    );
  const recorded = (...ids: string[]) =>
    record(...ids.map((episode_id) => ({ name: 'episode.started' as const, data: { episode_id } })));
  const judged = (...episodes: string[]) =>
    record({ name: 'judge.completed', data: { judge_id: randomUUID(), methods: [], episodes } });

  it('starts the job of a condition once so many episodes were judged that were not when the last one started', async () => {
    const { cron: _, ...rest } = NIGHTLY;
    await addSchedule(context, 'news', { ...rest, every_seconds: 600, when: { new_episodes: 3 } }, BY);
    await recorded('e1', 'e2', 'e3', 'late');
    await judged('e1', 'e2');
    await judged('e2');
    await look('2026-05-01T12:10:00Z');
    expect((await findSchedule(fresh.db, 'news')).state.checked).toMatchObject({ new_episodes: 2 });
    await judged('e3');
    await look('2026-05-01T12:20:00Z');
    expect(await jobs()).toEqual(['schedule/news/2026-05-01T12:20:00Z']);
    // While its job works nothing is looked at. Judged again is not new; recorded before the start and judged after it is.
    await look('2026-05-01T12:30:00Z');
    await endJobs();
    await judged('e1', 'e2', 'e3', 'late');
    await recorded('e4', 'e5');
    await judged('e4', 'e1');
    await look('2026-05-01T12:40:00Z');
    expect((await findSchedule(fresh.db, 'news')).state.checked).toMatchObject({ new_episodes: 2 });
    await judged('e5');
    await look('2026-05-01T12:50:00Z');
    expect(await jobs()).toEqual(['schedule/news/2026-05-01T12:20:00Z', 'schedule/news/2026-05-01T12:50:00Z']);
    expect(await events('schedule.skipped')).toEqual([]);
  });

  it('starts the job of a condition on a metric once the mean of live episodes fell, and compares with those before that job from then on', async () => {
    const { cron: _, ...rest } = NIGHTLY;
    const when = { fell: { metric: 'reward', by: 0.1 } } as const;
    // Added at 2026-05-01T12:00:00Z.
    await addSchedule(context, 'fell', { ...rest, every_seconds: 600, when }, BY);
    const played = async (from: string, rewards: readonly number[], tags: Record<string, string> = {}) => {
      const at = (i: number) => new Date(Date.parse(from) + i * 1000).toISOString();
      await appendOwn(
        context.log,
        rewards.flatMap((value, i) => {
          const episode_id = `${from}/${tags.rollout ?? 'live'}/${i}`;
          const drafts = [
            { name: 'episode.started', data: { episode_id, task_id: `t${i % 8}`, tags } },
            {
              name: 'feedback.recorded',
              data: {
                feedback_id: `${episode_id}/r`,
                target: { kind: 'episode', id: episode_id, episode_id },
                kind: 'reward',
                name: 'reward',
                value,
              },
            },
            { name: 'episode.finished', data: { episode_id, outcome: 'unknown' } },
          ];
          return drafts.map((one) => ({ source: '/test', id: randomUUID(), time: at(i), ...one }) as Draft);
        }),
      );
      while ((await projectBatch(fresh.db)) > 0);
    };
    const half = Array.from({ length: 160 }, (_, i) => ((i >> 3) % 2 === 0 ? 1 : 0));
    await played('2026-05-01T10:00:00Z', half);
    await played('2026-05-01T12:01:00Z', half.slice(0, 48));
    // What a rollout played is not live.
    await played('2026-05-01T12:01:00Z', Array(100).fill(0), { rollout: 'r' });
    await look('2026-05-01T12:10:00Z');
    expect(await jobs()).toEqual([]);
    const { checked } = (await findSchedule(fresh.db, 'fell')).state;
    expect(checked?.detail).toMatch(
      /^mean reward 0.5 of 48 live episodes since 2026-05-01T12:00:00.*, 0.5 of 160 before; /,
    );
    await played('2026-05-01T12:11:00Z', Array(150).fill(0));
    await look('2026-05-01T12:20:00Z');
    expect(await jobs()).toEqual(['schedule/fell/2026-05-01T12:20:00Z']);
    await endJobs();
    // The episodes before that job are the reference now, those of the fall included.
    await played('2026-05-01T12:21:00Z', half.slice(0, 48));
    await look('2026-05-01T12:30:00Z');
    expect(await jobs()).toEqual(['schedule/fell/2026-05-01T12:20:00Z']);
  });

  it('starts the job of a condition on drift once live episodes are unlike those of the newest training dataset', async () => {
    const { cron: _, ...rest } = NIGHTLY;
    const when = { drift: { of: 'families', above: 0.2 } } as const;
    await addSchedule(context, 'drift', { ...rest, every_seconds: 600, when }, BY);
    const event = (time: string, name: string, data: object) =>
      ({ source: '/test', id: randomUUID(), time, name, data }) as Draft;
    const record = async (drafts: readonly Draft[]) => {
      await appendOwn(context.log, drafts);
      while ((await projectBatch(fresh.db)) > 0);
    };
    const played = (time: string, families: readonly string[]) =>
      record(
        families.flatMap((family, i) => [
          event(time, 'episode.started', { episode_id: `${time}/${i}`, task_id: family }),
          event(time, 'episode.finished', { episode_id: `${time}/${i}`, outcome: 'success' }),
        ]),
      );
    const detail = async () => (await findSchedule(fresh.db, 'drift')).state.checked?.detail;
    const even = Array.from({ length: 240 }, (_, i) => (i % 2 === 0 ? 'flights' : 'hotels'));
    await record(
      ['flights', 'hotels'].map((domain) => event('2026-05-01T09:00:00Z', 'task.defined', { task_id: domain, domain })),
    );
    await played('2026-05-01T10:00:00Z', even);
    await look('2026-05-01T12:10:00Z');
    expect(await detail()).toBe('no conclusion: no checkpoint names the dataset that it was trained on');

    const trained = { checkpoint_id: 'c1', policy: 'solver', dataset_ids: ['d1'] };
    await record([event('2026-05-01T11:00:00Z', 'checkpoint.saved', trained)]);
    for (const i of even.keys())
      await fresh.db.query(
        `insert into facts.dataset_rows (dataset_id, split, row, episode_id, candidates) values ('d1', 'train', $1, $2, '{null}')`,
        [i, `2026-05-01T10:00:00Z/${i}`],
      );
    await played('2026-05-01T12:11:00Z', even.slice(0, 199));
    await look('2026-05-01T12:20:00Z');
    expect(await detail()).toContain('there are 199 live episodes since');
    await played('2026-05-01T12:21:00Z', even.slice(0, 41));
    await look('2026-05-01T12:30:00Z');
    expect(await detail()).toMatch(/^the stability index of families is 0, and the condition is 0.2; /);
    expect(await jobs()).toEqual([]);
    // 119 of 640 are of the other family: (119 + 0.5) / (640 + 1).
    await played('2026-05-01T12:31:00Z', Array(400).fill('flights'));
    await look('2026-05-01T12:40:00Z');
    expect(await jobs()).toEqual(['schedule/drift/2026-05-01T12:40:00Z']);
    expect(await detail()).toContain('"hotels" went from 50 % to 18.6 %');
    await endJobs();

    // No statement is made about a dataset whose episodes are gone.
    await fresh.db.query(`delete from facts.episodes where episode_id = '2026-05-01T10:00:00Z/0'`);
    await played('2026-05-01T12:41:00Z', Array(400).fill('flights'));
    await look('2026-05-01T12:50:00Z');
    expect(await jobs()).toHaveLength(1);
    expect(await detail()).toMatch(/^no conclusion: 1 of the 240 episodes of dataset d1 are not in the tables/);
  });

  it.each([
    ['tokens', false, /^the stability index of tokens is 0, /],
    // Classes of one number each: 240 of 240 became 0 of 240.
    [
      'tokens',
      true,
      /^the stability index of tokens of role coder is 12\.\d+, .*"from 100" went from 99\.8 % to 0\.207 %.*role critic, and 200/,
    ],
    [
      'tools',
      true,
      /^the stability index of tools of role coder is 0, .*; that of role verifier is 0; there are 0 live/,
    ],
    [
      'roles',
      false,
      /^the stability index of roles is 12\.\d+, .*"coder \+ critic \+ verifier" went from 99\.8 % to 0\.2/,
    ],
  ] as const)('finds a drift of %s by role (%s) that the sums of the team do not show', async (of, by_role, detail) => {
    const event = (time: string, name: string, data: object) =>
      ({ source: '/test', id: randomUUID(), time, name, data }) as Draft;
    const generated = (time: string, episode_id: string, role: string, output_tokens: number) => {
      const call = { episode_id, call_id: `${episode_id}/${role}`, agent_id: role, role };
      return event(time, 'generation.completed', { ...call, choices: [], usage: { input_tokens: 0, output_tokens } });
    };
    const played = (time: string, tokensByRole: Readonly<Record<string, number>>) =>
      Array.from({ length: 240 }, (_, i) => {
        const episode_id = `${time}/${i}`;
        return [
          event(time, 'episode.started', { episode_id }),
          ...Object.entries(tokensByRole).map(([role, tokens]) => generated(time, episode_id, role, tokens)),
          event(time, 'episode.finished', { episode_id, outcome: 'success' }),
        ];
      }).flat();
    const trained = { checkpoint_id: 'c1', policy: 'solver', dataset_ids: ['d1'] };
    await appendOwn(context.log, [
      event('2026-05-01T09:00:00Z', 'checkpoint.saved', trained),
      ...played('2026-05-01T10:00:00Z', { coder: 100, verifier: 50, critic: 10 }),
      ...played('2026-05-01T13:00:00Z', { coder: 50, verifier: 110 }),
    ]);
    while ((await projectBatch(fresh.db)) > 0);
    for (let i = 0; i < 240; i++)
      await fresh.db.query(
        `insert into facts.dataset_rows (dataset_id, split, row, episode_id, candidates) values ('d1', 'train', $1, $2, '{null}')`,
        [i, `2026-05-01T10:00:00Z/${i}`],
      );
    const rule = { of, by_role, above: 0.2 };
    const found = await driftNow(fresh.db, rule, '2026-05-01T12:00:00.000Z');
    expect(found.detail).toMatch(detail);
    expect(found.holds).toBe(!/is 0,/.test(found.detail));
  });

  it('runs missed ticks afterwards, one after the other, each on what had been recorded at its time, and none twice', async () => {
    const job = { kind: 'freeze', spec: { recipe: { name: 'all' } } };
    await addSchedule(context, 'nightly', { ...NIGHTLY, job }, BY);
    const freezes = async () =>
      (
        await fresh.db.query<{ job_id: string; spec: Record<string, unknown>; state: string }>(
          `select job_id, spec, state from troupe.job_queue where kind = 'freeze' order by job_id`,
        )
      ).rows;
    const end = () =>
      fresh.db.query(`update troupe.job_queue set state = 'finished', outcome = 'done' where kind = 'freeze'`);
    await look('2026-05-02T03:00:00Z');
    await end();
    // No scheduler works for two nights; the last tick stands for them.
    await look('2026-05-05T04:00:00Z');
    expect(await freezes()).toHaveLength(2);
    await recorded('e1', 'e2', 'e3');
    await fresh.db.query(`update troupe.stored_events set recorded_at = case when key in ('e/e1', 'e/e2')
      then timestamptz '2026-05-04T01:00:00Z' else '2026-05-03T01:00:00Z' end`);
    const events: number[] = [];
    const span = { from: Date.parse('2026-05-02T00:00:00Z'), to: clock };
    const missed = ['2026-05-03T03:00:00Z', '2026-05-04T03:00:00Z'];
    expect(await backfillSchedule(context, 'nightly', span, BY)).toEqual(missed);
    expect(await backfillSchedule(context, 'nightly', span, BY)).toEqual(missed);
    // The job of the last tick has not ended.
    expect(await look('2026-05-05T04:00:01Z')).toBe(5000);
    expect(await freezes()).toHaveLength(2);
    await end();
    for (const at of missed) {
      expect(await Promise.all([look('2026-05-05T04:00:06Z'), scheduleOnce(context)])).toContain(5000);
      await look('2026-05-05T04:00:07Z');
      const now = (await freezes()).filter(({ state }) => state === 'waiting');
      expect(now).toMatchObject([{ job_id: `schedule/nightly/${at}`, spec: { ...job.spec, as_of: { at } } }]);
      events.push(eventsBefore(now[0]!.spec.as_of as AsOf));
      await end();
    }
    expect(events[1]).toBe(events[0]! + 2);
    expect(await look('2026-05-05T04:00:08Z')).toBeGreaterThan(MINUTE);
    expect(await backfillSchedule(context, 'nightly', span, BY)).toEqual([]);
    expect(await freezes()).toHaveLength(4);
    const { runs } = await scheduleHistory(fresh.db, 'nightly', 10);
    expect(runs.map(({ as_of }) => as_of)).toEqual([null, missed[1], missed[0], null]);
  });

  it('a backfill stops while its schedule is paused, and is forgotten once it is ended', async () => {
    const job = { kind: 'freeze', spec: { recipe: { name: 'all' } } };
    await addSchedule(context, 'nightly', { ...NIGHTLY, job }, BY);
    clock = Date.parse('2026-05-01T13:00:00Z');
    const span = { from: Date.parse('2026-04-01T00:00:00Z'), to: Date.parse('2026-04-03T00:00:00Z') };
    expect(await backfillSchedule(context, 'nightly', span, BY)).toHaveLength(2);
    await pauseSchedule(context, 'nightly', { ...BY, reason: 'wait' });
    await look('2026-05-01T13:00:00Z');
    await expect(backfillSchedule(context, 'nightly', { ...span, to: clock }, BY)).rejects.toThrow(/paused/);
    await resumeSchedule(context, 'nightly', BY);
    expect(await endBackfill(context, 'nightly', BY)).toBe(2);
    await look('2026-05-01T13:00:01Z');
    const { rows } = await fresh.db.query(`select from troupe.job_queue where kind = 'freeze'`);
    expect(rows).toEqual([]);
  });

  it.each([
    [{ kind: 'count', spec: {} }, 'a job of kind "count"'],
    [{ kind: 'plan', spec: { plan: { rollout: {} } } }, 'a plan that plays new episodes'],
  ])('refuses a backfill of a job that does not read what was recorded (%#)', async (job, what) => {
    await addSchedule(context, 'nightly', { ...NIGHTLY, job }, BY);
    await expect(backfillSchedule(context, 'nightly', { from: clock, to: clock }, BY)).rejects.toThrow(what);
  });

  it('records the tick of a cron expression whose condition did not hold', async () => {
    await addSchedule(context, 'nightly', { ...NIGHTLY, when: { new_episodes: 2 } }, BY);
    await recorded('e1', 'e2');
    await judged('e1');
    await look('2026-05-02T03:00:00Z');
    expect(await events('schedule.skipped')).toMatchObject([
      {
        first_due_at: '2026-05-02T03:00:00Z',
        reason: 'condition',
        detail: '1 new judged episodes, and the condition is 2',
      },
    ]);
    await judged('e2');
    await look('2026-05-03T03:00:00Z');
    expect(await jobs()).toEqual(['schedule/nightly/2026-05-03T03:00:00Z']);
  });

  it.each([
    [
      'failed',
      `outcome = 'failed', error = '{"message":"the disk is full"}'`,
      /last 3 jobs failed: the disk is full/,
      3,
    ],
    [
      'refused by the gate',
      `outcome = 'done', result = '{"released":false,"rounds":[{"passed":false}]}'`,
      /the gate refused the candidates of its last 2 jobs/,
      2,
    ],
  ])('pauses a schedule whose jobs %s in a row, and counts anew once it is resumed', async (_, end, why, inARow) => {
    await addSchedule(context, 'nightly', NIGHTLY, BY);
    const endBadly = () =>
      fresh.db.query(
        `update troupe.job_queue set state = 'finished', ${end} where kind = 'count' and state = 'waiting'`,
      );
    for (let day = 2; day < 2 + inARow; day++) {
      await look(`2026-05-0${day}T03:00:00Z`);
      expect(await jobs()).toHaveLength(day - 1);
      await endBadly();
    }
    expect(await look(`2026-05-0${2 + inARow}T03:00:00Z`)).toBe(null);
    expect(await jobs()).toHaveLength(inARow);
    const { paused } = (await findSchedule(fresh.db, 'nightly')).state;
    expect(paused).toMatchObject({ by: 'scheduler', reason: expect.stringMatching(why) });
    clock += 1000;
    await resumeSchedule(context, 'nightly', BY);
    await look(`2026-05-0${3 + inARow}T03:00:00Z`);
    expect(await jobs()).toHaveLength(inARow + 1);
  });

  it('pauses a schedule whose runs their budget ended in a row, only where it is asked to', async () => {
    const end = () =>
      fresh.db.query(
        `update troupe.job_queue set state = 'finished', outcome = 'done', result = '{"released":false,"rounds":[],"ended_early":"The budget …"}'
         where kind = 'count' and state = 'waiting'`,
      );
    const pause_after = { failed: 3, refused: 2, over_budget: 2 };
    await addSchedule(context, 'nightly', { ...NIGHTLY, pause_after }, BY);
    await addSchedule(context, 'lenient', NIGHTLY, BY);
    for (const day of [2, 3, 4]) {
      await look(`2026-05-0${day}T03:00:00Z`);
      await end();
    }
    const paused = async (name: string) => (await findSchedule(fresh.db, name)).state.paused;
    expect((await paused('nightly'))?.reason).toBe('the budget of its plan ended its last 2 jobs');
    expect(await paused('lenient')).toBe(null);
  });

  it('pauses a schedule whose last release its watch rolled back', async () => {
    await addSchedule(context, 'nightly', NIGHTLY, BY);
    await look('2026-05-02T03:00:00Z');
    await endJobs();
    await fresh.db.query(
      `insert into troupe.job_queue (job_id, kind, spec, state, outcome, result)
       values ('schedule/nightly/2026-05-02T03:00:00Z/1/watch', 'watch', '{}', 'finished', 'done', '{"outcome":"fell"}')`,
    );
    await look('2026-05-03T03:00:00Z');
    expect(await jobs()).toHaveLength(1);
    const { paused } = (await findSchedule(fresh.db, 'nightly')).state;
    expect(paused?.reason).toBe('the live metric fell after the release of its last job, and the watch rolled back');
    clock += 1000;
    await resumeSchedule(context, 'nightly', BY);
    await look('2026-05-04T03:00:00Z');
    expect(await jobs()).toHaveLength(2);
  });

  it('starts no job once the tokens of a day are used up, and goes on after midnight of the zone', async () => {
    const berlin = { ...NIGHTLY, cron: '0 */6 * * *', zone: 'Europe/Berlin', budget_per_day: { tokens: 100 } };
    await addSchedule(context, 'often', berlin, BY);
    const played = async (episode_id: string, time: string, tokens: number) => {
      const event = (name: string, data: object) => ({ name, source: '/test', id: randomUUID(), time, data }) as Draft;
      await appendOwn(context.log, [
        event('generation.requested', { episode_id, call_id: `${episode_id}/c`, agent_id: 'a', messages: [] }),
        event('generation.completed', {
          episode_id,
          call_id: `${episode_id}/c`,
          choices: [],
          usage: { input_tokens: tokens, output_tokens: 0 },
        }),
      ]);
      await projectAll(fresh.db);
    };
    await look('2026-05-01T16:00:00Z');
    const [first] = await jobs();
    expect(first).toBe('schedule/often/2026-05-01T16:00:00Z');
    await endJobs();
    // In Berlin it is 23:00; of another schedule; and below the budget.
    const at = `${first}/1/gate/candidate`;
    const other = 'schedule/often2/2026-05-01T16:00:00Z/1/rollout';
    for (const [i, rollout] of [at, other].entries())
      await appendOwn(context.log, [
        {
          ...{ name: 'job.requested', source: '/test', id: `asked-${i}`, time: '2026-05-01T16:00:00Z' },
          data: { job_id: rollout, kind: 'rollout', spec: {} },
        } as Draft,
      ]);
    // Short, as they are named now, and below the id of the rollout, as they were named once.
    await played(`${groupId(at, 't', 0)}/0`, '2026-05-01T21:00:00Z', 99);
    await played(`${groupId(other, 't', 0)}/0`, '2026-05-01T22:30:00Z', 500);
    await look('2026-05-01T22:00:00Z');
    expect(await jobs()).toHaveLength(2);
    await endJobs();
    await played(`${groupId(at, 't', 0)}/1`, '2026-05-01T22:30:00Z', 60);
    await played(`${at}/t/1`, '2026-05-01T22:30:00Z', 40);
    await look('2026-05-02T04:00:00Z');
    expect(await jobs()).toHaveLength(2);
    expect(await events('schedule.skipped')).toMatchObject([
      {
        reason: 'budget',
        detail:
          'since 2026-05-01T22:00:00Z, midnight in Europe/Berlin: The budget of 100 tokens was used up: 100 recorded.',
      },
    ]);
    await look('2026-05-02T22:00:00Z');
    expect(await jobs()).toHaveLength(3);
  });

  it('counts the seconds in which jobs of the day ran, from midnight on and without their parts', async () => {
    const hourly = { ...NIGHTLY, cron: '0 * * * *', budget_per_day: { seconds: 3600 } };
    const ran = async (id: string, from: string, to: string) => {
      const event = (name: string, time: string, data: object) =>
        ({ name, source: '/test', id: randomUUID(), time, data: { job_id: id, ...data } }) as Draft;
      await appendOwn(context.log, [
        event('job.started', from, { worker: 'w', token: 1 }),
        event('job.finished', to, { outcome: 'done' }),
      ]);
      await projectAll(fresh.db);
    };
    const over = (at: string) => dayBudgetOver(fresh.db, 'hourly', hourly, Date.parse(at));
    await ran('schedule/hourly/2026-05-01T23:00:00Z', '2026-05-01T23:00:00Z', '2026-05-02T00:30:00Z');
    await ran('schedule/hourly/2026-05-01T23:00:00Z/1/train', '2026-05-02T00:00:00Z', '2026-05-02T00:30:00Z');
    await ran('schedule/hourly2/2026-05-02T01:00:00Z', '2026-05-02T01:00:00Z', '2026-05-02T03:00:00Z');
    expect(await over('2026-05-02T04:00:00Z')).toBe(null);
    await ran('schedule/hourly/2026-05-02T04:00:00Z', '2026-05-02T04:00:00Z', '2026-05-02T04:30:00Z');
    expect(await over('2026-05-02T05:00:00Z')).toBe(
      'since 2026-05-02T00:00:00Z, midnight in UTC: The budget of 3600 s was used up.',
    );
    expect(await over('2026-05-03T00:00:00Z')).toBe(null);
  });

  it('goes on with the other schedules where one is broken, and names it', async () => {
    await addSchedule(context, 'broken', NIGHTLY, BY);
    await addSchedule(context, 'nightly', NIGHTLY, BY);
    await fresh.db.query(
      `update troupe.job_queue set spec = '{"cron":"? ?","zone":"UTC"}' where job_id = 'schedule/broken'`,
    );
    clock = Date.parse('2026-05-02T03:00:00Z');
    const broken: string[] = [];
    await scheduleOnce(context, { onBroken: (name) => broken.push(name) });
    expect(broken).toEqual(['broken']);
    expect(await jobs()).toEqual(['schedule/nightly/2026-05-02T03:00:00Z']);
  });

  it('wakes for a schedule that is added while it waits, and a worker does the job', async () => {
    const stop = new AbortController();
    const done: unknown[] = [];
    const count = async ({ spec }: { readonly spec: Record<string, unknown> }) => done.push(spec.n);
    const workers = [
      runScheduler(context, { signal: stop.signal }),
      runJobs(context, { worker: 'w', handlers: { count }, signal: stop.signal, pollMs: 20 }),
    ];
    try {
      await addSchedule(context, 'nightly', NIGHTLY, BY);
      clock = Date.parse('2026-05-02T03:00:00Z');
      // Any change of a schedule wakes the scheduler, which then reads its clock.
      await pauseSchedule(context, 'nightly', { by: 'ann', reason: 'x' });
      clock = Date.parse('2026-05-02T02:59:59.950Z');
      await resumeSchedule(context, 'nightly', BY);
      clock = Date.parse('2026-05-02T03:00:00Z');
      await expect.poll(jobs, { timeout: 20_000 }).toEqual(['schedule/nightly/2026-05-02T03:00:00Z']);
      await waitForJob(fresh.db, 'schedule/nightly/2026-05-02T03:00:00Z', { timeoutMs: 20_000 });
      expect(done).toEqual([1]);
    } finally {
      stop.abort();
      await Promise.all(workers);
    }
  });
});
