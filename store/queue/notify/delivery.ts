/**
 * Notifies receivers. A receiver is a row of the queue, of kind `notify`, that stays there: its result is how far it was notified.
 * It is written after each message, so a message whose sender died is sent again, and the id in it is the same. Of several processes
 * one at a time sends to a receiver.
 */
import { TroupeError } from '../../../errors.ts';
import { hashId } from '../../../ingest/events/json.ts';
import type { Place } from '../../../ingest/log/postgres.ts';
import type { Db } from '../../db/pool.ts';
import { countOf, firstOf, query, rowsOf, type SqlBool, sql } from '../../db/query.ts';
import { logEnds } from '../../projecting/positions.ts';
import type { Positions } from '../../projecting/read-batch.ts';
import { type Happening, type HappeningName, happeningsSince, WINDOW } from './happenings.ts';

const KIND = 'notify';
/** How long a process that died keeps others from sending; longer than a message may take. */
const LEASE = sql<string>`clock_timestamp() + interval '60 seconds'`;
/** Before the second attempt; doubled for each further one. */
const FIRST_WAIT_MS = 5000;
const LONGEST_WAIT_MS = 300_000;
/** What could not be sent for so long is given up. */
const OLDEST_MS = 3 * 86_400_000;
/** The log is read again from there on as long as it grew by less; the row is not written for each event. */
const WRITTEN_AFTER = 2500;

type Message = Omit<Happening, 'event'> & { readonly event: HappeningName | 'test'; readonly project: string };

export type Receiver = {
  readonly name: string;
  readonly on: readonly HappeningName[];
  /** Throws where it did not arrive, with a sentence that holds no secret. */
  readonly send: (message: Message) => Promise<void>;
};

/** The receiver got the message and refuses it for what it says: the next one may arrive all the same. */
export class Refused extends Error {}
/** Attempts after which a message that is refused is given up. */
const MOST_REFUSALS = 3;

export type ReceiverState = {
  readonly positions: Positions;
  readonly sent: number;
  readonly last_sent_at: string | null;
  /** Messages that were too old once they could be sent, and those that the receiver refused. */
  readonly given_up: number;
  /** Why the next message did not arrive; null where it is not tried again. */
  readonly failing: {
    readonly since: string;
    readonly attempts: number;
    readonly next_at: string;
    readonly error: string;
  } | null;
};

export type DeliveryOptions = {
  readonly project: string;
  readonly now: () => Date;
  /** Ends after the message that is being sent. */
  readonly signal?: AbortSignal;
  /** Called with a sentence on what did not arrive. */
  readonly onTrouble?: (sentence: string) => void;
};

const rowId = (name: string): string => `${KIND}/${name}`;

/** How far each receiver that ever was configured was notified, by name. */
export async function receiverStates(db: Db): Promise<(ReceiverState & { readonly name: string })[]> {
  const rows = await rowsOf(
    db,
    query.selectFrom('troupe.job_queue').select(['job_id', 'result']).where('kind', '=', KIND).orderBy('job_id'),
  );
  return rows.map(({ job_id, result }) => ({ name: job_id.slice(rowId('').length), ...(result as ReceiverState) }));
}

/**
 * Sends a receiver the notifications it did not get yet. A new receiver gets those from now on.
 * @returns whether the log has more to read at once
 */
export async function deliver(db: Db, receiver: Receiver, options: DeliveryOptions): Promise<boolean> {
  const { now, signal, project, onTrouble = () => {} } = options;
  const row = query
    .selectFrom('troupe.job_queue')
    .select(['result', 'token'])
    .where('job_id', '=', rowId(receiver.name));
  const found = await firstOf(db, row);
  if (found === undefined) {
    await begin(db, receiver.name);
    return false;
  }
  let state = found.result as ReceiverState;
  let token = Number(found.token);
  if (state.failing !== null && Date.parse(state.failing.next_at) > now().getTime()) return false;
  const { happenings, until, read } = await happeningsSince(db, state.positions);
  const wanted = happenings.filter(({ event }) => receiver.on.includes(event));
  if (wanted.length === 0 && read < WRITTEN_AFTER) return false;

  const save = async (after: ReceiverState, leased: boolean): Promise<boolean> => {
    const moved = await countOf(
      db,
      query
        .updateTable('troupe.job_queue')
        .set({
          result: JSON.stringify(after),
          token: sql<number>`token + 1`,
          leased_until: leased ? LEASE : null,
        })
        .where('job_id', '=', rowId(receiver.name))
        .where('token', '=', token),
    );
    state = after;
    token += 1;
    return moved === 1;
  };
  if (!(await claim(db, receiver.name, token))) return false;
  token += 1;
  for (const { place, ...happening } of wanted) {
    if (signal?.aborted) {
      await save(state, false);
      return false;
    }
    const after = { ...state, positions: moved(state.positions, place), failing: null };
    const at = now();
    if (happening.at !== null && at.getTime() - Date.parse(happening.at) > OLDEST_MS) {
      onTrouble(`${happening.event} of ${happening.at} is too old for ${receiver.name} and was given up.`);
      if (!(await save({ ...after, given_up: state.given_up + 1 }, true))) return false;
      continue;
    }
    try {
      await receiver.send({ ...happening, project });
    } catch (error) {
      const failing = failed(state.failing, error, now());
      if (error instanceof Refused && failing.attempts >= MOST_REFUSALS) {
        onTrouble(
          `${receiver.name} refuses ${happening.event} of ${happening.at}, which was given up: ${failing.error}`,
        );
        if (!(await save({ ...after, given_up: state.given_up + 1 }, true))) return false;
        continue;
      }
      onTrouble(
        `${receiver.name} was not notified of ${happening.event}: ${failing.error} Next attempt: ${failing.next_at}`,
      );
      await save({ ...state, failing }, false);
      return false;
    }
    if (!(await save({ ...after, sent: state.sent + 1, last_sent_at: now().toISOString() }, true))) return false;
  }
  return (await save({ ...state, positions: until, failing: null }, false)) && read >= WINDOW;
}

/** Sends one message of event `test`. @throws TroupeError `upstream_failed` with why it did not arrive */
export async function sendTest(
  { name, send }: Pick<Receiver, 'name' | 'send'>,
  { project, now }: Pick<DeliveryOptions, 'project' | 'now'>,
): Promise<void> {
  const at = now().toISOString();
  const nothing = { run: null, schedule: null, report: null };
  try {
    await send({ ...nothing, id: hashId('notify', name, at), event: 'test', project, reason: 'a test message', at });
  } catch (cause) {
    throw new TroupeError('upstream_failed', `${name} did not get the test message: ${(cause as Error).message}`, {
      cause,
    });
  }
}

async function begin(db: Db, name: string): Promise<void> {
  const positions = await logEnds(db);
  const state: ReceiverState = { positions, sent: 0, last_sent_at: null, given_up: 0, failing: null };
  const row = { job_id: rowId(name), kind: KIND, spec: '{}', result: JSON.stringify(state) };
  await countOf(
    db,
    query
      .insertInto('troupe.job_queue')
      .values(row)
      .onConflict((conflict) => conflict.doNothing()),
  );
}

/** False where another process sends, or has sent since the row was read. */
async function claim(db: Db, name: string, token: number): Promise<boolean> {
  const claimed = await countOf(
    db,
    query
      .updateTable('troupe.job_queue')
      .set({ leased_until: LEASE, token: sql<number>`token + 1` })
      .where('job_id', '=', rowId(name))
      .where('token', '=', token)
      .where(sql<SqlBool>`(leased_until is null or leased_until < clock_timestamp())`),
  );
  return claimed === 1;
}

const moved = (positions: Positions, { log, partition, position }: Place): Positions => [
  ...positions.filter((one) => one.log !== log || one.partition !== partition),
  { log, partition, position: position + 1 },
];

function failed(before: ReceiverState['failing'], error: unknown, now: Date): NonNullable<ReceiverState['failing']> {
  const attempts = (before?.attempts ?? 0) + 1;
  const wait = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** (attempts - 1));
  return {
    since: before?.since ?? now.toISOString(),
    attempts,
    next_at: new Date(now.getTime() + wait).toISOString(),
    error: (error instanceof Error ? error.message : String(error)).slice(0, 500),
  };
}
