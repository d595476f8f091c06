/**
 * Ingestion of events over HTTP, for all endpoints: valid events are appended, rejected ones become dead letters, and both are
 * counted. Acknowledged events are durable.
 */
import type { Refusal } from '../../errors.ts';
import type { DecodeResult } from '../../ingest/events/decode.ts';
import {
  type DeadLetter,
  ERASED_REFUSAL,
  type EventLog,
  type IngestLedger,
  type IngestReport,
  prunedRefusal,
} from '../../ingest/log/log.ts';
import { beginSpan, episodesAmong } from '../health/tracing/spans.ts';
import { processLog } from '../http/log.ts';
import { createAppendQueue } from './append-queue.ts';
import { sumOf } from './buffered-ledger.ts';
import { groupCommit } from './group-commit.ts';

/** A record to ingest: its decoded event, and the raw bytes, which are read only if it is rejected. */
export type IngestItem = {
  readonly id: string | null;
  readonly decoded: DecodeResult;
  readonly raw: () => string | Uint8Array;
  readonly place: string | null;
};

/** The result of one record, by its index in the request. */
export type ItemAnswer = {
  readonly index: number;
  readonly id: string | null;
  readonly status: 'accepted' | 'duplicate' | 'rejected';
} & Partial<Refusal>;

export type Ingestion = {
  /** Returns the result of each item once all are durable. Throws `unreachable` or `busy` where nothing can be acknowledged. */
  readonly take: (endpoint: string, items: readonly IngestItem[]) => Promise<readonly ItemAnswer[]>;
  /** Resolves when everything taken is written and counted. */
  readonly idle: () => Promise<void>;
};

export function openIngestion(log: Pick<EventLog, 'append' | 'refuse'>, book: IngestLedger): Ingestion {
  const queue = createAppendQueue(log);
  const reports = groupCommit(
    async (waiting: readonly IngestReport[]): Promise<undefined[]> => {
      for (const report of summed(waiting)) await book.report(report);
      return waiting.map(() => undefined);
    },
    { weigh: ({ rejected }) => 1 + rejected.length, maxWeight: 100_000, maxWaiting: 1_000_000 },
  );

  return {
    take: async (endpoint, given) => {
      const span = beginSpan('append', { 'troupe.endpoint': endpoint, 'troupe.received': given.length });
      const items = log.refuse === undefined ? given : given.map((item) => takeable(item, log.refuse!));
      const events = items.flatMap(({ decoded }) => (decoded.event ? [decoded.event] : []));
      const appended = await queue.append(events).catch((error: unknown) => {
        span.end(episodesIn(events), error);
        throw error;
      });
      let next = 0;
      const answers = items.map(({ id, decoded }, index): ItemAnswer => {
        if (decoded.refusal) return { index, id, status: 'rejected', ...decoded.refusal };
        const became = appended[next++]!;
        if (became === 'conflict') return { index, id, status: 'rejected', ...conflict(decoded.event.id) };
        if (became === 'erased') return { index, id, status: 'rejected', ...ERASED_REFUSAL };
        if (typeof became === 'object') return { index, id, status: 'rejected', ...prunedRefusal(became) };
        return { index, id, status: became };
      });
      const report = reportOf(endpoint, items, answers);
      span.end({
        ...episodesIn(events),
        'troupe.acknowledged': report.acknowledged,
        'troupe.duplicates': report.duplicates,
        'troupe.rejected': report.rejected.length,
      });
      const written = reports.submit(report);
      // Counts of requests without rejections lag a little; a rejected record is stored before its sender gets the response.
      if (report.rejected.length > 0) await written;
      else written.catch((err) => processLog().error({ err }, 'The counts of a request were not stored.'));
      return answers;
    },
    idle: async () => {
      await queue.idle();
      await reports.idle();
    },
  };
}

const episodesIn = (events: readonly { readonly key: string }[]) => episodesAmong(events.map(({ key }) => key));

/** An event that this log can never take is rejected alone, so that the others of the request are stored. */
function takeable(item: IngestItem, refuse: NonNullable<EventLog['refuse']>): IngestItem {
  const refusal = item.decoded.event ? refuse(item.decoded.event) : null;
  return refusal === null ? item : { ...item, decoded: { refusal } };
}

const conflict = (id: string): Refusal => ({
  code: 'id_conflict',
  field: 'id',
  expected: 'an id that was not used before, or the same event again',
  got: `${JSON.stringify(id)} with another body`,
});

function reportOf(endpoint: string, items: readonly IngestItem[], answers: readonly ItemAnswer[]): IngestReport {
  const rejected: DeadLetter[] = [];
  let [acknowledged, duplicates] = [0, 0];
  for (const [i, { status, code, field, expected, got }] of answers.entries()) {
    if (status === 'accepted') acknowledged++;
    else if (status === 'duplicate') duplicates++;
    else {
      const { raw, place } = items[i]!;
      // Erased data must not be stored as a dead letter.
      const bytes = code === 'erased' ? new Uint8Array() : Buffer.from(raw() as string);
      rejected.push({ place, raw: bytes, refusal: { code, field, expected, got } as Refusal });
    }
  }
  return { endpoint, received: items.length, acknowledged, duplicates, rejected };
}

/** One report for each ingestion endpoint. */
function summed(reports: readonly IngestReport[]): IngestReport[] {
  const byEndpoint = new Map<string, IngestReport>();
  for (const report of reports) {
    const before = byEndpoint.get(report.endpoint);
    byEndpoint.set(report.endpoint, before ? sumOf(before, report) : report);
  }
  return [...byEndpoint.values()];
}
