/** What the tables hold of an episode that a team played, and of all episodes of a rollout. */
import type { Session } from '../../../store/db/pool.ts';
import { anyOf, firstOf, query, rowsOf, sql } from '../../../store/db/query.ts';
import { playedIn } from '../../../store/loop/play/ids.ts';
import type { Place, ReplayRequest } from '../../../store/loop/play/replay.ts';
import { sourceCalls } from '../../../store/loop/play/source.ts';

export type RecordedEpisode = {
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
): Promise<(episode: string) => RecordedEpisode> {
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

export type ReplayResult = {
  /** Why the gateway refused a call that was not the recorded one; null where it refused none. */
  readonly diverged: string | null;
  /** Why the place was not reached; null where it was. */
  readonly unreached: string | null;
  /** The step at the place; null where it is the end of the source, or its call failed. */
  readonly step_id: string | null;
  /** Calls that the record answered. */
  readonly calls: number;
};

/** How far an attempt got along the episode that it replays. */
export async function replayedOf(
  db: Pick<Session, 'query'>,
  episode: string,
  { episode_id: source, call_id }: Pick<Place, 'episode_id' | 'call_id'>,
  { skip = false }: Pick<ReplayRequest, 'skip'> = {},
): Promise<ReplayResult> {
  const row = await firstOf(
    db,
    query
      .selectFrom('facts.calls as c')
      .select([
        sql<number>`(count(*) filter (where c.copied and c.requested_unmapped #> '{replay,of}' is not null))::integer`.as(
          'calls',
        ),
        sql<string | null>`min(c.error ->> 'message') filter (where c.error ->> 'code' = 'diverged')`.as('diverged'),
        // A skipped step is answered from the record at the place itself.
        sql<
          string | null
        >`min(c.call_id) filter (where c.requested_unmapped #> '{replay,at}' is not null or (c.copied and c.call_id = ${call_id}::text))`.as(
          'at',
        ),
        sql<boolean>`coalesce(bool_or(c.requested_unmapped #> '{replay,without}' is not null), false)`.as('left_out'),
      ])
      .where('c.episode_id', '=', episode),
  );
  const { calls = 0, diverged = null, at = null, left_out = false } = row ?? {};
  if (call_id !== null) {
    const unreached =
      at === null
        ? `It ended after ${calls} recorded calls, before it came to call ${call_id}.`
        : skip && !left_out
          ? `No prompt after call ${call_id} holds its answer, so nothing was left out.`
          : null;
    return { diverged, unreached, step_id: at === null ? null : `${at}/0`, calls };
  }
  const of = (await sourceCalls(db, source)).length;
  const unreached = calls < of ? `It ended after ${calls} of the ${of} calls of ${source}.` : null;
  return { diverged, unreached, step_id: null, calls };
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
  const ours = query.selectFrom('facts.episodes').where(playedIn('episode_id', rollout));
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
