/** A batch of events becomes rows, whatever is among them: what the tables cannot hold becomes a dead letter, the others are written. */
import type { Refusal } from '../../errors.ts';
import { encodeEnvelope } from '../../ingest/events/decode.ts';
import { typeOf } from '../../ingest/events/events.ts';
import { isKnown } from '../../ingest/events/upcast/catalogue.ts';
import { unstorable, writeLetters } from '../../ingest/log/postgres.ts';
import { contextNamed, isTextName } from '../../ingest/log/split.ts';
import { isAboutData } from '../db/faults.ts';
import type { Session } from '../db/pool.ts';
import { rowsOf, TARGETS } from '../tables/catalogue.ts';
import { effective } from '../tables/effective.ts';
import type { LoggedEvent } from './amend.ts';
import {
  episodesWithForeign,
  judgedGroups,
  noteForeign,
  taskDigests,
  tasksOf,
  type UpdateDerived,
  updateDerived,
} from './derived-state.ts';
import { type PreparedBatch, prepare } from './prepare.ts';
import { type LogEvent, type Positions, partitionName } from './read-batch.ts';
import { episodesOf, reproject, revisionsOf } from './reproject.ts';
import { RowBuffer } from './row-buffer.ts';
import type { TraceDiff } from './traces.ts';
import { holdable } from './trial-rows.ts';
import { writeBatch } from './write-batch.ts';
import { remove } from './write-rows.ts';

export type ApplyOptions = {
  /** Called with the number of spans of earlier batches that a batch had to map again. */
  readonly onReplayedSpans?: (spans: number) => void;
};

/** What a batch is applied to, and how what follows from it is done. */
type Applying = {
  /** How far each partition is applied, of those that the batch holds and those that it does not; null: whatever the log holds beside it. */
  readonly applied: Positions | null;
  readonly updateDerived: UpdateDerived;
};

type ApplyingBatch = Applying & {
  readonly prepared: PreparedBatch | null;
  /** True for events that were set aside: others of their keys that follow them in the log may be in the tables already. */
  readonly late?: boolean;
};

/**
 * Applies a batch; `prepared` is what was made of it before, if anything. An event that the tables cannot hold must not stop the others:
 * the batch is then applied one by one, and the event becomes a dead letter. What fails for the environment's sake (connection, disk,
 * lock, deadlock) is thrown and tried again. Answers with the events that became dead letters.
 */
export async function applyBatch(
  tx: Session,
  events: readonly LogEvent[],
  { onReplayedSpans = () => {}, ...batch }: ApplyOptions & ApplyingBatch,
): Promise<ReadonlySet<LogEvent>> {
  const newer = events.filter((event) => !isKnown(event));
  const dead = new Set<LogEvent>(newer);
  for (const event of newer) await bury(tx, await placeText(tx, event), encodeEnvelope(event), ofNewerCode(event));
  const known = newer.length === 0 ? events : events.filter(isKnown);
  if (known.length === 0) return dead;
  const counted = async (work: Promise<number>) => onReplayedSpans(await work);
  if ((await failure(tx, () => counted(applyEvents(tx, known, batch)))) === null) return dead;
  const applied = new Map(batch.applied?.map((place) => [partitionName(place), place]));
  for (const event of known) {
    const one = { ...batch, prepared: null, applied: batch.applied === null ? null : [...applied.values()] };
    let reason = await failure(tx, () => counted(applyEvents(tx, [event], one)));
    // An event derived from one span must not keep the others of its trace out of the tables.
    if (reason !== null && event.name === 'span.recorded' && !batch.late) {
      reason = await failure(tx, () => counted(applyCarefully(tx, event, one)));
    }
    const { log, partition, position } = event;
    applied.set(partitionName(event), { log, partition, position: Number(position) + 1 });
    if (reason === null) continue;
    dead.add(event);
    await bury(tx, await placeText(tx, event), encodeEnvelope(await asItCame(tx, event)), unstorable(reason));
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

/** With the context and the text that are names here. */
async function asItCame(tx: Session, event: LogEvent): Promise<LogEvent> {
  const members = Object.values(event.data as object);
  if (!members.some((value) => contextNamed(value) !== null || isTextName(value))) return event;
  const { rows } = await tx.query<{ data: unknown }>(
    'select data from troupe.events where log = $1 and partition = $2 and position = $3',
    [event.log, event.partition, event.position],
  );
  return { ...event, data: rows[0]!.data };
}

export async function placeText(tx: Session, { log, partition, position }: LogEvent): Promise<string> {
  const { rows } = await tx.query<{ label: string }>('select label from troupe.logs where log = $1', [log]);
  return `${rows[0]!.label}/${partition}/${position}`;
}

/** Keeps an event that the tables cannot hold, with the reason. */
export const bury = (tx: Session, place: string, envelope: object, refusal: Refusal): Promise<void> =>
  writeLetters(tx, 'projector', [{ place, raw: Buffer.from(JSON.stringify(envelope)), refusal }]);

/** Newer code appended it to the embedded log; the first process of that code applies it. */
const ofNewerCode = ({ name, type_version }: LogEvent): Refusal => ({
  code: 'unknown_version',
  field: 'type',
  expected: 'a type that this Troupe knows; a newer one does',
  got: JSON.stringify(typeOf(name, type_version)),
});

/** Applies events; returns how many spans of earlier batches were mapped again. */
async function applyEvents(tx: Session, events: readonly LogEvent[], batch: ApplyingBatch): Promise<number> {
  const history = batch.late ? await lateHistoryOf(tx, events) : await historyOf(tx, events);
  const { corrected } = history;
  // What was prepared knew nothing of amendments.
  const usable = corrected.size === 0 ? batch.prepared : null;
  const prepared = usable ?? (await prepare(tx, without(events, corrected), batch.applied));
  return write(tx, events, history, { ...batch, prepared });
}

/** Each event derived from spans is tried by itself first, and refused where the tables cannot hold it. */
async function applyCarefully(tx: Session, event: LogEvent, batch: Applying): Promise<number> {
  const history = await historyOf(tx, [event]);
  const prepared = await prepare(tx, without([event], history.corrected), batch.applied, (traces) =>
    holdable(tx, traces),
  );
  return write(tx, [event], history, { ...batch, prepared });
}

const without = (events: readonly LogEvent[], keys: ReadonlySet<string>): readonly LogEvent[] =>
  keys.size === 0 ? events : events.filter(({ key }) => !keys.has(key));

type History = {
  /** Keys with amendments. */
  readonly corrected: ReadonlySet<string>;
  /** Keys that no event before this batch has. */
  readonly begun: ReadonlySet<string>;
};

async function historyOf(tx: Session, events: readonly LogEvent[]): Promise<History> {
  const firsts = new Map<string, LogEvent>();
  for (const event of events) if (!firsts.has(event.key)) firsts.set(event.key, event);
  const { rows } = await tx.query<{ key: string; corrected: boolean; begun: boolean }>(
    `select key, exists (select from troupe.stored_events e where e.key = b.key and e.name = 'record.amended' offset 0) as corrected,
       not exists (select from (select log, partition, position from troupe.stored_events e where e.key = b.key offset 0) e
                   where e.position < b.first or e.partition <> b.partition or e.log <> b.log) as begun
     from unnest($1::text[], $2::smallint[], $3::smallint[], $4::bigint[]) as b (key, log, partition, first)`,
    [
      [...firsts.keys()],
      ...(['log', 'partition', 'position'] as const).map((name) => [...firsts.values()].map((event) => event[name])),
    ],
    { name: 'key_history' },
  );
  return {
    corrected: new Set(rows.filter((row) => row.corrected).map(({ key }) => key)),
    begun: new Set(rows.filter((row) => row.begun).map(({ key }) => key)),
  };
}

/** Of events that were set aside: nothing begins with them, and a trace is mapped anew, since its later spans were applied as if they were. */
async function lateHistoryOf(tx: Session, events: readonly LogEvent[]): Promise<History> {
  const { corrected } = await historyOf(tx, events);
  const traces = events.filter(({ name }) => name === 'span.recorded').map(({ key }) => key);
  return { corrected: new Set([...corrected, ...traces]), begun: new Set() };
}

/** Keys of which only spans came that concern neither agents nor models: they make no episode. */
function silentTraces(events: readonly LogEvent[], { now, retracted }: TraceDiff): ReadonlySet<string> {
  const silent = new Set([...now].flatMap(([key, derived]) => (derived.length === 0 ? [key] : [])));
  for (const { key, name } of events) if (name !== 'span.recorded') silent.delete(key);
  for (const { key } of retracted) silent.delete(key);
  return silent;
}

async function write(
  tx: Session,
  events: readonly LogEvent[],
  { corrected, begun }: History,
  {
    applied,
    updateDerived,
    late = false,
    prepared: { buffer, traces, foreign: named },
  }: ApplyingBatch & { readonly prepared: PreparedBatch },
): Promise<number> {
  const keys = [...new Set(events.map((event) => event.key))];
  const touched = new Map<string, number>();
  const silent = silentTraces(events, traces);
  for (const { key, position } of events)
    if (key.startsWith('e/') && !silent.has(key)) touched.set(key.slice(2), Number(position));
  const foreign = new Set([...named, ...touched.keys()]);
  const tasks = tasksOf(keys);
  const digestsBefore = await taskDigests(tx, tasks);
  const groupsBefore = await judgedGroups(
    tx,
    [...touched.keys()].filter((id) => !begun.has(`e/${id}`)),
  );
  await takeAway(tx, traces.retracted, foreign);
  await writeBatch(tx, buffer, new Set(episodesOf(begun)));
  for (const { draft, reason } of traces.refused) await bury(tx, 'trace', encodeEnvelope(draft), unstorable(reason));
  const orphaned = await episodesWithForeign(tx, corrected);
  for (const [id, revision] of await revisionsOf(tx, corrected)) {
    touched.set(id, Math.max(touched.get(id) ?? 0, revision + 1));
  }
  const derived = new Map(traces.now);
  for (const key of corrected) {
    const now = await reproject(tx, key, foreign, { events, applied, late });
    if (now) derived.set(key, now);
  }
  await updateDerived(tx, { derived, touched, groupsBefore, tasks, digestsBefore, foreign, orphaned });
  return traces.replayedSpans;
}

/** Removes the rows of these events. A task stays: `keepTasks` knows whether other traces define it too. */
async function takeAway(tx: Session, retracted: readonly LoggedEvent[], foreign: Set<string>): Promise<void> {
  if (retracted.length === 0) return;
  const gone = new RowBuffer();
  for (const event of retracted) {
    if (event.name === 'task.defined') continue;
    noteForeign(foreign, event);
    gone.add(rowsOf(effective(event)));
  }
  for (const target of [...TARGETS].reverse()) await remove(tx, target, gone.rowsFor(target));
}

/** Applies events that were put back into the log at these places, in their order. The transaction's search_path names the schema. */
export async function applyAt(tx: Session, places: readonly (readonly unknown[])[]): Promise<void> {
  const { rows } = await tx.query<LogEvent>(
    `select e.key, e.source, e.id, e.name, e.type_version, e.time, e.data, e.log, e.partition, e.position
     from unnest($1::smallint[], $2::smallint[], $3::bigint[]) p (log, partition, position) join troupe.events e using (log, partition, position)
     order by e.log, e.partition, e.position`,
    places,
    { name: 'apply_at' },
  );
  if (rows.length > 0) await applyEvents(tx, rows, { applied: null, updateDerived, prepared: null });
}
