/**
 * From the log to the tables, exactly once in effect. A batch is applied in ONE transaction: the projected rows and the position,
 * under the lock of the positions it started from, so a second projector waits or finds nothing to do, and a dead one leaves no trace.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { KEYED } from '../../ingest/log/keyed.ts';
import { LOG_CHANNEL } from '../../ingest/log/postgres.ts';
import { onNews } from '../db/news.ts';
import type { Db, Session } from '../db/pool.ts';
import { type ApplyOptions, applyOrBury } from './apply.ts';
import { type Prepared, prepare } from './prepare.ts';
import { EMBEDDED, type News, type Positions, type Read, readNews } from './read-news.ts';

export type ProjectorOptions = ApplyOptions & {
  /** Schema that holds the tables; a rebuild names another. */
  readonly schema?: string;
  /** Name under which positions are kept. */
  readonly projection?: string;
  /** Events of one partition in a batch; all partitions with news share a transaction. Of long traces more are taken at a time. */
  readonly perPartition?: number;
};

const FACTS = 'facts';
const PER_PARTITION = 500;

/** Applies one batch. Returns how many events it applied; 0 means that everything committed before the call is in the tables. */
export const projectBatch = (db: Db, options: ProjectorOptions = {}): Promise<number> =>
  db.transaction((tx) => applyNext(tx, options, null, () => {}), { settings: `${APPLYING}; ${settingsOf(options)}` });

/**
 * Settings of a transaction that applies a batch. A process that is stopped in the middle holds its locks: after so long the transaction
 * ends, and another goes on. Its commit does not wait for the disk: rows and positions are lost together or not at all, and are made
 * again from the log, whose own commits do wait; and whatever is committed on top of it, a judgement or a dataset, takes it to the disk.
 */
export const APPLYING = `set local idle_in_transaction_session_timeout = '8s'; set local synchronous_commit = off`;

/** The same inside a transaction of the caller, whose search_path is left at the schema. */
export async function projectBatchIn(tx: Session, options: ProjectorOptions = {}): Promise<number> {
  await tx.query(settingsOf(options));
  return applyNext(tx, options, null, () => {});
}

/**
 * Events that this transaction appended become rows without being read again, where the tables hold all that lies before them in their
 * partitions. Where they do not, nothing is done here: `projectBatchIn` takes them in their turn. The search_path is left at the schema.
 */
export async function projectAppendedIn(
  tx: Session,
  events: readonly Read[],
  prepared: Prepared | null,
): Promise<void> {
  await tx.query(settingsOf({}));
  const positions = await lockPositions(tx, FACTS);
  const firsts = new Map<number, number>();
  for (const { partition, position } of events) if (!firsts.has(partition)) firsts.set(partition, position);
  if (events.length === 0 || [...firsts].some(([partition, first]) => positions.get(partition) !== first)) return;
  await applyAndMove(tx, { events, prepared }, {});
}

/** A batch that was read before its turn, from these positions on, and what was made of it. */
type Ahead = { readonly from: Positions; readonly news: News; readonly prepared: Prepared };

/** Batches one after the other: while one is written, the next is read and prepared over another connection. */
export function batches(db: Db, options: ProjectorOptions = {}): { readonly next: () => Promise<number> } {
  let reading: Promise<Ahead | null> | null = null;
  return {
    next: async () => {
      const ahead = await reading;
      reading = null;
      const onward = (positions: Positions) => {
        reading = readAhead(db, options, positions);
      };
      const settings = `${APPLYING}; ${settingsOf(options)}`;
      return db.transaction((tx) => applyNext(tx, options, ahead, onward), { settings });
    },
  };
}

/** A batch larger than this is not read before its turn: two of them would be held. */
const MOST_AHEAD_BYTES = 32 * 1024 * 1024;

/** Never throws: what cannot be read or prepared now is so in its turn, where something can be done about it. */
async function readAhead(db: Db, options: ProjectorOptions, from: Positions): Promise<Ahead | null> {
  const read = async (tx: Session): Promise<Ahead> => {
    const news = await readNews(tx, from, options.perPartition ?? PER_PARTITION);
    return { from, news, prepared: await prepare(tx, news.events) };
  };
  return db.transaction(read, { settings: settingsOf(options) }).catch(() => null);
}

const settingsOf = ({ schema = FACTS }: ProjectorOptions): string =>
  `set local search_path = ${schema}, pg_catalog; ${KEYED}`;

/** Applies the next batch; where more waits, `onward` is told from where, before the batch is written. */
async function applyNext(
  tx: Session,
  options: ProjectorOptions,
  ahead: Ahead | null,
  onward: (positions: Positions) => void,
): Promise<number> {
  const { projection = FACTS, perPartition = PER_PARTITION } = options;
  const positions = await lockPositions(tx, projection);
  // Positions move by projecting alone, and nothing beyond them is changed: what was read from here still holds, but more may have come.
  const holds = ahead !== null && ahead.news.events.length > 0 && samePositions(ahead.from, positions);
  const usable = holds ? ahead : null;
  const news = usable?.news ?? (await readNews(tx, positions, perPartition));
  const { events } = news;
  if (events.length === 0) return 0;
  const after = new Map(positions);
  for (const { partition, position } of events) after.set(partition, position + 1);
  if (!news.all && news.bytes < MOST_AHEAD_BYTES) onward(after);
  await applyAndMove(tx, { events, prepared: usable?.prepared ?? null }, options);
  return events.length;
}

type Next = { readonly events: readonly Read[]; readonly prepared: Prepared | null };

/** Applies what comes next after the positions, which the transaction has locked, and moves them. */
async function applyAndMove(tx: Session, { events, prepared }: Next, options: ProjectorOptions): Promise<void> {
  const dead = await applyOrBury(tx, events, { ...options, prepared });
  await movePositions(tx, options.projection ?? FACTS, { events, dead });
  await tx.query(`select pg_notify('${PROJECTED_CHANNEL}', '')`, [], { name: 'projected_notify' });
}

/** Told on this channel when the tables moved. */
export const PROJECTED_CHANNEL = 'troupe_projected';

async function lockPositions(tx: Session, projection: string): Promise<Positions> {
  await tx.query(
    `insert into troupe.positions (projection, log, partition)
     select $1, $2, partition from troupe.log_partitions on conflict do nothing`,
    [projection, EMBEDDED],
    { name: 'positions_open' },
  );
  const { rows } = await tx.query<{ partition: number; position: number }>(
    'select partition, position from troupe.positions where projection = $1 and log = $2 order by partition for update',
    [projection, EMBEDDED],
    { name: 'positions_lock' },
  );
  return new Map(rows.map(({ partition, position }) => [partition, Number(position)]));
}

const samePositions = (a: Positions, b: Positions): boolean =>
  a.size === b.size && [...a].every(([partition, position]) => b.get(partition) === position);

type Applied = { readonly events: readonly Read[]; readonly dead: ReadonlySet<Read> };

async function movePositions(tx: Session, projection: string, { events, dead }: Applied): Promise<void> {
  const next = new Map<number, { position: number; applied: number; dead: number }>();
  for (const event of events) {
    const { applied, dead: buried } = next.get(event.partition) ?? { applied: 0, dead: 0 };
    const died = dead.has(event) ? 1 : 0;
    next.set(event.partition, { position: event.position + 1, applied: applied + 1 - died, dead: buried + died });
  }
  await tx.query(
    `update troupe.positions p set position = n.position, applied = p.applied + n.applied, dead = p.dead + n.dead
     from unnest($3::smallint[], $4::bigint[], $5::bigint[], $6::bigint[]) as n (partition, position, applied, dead)
     where p.projection = $1 and p.log = $2 and p.partition = n.partition`,
    [
      projection,
      EMBEDDED,
      [...next.keys()],
      [...next.values()].map((n) => n.position),
      [...next.values()].map((n) => n.applied),
      [...next.values()].map((n) => n.dead),
    ],
    { name: 'positions_move' },
  );
}

/** Applies everything that is in the log now. Returns how many events were applied. */
export async function projectAll(db: Db, options: ProjectorOptions = {}): Promise<number> {
  const { next } = batches(db, options);
  let total = 0;
  for (;;) {
    const applied = await next();
    if (applied === 0) return total;
    total += applied;
  }
}

export type RunOptions = {
  readonly signal: AbortSignal;
  /** Told of trouble that is waited out: a database that is away, a lock that is held. */
  readonly onTrouble?: (error: unknown) => void;
};

const MOST_REST_MS = 1000;

/**
 * Projects until stopped, waiting out what the environment fails at. Appends come in bursts, so a batch waits 15 ms for company: fewer
 * transactions, fewer flushes. Where most of the work was telling traces again of which a little more had come, as much time is
 * left to whatever else runs, up to a second: a trace that comes span by span never takes more than half of a processor.
 */
export function runProjector(db: Db, { signal, onTrouble = () => {} }: RunOptions): Promise<void> {
  let rest = 0;
  return onNews(db, LOG_CHANNEL, { signal, gatherMs: 15, onTrouble }, async () => {
    if (rest > 0) await sleep(rest, undefined, { signal }).catch(() => {});
    let again = 0;
    const start = performance.now();
    const applied = await projectAll(db, { onToldAgain: (spans) => (again += spans) });
    rest = again > applied ? Math.min(MOST_REST_MS, performance.now() - start) : 0;
    return false;
  });
}
