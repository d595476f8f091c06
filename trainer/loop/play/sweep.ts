/** A sweep: the same tasks and seeds under each combination of settings, each combination a rollout of its own. */
import type { Session } from '../../../store/db/pool.ts';
import { query, rowsOf, sql } from '../../../store/db/query.ts';
import { type Interval, meanInterval } from '../../../store/evaluate/statistics/bootstrap.ts';
import { playedIn } from '../../../store/loop/play/ids.ts';

export type Setting = string | number | boolean;
export type Settings = Readonly<Record<string, Setting>>;

/** All combinations, the last setting varying fastest. Pure. */
export const combinations = (varied: Readonly<Record<string, readonly Setting[]>>): Settings[] =>
  Object.entries(varied).reduce<Settings[]>(
    (found, [name, values]) => found.flatMap((one) => values.map((value) => ({ ...one, [name]: value }))),
    [{}],
  );

/** What one combination came to on the tasks that all of them played in full. Means are over tasks; null where no episode has a value. */
export type SweepPoint = {
  readonly rollout_id: string;
  readonly params: Settings;
  readonly episodes: number;
  readonly tasks: number;
  /** Tasks of which a sample is missing under this combination or another one: they are in no number here. */
  readonly left_out: number;
  /** Accepted episodes without a reward; they are not counted as 0. */
  readonly without_reward: number;
  readonly reward: number | null;
  readonly interval: Interval | null;
  /** Of an accepted episode, prompts included; null where one call does not give them. */
  readonly tokens: number | null;
};

const LEVEL = 0.95;
const SEED = 0;

/**
 * Measures the rollouts of a sweep on the same tasks: those of which every combination has all samples. A setting under which hard tasks
 * fail would else be better on the others.
 */
export async function sweepPoints(
  db: Pick<Session, 'query'>,
  sweep: readonly { readonly rollout_id: string; readonly params: Settings }[],
  { tasks, samples }: { readonly tasks: number; readonly samples: number },
): Promise<SweepPoint[]> {
  const played = await Promise.all(sweep.map(({ rollout_id }) => byTask(db, rollout_id)));
  const whole = played.map((rows) => new Set(rows.flatMap((row) => (row.episodes === samples ? [row.task_id] : []))));
  return sweep.map((swept, i) => {
    const rows = played[i]!.filter(({ task_id }) => whole.every((one) => one.has(task_id)));
    return { ...swept, left_out: tasks - rows.length, ...measured(rows) };
  });
}

/** The accepted episodes of a rollout, by task. */
const byTask = (db: Pick<Session, 'query'>, rollout_id: string) =>
  rowsOf(
    db,
    query
      .selectFrom('facts.episodes')
      .select([
        'task_id',
        sql<number>`count(*)::integer`.as('episodes'),
        sql<number>`(count(*) filter (where reward is null))::integer`.as('without_reward'),
        sql<number | null>`avg(reward)::float8`.as('reward'),
        sql<
          number | null
        >`case when count(input_tokens + output_tokens) = count(*) then avg(input_tokens + output_tokens)::float8 end`.as(
          'tokens',
        ),
      ])
      .where(playedIn('episode_id', rollout_id))
      .where('group_id', 'is not', null)
      .groupBy('task_id')
      .orderBy('task_id'),
  );

function measured(
  rows: readonly Awaited<ReturnType<typeof byTask>>[number][],
): Omit<SweepPoint, 'rollout_id' | 'params' | 'left_out'> {
  const sum = (of: readonly number[]) => of.reduce((a, b) => a + b, 0);
  const mean = (of: readonly number[]) => (of.length === 0 ? null : sum(of) / of.length);
  const rewards = rows.flatMap(({ reward }) => (reward === null ? [] : [reward]));
  const tokens = rows.flatMap((row) => (row.tokens === null ? [] : [row.tokens]));
  return {
    episodes: sum(rows.map((row) => row.episodes)),
    tasks: rows.length,
    without_reward: sum(rows.map((row) => row.without_reward)),
    reward: mean(rewards),
    interval: meanInterval(rewards, LEVEL, SEED),
    tokens: tokens.length < rows.length ? null : mean(tokens),
  };
}
