import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { postgresLog } from '../../ingest/log/postgres.ts';
import { learningOf } from '../../store/explore/learning.ts';
import { projectAll } from '../../store/projecting/projector.ts';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { event } from './support/events.ts';

describe('how a run learns', () => {
  let fresh: TestDatabase;
  beforeEach(async () => {
    fresh = await freshDatabase();
  });
  afterEach(() => fresh.close());
  const say = async (...events: ReturnType<typeof event>[]) => {
    await postgresLog(fresh.db).append(events);
    await projectAll(fresh.db);
  };
  const requested = (job_id: string, kind: string) => event('job.requested', { job_id, kind, spec: {} });
  const reported = (job_id: string, step: number, metrics: Record<string, number>) =>
    event('job.progressed', { job_id, step, metrics });
  const curve = async (name: string, role: string | null = null) => {
    const found = (await learningOf(fresh.db, 'r-1')).curves.find((one) => one.name === name && one.role === role);
    return found && { at: found.at, values: found.values };
  };

  it('counts steps on over the iterations, by policy and role, where each training reports one', async () => {
    await say(
      requested('r-1', 'plan'),
      ...[1, 2, 3].flatMap((i) => [
        requested(`r-1/1/${i}/train-team`, 'rl'),
        reported(`r-1/1/${i}/train-team`, 4, { loss: i, 'checker.loss': 10 * i, share: 1 }),
      ]),
    );
    expect(await curve('loss')).toEqual({ at: [4, 8, 12], values: [1, 2, 3] });
    expect(await curve('loss', 'checker')).toEqual({ at: [4, 8, 12], values: [10, 20, 30] });
    expect(await curve('share')).toBeUndefined();
  });

  it('shows the rewards of what was played by iteration, without the plays of the gate and of other runs', async () => {
    const episode = (id: string, rollout: string, reward: number | null, group_id: string) => [
      event('episode.started', { episode_id: id, task_id: 't', group_id, tags: { rollout } }),
      ...(reward === null
        ? []
        : [
            event('feedback.recorded', {
              ...{ feedback_id: `of-${id}`, target: { kind: 'episode', episode_id: id } },
              ...{ kind: 'reward', name: 'reward', value: reward },
            }),
          ]),
    ];
    await say(
      requested('r-1', 'plan'),
      ...['r-1/1/1/rollout', 'r-1/1/2/rollout', 'r-1/1/3/rollout', 'r-1/1/gate/candidate/rollout', 'r-2/1/rollout'].map(
        (job) => requested(job, 'rollout'),
      ),
      ...episode('a', 'r-1/1/1/rollout', 0, 'g1'),
      ...episode('b', 'r-1/1/1/rollout', 1, 'g1'),
      ...episode('c', 'r-1/1/1/rollout', 1, 'g2'),
      ...episode('d', 'r-1/1/1/rollout', 1, 'g2'),
      ...episode('e', 'r-1/1/2/rollout', null, 'g3'),
      ...episode('f', 'r-1/1/gate/candidate/rollout', 1, 'g4'),
      ...episode('g', 'r-2/1/rollout', 1, 'g5'),
    );
    const { rollouts } = await learningOf(fresh.db, 'r-1');
    expect(rollouts).toEqual(['r-1/1/1/rollout', 'r-1/1/2/rollout', 'r-1/1/3/rollout']);
    // The second has no reward and the third no episode: unknown, not 0.
    expect(await curve('reward')).toEqual({ at: [1, 2, 3], values: [0.75, null, null] });
    expect(await curve('reward_deviation')).toEqual({ at: [1, 2, 3], values: [0.5, null, null] });
    expect(await curve('groups_with_signal')).toEqual({ at: [1, 2, 3], values: [0.5, 0, null] });
    expect(await curve('episodes')).toEqual({ at: [1, 2, 3], values: [4, 1, null] });
  });

  it('thins what a plot cannot show, and keeps the last', async () => {
    const steps = Array.from({ length: 1203 }, (_, i) => i + 1);
    await say(
      requested('r-1', 'plan'),
      requested('r-1/1/train-a', 'sft'),
      ...steps.map((step) => reported('r-1/1/train-a', step, { loss: step })),
    );
    const { at, values } = (await curve('loss'))!;
    expect(at.length).toBeLessThanOrEqual(500);
    expect([at.at(-1), values.at(-1)]).toEqual([1203, 1203]);
  });
});
