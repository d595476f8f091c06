/**
 * From the log to the tables, exactly once in effect. A batch is applied in ONE transaction: the projected rows and the position,
 * under the lock of the positions it started from, so a second projector waits or finds nothing to do, and a dead one leaves no trace.
 */
import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { encodeEnvelope } from '../ingest/decode.ts';
import type { EventData } from '../ingest/events.ts';
import { LOG_CHANNEL } from '../ingest/log/postgres.ts';
import { amended, type Stored } from './amend.ts';
import { isAboutData, isTransient } from './db/faults.ts';
import type { Db, Session } from './db/pool.ts';
import { onNews } from './news.ts';
import { KEYED } from './planning.ts';
import { rowsOf, TARGETS } from './projections/catalogue.ts';
import { effective } from './projections/effective.ts';
import type { Rows } from './projections/projection.ts';
import { EMBEDDED, type Read, readNews } from './read-news.ts';
import { resolveForeign } from './resolver.ts';
import { summarise } from './summaries.ts';
import { keepTasks } from './told-tasks.ts';
import { holdable } from './told-trial.ts';
import { type Placed, retell, withTold } from './traces.ts';
import { writeBatch } from './write-batch.ts';
import { RowBuffer, remove, upsert } from './write-rows.ts';

export type ProjectorOptions = {
  /** Schema that holds the tables; a rebuild names another. */
  readonly schema?: string;
  /** Name under which positions are kept. */
  readonly projection?: string;
  /** Events of one partition in a batch; all partitions with news share a transaction. Of long traces more are taken at a time. */
  readonly perPartition?: number;
  /** Told how many spans of earlier batches a batch had to tell again. */
  readonly onToldAgain?: (spans: number) => void;
};

const FACTS = 'facts';

/** Applies one batch. Returns how many events it applied; 0 means that everything committed before the call is in the tables. */
export const projectBatch = (db: Db, options: ProjectorOptions = {}): Promise<number> =>
  db.transaction(async (tx) => {
    await tx.query(AWAKE);
    return projectBatchIn(tx, options);
  });

/** A process that is stopped in the middle of a batch holds its locks; after so long its transaction ends, and another goes on. */
export const AWAKE = `set local idle_in_transaction_session_timeout = '8s'`;

/** The same inside a transaction of the caller, whose search_path is left at the schema. */
export async function projectBatchIn(tx: Session, options: ProjectorOptions = {}): Promise<number> {
  const { schema = FACTS, projection = FACTS, perPartition = 250 } = options;
  await tx.query(`set local search_path = ${schema}, pg_catalog; ${KEYED}`);
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
  const events = await readNews(tx, projection, perPartition);
  if (events.length === 0) return 0;
  const dead = await applyOrBury(tx, events, options);

  const next = new Map<number, { position: number; applied: number; dead: number }>();
  for (const event of events) {
    const { applied, dead: buried } = next.get(event.partition) ?? { applied: 0, dead: 0 };
    const died = dead.has(event) ? 1 : 0;
    next.set(event.partition, {
      position: Number(event.position) + 1,
      applied: applied + 1 - died,
      dead: buried + died,
    });
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
  await tx.query(`select pg_notify('${PROJECTED_CHANNEL}', '')`, [], { name: 'projected_notify' });
  return events.length;
}

/** Told on this channel when the tables moved. */
export const PROJECTED_CHANNEL = 'troupe_projected';

/**
 * Applies a batch. An event that the tables cannot hold must not stop the others: the batch is then applied one by one, and the
 * event becomes a dead letter. What fails for the environment's sake (connection, disk, lock, deadlock) is thrown and tried again.
 */
async function applyOrBury(
  tx: Session,
  events: readonly Read[],
  { onToldAgain = () => {} }: Pick<ProjectorOptions, 'onToldAgain'>,
): Promise<ReadonlySet<Read>> {
  const dead = new Set<Read>();
  const all: Applying = { onToldAgain, careful: false };
  if ((await failure(tx, () => applyEvents(tx, events, all))) === null) return dead;
  for (const event of events) {
    let reason = await failure(tx, () => applyEvents(tx, [event], all));
    // What one span tells must not keep the others of its trace out of the tables.
    if (reason !== null && event.name === 'span.recorded') {
      reason = await failure(tx, () => applyEvents(tx, [event], { onToldAgain, careful: true }));
    }
    if (reason === null) continue;
    dead.add(event);
    await bury(tx, event, reason);
  }
  return dead;
}

async function failure(tx: Session, work: () => Promise<void>): Promise<string | null> {
  await tx.query('savepoint attempt');
  try {
    await work();
    await tx.query('release savepoint attempt');
    return null;
  } catch (error) {
    if (!isAboutData(error)) throw error;
    await tx.query('rollback to savepoint attempt');
    return (error as Error).message;
  }
}

const bury = (tx: Session, event: Read, reason: string): Promise<void> =>
  keepLetter(tx, `${EMBEDDED}/${event.partition}/${event.position}`, encodeEnvelope(event), reason);

async function keepLetter(tx: Session, place: string, envelope: object, reason: string): Promise<void> {
  const raw = Buffer.from(JSON.stringify(envelope));
  await tx.query(
    `insert into troupe.dead_letters as d (door, place, raw, code, field, expected, got, digest)
     values ('projector', $1, $2, 'bad_shape', 'data', 'an event that the tables can hold', $3, $4)
     on conflict (digest, code, field) do update set attempts = d.attempts + 1, last_at = clock_timestamp()`,
    [place, raw, reason, createHash('sha256').update(raw).digest('hex')],
  );
}

type Applying = {
  readonly onToldAgain: (spans: number) => void;
  /** True where each event that spans tell is tried by itself first, and refused where the tables cannot hold it. */
  readonly careful: boolean;
};

async function applyEvents(tx: Session, events: readonly Read[], { onToldAgain, careful }: Applying): Promise<void> {
  const keys = [...new Set(events.map((event) => event.key))];
  const corrected = await keysWithAmendments(tx, keys);
  const buffer = new RowBuffer();
  const touched = new Map<string, number>();
  const foreign = new Set<string>();
  for (const event of events) {
    if (event.key.startsWith('e/')) touched.set(event.key.slice(2), Number(event.position));
    if (corrected.has(event.key)) continue;
    noteForeign(foreign, event);
    buffer.add(rowsOf(effective(event)));
  }
  for (const id of touched.keys()) foreign.add(id);
  const retold = await retell(
    tx,
    events.filter(({ key }) => !corrected.has(key)),
  );
  onToldAgain(retold.toldAgain);
  const traces = careful ? await holdable(tx, retold) : retold;
  for (const event of traces.said) {
    noteForeign(foreign, event);
    buffer.add(rowsOf(effective(event)));
  }
  const tasks = tasksOf([...keys, ...traces.said.map(({ key }) => key), ...traces.unsaid.map(({ key }) => key)]);
  const toldBefore = await toldOf(tx, tasks);
  await takeAway(tx, traces.unsaid, foreign);
  await writeBatch(tx, buffer);
  for (const { draft, reason } of traces.refused) await keepLetter(tx, 'trace', encodeEnvelope(draft), reason);
  const orphaned = await episodesWithForeign(tx, corrected);
  for (const [id, position] of await positionsOf(tx, corrected)) {
    touched.set(id, Math.max(touched.get(id) ?? 0, position + 1));
  }
  const told = new Map(traces.now);
  for (const key of corrected) {
    const now = await reproject(tx, key, foreign, events);
    if (now) told.set(key, now);
  }
  await settle(tx, { told, touched, tasks, toldBefore, foreign, orphaned });
}

type Changed = {
  /** What spans tell now, by key. */
  readonly told: ReadonlyMap<string, readonly Stored[]>;
  /** Episodes with the position of their last event. */
  readonly touched: ReadonlyMap<string, number>;
  readonly tasks: readonly string[];
  readonly toldBefore: ReadonlyMap<string, string>;
  readonly foreign: ReadonlySet<string>;
  /** Episodes that feedback from elsewhere was attached to before. */
  readonly orphaned: readonly string[];
};

/** What follows from rows that changed: tasks that several tell, summaries, feedback from elsewhere. */
async function settle(tx: Session, { told, touched, tasks, toldBefore, foreign, orphaned }: Changed): Promise<void> {
  await keepTasks(tx, told);
  await summarise(tx, touched);
  await touchPlayed(tx, toldBefore, tasks);
  const summarised = await resolveForeign(tx, foreign);
  await summarise(tx, new Map(orphaned.filter((id) => !summarised.includes(id)).map((id) => [id, 0])));
}

/** Removes what these events said. A task stays: `keepTasks` knows whether others told it too. */
async function takeAway(tx: Session, unsaid: readonly Stored[], foreign: Set<string>): Promise<void> {
  if (unsaid.length === 0) return;
  const gone = new RowBuffer();
  for (const event of unsaid) {
    if (event.name === 'task.defined') continue;
    noteForeign(foreign, event);
    gone.add(rowsOf(effective(event)));
  }
  for (const target of [...TARGETS].reverse()) await remove(tx, target, gone.rowsFor(target));
}

const tasksOf = (keys: Iterable<string>): string[] => [
  ...new Set([...keys].filter((key) => key.startsWith('t/')).map((key) => key.slice(2))),
];

/** What is told of each task that a method may read, without when and by which event. */
async function toldOf(tx: Session, tasks: readonly string[]): Promise<ReadonlyMap<string, string>> {
  if (tasks.length === 0) return new Map();
  const { rows } = await tx.query<{ id: string; told: string }>(
    `select task_id as id, md5((query, content, ground_truth, reference, tests, constraints, domain, tags)::text) as told from tasks where task_id = any($1::text[])`,
    [tasks],
    { name: 'tasks_told' },
  );
  return new Map(rows.map((row) => [row.id, row.told]));
}

/** Whoever has judged an episode must see that its task is told otherwise now: another ground truth is another verdict. */
async function touchPlayed(tx: Session, before: ReadonlyMap<string, string>, tasks: readonly string[]): Promise<void> {
  const now = await toldOf(tx, tasks);
  const changed = tasks.filter((id) => now.get(id) !== before.get(id));
  if (changed.length === 0) return;
  await tx.query(
    `update episodes e set touched_position = e.touched_position + 1
     where e.task_id = any($1::text[]) and exists (select from troupe.judged_positions j where j.episode_id = e.episode_id)`,
    [changed],
    { name: 'touch_played' },
  );
}

/** Notes the ids by which feedback from elsewhere may find, or now lose, its target. */
function noteForeign(ids: Set<string>, event: Stored): void {
  if (event.name === 'generation.completed') {
    const { response_id } = event.data as EventData<'generation.completed'>;
    if (response_id) ids.add(response_id);
  } else if (event.name === 'feedback.recorded') {
    const { target } = event.data as EventData<'feedback.recorded'>;
    if (target.kind === 'foreign' && target.id) ids.add(target.id);
  }
}

/** Episodes that foreign feedback of these keys is attached to now: an amendment may take it away. */
async function episodesWithForeign(tx: Session, keys: ReadonlySet<string>): Promise<string[]> {
  if (keys.size === 0) return [];
  const { rows } = await tx.query<{ id: string }>(
    `select distinct resolved_episode_id as id from feedback
     where key = any($1::text[]) and target_kind = 'foreign' and resolved_episode_id is not null`,
    [[...keys]],
  );
  return rows.map((row) => row.id);
}

async function positionsOf(tx: Session, keys: ReadonlySet<string>): Promise<(readonly [string, number])[]> {
  const ids = episodesOf(keys);
  if (ids.length === 0) return [];
  const { rows } = await tx.query<{ id: string; position: number }>(
    'select episode_id as id, touched_position as position from episodes where episode_id = any($1::text[])',
    [ids],
  );
  return rows.map((row) => [row.id, Number(row.position)] as const);
}

async function keysWithAmendments(tx: Session, keys: readonly string[]): Promise<ReadonlySet<string>> {
  const { rows } = await tx.query<{ key: string }>(
    `select distinct key from troupe.events where name = 'record.amended' and key = any($1::text[])`,
    [keys],
    { name: 'amended_keys' },
  );
  return new Set(rows.map((row) => row.key));
}

/**
 * A key with amendments is made anew from all its events: whatever the amended events said before is gone first. Answers with what its
 * spans tell now; null where it has none.
 */
async function reproject(
  tx: Session,
  key: string,
  foreign: Set<string>,
  batch: readonly Read[] | null,
): Promise<readonly Stored[] | null> {
  const { rows: stored } = await tx.query<Placed>(
    'select key, source, id, name, time, data, position from troupe.events where key = $1 order by position',
    [key],
  );
  const { events, unsaid, told } = withTold(stored, batch?.filter((event) => event.key === key) ?? null);
  const amendments = events.filter((event) => event.name === 'record.amended');
  const before = new RowBuffer();
  const after = new RowBuffer();
  const add = (buffer: RowBuffer, event: Stored): Rows => {
    noteForeign(foreign, event);
    const rows = rowsOf(effective(event));
    buffer.add(rows);
    return rows;
  };
  // A task that spans tell is not this key's: others may have told it too.
  const own = (event: Stored): boolean => event.key === key;
  for (const event of unsaid.filter(own)) add(before, event);
  for (const event of events) {
    if (own(event)) add(before, event);
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
  return told;
}

/** Tables about an episode by its id, and those by its key. */
const BY_EPISODE = [
  ...['episodes', 'agents', 'calls', 'steps', 'message_bodies', 'messages', 'tool_calls', 'decisions', 'observations'],
  ...['verdicts', 'rewards', 'credits', 'blames'],
];
const BY_KEY = ['feedback', 'artifacts', 'scores'];

/**
 * Makes the rows of these keys anew from their events, whatever the tables held: judgements about them are gone. The transaction's
 * search_path names the schema.
 */
export async function reprojectKeys(tx: Session, keys: readonly string[]): Promise<void> {
  const all = new Set(keys);
  const touched = new Map((await positionsOf(tx, all)).map(([id, position]) => [id, position + 1]));
  const foreign = new Set<string>(touched.keys());
  const orphaned = await episodesWithForeign(tx, all);
  const tasks = tasksOf(keys);
  const toldBefore = await toldOf(tx, tasks);
  await takeRows(tx, keys);
  const told = new Map<string, readonly Stored[]>();
  for (const key of keys) {
    const now = await reproject(tx, key, foreign, null);
    if (now) told.set(key, now);
  }
  await settle(tx, { told, touched, tasks, toldBefore, foreign, orphaned });
}

/**
 * Takes away the rows of keys whose events have left the log, as if they had never been: facts and judgements. Feedback that another
 * key gave to their episodes must be among the keys, and their groups must be whole. The transaction's search_path names the schema.
 */
export async function forgetKeys(tx: Session, keys: readonly string[], groups: readonly string[]): Promise<void> {
  const episodes = episodesOf(keys);
  const { rows: spoken } = await tx.query<{ id: string }>(
    'select distinct response_id as id from calls where episode_id = any($1::text[]) and response_id is not null',
    [episodes],
  );
  const { rows: told } = await tx.query<{ id: string }>(
    'select distinct task_id as id from told_tasks where episode_id = any($1::text[])',
    [episodes],
  );
  const tasks = told.map((row) => row.id);
  const toldBefore = await toldOf(tx, tasks);
  await takeRows(tx, keys);
  await tx.query('delete from scores where key = any($1::text[])', [groups.map((group) => `g/${group}`)]);
  await settle(tx, {
    told: new Map(episodes.map((id) => [`e/${id}`, []])),
    touched: new Map(),
    tasks,
    toldBefore,
    foreign: new Set([...episodes, ...spoken.map((row) => row.id)]),
    orphaned: [],
  });
}

const episodesOf = (keys: Iterable<string>): string[] =>
  [...keys].filter((key) => key.startsWith('e/')).map((key) => key.slice(2));

async function takeRows(tx: Session, keys: readonly string[]): Promise<void> {
  for (const table of BY_EPISODE) {
    await tx.query(`delete from ${table} where episode_id = any($1::text[])`, [episodesOf(keys)]);
  }
  for (const table of BY_KEY) await tx.query(`delete from ${table} where key = any($1::text[])`, [keys]);
}

/** Applies events that were put back into the log at these places, in their order. The transaction's search_path names the schema. */
export async function applyAt(tx: Session, partitions: readonly number[], positions: readonly string[]): Promise<void> {
  const { rows } = await tx.query<Read>(
    `select e.key, e.source, e.id, e.name, e.time, e.data, e.partition, e.position
     from unnest($1::smallint[], $2::bigint[]) p (partition, position) join troupe.events e using (partition, position)
     order by e.partition, e.position`,
    [partitions, positions],
    { name: 'apply_at' },
  );
  if (rows.length > 0) await applyEvents(tx, rows, { onToldAgain: () => {}, careful: false });
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

export type RunOptions = {
  readonly signal: AbortSignal;
  /** Told of trouble that is waited out: a database that is away, a lock that is held. */
  readonly onTrouble?: (error: unknown) => void;
};

const RETRY_MS = { least: 100, most: 2000 };
const MOST_REST_MS = 1000;

/**
 * Projects until stopped, waiting out what the environment fails at. Appends come in bursts, so a batch waits 15 ms for company: fewer
 * transactions, fewer flushes. Where most of the work was telling traces again of which a little more had come, as much time is
 * left to whatever else runs, up to a second: a trace that comes span by span never takes more than half of a processor.
 */
export function runProjector(db: Db, { signal, onTrouble = () => {} }: RunOptions): Promise<void> {
  let pause = RETRY_MS.least;
  let rest = 0;
  return onNews(db, LOG_CHANNEL, { signal, gatherMs: 15 }, async () => {
    try {
      if (rest > 0) await sleep(rest, undefined, { signal }).catch(() => {});
      let again = 0;
      const start = performance.now();
      const applied = await projectAll(db, { onToldAgain: (spans) => (again += spans) });
      rest = again > applied ? Math.min(MOST_REST_MS, performance.now() - start) : 0;
      pause = RETRY_MS.least;
      return false;
    } catch (error) {
      if (!isTransient(error)) throw error;
      onTrouble(error);
      await sleep(pause, undefined, { signal }).catch(() => {});
      pause = Math.min(RETRY_MS.most, pause * 2);
      return true;
    }
  });
}
