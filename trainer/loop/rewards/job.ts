/** A job that rewards recorded episodes by a configured source: late rewards, and those of live episodes on a schedule. */
import { Type } from 'typebox';
import { appendOwn } from '../../../ingest/log/own-event.ts';
import type { Db } from '../../../store/db/pool.ts';
import { query, rowsOf, sql } from '../../../store/db/query.ts';
import { lowerFilter, parseFilter } from '../../../store/filter/select.ts';
import { storedTask } from '../../../store/loop/play/stored-tasks.ts';
import { checkedSpec, type Handler, type JobContext } from '../../../store/queue/jobs/jobs.ts';
import { type Scoring, scoreOf } from './score.ts';
import { findScorer, type Scorer, type Scorers } from './source.ts';

/** Job kind. */
export const REWARD = 'reward';
const Spec = Type.Object(
  {
    /** Name under `rewards` of the configuration. */
    use: Type.String({ minLength: 1 }),
    /** Filter over episodes, besides that they are closed and have no reward. */
    where: Type.Optional(Type.Unknown()),
    limit: Type.Optional(Type.Integer({ minimum: 1 })),
  },
  { additionalProperties: false },
);

/** The spec of a reward job. @throws TroupeError `usage`, `recipe_invalid` for the filter */
export function rewardSpec(spec: unknown) {
  const checked = checkedSpec(Spec, spec);
  return { ...checked, where: checked.where === undefined ? null : parseFilter(checked.where) };
}

export type RewardReport = {
  /** Episodes without a reward that the filter selects. */
  readonly episodes: number;
  readonly rewarded: number;
  /** Those that the source gave no reward, by reason. They stay without one, and are asked about again by the next job. */
  readonly failed: Readonly<Record<string, number>>;
};

const RETRIES = 1;
/** Episodes asked about at a time. */
const CONCURRENCY = 4;

export type RewardSettings = {
  readonly scorers: Scorers;
  readonly scoring: Omit<Scoring, 'db' | 'signal'>;
  /** Resolves once the tables hold what was recorded before the call. */
  readonly caughtUp: (db: Db) => Promise<unknown>;
};

/** @returns handler of kind `reward` */
export const rewardHandler =
  (context: JobContext, settings: RewardSettings): Handler =>
  (job, report, signal) =>
    rewardRecorded(context, rewardSpec(job.spec), settings, report, signal);

/** Rewards the episodes that have no reward. Once the signal is aborted it ends with those that are rewarded. */
export async function rewardRecorded(
  context: JobContext,
  { use, where, limit }: ReturnType<typeof rewardSpec>,
  { scorers, scoring, caughtUp }: RewardSettings,
  report: Parameters<Handler>[1],
  signal: AbortSignal,
): Promise<RewardReport> {
  const { db } = context;
  const scorer = findScorer(scorers, use);
  await caughtUp(db);
  const episodes = await rowsOf(
    db,
    query
      .selectFrom('facts.episodes as e')
      .leftJoin('facts.tasks as t', 't.task_id', 'e.task_id')
      .select('e.episode_id')
      .where('e.closed', '=', true)
      .where('e.reward', 'is', null)
      .where(sql<boolean>`coalesce(e.outcome, '') not in ('error', 'timeout', 'aborted')`)
      .where(lowerFilter(where))
      .orderBy(sql`e.episode_id collate "C"`)
      .$if(limit !== undefined, (rows) => rows.limit(limit!)),
  );
  const ids = episodes.map(({ episode_id }) => episode_id);
  const looked = (rewarded: number, of: number) => report(of, { rewarded, of: ids.length });
  const found = await rewardEpisodes(context, { ids, by: use, scorer }, { ...scoring, db, signal }, looked);
  await caughtUp(db);
  return { episodes: ids.length, ...found };
}

/**
 * Rewards these episodes, a few at a time, until all are looked at or the signal is aborted. Those that get none are counted by reason.
 * @param onEach after each episode: how many are rewarded, and how many were looked at
 */
export async function rewardEpisodes(
  context: JobContext,
  { ids, by, scorer }: { readonly ids: readonly string[]; readonly by: string; readonly scorer: Scorer },
  scoring: Scoring,
  onEach: (rewarded: number, looked: number) => Promise<void> = async () => {},
): Promise<Pick<RewardReport, 'rewarded' | 'failed'>> {
  const failed: Record<string, number> = {};
  let rewarded = 0;
  let looked = 0;
  let next = 0;
  const lane = async (): Promise<void> => {
    while (next < ids.length && !scoring.signal.aborted) {
      const reason = await rewardEpisode(context, { episode_id: ids[next++]!, by, scorer }, scoring);
      if (reason === null) rewarded++;
      else failed[reason] = (failed[reason] ?? 0) + 1;
      await onEach(rewarded, ++looked);
    }
  };
  await Promise.all(Array.from({ length: Math.min(CONCURRENCY, ids.length) }, lane));
  return { rewarded, failed };
}

/** Records the reward of one episode; null, or why it has none. A second record by the same source is the first one again. */
async function rewardEpisode(
  { db, log, now }: JobContext,
  { episode_id, by, scorer }: { readonly episode_id: string; readonly by: string; readonly scorer: Scorer },
  scoring: Scoring,
): Promise<string | null> {
  const [row] = await rowsOf(
    db,
    query.selectFrom('facts.episodes').select(['task_id', 'answer']).where('episode_id', '=', episode_id),
  );
  const task = row?.task_id == null ? null : await storedTask(db, row.task_id);
  const found = await scoreOf(scorer, { task, episode_id, output: row?.answer ?? null }, scoring, RETRIES);
  if ('error' in found) return found.error;
  const id = `${episode_id}/reward/${by}`;
  await appendOwn(log, [
    {
      name: 'feedback.recorded',
      source: '/rewards',
      id,
      time: now().toISOString(),
      data: {
        feedback_id: id,
        target: { kind: 'episode', id: episode_id, episode_id },
        kind: 'reward',
        name: 'reward',
        value: found.reward,
        by: scorer.from === 'model' ? 'model' : 'code',
      },
    },
  ]);
  return null;
}
