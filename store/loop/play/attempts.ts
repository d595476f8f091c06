/**
 * Attempts: rows of the queue, one for each time that a team is asked to play a sample. An attempt is leased under a fencing token until a
 * deadline, both by the database's clock, and ends once; what its holder reports after it lost the attempt is kept as late and changes
 * nothing else. An attempt that failed is followed by another row, never leased again, so each has an episode of its own.
 */
import { notify } from '../../db/notifications.ts';
import type { Session } from '../../db/pool.ts';
import { anyOf, countOf, firstOf, query, rowsOf, type SqlBool, sql } from '../../db/query.ts';
import { below, playedIn } from './ids.ts';

/** Which sample of which group of its rollout, and which attempt at it; all from 0. A group is a task, or a place of a replay. */
export type AttemptSpec = {
  readonly rollout: string;
  readonly task: number;
  readonly sample: number;
  readonly attempt: number;
};

export type EpisodeOutcome = 'success' | 'failure' | 'error' | 'timeout' | 'aborted' | 'unknown';

/** How an attempt ended, as far as it is recorded with its episode. */
type AttemptResult = {
  /** RFC 3339. */
  readonly at: string;
  readonly outcome: EpisodeOutcome;
  readonly stop_reason: string;
  readonly answer: string | null;
  /** Null where nobody gave one. */
  readonly reward: number | null;
  /** The team closed the episode itself: its outcome and answer hold. */
  readonly closed_by_team?: boolean;
  /** It came after the attempt was lost. */
  readonly late?: boolean;
  /** Of a replay that reached its place: the step there, and how many calls the record answered. */
  readonly replay?: { readonly step_id: string | null; readonly calls: number };
};

/** Why an attempt failed. `stopped`: the process that ran it ended, which no team can help. `diverged`: a replay was none. */
export type AttemptErrorCode =
  | 'exit'
  | 'answer'
  | 'timeout'
  | 'deadline'
  | 'budget'
  | 'lost'
  | 'stopped'
  | 'reported'
  | 'nothing_recorded'
  | 'diverged'
  | 'no_reward'
  | 'reward_failed';
export type AttemptError = { readonly code: AttemptErrorCode; readonly message: string };

export type AttemptEnd = {
  readonly outcome: 'done' | 'failed';
  readonly result: AttemptResult;
  readonly error: AttemptError | null;
};

/** Outcomes of episodes whose attempts failed otherwise than by an error. */
const FAILED_AS: Partial<Record<AttemptErrorCode, EpisodeOutcome>> = {
  timeout: 'timeout',
  deadline: 'aborted',
  budget: 'aborted',
  lost: 'aborted',
  stopped: 'aborted',
};

/** How an attempt ends that failed. Pure. */
export const failedEnd = (error: AttemptError, at: string): AttemptEnd => ({
  outcome: 'failed',
  result: { at, outcome: FAILED_AS[error.code] ?? 'error', stop_reason: error.message, answer: null, reward: null },
  error,
});

export type AttemptRow = {
  readonly id: string;
  readonly spec: AttemptSpec;
  readonly state: 'waiting' | 'running' | 'finished';
  readonly outcome: 'done' | 'failed' | 'cancelled' | null;
  readonly result: AttemptResult | null;
  readonly error: AttemptError | null;
  /** RFC 3339 in UTC; null for one that was never leased. */
  readonly startedAt: string | null;
};

export type LeasedAttempt = {
  /** Also the id of its episode. */
  readonly id: string;
  readonly token: number;
  readonly spec: AttemptSpec;
  readonly startedAt: string;
  readonly deadlineAt: string;
  readonly secondsLeft: number;
};

/** The channel that says that attempts wait to be leased. */
export const ATTEMPTS_ADDED = 'troupe_attempts_added';
/** The channel that says that workers ended attempts. */
export const ATTEMPTS_ENDED = 'troupe_attempts';

const KIND = 'attempt/';
const kindOf = (runner: string): string => `${KIND}${runner}`;
/** Whether a row of the queue is an attempt; its job_id is then an episode. */
export const isAttempt = (kind: string): boolean => kind.startsWith(KIND);
/** The same as a condition over rows of the queue, for those that are none. */
export const isNoAttempt = sql<SqlBool>`kind not like ${sql.lit(`${KIND}%`)}`;

export const ofRollout = (rollout: string) =>
  sql<SqlBool>`${playedIn('job_id', rollout)} and spec ->> 'rollout' = ${rollout}`;
const CLOCK = sql<string>`clock_timestamp()`;
const inSeconds = (seconds: number) => sql<string>`clock_timestamp() + make_interval(secs => ${seconds}::float8)`;
const utc = (column: 'started_at' | 'deadline_at') =>
  sql<string | null>`to_char(${sql.ref(column)} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`;

const attemptRows = query
  .selectFrom('troupe.job_queue')
  .select(['job_id as id', 'spec', 'state', 'outcome', 'result', 'error', utc('started_at').as('startedAt')])
  .where('kind', 'like', `${KIND}%`);

/** Rows written by one statement. */
const BATCH = 1000;

/** Adds attempts that are not there yet, in this order. */
export async function addAttempts(
  db: Session,
  runner: string,
  attempts: readonly { readonly id: string; readonly spec: AttemptSpec }[],
): Promise<void> {
  for (let from = 0; from < attempts.length; from += BATCH) {
    const rows = attempts
      .slice(from, from + BATCH)
      .map(({ id, spec }) => ({ job_id: id, kind: kindOf(runner), spec: JSON.stringify(spec) }));
    await countOf(
      db,
      query
        .insertInto('troupe.job_queue')
        .values(rows)
        .onConflict((known) => known.doNothing()),
    );
  }
  if (attempts.length > 0) await notify(db, ATTEMPTS_ADDED);
}

/** All attempts of a rollout, or those at the sample whose first attempt has the id `first`, in the order of their ids. */
export async function attemptsOf(db: Pick<Session, 'query'>, rollout: string, first?: string): Promise<AttemptRow[]> {
  const rows = await rowsOf(
    db,
    attemptRows
      .where(ofRollout(rollout))
      .$if(first !== undefined, (all) =>
        all.where((row) => row.or([row('job_id', '=', first!), below('job_id', first!)])),
      )
      .orderBy('job_id'),
  );
  return rows as unknown as AttemptRow[];
}

/** Leases the first waiting attempts of a runner, at most `count`, in the order of their ids. */
export async function leaseAttempts(
  db: Session,
  {
    runner,
    of,
    count,
    leaseS,
    timeoutS,
  }: {
    readonly runner: string;
    /** Only of this rollout, with a token for whoever holds its job by it; or of any other than these. None of one that has ended. */
    readonly of: { readonly rollout: string; readonly token?: number } | { readonly except: readonly string[] };
    readonly count: number;
    readonly leaseS: number;
    readonly timeoutS: number;
  },
): Promise<LeasedAttempt[]> {
  const waiting = query
    .selectFrom('troupe.job_queue')
    .select('job_id')
    .where('kind', '=', kindOf(runner))
    .where('state', '=', 'waiting')
    .where('rollout' in of ? ofRollout(of.rollout) : sql<SqlBool>`spec ->> 'rollout' <> all(${of.except}::text[])`)
    .where((row) =>
      row.exists(
        row
          .selectFrom('troupe.job_queue as whole')
          .select('whole.job_id')
          .where(sql<SqlBool>`whole.job_id = troupe.job_queue.spec ->> 'rollout'`)
          .where('whole.state', '<>', 'finished')
          .$if('token' in of, (rows) => rows.where('whole.token', '=', (of as { readonly token: number }).token)),
      ),
    )
    .orderBy('requested_at')
    .orderBy('job_id')
    .limit(count)
    .forUpdate()
    .skipLocked();
  const rows = await rowsOf(
    db,
    query
      .updateTable('troupe.job_queue')
      .set((job) => ({
        state: 'running',
        worker: null,
        token: job('token', '+', 1),
        attempts: job('attempts', '+', 1),
        started_at: CLOCK,
        leased_until: inSeconds(leaseS),
        deadline_at: inSeconds(timeoutS),
      }))
      // An array, so that the rows are chosen and locked once.
      .where(sql<SqlBool>`job_id = any(array(${waiting}))`)
      .returning(['job_id as id', 'token', 'spec'])
      .returning([
        utc('started_at').as('startedAt'),
        utc('deadline_at').as('deadlineAt'),
        sql<number>`extract(epoch from deadline_at - clock_timestamp())::float8`.as('secondsLeft'),
      ]),
  );
  const leased = rows.map((row) => ({ ...row, token: Number(row.token) }) as unknown as LeasedAttempt);
  return leased.sort((a, b) => (a.id < b.id ? -1 : 1));
}

/** Renews a lease. Returns the seconds until the deadline; null for an attempt that is lost, that has ended, or is past its deadline. */
export async function beatAttempt(
  db: Session,
  { id, token }: Pick<LeasedAttempt, 'id' | 'token'>,
  leaseS: number,
): Promise<number | null> {
  const row = await firstOf(
    db,
    query
      .updateTable('troupe.job_queue')
      .set('leased_until', inSeconds(leaseS))
      .where('job_id', '=', id)
      .where('token', '=', token)
      .where('state', '=', 'running')
      .where('deadline_at', '>', CLOCK)
      .where('leased_until', '>', CLOCK)
      .returning(sql<number>`extract(epoch from deadline_at - clock_timestamp())::float8`.as('secondsLeft')),
  );
  return row?.secondsLeft ?? null;
}

/** Attempts by their ids, with the names of their runners; those that are not there are missing. */
export async function attemptsById(
  db: Pick<Session, 'query'>,
  ids: readonly string[],
): Promise<ReadonlyMap<string, AttemptRow & { readonly runner: string }>> {
  const rows = await rowsOf(db, attemptRows.select('kind').where('job_id', '=', anyOf(ids)));
  return new Map(
    (rows as unknown as readonly (AttemptRow & { readonly kind: string })[]).map(({ kind, ...row }) => [
      row.id,
      { ...row, runner: kind.slice(KIND.length) },
    ]),
  );
}

/** `accepted`: this ended the attempt. `late`: it was lost before; kept beside it. `duplicate`: it had ended by this token already. */
export type ReportVerdict = 'accepted' | 'late' | 'duplicate' | 'unknown';

/** Ends attempts, each once. Returns what became of each report, in the order given. */
export function endAttempts(
  db: Session & { transaction<T>(work: (tx: Session) => Promise<T>): Promise<T> },
  ended: readonly (Pick<LeasedAttempt, 'id' | 'token'> & { readonly end: AttemptEnd })[],
): Promise<ReportVerdict[]> {
  return db.transaction(async (tx) => {
    // All lock in the same order, so that two reports never wait for each other.
    const rows = await rowsOf(
      tx,
      query
        .selectFrom('troupe.job_queue')
        .select(['job_id', 'state', 'outcome', 'token', 'result', 'error'])
        .select(sql<boolean>`deadline_at < clock_timestamp() or leased_until < clock_timestamp()`.as('past'))
        .where('job_id', '=', anyOf(ended.map(({ id }) => id)))
        .orderBy('job_id')
        .forUpdate(),
    );
    const held = new Map(rows.map((row) => [row.job_id, row as unknown as AttemptState]));
    const written = new Map<string, AttemptOutcome>();
    const found = ended.map(({ id, token, end }): ReportVerdict => {
      const row = held.get(id);
      if (row === undefined) return 'unknown';
      const { accepted, values } = ending(row, token, end);
      if (values === null) return accepted;
      written.set(id, values);
      // A second report of the same attempt is compared with the first.
      held.set(id, { ...row, ...values, state: 'finished' });
      return accepted;
    });
    await writeEnds(tx, written);
    return found;
  });
}

/** What of a row decides how a report ends it. */
type AttemptState = Pick<AttemptRow, 'state' | 'outcome' | 'result' | 'error'> & {
  readonly token: string | number;
  readonly past: boolean | null;
};

type AttemptOutcome = Pick<AttemptEnd, 'outcome' | 'result' | 'error'>;

/** What becomes of a report, and what is written of it; null: nothing. Pure. */
function ending(
  row: AttemptState,
  token: number,
  { outcome, result, error }: AttemptEnd,
): { readonly accepted: Exclude<ReportVerdict, 'unknown'>; readonly values: AttemptOutcome | null } {
  if (Number(row.token) !== token) return { accepted: 'late', values: null };
  if (row.state === 'running' && (outcome === 'failed' || row.past !== true))
    return { accepted: 'accepted', values: { outcome, result, error } };
  if (row.state === 'finished' && (row.outcome === 'done' || row.result?.late === true))
    return { accepted: 'duplicate', values: null };
  const lost = row.error ?? { code: 'lost' as const, message: LOST };
  return { accepted: 'late', values: { outcome: 'failed', result: { ...result, late: true }, error: lost } };
}

async function writeEnds(tx: Session, written: ReadonlyMap<string, AttemptOutcome>): Promise<void> {
  if (written.size === 0) return;
  const column = (of: (values: AttemptOutcome) => string | null) => [...written.values()].map(of);
  await countOf(
    tx,
    query
      .updateTable('troupe.job_queue as q')
      .from(
        sql<{
          id: string;
          outcome: string;
          result: string;
          error: string;
        }>`unnest(${[...written.keys()]}::text[], ${column(
          ({ outcome }) => outcome,
        )}::text[], ${column(({ result }) => JSON.stringify(result))}::text[], ${column(({ error }) =>
          JSON.stringify(error),
        )}::text[])`.as<'e'>(sql`e (id, outcome, result, error)`),
      )
      .set({
        state: 'finished',
        outcome: sql`e.outcome`,
        result: sql`e.result::json`,
        error: sql`e.error::json`,
        leased_until: null,
      })
      .whereRef('q.job_id', '=', 'e.id'),
  );
}

const LOST = 'Its holder gave no sign of life until its lease or its deadline ended.';

/** Fails the attempts of a rollout that are past their lease or deadline; with `all`, every one that runs. Returns how many. */
export const failLost = (
  db: Session,
  rollout: string,
  { at, all = null }: { readonly at: string; readonly all?: AttemptError | null },
): Promise<number> =>
  countOf(
    db,
    failed(rollout, at, all ?? { code: 'lost', message: LOST })
      .where('state', '=', 'running')
      .$if(all === null, (rows) =>
        rows.where((row) => row.or([row('leased_until', '<', CLOCK), row('deadline_at', '<', CLOCK)])),
      ),
  );

/** Ends the attempts of a rollout that nobody leased, with the reason. Returns how many. */
export const failWaiting = (
  db: Session,
  rollout: string,
  { at, error }: { readonly at: string; readonly error: AttemptError },
): Promise<number> => countOf(db, failed(rollout, at, error).where('state', '=', 'waiting'));

/** Forgets that a budget left samples out: none of them was begun. Returns how many; a rollout that goes on plays them. */
export const forgetLeftOut = (db: Session, rollout: string): Promise<number> =>
  countOf(
    db,
    query
      .deleteFrom('troupe.job_queue')
      .where(ofRollout(rollout))
      .where('state', '=', 'finished')
      .where(sql<SqlBool>`error ->> 'code' = 'budget'`),
  );

/** Sets attempts of a rollout to failed; the caller says which. */
function failed(rollout: string, at: string, error: AttemptError) {
  const { result } = failedEnd(error, at);
  const values = { result: JSON.stringify(result), error: JSON.stringify(error) };
  return query
    .updateTable('troupe.job_queue')
    .set({ state: 'finished', outcome: 'failed', ...values, leased_until: null })
    .where(ofRollout(rollout));
}

/** Whether an attempt was broken off by the end of our own process. */
export const isLostByUs = (error: AttemptError | null): boolean => error?.code === 'stopped';

/** How far a rollout is. Samples that a budget left out were never attempted. */
export async function attemptCounts(db: Pick<Session, 'query'>, rollout: string) {
  const row = await firstOf(
    db,
    query
      .selectFrom('troupe.job_queue')
      .select([
        sql<number>`(count(*) filter (where state = 'waiting'))::integer`.as('waiting'),
        sql<number>`(count(*) filter (where state = 'running'))::integer`.as('running'),
        sql<number>`(count(*) filter (where outcome = 'done'))::integer`.as('done'),
        sql<number>`(count(*) filter (where outcome = 'failed' and coalesce(error ->> 'code', '') <> 'budget'))::integer`.as(
          'failed',
        ),
      ])
      .where(ofRollout(rollout)),
  );
  return row!;
}
