/**
 * From the log to the tables, exactly once in effect. A batch is applied in ONE transaction: the projected rows and the position,
 * under the lock of the positions it started from, so a second projector works on other partitions or finds nothing to do, and a dead
 * one leaves no trace.
 */
import { randomUUID } from 'node:crypto';
import { KEYED } from '../../ingest/log/keyed.ts';
import { EMBEDDED_LOG, LOG_CHANNEL, type Place } from '../../ingest/log/postgres.ts';
import { isTooMuch } from '../db/faults.ts';
import { onNotify } from '../db/notifications.ts';
import type { Db, Session } from '../db/pool.ts';
import { type ApplyOptions, applyBatch } from './apply.ts';
import { updateDerived, updateDerivedLater } from './derived-state.ts';
import { applyLateIn, LARGE, lateEvents, setAside } from './late.ts';
import { partitionShare } from './leases.ts';
import { ARCHIVE, FACTS, lockAllPartitions, lockPartitions, partitionsAmong, partitionsByKey } from './partitions.ts';
import { applyPending, applyPendingIn } from './pending-changes.ts';
import { lag, placesOf, positionsOf } from './positions.ts';
import { type PreparedBatch, prepare } from './prepare.ts';
import { type LogBatch, type LogEvent, type Portion, type Positions, partitionName, readBatch } from './read-batch.ts';

export type ProjectorOptions = ApplyOptions & {
  /** Schema that holds the tables; a rebuild names another. */
  readonly schema?: string;
  /** Name under which positions are kept. */
  readonly projection?: string;
  /** Events of one partition in a batch; all partitions with batch share a transaction. Of long traces more are taken at a time. */
  readonly perPartition?: number;
  /** The partitions of the embedded log to work on, as far as nobody else does; all of them, waited for, if omitted. */
  readonly share?: () => Promise<readonly number[]>;
  /** Called with the keys of a batch once it is applied, before its transaction ends. */
  readonly onKeys?: (keys: Iterable<string>) => void;
  /** Called at the same moment with the seconds since the oldest event of the batch was appended. */
  readonly onDelay?: (seconds: number) => void;
};

const PER_PARTITION = 500;

/** Applies one batch. Returns how many events it applied; 0 means that everything committed before the call is in the tables. */
export const projectBatch = async (db: Db, options: Omit<ProjectorOptions, 'share'> = {}): Promise<number> =>
  (await runBatch(db, options, { ...AT_ONCE, portion: wholePortion(options) })).applied;

/**
 * Settings of a transaction that applies a batch. A process that is stopped in the middle holds its locks: after so long the transaction
 * ends, and another goes on. Its commit does not wait for the disk: rows and positions are lost together or not at all, and are made
 * again from the log, whose own commits do wait; and whatever is committed on top of it, a judgement or a dataset, takes it to the disk.
 */
export const APPLYING = `set local idle_in_transaction_session_timeout = '8s'; set local synchronous_commit = off`;

/** The same inside a transaction of the caller, whose search_path is left at the schema. */
export async function projectBatchIn(tx: Session, options: Omit<ProjectorOptions, 'share'> = {}): Promise<number> {
  await tx.query(settingsOf(options));
  return (await applyNext(tx, options, { ...AT_ONCE, portion: wholePortion(options) })).applied;
}

const wholePortion = ({ perPartition = PER_PARTITION }: ProjectorOptions): Portion => ({
  perPartition,
  most: Number.MAX_SAFE_INTEGER,
  aside: Number.MAX_SAFE_INTEGER,
});

/** How many events a batch had, and whether its partitions may have held more when it was read. */
type AppliedBatch = { readonly applied: number; readonly more: boolean };

/** Where a batch is read from, and how far the partitions are applied that it has nothing of. */
type From = { readonly own: Positions; readonly all: Positions };

/** A batch that was read before its turn, and what was made of it. */
type Ahead = { readonly from: From; readonly batch: LogBatch; readonly prepared: PreparedBatch };

type BatchTurn = {
  readonly ahead: Ahead | null;
  /** Called before a batch is written: with the positions to read on from, null where nothing may follow, and how many events it has. */
  readonly onward: (from: From | null, events: number) => void;
};

/** The partitions of the embedded log to work on, null for all, and how much of them at a time. */
type Share = { readonly mine: readonly number[] | null; readonly portion: Portion };

const AT_ONCE = { ahead: null, onward: () => {}, mine: null } as const;

/** A batch that was too much is tried again as so small a part of it, and so on. */
const SMALLER = 16;

/**
 * Batches one after the other: while one is written, the next is read and prepared over another connection, where nothing is locked that
 * others wait for. A batch that was too much for its transaction is halved several times over; an event that is so alone is set aside.
 */
export function batches(db: Db, options: ProjectorOptions = {}): { readonly next: () => Promise<AppliedBatch> } {
  const { perPartition = PER_PARTITION } = options;
  let reading: Promise<Ahead | null> | null = null;
  let size = Number.MAX_SAFE_INTEGER;
  let held = 0;
  const portion = (): Portion => ({
    perPartition: Math.min(Math.max(1, size), perPartition),
    most: Math.max(1, size),
    aside: options.share === undefined ? Number.MAX_SAFE_INTEGER : size === 0 ? 0 : LARGE,
  });
  return {
    next: async () => {
      const mine = options.share === undefined ? null : await options.share();
      const ahead = await (reading ?? readNext(db, options, { mine, portion: portion() }));
      reading = null;
      const onward = (from: From | null, events: number) => {
        held = events;
        if (from !== null) reading = readAhead(db, options, { from, portion: portion() });
      };
      try {
        const batch = await runBatch(db, options, { ahead, onward, mine, portion: portion() });
        size = Math.min(Number.MAX_SAFE_INTEGER, 2 * Math.max(1, size));
        return batch;
      } catch (error) {
        if (isTooMuch(error)) size = held <= 1 ? 0 : Math.ceil(Math.min(size, held) / SMALLER);
        reading = null;
        throw error;
      }
    },
  };
}

async function runBatch(db: Db, options: ProjectorOptions, turn: BatchTurn & Share): Promise<AppliedBatch> {
  const settings = `${APPLYING}; ${settingsOf(options)}`;
  const batch = await db.transaction((tx) => applyNext(tx, options, turn), { settings });
  if (batch.applied > 0) await announce(db);
  return batch;
}

/** After the commit, in a statement of its own: commits that notify wait for one another. */
export async function announce(db: Session): Promise<void> {
  await db.query(`select pg_notify('${PROJECTED_CHANNEL}', '')`, [], { name: 'projected_notify' });
}

/** Never throws: what cannot be read or prepared now is so in its turn, where something can be done about it. */
async function readAhead(
  db: Db,
  options: ProjectorOptions,
  { from, portion }: { readonly from: From; readonly portion: Portion },
): Promise<Ahead | null> {
  const read = (tx: Session) => readFrom(tx, from, portion);
  return db.transaction(read, { settings: settingsOf(options) }).catch(() => null);
}

async function readFrom(tx: Session, from: From, portion: Portion): Promise<Ahead> {
  const batch = await readBatch(tx, from.own, portion);
  return { from, batch, prepared: await prepare(tx, batch.events, from.all) };
}

/** The same from where the tables are now, of partitions that nobody else holds. */
async function readNext(db: Db, options: ProjectorOptions, { mine, portion }: Share): Promise<Ahead | null> {
  const { projection = FACTS } = options;
  const read = async (tx: Session) => {
    const all = await positionsOf(tx, projection);
    const isOwn = ({ log, partition }: Place) =>
      projection !== FACTS || (log === EMBEDDED_LOG && (mine === null || mine.includes(partition)));
    const own = all.filter(isOwn);
    return readFrom(tx, { own, all: withOthers(own, all) }, portion);
  };
  return db.transaction(read, { settings: settingsOf(options) }).catch(() => null);
}

const settingsOf = ({ schema = FACTS }: ProjectorOptions): string =>
  `set local search_path = ${schema}, pg_catalog; ${KEYED}`;

/** Applies the next batch, of these partitions of the embedded log or, where it is null, of all. */
async function applyNext(
  tx: Session,
  options: ProjectorOptions,
  { ahead, onward, mine, portion }: BatchTurn & Share,
): Promise<AppliedBatch> {
  const { projection = FACTS } = options;
  const from = await lockPositions(tx, projection, mine);
  if (projection === FACTS && mine === null) {
    await applyLateIn(tx);
    while (await applyPendingIn(tx));
  }
  // Positions move by projecting alone, and nothing beyond them is changed: what was read from here still holds, but more may have come.
  const holds = ahead !== null && ahead.batch.events.length > 0 && samePositions(ahead.from.own, from.own);
  const usable = holds ? ahead : null;
  const batch = usable?.batch ?? (await readBatch(tx, from.own, portion));
  const { events, large } = batch;
  const taken = [...events, ...large];
  if (taken.length === 0) return { applied: 0, more: false };
  // Where there is a topic too, what is about one key may come by both.
  if (mine !== null) await lockForeignHomes(tx, events);
  const after = { own: movedBy(taken, from.own), all: movedBy(taken, from.all) };
  onward(batch.all ? null : after, events.length);
  await setAside(tx, large);
  const dead = await applyBatch(tx, events, {
    ...options,
    applied: from.all,
    prepared: usable?.prepared ?? null,
    updateDerived: mine === null ? updateDerived : updateDerivedLater,
  });
  await movePositions(tx, projection, { events: taken, dead });
  options.onKeys?.(new Set(events.map(({ key }) => key)));
  if (options.onDelay && events.length > 0) options.onDelay(await delayOf(tx, events));
  return { applied: taken.length, more: !batch.all };
}

/** Seconds since the oldest of these events was appended: the first of one of their partitions. */
async function delayOf(tx: Session, events: readonly LogEvent[]): Promise<number> {
  const firsts = new Map(events.toReversed().map((event) => [partitionName(event), event]));
  const column = (name: 'log' | 'partition' | 'position') => [...firsts.values()].map((first) => first[name]);
  const { rows } = await tx.query<{ seconds: number }>(
    `select extract(epoch from clock_timestamp() - min(e.recorded_at))::float8 as seconds
     from unnest($1::smallint[], $2::smallint[], $3::bigint[]) f (log, partition, position)
     join troupe.events e on e.log = f.log and e.partition = f.partition and e.position = f.position`,
    [column('log'), column('partition'), column('position')],
    { name: 'delay_of_batch' },
  );
  return rows[0]!.seconds;
}

/** These positions after these events. */
function movedBy(events: readonly Place[], positions: Positions): Positions {
  const after = new Map(positions.map((place) => [partitionName(place), place]));
  for (const event of events) {
    const { log, partition, position } = event;
    const before = after.get(partitionName(event))?.position ?? 0;
    after.set(partitionName(event), { log, partition, position: Math.max(before, position + 1) });
  }
  return [...after.values()];
}

async function lockForeignHomes(tx: Session, events: readonly LogEvent[]): Promise<void> {
  const partitions = partitionsAmong(new Set(events.map(({ key }) => key)), await partitionsByKey(tx));
  await lockPartitions(
    tx,
    partitions.filter(({ log }) => log !== EMBEDDED_LOG),
  );
}

/** Channel that is notified when the tables moved. */
export const PROJECTED_CHANNEL = 'troupe_projected';

/** Locks what the projection of the tables reads from the embedded log, or all that another projection reads. */
async function lockPositions(tx: Session, projection: string, mine: readonly number[] | null): Promise<From> {
  await tx.query(
    `insert into troupe.positions (projection, log, partition)
     select $1, ${EMBEDDED_LOG}, partition from troupe.log_partitions
     union all select $1, log, partition from troupe.positions where projection = '${ARCHIVE}' on conflict do nothing`,
    [projection],
    { name: 'positions_open' },
  );
  if (projection === FACTS && mine === null) await lockAllPartitions(tx);
  const { rows } = await tx.query<{ log: number; partition: number; position: number }>(
    `select log, partition, position from troupe.positions
     where projection = $1 and ($1 <> '${FACTS}' or log = ${EMBEDDED_LOG}) and ($2::smallint[] is null or partition = any($2::smallint[]))
     order by log, partition for update skip locked`,
    [projection, mine],
    { name: 'positions_lock' },
  );
  const own = placesOf(rows);
  return { own, all: withOthers(own, await positionsOf(tx, projection)) };
}

function withOthers(own: Positions, all: Positions): Positions {
  const mine = new Set(own.map(partitionName));
  return [...own, ...all.filter((place) => !mine.has(partitionName(place)))];
}

const samePositions = (a: Positions, b: Positions): boolean => {
  const places = new Map(b.map((place) => [partitionName(place), place.position]));
  return a.length === b.length && a.every((place) => places.get(partitionName(place)) === place.position);
};

type AppliedEvents = { readonly events: readonly Place[]; readonly dead: ReadonlySet<Place> };

/** Moves the positions behind these events, which were applied or became dead letters. */
export async function movePositions(tx: Session, projection: string, { events, dead }: AppliedEvents): Promise<void> {
  const next = new Map<string, Place & { applied: number; dead: number }>();
  for (const event of events) {
    const { log, partition, position } = event;
    const {
      applied,
      dead: buried,
      position: before,
    } = next.get(partitionName(event)) ?? { applied: 0, dead: 0, position: 0 };
    const died = dead.has(event) ? 1 : 0;
    next.set(partitionName(event), {
      log,
      partition,
      position: Math.max(before, position + 1),
      applied: applied + 1 - died,
      dead: buried + died,
    });
  }
  const column = (name: 'log' | 'partition' | 'position' | 'applied' | 'dead') =>
    [...next.values()].map((n) => n[name]);
  await tx.query(
    `update troupe.positions p set position = n.position, applied = p.applied + n.applied, dead = p.dead + n.dead
     from unnest($2::smallint[], $3::smallint[], $4::bigint[], $5::bigint[], $6::bigint[]) as n (log, partition, position, applied, dead)
     where p.projection = $1 and p.log = n.log and p.partition = n.partition`,
    [projection, ...(['log', 'partition', 'position', 'applied', 'dead'] as const).map(column)],
    { name: 'positions_move' },
  );
}

/** Applies everything that is in the log now. Returns how many events were applied, of which `onApplied` is told after each batch. */
export async function projectAll(
  db: Db,
  options: ProjectorOptions & { readonly onApplied?: (events: number) => void } = {},
): Promise<number> {
  // A projector without work does not wait for others.
  if (options.projection === undefined && (await lag(db)) === 0 && !(await hasPending(db))) return 0;
  const { next } = batches(db, options);
  let total = 0;
  for (;;) {
    const { applied } = await next();
    if (applied === 0) return total;
    total += applied;
    options.onApplied?.(total);
  }
}

/** Something that the last batches left is not applied yet. */
async function hasPending(db: Session): Promise<boolean> {
  return (await db.query('select 1 from troupe.pending_changes limit 1', [], { name: 'has_pending' })).rows.length > 0;
}

export type RunOptions = {
  readonly signal: AbortSignal;
  /** Called with errors that are waited out: an unreachable database, a lock that is held. */
  readonly onTrouble?: (error: unknown) => void;
  /** Called after each batch that was applied. */
  readonly onBatch?: OnBatch;
};

/** Takes how many events a batch had, with their keys and the seconds since the oldest was appended, and the seconds that it took. */
export type OnBatch = (
  batch: { readonly events: number; readonly keys: Iterable<string>; readonly delay: number },
  seconds: number,
) => void;

/** Partitions, and what is left to apply, of a projector that died are no batch. Three times as often as claims must be renewed. */
const POLL_MS = 1500;
/** Where nobody waits, after a batch so many times as long as it took is left for more to come, while it keeps coming, */
const GATHER = 4;
/** but no longer than this. */
const MOST_GATHER_MS = 200;
const MOST_REST_MS = 1000;

/**
 * Projects until stopped, waiting out what the environment fails at, and shares the partitions with all who do the same. Appends come in
 * bursts, and a batch of few events costs hardly less than one of many, so a batch waits 15 ms for company, also after one that left
 * nothing, and behind another one for up to 200 ms while more comes within 30 ms, unless somebody waits for the tables (`waitProjected`):
 * fewer transactions, and fewer episodes summed up twice. Where most of the work was mapping traces again of which a little more had
 * come, as much time is left to whatever else runs, up to a second: a trace that comes span by span, and that nobody waits for, never
 * takes more than half of a processor.
 */
export async function runProjector(
  db: Db,
  { signal, onTrouble = () => {}, onBatch = () => {} }: RunOptions,
): Promise<void> {
  let again = 0;
  let [gathersUntil, restsUntil] = [0, 0];
  const { claim, release } = partitionShare(randomUUID());
  const onReplayedSpans = (spans: number) => {
    again += spans;
  };
  let keys: Iterable<string> = [];
  const onKeys = (applied: Iterable<string>) => {
    keys = applied;
  };
  let delay = 0;
  const onDelay = (seconds: number) => {
    delay = seconds;
  };
  const { next } = batches(db, { share: () => claim(db), onReplayedSpans, onKeys, onDelay });
  const late = lateEvents();
  let applyingLate: Promise<void> | null = null;
  const applyLate = () => {
    applyingLate ??= late
      .next(db, { signal, onApplied: () => announce(db) })
      .catch(onTrouble)
      .finally(() => {
        applyingLate = null;
      });
  };
  const streamMs = () => gathersUntil - performance.now();
  const restMs = () => restsUntil - performance.now();
  await onNotify(db, LOG_CHANNEL, { signal, pollMs: POLL_MS, gatherMs: 15, streamMs, restMs, onTrouble }, async () => {
    again = 0;
    const start = performance.now();
    let applied = 0;
    for (let more = true; more && !signal.aborted; ) {
      const began = performance.now();
      const batch = await next();
      if (batch.applied > 0) onBatch({ events: batch.applied, keys, delay }, (performance.now() - began) / 1000);
      await applyPending(db);
      applyLate();
      applied += batch.applied;
      more = batch.more;
    }
    const now = performance.now();
    const took = now - start;
    gathersUntil = now + (applied > 0 ? Math.min(MOST_GATHER_MS, GATHER * took) : 0);
    restsUntil = now + (again > applied ? Math.min(MOST_REST_MS, took) : 0);
    return false;
  });
  await applyingLate;
  await release(db).catch(() => {});
}
