/** What the tables cannot hold of what spans tell: one such event must not keep the others of its trace out. */

import { isAboutData } from '../db/faults.ts';
import type { Session } from '../db/pool.ts';
import { rowsOf, TARGETS } from '../projections/catalogue.ts';
import { effective } from '../projections/effective.ts';
import type { Stored } from './amend.ts';
import { RowBuffer } from './row-buffer.ts';
import type { Retelling } from './traces.ts';
import { upsert } from './write-rows.ts';

/** The same retelling without the events that the tables cannot hold: these are refused. */
export async function holdable(tx: Session, { said, unsaid, refused, now, toldAgain }: Retelling): Promise<Retelling> {
  const bad = new Map<Stored, string>();
  for (const event of new Set([...said, ...unsaid, ...[...now.values()].flat()])) {
    const reason = await trial(tx, event);
    if (reason !== null) bad.set(event, reason);
  }
  const isHeld = (event: Stored): boolean => !bad.has(event);
  return {
    said: said.filter(isHeld),
    unsaid: unsaid.filter(isHeld),
    refused: [...refused, ...said.flatMap((draft) => (isHeld(draft) ? [] : [{ draft, reason: bad.get(draft)! }]))],
    now: new Map([...now].map(([key, events]) => [key, events.filter(isHeld)])),
    toldAgain,
  };
}

/** Why the tables cannot hold what this event says, and nothing of it; null where they can. */
async function trial(tx: Session, event: Stored): Promise<string | null> {
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
