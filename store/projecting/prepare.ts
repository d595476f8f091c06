/** The rows of a batch of events, before anything is written, and the events now derived from the traces of its spans. */
import { setImmediate as pause } from 'node:timers/promises';
import { isKnown } from '../../ingest/events/upcast/catalogue.ts';
import type { Session } from '../db/pool.ts';
import { rowsOf } from '../tables/catalogue.ts';
import { effective } from '../tables/effective.ts';
import type { LoggedEvent } from './amend.ts';
import { noteForeign } from './derived-state.ts';
import type { LogEvent, Positions } from './read-batch.ts';
import { RowBuffer } from './row-buffer.ts';
import { diffTraces, type TraceDiff } from './traces.ts';

export type PreparedBatch = {
  readonly buffer: RowBuffer;
  readonly traces: TraceDiff;
  /** Ids by which feedback from elsewhere may find its target. */
  readonly foreign: ReadonlySet<string>;
};

/** Events after which whatever else waits in this process has its turn. */
const AT_A_TIME = 100;

/** Reads no more than the log, so it may be done for events whose time has not come. `mend` may remove some of the events derived from spans. */
export async function prepare(
  tx: Session,
  events: readonly LogEvent[],
  applied: Positions | null,
  mend: (traces: TraceDiff) => Promise<TraceDiff> = async (traces) => traces,
): Promise<PreparedBatch> {
  const buffer = new RowBuffer();
  const foreign = new Set<string>();
  const addAll = async (some: readonly LoggedEvent[]) => {
    for (const [i, event] of some.filter(isKnown).entries()) {
      if (i % AT_A_TIME === AT_A_TIME - 1) await pause();
      noteForeign(foreign, event);
      buffer.add(rowsOf(effective(event)));
    }
  };
  await addAll(events);
  const traces = await mend(await diffTraces(tx, events, applied));
  // A task is not the trace's own: other traces may define it too, and `keepTasks` combines them.
  await addAll(traces.added.filter(({ name }) => name !== 'task.defined'));
  return { buffer, traces, foreign };
}
