/**
 * Events that would hold the others up: one of 8 MB with 700,000 members takes seconds to read and to write, and the 21 of them that once met in
 * one batch took minutes. The projector moves on past them and names them in `troupe.pending_changes`; beside it they are applied one at a
 * time, read before any lock is taken. The order in which events of a key are applied does not matter to the tables. What fails by its size
 * alone is tried with more time, and becomes a dead letter after that.
 */
import { encodeEnvelope } from '../../ingest/events/decode.ts';
import { KEYED } from '../../ingest/log/keyed.ts';
import type { Place } from '../../ingest/log/postgres.ts';
import { isTooMuch } from '../db/faults.ts';
import type { Db, Session } from '../db/pool.ts';
import { applyBatch, bury, placeText } from './apply.ts';
import { updateDerived, updateDerivedLater } from './derived-state.ts';
import { FACTS, lockPartitions, partitionLabel, partitionsAmong, partitionsByKey } from './partitions.ts';
import { applyPending } from './pending-changes.ts';
import { positionsOf } from './positions.ts';
import { type PreparedBatch, prepare } from './prepare.ts';
import { eventOf, type KeyedPlace, type LogEvent, partitionName, storedRow } from './read-batch.ts';
import { withTexts } from './stored-texts.ts';

/** Bytes, as they are stored, from which on an event is set aside. */
export const LARGE = 512 * 1024;
/** The same of an event that is not stored yet, in characters of its JSON. */
export const LARGE_TEXT = 4 * LARGE;

/** How long the transaction that applies one may be idle, at each try. */
const PATIENCE_S = [8, 60, 300] as const;

export const nameOf = (place: Place): string => `${partitionName(place)}/${place.position}`;

function placeOf(name: string): Place {
  const [log, partition, position] = name.split('/').map(Number) as [number, number, number];
  return { log, partition, position };
}

/** Leaves these events to {@link lateEvents}. They count as applied from here on. */
export async function setAside(tx: Session, events: readonly KeyedPlace[]): Promise<void> {
  if (events.length === 0) return;
  const what = events.map((event) => JSON.stringify({ late: nameOf(event) }));
  await tx.query('insert into troupe.pending_changes (what) select unnest($1::json[])', [what], { name: 'set_aside' });
}

type Ahead = { readonly event: LogEvent; readonly prepared: PreparedBatch | null; readonly version: string };

export type LateOptions = {
  readonly signal: AbortSignal;
  /** Called after each commit. */
  readonly onApplied?: () => Promise<void>;
};

/** Applies what was set aside, one event after the other, until nothing is left or the signal fires. */
export function lateEvents(): { readonly next: (db: Db, options: LateOptions) => Promise<void> } {
  const tries = new Map<string, number>();
  return {
    next: async (db, { signal, onApplied = async () => {} }) => {
      for (const name of await waiting(db)) {
        if (signal.aborted) return;
        const tried = tries.get(name) ?? 0;
        try {
          await applyOne(db, placeOf(name), PATIENCE_S[tried]!);
          tries.delete(name);
          await applyPending(db);
          await onApplied();
        } catch (error) {
          if (!isTooMuch(error)) throw error;
          tries.set(name, tried + 1);
          if (tried + 1 < PATIENCE_S.length) continue;
          tries.delete(name);
          await db.transaction((tx) => park(tx, placeOf(name), error as Error));
        }
      }
    },
  };
}

/** Applies all of it inside a transaction of the caller, which holds the locks of all keys and whose search_path names the schema. */
export async function applyLateIn(tx: Session): Promise<void> {
  for (const name of await waiting(tx)) {
    const place = placeOf(name);
    if (!(await take(tx, place))) continue;
    const ahead = await read(tx, place);
    if (ahead !== null) await apply(tx, ahead.event, { prepared: null, updateDerived });
  }
}

async function waiting(db: Session): Promise<readonly string[]> {
  const { rows } = await db.query<{ name: string }>(
    `select what->>'late' as name from troupe.pending_changes where what->>'late' is not null order by 1`,
    [],
    { name: 'late_waiting' },
  );
  return rows.map(({ name }) => name);
}

const READING = `set local search_path = ${FACTS}, pg_catalog; ${KEYED}`;

async function applyOne(db: Db, place: Place, patience: number): Promise<void> {
  const ahead = await db.transaction(
    async (tx) => {
      const found = await read(tx, place);
      // A trace is mapped whole when it is applied.
      if (found === null || found.event.name === 'span.recorded') return found;
      return { ...found, prepared: await prepare(tx, [found.event], null).catch(() => null) };
    },
    { settings: READING },
  );
  const idle = `set local idle_in_transaction_session_timeout = '${patience}s'; set local synchronous_commit = off`;
  await db.transaction((tx) => applyAhead(tx, place, ahead), { settings: `${READING}; ${idle}` });
}

async function applyAhead(tx: Session, place: Place, ahead: Ahead | null): Promise<void> {
  if (!(await take(tx, place)) || ahead === null) return;
  const { log, partition } = place;
  const partitions = partitionsAmong([ahead.event.key], await partitionsByKey(tx));
  await lockPartitions(
    tx,
    partitions.some((own) => partitionLabel(own) === partitionLabel(place))
      ? partitions
      : [...partitions, { log, partition }],
  );
  // An erasure may have scrubbed it, or retention removed it, since it was read.
  const same = (await versionOf(tx, place)) === ahead.version;
  const now = same ? ahead : await read(tx, place);
  if (now !== null)
    await apply(tx, now.event, { prepared: same ? ahead.prepared : null, updateDerived: updateDerivedLater });
}

async function apply(
  tx: Session,
  event: LogEvent,
  how: { readonly prepared: PreparedBatch | null; readonly updateDerived: typeof updateDerived },
): Promise<void> {
  const applied = await positionsOf(tx, FACTS);
  const dead = await applyBatch(tx, [event], { applied, ...how, late: true });
  if (dead.size > 0) await countDead(tx, event);
}

/** Takes its name off the list; false where somebody else has done so. */
async function take(tx: Session, place: Place): Promise<boolean> {
  const { count } = await tx.query(
    `delete from troupe.pending_changes where ctid = any(array(select ctid from troupe.pending_changes where what->>'late' = $1 for update skip locked))`,
    [nameOf(place)],
    { name: 'late_take' },
  );
  return count > 0;
}

async function park(tx: Session, place: Place, { message }: Error): Promise<void> {
  if (!(await take(tx, place))) return;
  const found = await read(tx, place);
  if (found === null) return;
  const { event } = found;
  await bury(tx, await placeText(tx, event), encodeEnvelope(event), {
    code: 'too_large',
    field: 'data',
    expected: `an event that is written within ${PATIENCE_S.at(-1)} s`,
    got: message,
  });
  await countDead(tx, event);
}

async function countDead(tx: Session, { log, partition }: Place): Promise<void> {
  await tx.query(
    `update troupe.positions set dead = dead + 1, applied = applied - 1 where projection = '${FACTS}' and log = $1 and partition = $2`,
    [log, partition],
    { name: 'late_dead' },
  );
}

const AT = 'from troupe.stored_events e where e.log = $1 and e.partition = $2 and e.position = $3';
const paramsOf = ({ log, partition, position }: Place): unknown[] => [log, partition, position];

/** Null where the event has left the log. */
async function read(tx: Session, place: Place): Promise<Ahead | null> {
  const { rows } = await tx.query<Record<string, string | null>>(
    `select key, source, id, name, time::text as time, data::text as data, log::text as log, partition::text as partition, position::text as position,
            type_version::text as type_version, '0' as until, xmin::text || '.' || ctid::text as version ${AT}`,
    paramsOf(place),
    { name: 'late_read' },
  );
  const [row] = rows;
  if (row === undefined) return null;
  const { version, ...columns } = row;
  const [whole] = await withTexts(tx, [[storedRow(Object.values(columns))]], { most: 0, inAll: 0 });
  const [stored] = whole!;
  return { event: eventOf({ ...stored!, data: stored!.data! }), prepared: null, version: version! };
}

async function versionOf(tx: Session, place: Place): Promise<string | null> {
  const { rows } = await tx.query<{ version: string }>(
    `select xmin::text || '.' || ctid::text as version ${AT}`,
    paramsOf(place),
    { name: 'late_version' },
  );
  return rows[0]?.version ?? null;
}
