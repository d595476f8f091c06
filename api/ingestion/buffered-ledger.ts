/**
 * The buffered ingest ledger, for a log outside the database: an unreachable database must not stop ingestion. A report waits for the
 * database a moment; then it is buffered in memory and written when the database is back.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { TroupeError } from '../../errors.ts';
import type { IngestLedger, IngestReport } from '../../ingest/log/log.ts';
import { isTransient } from '../../store/db/faults.ts';
import { processLog } from '../http/log.ts';

const RETRY_MS = { least: 100, most: 3000 };

/**
 * `waitMs`: how long a report waits for the database before its sender gets the response. `maxBytes`: limit of buffered rejected records;
 * beyond it a report with rejections throws `busy`.
 */
export function bufferedLedger(book: IngestLedger, { waitMs = 1000, maxBytes = 64 * 1024 * 1024 } = {}) {
  let waiting: IngestReport[] = [];
  let bytes = 0;
  let writing: Promise<void> | null = null;

  const write = async (): Promise<void> => {
    for (let pause = RETRY_MS.least; waiting.length > 0; ) {
      const [report] = waiting as [IngestReport];
      try {
        await book.report(report);
        waiting = waiting.slice(1);
        bytes -= weightOf(report);
        pause = RETRY_MS.least;
      } catch (error) {
        if (!isTransient(error)) {
          waiting = waiting.slice(1);
          bytes -= weightOf(report);
          processLog().error({ err: error }, 'The counts of a request were not stored.');
          continue;
        }
        await sleep(pause, undefined, { ref: false });
        pause = Math.min(RETRY_MS.most, pause * 2);
      }
    }
    writing = null;
  };

  return {
    report: async (report: IngestReport): Promise<void> => {
      const weight = weightOf(report);
      if (bytes > 0 && weight > 0 && bytes + weight > maxBytes)
        throw new TroupeError(
          'busy',
          'The database cannot be reached, and the buffer of rejected records is full; try again in a moment.',
        );
      const behind = waiting.length > 0;
      // Clean requests are many: their counts are one report, however long the database cannot be reached.
      const last = behind && weight === 0 ? waiting.findIndex((one, i) => i > 0 && isSameEndpoint(one, report)) : -1;
      if (last > 0) waiting = waiting.with(last, sumOf(waiting[last]!, report));
      else waiting.push(report);
      bytes += weight;
      writing ??= write();
      if (!behind) await Promise.race([writing, sleep(waitMs, undefined, { ref: false })]);
    },
    /** Waits until everything is written, or for the timeout; returns how many reports were not. */
    flush: async (ms: number): Promise<number> => {
      if (writing) await Promise.race([writing, sleep(ms)]);
      return waiting.length;
    },
  };
}

const weightOf = ({ rejected }: IngestReport): number =>
  rejected.reduce((all, { raw }) => all + raw.byteLength + 500, 0);

const isSameEndpoint = (a: IngestReport, b: IngestReport): boolean =>
  a.endpoint === b.endpoint && a.rejected.length === 0;

/** Two reports of one endpoint as one. */
export const sumOf = (a: IngestReport, b: IngestReport): IngestReport => ({
  endpoint: a.endpoint,
  received: a.received + b.received,
  acknowledged: a.acknowledged + b.acknowledged,
  duplicates: a.duplicates + b.duplicates,
  rejected: [...a.rejected, ...b.rejected],
});
