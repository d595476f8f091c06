/** Finds derived events that the tables cannot hold: one such event must not keep the others of its trace out. */

import { isAboutData } from '../db/faults.ts';
import type { Session } from '../db/pool.ts';
import { rowsOf, TARGETS } from '../tables/catalogue.ts';
import { effective } from '../tables/effective.ts';
import type { LoggedEvent } from './amend.ts';
import { RowBuffer } from './row-buffer.ts';
import type { TraceDiff } from './traces.ts';
import { upsert } from './write-rows.ts';

/** The same difference without the events that the tables cannot hold: these are refused. */
export async function holdable(
  tx: Session,
  { added, retracted, refused, now, replayedSpans }: TraceDiff,
): Promise<TraceDiff> {
  const bad = new Map<LoggedEvent, string>();
  for (const event of new Set([...added, ...retracted, ...[...now.values()].flat()])) {
    const reason = await trial(tx, event);
    if (reason !== null) bad.set(event, reason);
  }
  const isHeld = (event: LoggedEvent): boolean => !bad.has(event);
  return {
    added: added.filter(isHeld),
    retracted: retracted.filter(isHeld),
    refused: [...refused, ...added.flatMap((draft) => (isHeld(draft) ? [] : [{ draft, reason: bad.get(draft)! }]))],
    now: new Map([...now].map(([key, events]) => [key, events.filter(isHeld)])),
    replayedSpans,
  };
}

/** Why the tables cannot hold this event; null where they can. Writes nothing. */
async function trial(tx: Session, event: LoggedEvent): Promise<string | null> {
  await tx.query('savepoint trial');
  try {
    const buffer = new RowBuffer();
    buffer.add(rowsOf(effective(event)));
    for (const target of TARGETS) await upsert(tx, target, buffer.rowsFor(target));
    return null;
  } catch (error) {
    if (!isAboutData(error)) throw error;
    return (error as Error).message;
  } finally {
    await tx.query('rollback to savepoint trial');
  }
}
