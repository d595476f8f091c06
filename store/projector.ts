/**
 * From the log to the tables, exactly once in effect. A batch is applied in ONE transaction: the projected rows and the position,
 * under the lock of the positions it started from, so a second projector waits or finds nothing to do, and a dead one leaves no trace.
 */
import type { EventName } from '../ingest/events.ts';
import { LOG_CHANNEL } from '../ingest/log/postgres.ts';
import { amended, type Stored } from './amend.ts';
import type { Db, Session } from './db/pool.ts';
import { rowsOf, TARGETS } from './projections/catalogue.ts';
import { type Effective, type Rows, versionOf } from './projections/projection.ts';
import { resolvePending } from './resolver.ts';
import { summarise } from './summaries.ts';
import { RowBuffer, remove, upsert } from './write-rows.ts';

export type ProjectorOptions = {
  /** Schema that holds the tables; a rebuild names another. */
  readonly schema?: string;
  /** Name under which positions are kept. */
  readonly projection?: string;
  /** Events of one partition in a batch; all partitions with news share a transaction. */
  readonly perPartition?: number;
};

/** The embedded log's name in `troupe.positions`. */
export const EMBEDDED = 'embedded';
const FACTS = 'facts';

type Read = Stored & { readonly partition: number; readonly position: number };

/** Applies one batch. Returns how many events it applied; 0 means that everything committed before the call is in the tables. */
export const projectBatch = (db: Db, options: ProjectorOptions = {}): Promise<number> =>
  db.transaction((tx) => projectBatchIn(tx, options));

/** The same inside a transaction of the caller, whose search_path is left at the schema. */
export async function projectBatchIn(tx: Session, options: ProjectorOptions = {}): Promise<number> {
  const { schema = FACTS, projection = FACTS, perPartition = 250 } = options;
  await tx.query(`set local search_path = ${schema}, pg_catalog`);
  await tx.query(
    `insert into troupe.positions (projection, log, partition)
     select $1, $2, partition from troupe.log_partitions on conflict do nothing`,
    [projection, EMBEDDED],
    { name: 'positions_open' },
  );
  await tx.query(
    'select 1 from troupe.positions where projection = $1 and log = $2 order by partition for update',
    [projection, EMBEDDED],
    { name: 'positions_lock' },
  );
  const { rows: events } = await tx.query<Read>(
    `select e.* from troupe.positions p
     cross join lateral (
       select key, source, id, name, time, data, partition, position from troupe.events e
       where e.partition = p.partition and e.position >= p.position order by e.position limit $3
     ) e
     where p.projection = $1 and p.log = $2 order by e.partition, e.position`,
    [projection, EMBEDDED, perPartition],
    { name: 'positions_read' },
  );
  if (events.length === 0) return 0;
  await applyEvents(tx, events);

  const next = new Map<number, { position: number; applied: number }>();
  for (const event of events) {
    const seen = next.get(event.partition);
    next.set(event.partition, { position: Number(event.position) + 1, applied: (seen?.applied ?? 0) + 1 });
  }
  await tx.query(
    `update troupe.positions p set position = n.position, applied = p.applied + n.applied
     from unnest($3::smallint[], $4::bigint[], $5::bigint[]) as n (partition, position, applied)
     where p.projection = $1 and p.log = $2 and p.partition = n.partition`,
    [
      projection,
      EMBEDDED,
      [...next.keys()],
      [...next.values()].map((n) => n.position),
      [...next.values()].map((n) => n.applied),
    ],
    { name: 'positions_move' },
  );
  await tx.query(`select pg_notify('${PROJECTED_CHANNEL}', '')`, [], { name: 'projected_notify' });
  return events.length;
}

/** Told on this channel when the tables moved. */
export const PROJECTED_CHANNEL = 'troupe_projected';

async function applyEvents(tx: Session, events: readonly Read[]): Promise<void> {
  const keys = [...new Set(events.map((event) => event.key))];
  const corrected = await keysWithAmendments(tx, keys);
  const buffer = new RowBuffer();
  const touched = new Map<string, number>();
  for (const event of events) {
    if (event.key.startsWith('e/')) touched.set(event.key.slice(2), Number(event.position));
    if (corrected.has(event.key)) continue;
    buffer.add(rowsOf(effective(event)));
  }
  for (const target of TARGETS) await upsert(tx, target, buffer.rowsFor(target));
  for (const key of corrected) await reproject(tx, key);
  await summarise(tx, touched);
  if (mayResolve(events)) await resolvePending(tx);
}

/** Only news of foreign feedback, responses or episodes can attach what waits. */
const RESOLVING: ReadonlySet<EventName> = new Set(['feedback.recorded', 'generation.completed', 'episode.started']);
const mayResolve = (events: readonly Read[]): boolean => events.some((event) => RESOLVING.has(event.name));

const effective = (event: Stored): Effective => ({ ...event, version: versionOf(event) }) as Effective;

async function keysWithAmendments(tx: Session, keys: readonly string[]): Promise<ReadonlySet<string>> {
  const { rows } = await tx.query<{ key: string }>(
    `select distinct key from troupe.events where name = 'record.amended' and key = any($1::text[])`,
    [keys],
    { name: 'amended_keys' },
  );
  return new Set(rows.map((row) => row.key));
}

/** A key with amendments is made anew from all its events: whatever the amended events said before is gone first. */
async function reproject(tx: Session, key: string): Promise<void> {
  const { rows: events } = await tx.query<Stored>(
    'select key, source, id, name, time, data from troupe.events where key = $1 order by position',
    [key],
  );
  const amendments = events.filter((event) => event.name === 'record.amended');
  const before = new RowBuffer();
  const after = new RowBuffer();
  const add = (buffer: RowBuffer, event: Stored): Rows => {
    const rows = rowsOf(effective(event));
    buffer.add(rows);
    return rows;
  };
  for (const event of events) {
    add(before, event);
    const now = amended(event, amendments);
    // Every prefix of the amendments may have been shown once; its rows must go as well.
    for (let n = 1; n < amendments.length; n++) {
      const then = amended(event, amendments.slice(0, n));
      if (then) add(before, then);
    }
    if (now) {
      add(before, now);
      add(after, now);
    }
  }
  for (const target of [...TARGETS].reverse()) await remove(tx, target, before.rowsFor(target));
  for (const target of TARGETS) await upsert(tx, target, after.rowsFor(target));
}

/** Applies everything that is in the log now. Returns how many events were applied. */
export async function projectAll(db: Db, options: ProjectorOptions = {}): Promise<number> {
  let total = 0;
  for (;;) {
    const applied = await projectBatch(db, options);
    if (applied === 0) return total;
    total += applied;
  }
}

/** Projects until stopped: woken by the log, and looking by itself every `pollMs` in case a wake-up was lost. */
export async function runProjector(
  db: Db,
  { signal, pollMs = 500 }: { readonly signal: AbortSignal; readonly pollMs?: number },
): Promise<void> {
  let wake: () => void = () => {};
  let news = true;
  const subscription = await db.listen(LOG_CHANNEL, () => {
    news = true;
    wake();
  });
  const stop = () => wake();
  signal.addEventListener('abort', stop);
  try {
    while (!signal.aborted) {
      news = false;
      await projectAll(db);
      if (news || signal.aborted) continue;
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, pollMs);
        wake = () => {
          clearTimeout(timer);
          resolve();
        };
        if (news || signal.aborted) wake();
      });
    }
  } finally {
    signal.removeEventListener('abort', stop);
    await subscription.close();
  }
}
