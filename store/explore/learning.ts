/** How a run of a plan learns: the rewards of what it played by iteration, and what its trainings reported, joined over its stages. */
import { groupBy } from '../../ingest/events/group-by.ts';
import type { Session } from '../db/pool.ts';
import { anyOf, query, rowsOf, type SqlBool, sql, typed } from '../db/query.ts';
import { POINTS } from '../queue/jobs/metrics.ts';

/** What a job reports of its progress. */
const PROGRESS = ['share', 'done', 'total'];

export type LearningCurve = {
  /** Null for numbers of whole episodes. */
  readonly policy: string | null;
  /** Null for numbers of all roles. */
  readonly role: string | null;
  readonly name: string;
  /** What `at` counts: iterations of the run, or optimizer steps of the policy since the run began. */
  readonly along: 'iteration' | 'step';
  readonly at: readonly number[];
  /** Null where it is unknown. */
  readonly values: readonly (number | null)[];
};

/** The rollouts of a run in order, counted from 1, and its curves: rewards first. */
export async function learningOf(db: Session, run: string) {
  const stages = await rowsOf(
    db,
    query
      .selectFrom('facts.jobs')
      .select(['job_id', 'kind'])
      .where(sql<SqlBool>`starts_with(job_id, ${`${run}/`})`)
      .orderBy('requested_at')
      .orderBy('job_id'),
  );
  const rollouts = stages.flatMap(({ job_id, kind }) =>
    // Those of a gate are rollouts too, below its own id.
    kind === 'rollout' && /^\d+(\/\d+)?\/rollout$/.test(job_id.slice(run.length + 1)) ? [job_id] : [],
  );
  const trainings = stages.flatMap(({ job_id }) => {
    const policy = /\/train-(.+)$/.exec(job_id)?.[1];
    return policy === undefined ? [] : [{ job: job_id, policy }];
  });
  return {
    rollouts,
    curves: [...(await playedCurves(db, rollouts)), ...(await trainedCurves(db, trainings))],
  };
}

/** Of each rollout the numbers of its episodes, and the mean reward that each role got for itself. */
async function playedCurves(db: Session, rollouts: readonly string[]): Promise<LearningCurve[]> {
  if (rollouts.length === 0) return [];
  const played = query
    .selectFrom(sql<{ job: string }>`unnest(${typed(rollouts, 'text[]')})`.as<'p'>(sql`p(job)`))
    .innerJoin('facts.episodes as e', (on) => on.on(sql<SqlBool>`e.tags @> jsonb_build_object('rollout', p.job)`));
  const episodes = await rowsOf(
    db,
    played
      .select(['p.job', sql<number | null>`avg(e.reward)`.as('reward')])
      .select(sql<number | null>`stddev_samp(e.reward)`.as('reward_deviation'))
      .select(sql<number>`count(*)::int`.as('episodes'))
      .select(sql<number | null>`avg(e.output_tokens)::float8`.as('output_tokens'))
      .select(sql<number | null>`avg(e.calls)::float8`.as('calls'))
      .select(sql<number | null>`avg(extract(epoch from e.finished_at - e.started_at))::float8`.as('seconds'))
      .groupBy('p.job'),
  );
  const groups = await rowsOf(
    db,
    query
      .selectFrom(
        played
          .select(['p.job', sql<boolean>`coalesce(min(e.reward) < max(e.reward), false)`.as('signal')])
          .where('e.group_id', 'is not', null)
          .groupBy(['p.job', 'e.group_id'])
          .as('g'),
      )
      .select(['g.job', sql<number>`avg(g.signal::int)::float8`.as('share')])
      .groupBy('g.job'),
  );
  const own = await rowsOf(
    db,
    played
      .innerJoin('report.local_rewards as l', 'l.episode_id', 'e.episode_id')
      .select(['p.job', 'l.role', 'l.name', sql<number | null>`avg(l.local_reward)`.as('value')])
      .where('l.origin', '=', 'recorded')
      .groupBy(['p.job', 'l.role', 'l.name'])
      .orderBy('l.role')
      .orderBy('l.name'),
  );
  const at = rollouts.map((_, i) => i + 1);
  const curve = (name: string, role: string | null, value: (job: string) => number | null): LearningCurve => ({
    ...{ policy: null, role, name, along: 'iteration', at },
    values: rollouts.map(value),
  });
  const byJob = new Map(episodes.map((row) => [row.job, row]));
  const signal = new Map(groups.map(({ job, share }) => [job, share]));
  const names = ['reward', 'reward_deviation', 'episodes', 'output_tokens', 'calls', 'seconds'] as const;
  return [
    ...names.slice(0, 2).map((name) => curve(name, null, (job) => byJob.get(job)?.[name] ?? null)),
    ...[...groupBy(own, ({ role, name }) => JSON.stringify([role, name]))].map(([, rows]) => {
      const values = new Map(rows.map(({ job, value }) => [job, value]));
      return curve(`reward ${rows[0]!.name}`, rows[0]!.role, (job) => values.get(job) ?? null);
    }),
    curve('groups_with_signal', null, (job) => signal.get(job) ?? null),
    ...names.slice(2).map((name) => curve(name, null, (job) => byJob.get(job)?.[name] ?? null)),
  ].filter(({ values }) => values.some((value) => value !== null));
}

/** What the trainings of each policy reported, one after the other: a step is counted from the first step of the run. */
async function trainedCurves(
  db: Session,
  trainings: readonly { readonly job: string; readonly policy: string }[],
): Promise<LearningCurve[]> {
  const reported = await rowsOf(
    db,
    query
      .selectFrom('facts.job_metrics')
      .select(['job_id', 'name', 'step', 'value'])
      .where('job_id', '=', anyOf(trainings.map(({ job }) => job)))
      .where('name', '!=', sql<string>`all(${typed(PROGRESS, 'text[]')})`)
      .orderBy('step'),
  );
  const byJob = groupBy(reported, ({ job_id }) => job_id);
  return [...groupBy(trainings, ({ policy }) => policy)].flatMap(([policy, jobs]) => {
    let before = 0;
    const points = jobs.flatMap(({ job }) => {
      const rows = byJob.get(job) ?? [];
      const from = before;
      before += Number(rows.at(-1)?.step ?? 0);
      return rows.map(({ name, step, value }) => ({ name, at: from + Number(step), value }));
    });
    return [...groupBy(points, ({ name }) => name)].map(([name, all]): LearningCurve => {
      const shown = thinned(all);
      const dot = name.lastIndexOf('.');
      return {
        ...{ policy, role: dot < 0 ? null : name.slice(0, dot), name: name.slice(dot + 1), along: 'step' },
        ...{ at: shown.map(({ at }) => at), values: shown.map(({ value }) => value) },
      };
    });
  });
}

/** Every so many points, and the last. */
function thinned<T>(points: readonly T[]): readonly T[] {
  const every = Math.ceil(points.length / POINTS);
  return points.filter((_, i) => (points.length - 1 - i) % every === 0);
}
