/** What the tables hold of an episode that a team played, and of all episodes of a rollout. */
import type { Session } from '../db/pool.ts';
import { anyOf, firstOf, query, rowsOf, sql } from '../db/query.ts';

export type Recorded = {
  /** Calls, steps, messages and tool calls. */
  readonly entries: number;
  /** As the team closed it; null where it did not. */
  readonly outcome: string | null;
  /** By the team: neither as idle nor by the rollout. */
  readonly closed: boolean;
};

/** Of each of these episodes; one that is not in the tables has no entries. */
export async function recordedOf(
  db: Pick<Session, 'query'>,
  episodes: readonly string[],
): Promise<(episode: string) => Recorded> {
  const rows = await rowsOf(
    db,
    query
      .selectFrom('facts.episodes')
      .select(['episode_id', 'outcome', 'calls', 'steps', 'messages', 'tool_calls'])
      .select(
        sql<boolean>`coalesce(split_part(finished_version, chr(1), 2) not in ('/rollouts', '/closing'), false)`.as(
          'closed',
        ),
      )
      .where('episode_id', '=', anyOf(episodes)),
  );
  const known = new Map(
    rows.map(({ episode_id, calls, steps, messages, tool_calls, outcome, closed }) => [
      episode_id,
      {
        entries: (calls ?? 0) + (steps ?? 0) + (messages ?? 0) + (tool_calls ?? 0),
        outcome: closed ? outcome : null,
        closed,
      },
    ]),
  );
  return (episode) => known.get(episode) ?? { entries: 0, outcome: null, closed: false };
}

export type RolloutFacts = {
  /** Episodes that were accepted and have no reward. */
  readonly withoutReward: number;
  /** Groups that are complete, and whose rewards are all equal: comparing their members gives no signal. */
  readonly equalRewards: number;
};

/** Of the episodes of a rollout that the tables hold now. */
export async function rolloutFacts(
  db: Pick<Session, 'query'>,
  rollout: string,
  samples: number,
): Promise<RolloutFacts> {
  const ours = query
    .selectFrom('facts.episodes')
    .where('episode_id', '>=', `${rollout}/`)
    .where('episode_id', '<', `${rollout}0`);
  const counted = await firstOf(
    db,
    ours.select(
      sql<number>`(count(*) filter (where group_id is not null and reward is null))::integer`.as('withoutReward'),
    ),
  );
  const equal = await firstOf(
    db,
    query
      .selectFrom(
        ours
          .select('group_id')
          .where('group_id', 'is not', null)
          .groupBy('group_id')
          .having(sql<boolean>`count(reward) = ${samples} and min(reward) = max(reward)`)
          .as('groups'),
      )
      .select(sql<number>`count(*)::integer`.as('n')),
  );
  return {
    withoutReward: counted?.withoutReward ?? 0,
    equalRewards: samples === 1 ? 0 : (equal?.n ?? 0),
  };
}
