/** What the tables hold of an episode that a team played, and of all episodes of a rollout. */
import type { EventLog } from '../../../ingest/log/log.ts';
import type { Db, Session } from '../../../store/db/pool.ts';
import { anyOf, firstOf, query, rowsOf, sql } from '../../../store/db/query.ts';
import { playedIn } from '../../../store/loop/play/ids.ts';
import type { ReplayPlace, ReplayRequest } from '../../../store/loop/play/replay.ts';
import type { RolloutSpec } from '../../../store/loop/play/rollout.ts';
import { sourceCalls } from '../../../store/loop/play/source.ts';
import { waitProjected } from '../../../store/projecting/positions.ts';

/** What the tables hold of a play: its episode and, of a replay, how far it got. */
export type RecordedPlay = {
  readonly seen: {
    /** Calls, steps, messages and tool calls. */
    readonly entries: number;
    /** As the team closed it; null where it did not. */
    readonly outcome: string | null;
    /** By the team: neither as idle nor by the rollout. */
    readonly closed: boolean;
  };
  readonly replayed: Awaited<ReturnType<typeof replayedOf>> | null;
};

/** What there is before anything is recorded. */
export const NOTHING: RecordedPlay = { seen: { entries: 0, outcome: null, closed: false }, replayed: null };

/** Of each of these plays, once the tables have all that was recorded until now. */
export async function recordedPlays(
  { db, log }: { readonly db: Db; readonly log: EventLog },
  plays: readonly {
    readonly id: string;
    readonly place: ReplayPlace | null;
    readonly rollout: Pick<RolloutSpec, 'replay'>;
  }[],
  timeoutMs?: number,
): Promise<(id: string) => RecordedPlay> {
  if (plays.length === 0) return () => NOTHING;
  await waitProjected(db, { log, ...(timeoutMs === undefined ? {} : { timeoutMs }) });
  const episodes = await recordedOf(
    db,
    plays.map(({ id }) => id),
  );
  const found = await Promise.all(
    plays.map(async ({ id, place, rollout }): Promise<[string, RecordedPlay]> => {
      const replayed = place === null ? null : await replayedOf(db, id, place, rollout.replay);
      return [id, { seen: episodes.get(id) ?? NOTHING.seen, replayed }];
    }),
  );
  const known = new Map(found);
  return (id) => known.get(id) ?? NOTHING;
}

/** Of each of these episodes that is in the tables. */
async function recordedOf(
  db: Pick<Session, 'query'>,
  episodes: readonly string[],
): Promise<ReadonlyMap<string, RecordedPlay['seen']>> {
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
  return new Map(
    rows.map(({ episode_id, calls, steps, messages, tool_calls, outcome, closed }) => [
      episode_id,
      {
        entries: (calls ?? 0) + (steps ?? 0) + (messages ?? 0) + (tool_calls ?? 0),
        outcome: closed ? outcome : null,
        closed,
      },
    ]),
  );
}

/** How far an attempt got along the episode that it replays. */
async function replayedOf(
  db: Pick<Session, 'query'>,
  episode: string,
  { episode_id: source, call_id }: Pick<ReplayPlace, 'episode_id' | 'call_id'>,
  { skip = false }: Pick<ReplayRequest, 'skip'> = {},
): Promise<{
  /** Why the gateway refused a call that was not the recorded one; null where it refused none. */
  readonly diverged: string | null;
  /** Why the place was not reached; null where it was. */
  readonly unreached: string | null;
  /** The step at the place; null where it is the end of the source, or its call failed. */
  readonly step_id: string | null;
  /** Calls that the record answered. */
  readonly calls: number;
}> {
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

/** Of the episodes of a rollout that the tables hold now. */
export async function rolloutFacts(db: Pick<Session, 'query'>, rollout: string, samples: number) {
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
    /** Episodes that were accepted and have no reward. */
    withoutReward: counted?.withoutReward ?? 0,
    /** Groups that are complete, and whose rewards are all equal: comparing their members gives no signal. */
    equalRewards: samples === 1 ? 0 : (equal?.n ?? 0),
  };
}
