/**
 * Episodes that nobody closes are closed here, with episode.finished at the time of their last event. Its id is made of the episode and
 * that time, so two workers that close it write the same event, and it is closed again after a later event has opened it again.
 */
import type { Refusal } from '../../errors.ts';
import { decodeDraft } from '../../ingest/events/decode.ts';
import type { Draft } from '../../ingest/events/events.ts';
import { hashId } from '../../ingest/events/json.ts';
import type { EventLog } from '../../ingest/log/log.ts';
import type { Db } from '../db/pool.ts';
import { type Expression, type InferResult, query, rowsOf, type SqlBool, sql } from '../db/query.ts';

/** Closed in one append. */
const BATCH = 500;

export type RefusalHandler = (episode: string, refusal: Refusal) => void;
export type IdleOptions = {
  readonly now: Date;
  readonly closeAfter: number;
  /** Called for an episode that stays open, since the event that would close it is none. */
  readonly onRefused?: RefusalHandler;
};

/** Closes the episodes to which nothing was added for `closeAfter` seconds, whatever times their events name. Returns how many. */
export const closeIdle = (db: Db, log: EventLog, { now, closeAfter, onRefused }: IdleOptions): Promise<number> =>
  closeAll(
    db,
    log,
    { reason: 'idle', onRefused },
    sql`(${eventsOf().select(sql`max(recorded_at)`.as('last'))}) < ${now.toISOString()}::timestamptz - make_interval(secs => ${closeAfter})`,
  );

/** Closes the episodes all of whose events came from files: nobody adds to them until somebody imports again. Returns how many. */
export const closeImported = (db: Db, log: EventLog, onRefused?: RefusalHandler): Promise<number> =>
  closeAll(
    db,
    log,
    { reason: 'end of import', onRefused },
    sql`not exists (${eventsOf().select('id').where('source', 'not like', '/import/%').where('source', '<>', SOURCE)})`,
  );

const SOURCE = '/closing';

/** The events of the episode `e`. */
const eventsOf = () => query.selectFrom('troupe.events').where('key', '=', sql<string>`'e/' || e.episode_id`);

/** Episodes `e` after that id that are open and meet the condition. */
const open = (condition: Expression<SqlBool>, after: string) =>
  query
    .selectFrom('facts.episodes as e')
    .select(['e.episode_id', 'e.outcome', 'e.answer', 'e.final', 'e.exit_status', 'e.totals'])
    .select(sql<string | null>`to_char(e.last_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`.as('last_at'))
    .where(sql<SqlBool>`e.closed is not true`)
    .where('e.episode_id', '>', after)
    // An episode that is only known by feedback on it was never opened.
    .where(sql<SqlBool>`(e.started_version is not null or e.calls + e.messages + e.tool_calls > 0)`)
    .where(condition)
    .orderBy('e.episode_id')
    .limit(BATCH);

type Closing = { readonly reason: string; readonly onRefused?: RefusalHandler | undefined };

/** A sentence for people about an episode that stays open. */
export const staysOpen = (episode: string, { field, expected, got }: Refusal): string =>
  `Episode ${episode} stays open: ${field} of its end should be ${expected}, but it is ${got}.`;

async function closeAll(
  db: Db,
  log: EventLog,
  { reason, onRefused = () => {} }: Closing,
  condition: Expression<SqlBool>,
): Promise<number> {
  let closed = 0;
  let after = '';
  for (;;) {
    const rows = await rowsOf(db, open(condition, after));
    const answers = await log.append(rows.flatMap((row) => closingOf(row, reason, onRefused)));
    closed += answers.filter((answer) => answer === 'accepted').length;
    if (rows.length < BATCH) return closed;
    after = rows.at(-1)!.episode_id;
  }
}

/** The data of its producer at an earlier end still hold. */
function closingOf(
  { episode_id, last_at, outcome, answer, final, exit_status, totals }: InferResult<ReturnType<typeof open>>[number],
  reason: string,
  onRefused: RefusalHandler,
) {
  const { event, refusal } = decodeDraft({
    name: 'episode.finished',
    source: SOURCE,
    id: hashId('closing', episode_id, last_at),
    time: last_at,
    data: { episode_id, outcome: outcome ?? 'unknown', stop_reason: reason, answer, final, exit_status, totals },
  } as unknown as Draft);
  if (event) return [event];
  onRefused(episode_id, refusal);
  return [];
}
