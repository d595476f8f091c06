/**
 * What newer code wrote and older code read: a type, or a version of one, that it did not know. It waits as a dead letter, and the first
 * process that knows it applies it at the place it had in the log, as if it had been understood at once.
 */
import type { Refusal } from '../../errors.ts';
import type { Event } from '../../ingest/events/events.ts';
import { readKept } from '../../ingest/log/kafka-record.ts';
import { copyEvents, lookUp, type Place, unstorable, withSplit } from '../../ingest/log/postgres.ts';
import { isAboutData } from '../db/faults.ts';
import type { Db, Session } from '../db/pool.ts';
import { countOf, firstOf, query, rowsOf, sql } from '../db/query.ts';
import { applyAt } from '../projecting/apply.ts';
import { ARCHIVE, FACTS, type KeyPartition, lockAllPartitions } from '../projecting/partitions.ts';
import { announce } from '../projecting/projector.ts';
import { ARCHIVING } from './archive.ts';

/** Letters that may be of newer code. Those of an ingestion endpoint are not among them: it refused the record, so the sender keeps it. */
const waiting = query
  .selectFrom('troupe.dead_letters')
  .where('code', 'in', ['unknown_version', 'unknown_event'])
  .where('endpoint', 'in', ['kafka', 'projector'])
  .where('replayed_at', 'is', null)
  // Quoted in JSON: a type of others is nobody's future.
  .where('got', 'like', '"troupe.%');

/** The types that no process has known so far, with how many events of each wait. */
export const awaitedTypes = (db: Pick<Session, 'query'>): Promise<{ type: string; events: number }[]> =>
  rowsOf(
    db,
    waiting
      .select(['got as type', sql<number>`count(*)::float8`.as('events')])
      .groupBy('got')
      .orderBy('got')
      .limit(20),
  );

/** Applies the letters that this code knows; returns how many. Those that it does not know either go on waiting. */
export async function replayNewer(db: Db): Promise<number> {
  let applied = 0;
  const letters = await rowsOf(db, waiting.select('dead_letter_id as id').orderBy('dead_letter_id'));
  for (const { id } of letters) if (await replayLetter(db, id)) applied++;
  if (applied > 0) await announce(db);
  return applied;
}

async function replayLetter(db: Db, id: number): Promise<boolean> {
  const letter = await firstOf(db, waiting.select('raw').where('dead_letter_id', '=', id));
  if (letter === undefined) return false;
  const { event, refusal } = readKept(letter.raw);
  if (refusal)
    return refusal.code === 'unknown_version' || refusal.code === 'unknown_event'
      ? false
      : refuseAgain(db, id, refusal);
  try {
    return await db.transaction((tx) => replayOne(tx, id, event), { settings: ARCHIVING });
  } catch (error) {
    if (!isAboutData(error)) throw error;
    return refuseAgain(db, id, unstorable((error as Error).message));
  }
}

async function replayOne(tx: Session, id: number, event: Event): Promise<boolean> {
  await tx.query('set local search_path = facts, pg_catalog');
  await lockAllPartitions(tx);
  const letter = await firstOf(tx, waiting.select(['endpoint', 'place']).where('dead_letter_id', '=', id).forUpdate());
  if (letter === undefined) return false;
  const place = await placeOf(tx, letter.place ?? '');
  if (letter.endpoint === 'kafka') {
    const [answer] = await lookUp(tx, [event]);
    if (answer === 'accepted') {
      await copyEvents(tx, [withSplit({ ...place, event })]);
      await count(tx, ARCHIVE, place, { applied: 1, dead: -1 });
      await count(tx, FACTS, place, { applied: 1, dead: 0 });
      await applyAt(tx, [[place.log], [place.partition], [place.position]]);
    } else if (answer !== 'duplicate') return refuseAgain(tx, id, notTaken(event, answer!));
  } else {
    await count(tx, FACTS, place, { applied: 1, dead: -1 });
    await applyAt(tx, [[place.log], [place.partition], [place.position]]);
  }
  await countOf(
    tx,
    query
      .updateTable('troupe.dead_letters')
      .set({ replayed_at: sql<string>`clock_timestamp()` })
      .where('dead_letter_id', '=', id),
  );
  return true;
}

/** The place that a letter names as log, partition and position. */
async function placeOf(tx: Session, text: string): Promise<Place> {
  const [, label, partition, position] = /^(.*)\/(\d+)\/(\d+)$/.exec(text)!;
  const logs = query
    .selectFrom('troupe.logs')
    .select('log')
    .where('label', 'in', [label!, `kafka:${label}`]);
  return { log: (await firstOf(tx, logs))!.log, partition: Number(partition), position: Number(position) };
}

const count = (
  tx: Session,
  projection: string,
  { log, partition }: KeyPartition,
  by: { applied: number; dead: number },
) =>
  countOf(
    tx,
    query
      .updateTable('troupe.positions')
      .set({ applied: sql<number>`applied + ${by.applied}`, dead: sql<number>`dead + ${by.dead}` })
      .where('projection', '=', projection)
      .where('log', '=', log)
      .where('partition', '=', partition),
  );

const notTaken = ({ id }: Event, answer: Exclude<Awaited<ReturnType<typeof lookUp>>[number], 'accepted'>): Refusal => ({
  code: typeof answer === 'object' ? 'pruned' : answer === 'erased' ? 'erased' : 'id_conflict',
  field: 'id',
  expected: 'an id that was not used before, or the same event again',
  got: JSON.stringify(id),
});

/** The letter stays, with the reason of this code. */
async function refuseAgain(db: Pick<Session, 'query'>, id: number, why: Refusal): Promise<false> {
  await countOf(
    db,
    query
      .updateTable('troupe.dead_letters')
      .set({ ...why, last_at: sql<string>`clock_timestamp()` })
      .where('dead_letter_id', '=', id),
  );
  return false;
}
