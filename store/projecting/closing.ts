/**
 * Episodes that nobody closes are closed here, with episode.finished at the time of their last event. Its id is made of the episode and
 * that time, so two workers that close it say the same thing, and it is closed again after a later event has opened it again.
 */
import { decodeDraft } from '../../ingest/decode.ts';
import type { Draft } from '../../ingest/events.ts';
import { hashId } from '../../ingest/json.ts';
import type { EventLog } from '../../ingest/log/log.ts';
import type { Db } from '../db/pool.ts';

/** Closed in one append. */
const BATCH = 500;

type Open = {
  readonly episode_id: string;
  readonly last_at: string | null;
  readonly outcome: string | null;
  readonly answer: string | null;
  readonly final: unknown;
  readonly exit_status: string | null;
  readonly totals: unknown;
};

/** Closes the episodes to which nothing was added for `closeAfter` seconds, whatever times their events name. Returns how many. */
export const closeIdle = (
  db: Db,
  log: EventLog,
  { now, closeAfter }: { readonly now: Date; readonly closeAfter: number },
): Promise<number> =>
  closeAll(
    db,
    log,
    'idle',
    `(select max(recorded_at) from troupe.events where key = 'e/' || e.episode_id) < $2::timestamptz - make_interval(secs => $3)`,
    [now.toISOString(), closeAfter],
  );

/** Closes the episodes all of whose events came from files: nobody adds to them until somebody imports again. Returns how many. */
export const closeImported = (db: Db, log: EventLog): Promise<number> =>
  closeAll(
    db,
    log,
    'end of import',
    `not exists (select from troupe.events where key = 'e/' || e.episode_id and source not like '/import/%' and source <> $2)`,
    [SOURCE],
  );

const SOURCE = '/closing';

async function closeAll(
  db: Db,
  log: EventLog,
  reason: string,
  condition: string,
  params: readonly unknown[],
): Promise<number> {
  let closed = 0;
  let after = '';
  for (;;) {
    // An episode that is only known by what was said about it was never opened. What its producer said at an earlier end still holds.
    const { rows } = await db.query<Open>(
      `select e.episode_id, to_char(e.last_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as last_at,
              e.outcome, e.answer, e.final, e.exit_status, e.totals
       from facts.episodes e
       where e.closed is not true and e.episode_id > $1 and (e.started_version is not null or e.calls + e.messages + e.tool_calls > 0)
         and ${condition}
       order by e.episode_id limit ${BATCH}`,
      [after, ...params],
    );
    const answers = await log.append(rows.flatMap((row) => closingOf(row, reason)));
    closed += answers.filter((answer) => answer === 'accepted').length;
    if (rows.length < BATCH) return closed;
    after = rows.at(-1)!.episode_id;
  }
}

function closingOf({ episode_id, last_at, outcome, answer, final, exit_status, totals }: Open, reason: string) {
  const { event } = decodeDraft({
    name: 'episode.finished',
    source: SOURCE,
    id: hashId('closing', episode_id, last_at),
    time: last_at,
    data: { episode_id, outcome: outcome ?? 'unknown', stop_reason: reason, answer, final, exit_status, totals },
  } as unknown as Draft);
  return event ? [event] : [];
}
