/**
 * The way of an import into the log: events in order and in batches, the bodies they name durable before them, and everything refused
 * reported to the book. While one batch is being made durable the next is being read; never more than that is held.
 */
import type { Refusal } from '../../errors.ts';
import { encodeEnvelope } from '../events/decode.ts';
import { type Event, typeOf } from '../events/events.ts';
import { fullLength, ownLength, writtenAs } from '../events/long-context.ts';
import {
  type ArtifactStore,
  type DeadLetter,
  ERASED_REFUSAL,
  type EventLog,
  type IngestLedger,
  prunedRefusal,
} from '../log/log.ts';

/** Events in one append, and the bytes of their data after which it goes earlier. */
const BATCH_EVENTS = 500;
const BATCH_BYTES = 8 * 1024 * 1024;

export type Place = { readonly file: string; readonly line: number | null };
export type Counts = { received: number; accepted: number; duplicates: number; rejected: number };

export type Batches = {
  readonly event: (event: Event, place: Place) => Promise<void>;
  /** A body that must be durable before the events that follow. */
  readonly body: (body: string) => Promise<void>;
  readonly refuse: (refusal: Refusal, place: Place, raw: Uint8Array) => Promise<void>;
  /** Answers when everything handed in is durable and reported. */
  readonly finish: () => Promise<void>;
};

type Batch = {
  readonly events: Event[];
  readonly places: Place[];
  readonly bodies: string[];
  readonly letters: DeadLetter[];
  bytes: number;
};

const empty = (): Batch => ({ events: [], places: [], bodies: [], letters: [], bytes: 0 });

export type BatchesOptions = {
  readonly log: EventLog;
  readonly book: IngestLedger;
  readonly artifacts: ArtifactStore;
  readonly counts: Counts;
  readonly onRefusal: (refusal: Refusal, place: Place) => void;
  /** Called after each batch. */
  readonly onBatch: () => void;
};

export function openBatches(options: BatchesOptions): Batches {
  const { log, book, artifacts, counts, onRefusal, onBatch } = options;
  let batch = empty();
  let sending: Promise<void> = Promise.resolve();

  /** What an event adds to a batch. A log that has a limit for records sends each whole. */
  const lengthOf = (event: Event): number => (log.refuse === undefined ? ownLength : fullLength)(writtenAs(event));

  const refuse = (refusal: Refusal, place: Place, raw: Uint8Array, into: Batch): void => {
    counts.rejected += 1;
    into.letters.push({ place: place.line === null ? place.file : `${place.file}:${place.line}`, raw, refusal });
    onRefusal(refusal, place);
  };

  async function send(full: Batch): Promise<void> {
    const refusedBefore = full.letters.length;
    if (full.bodies.length > 0) await artifacts.put(full.bodies);
    const answers = full.events.length > 0 ? await log.append(full.events) : [];
    let [accepted, duplicates] = [0, 0];
    for (const [i, answer] of answers.entries()) {
      if (answer === 'accepted') accepted += 1;
      else if (answer === 'duplicate') duplicates += 1;
      else if (answer === 'erased') {
        refuse(ERASED_REFUSAL, full.places[i]!, new Uint8Array(), full);
        // Bodies are there before their events, so the body came back as well.
        for (const body of bodiesOf(full.events[i]!)) await artifacts.remove(body);
      } else {
        const event = full.events[i]!;
        const refusal = typeof answer === 'object' ? prunedRefusal(answer) : conflictOf(event);
        refuse(refusal, full.places[i]!, Buffer.from(JSON.stringify(encodeEnvelope(event))), full);
      }
    }
    counts.accepted += accepted;
    counts.duplicates += duplicates;
    const received = full.events.length + refusedBefore;
    if (received > 0) {
      await book.report({ endpoint: 'import', received, acknowledged: accepted, duplicates, rejected: full.letters });
    }
    onBatch();
  }

  const flush = async (): Promise<void> => {
    const full = batch;
    batch = empty();
    await sending;
    sending = send(full);
    // The next waiter gets the error; without a waiter yet, a failure must not end the process.
    sending.catch(() => {});
  };
  const grown = async (bytes: number): Promise<void> => {
    batch.bytes += bytes;
    if (batch.events.length >= BATCH_EVENTS || batch.bytes >= BATCH_BYTES || batch.letters.length >= BATCH_EVENTS) {
      await flush();
    }
  };
  return {
    event: (event, place) => {
      counts.received += 1;
      const refusal = log.refuse?.(event) ?? null;
      if (refusal !== null) {
        refuse(refusal, place, Buffer.from(JSON.stringify(encodeEnvelope(event))), batch);
        return grown(lengthOf(event));
      }
      batch.events.push(event);
      batch.places.push(place);
      return grown(lengthOf(event));
    },
    body: (body) => {
      batch.bodies.push(body);
      return grown(body.length);
    },
    refuse: (refusal, place, raw) => {
      counts.received += 1;
      refuse(refusal, place, raw, batch);
      return grown(raw.length);
    },
    finish: async () => {
      await flush();
      await sending;
    },
  };
}

const bodiesOf = ({ data }: Event): string[] => {
  const { sha256, raw } = data as {
    readonly sha256?: unknown;
    readonly raw?: { readonly artifact_id?: unknown } | null;
  };
  return [sha256, raw?.artifact_id].filter((body) => typeof body === 'string');
};

const conflictOf = (event: Event): Refusal => ({
  code: 'id_conflict',
  field: 'id',
  expected: 'the body this id was first recorded with',
  got: `another body for ${typeOf(event.name, event.type_version)} ${event.id} of ${event.source}`,
});
