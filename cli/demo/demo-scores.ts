/** What came out of a demo: scores of each gate, counts, and how the warm start went. */
import type { Db } from '../../store/db/pool.ts';
import { firstOf, type NotNull, query, rowsOf, sql } from '../../store/db/query.ts';
import { type Evaluation, evaluateEpisodes } from '../../store/evaluate/judging/evaluate.ts';
import { playedIn } from '../../store/loop/play/ids.ts';

type Scores = Omit<Evaluation, 'episodes'> & { readonly hard_pass_at_1: number | null };

export type Round = Scores & {
  readonly round: number;
  readonly name: string;
  readonly checkpoint: string;
  readonly released: boolean;
};

export type DemoResult = {
  readonly rounds: readonly Round[];
  readonly teachers: number | null;
  readonly seed: number;
  readonly events: number;
  readonly episodes: number;
  readonly steps: number;
  readonly funnel: unknown;
  /** Loss of the warm start, every tenth step. */
  readonly warm_start: readonly { readonly step: number; readonly loss: number }[];
  readonly seconds: number;
  /** Of this process, the database and every process of the demo; null where the system does not report it. */
  readonly cpu_seconds: number | null;
};

/** Scores of the episodes of a rollout that were accepted, by the pool of their tasks. */
export async function scoresOf(db: Db, rollout: string): Promise<Scores> {
  const scores = async (pool: string) => {
    const episodes = await rowsOf(
      db,
      query
        .selectFrom('facts.episodes as e')
        .innerJoin('facts.tasks as t', 't.task_id', 'e.task_id')
        .select('e.episode_id')
        .where(playedIn('e.episode_id', rollout))
        .where('e.group_id', 'is not', null)
        .where('t.domain', '=', pool),
    );
    return evaluateEpisodes(
      db,
      episodes.map(({ episode_id }) => episode_id),
    );
  };
  const { episodes: _, ...found } = await scores('new');
  return { ...found, hard_pass_at_1: (await scores('hard')).pass_at_1 };
}

export async function countsOf(db: Db): Promise<Pick<DemoResult, 'events' | 'episodes' | 'steps'>> {
  const count = sql<number>`count(*)::float8`.as('n');
  const found = await firstOf(
    db,
    query.selectNoFrom((all) => [
      all.selectFrom('troupe.events').select(count).$asScalar().$notNull().as('events'),
      all.selectFrom('facts.episodes').select(count).$asScalar().$notNull().as('episodes'),
      all.selectFrom('facts.steps').select(count).$asScalar().$notNull().as('steps'),
    ]),
  );
  return found!;
}

/** The filters and the losses of the warm start. */
export async function lessonsOf(db: Db): Promise<Pick<DemoResult, 'funnel' | 'warm_start'>> {
  const jobs = query.selectFrom('troupe.job_queue').select(['job_id', 'result']);
  const frozen = await firstOf(db, jobs.where('job_id', 'like', 'schedule/warm-start/%/1/freeze-team'));
  const losses = await rowsOf(
    db,
    query
      .selectFrom('facts.job_metrics')
      .select(['step', 'value as loss'])
      .where('job_id', 'like', 'schedule/warm-start/%/1/train-team')
      .where('name', '=', 'loss')
      .where('value', 'is not', null)
      .orderBy('step')
      .$narrowType<{ loss: NotNull }>(),
  );
  return { funnel: (frozen?.result as { readonly funnel?: unknown } | null)?.funnel ?? [], warm_start: losses };
}
