/**
 * Traces in the tables. The log keeps the spans of a trace unchanged (`span.recorded`); the events of all of them together are derived
 * again whenever more are read, and the tables change by the difference: the rows of added events are written, those of retracted
 * events are removed. The same spans give the same rows, in whatever order and however many at a time they were read.
 */
import { asSent, checkDraft } from '../../ingest/events/decode.ts';
import { type Draft, VOCABULARY } from '../../ingest/events/events.ts';
import { groupBy } from '../../ingest/events/group-by.ts';
import { inCanonicalOrder, isRecord } from '../../ingest/events/json.ts';
import { pushAll } from '../../ingest/events/push-all.ts';
import { eventsOfTrace, type SpanItem } from '../../ingest/formats/traces/live-traces.ts';
import type { Session } from '../db/pool.ts';
import type { LoggedEvent } from './amend.ts';
import { EARLIER, earlierParams, isEarlier } from './earlier.ts';
import type { LogEvent, Positions } from './read-batch.ts';

/** The events of a trace, and what no table can hold, with the reason: a derived event, or a span that cannot be mapped. */
export type TraceEvents = {
  readonly events: readonly LoggedEvent[];
  readonly refused: readonly RefusedDraft[];
};
type RefusedDraft = { readonly draft: Draft | LoggedEvent; readonly reason: string };

/** The events derived from the spans of one trace together. A span that makes this fail is refused, the others are mapped. Never throws. */
export function traceEventsOf(spans: readonly LoggedEvent[]): TraceEvents {
  const events: LoggedEvent[] = [];
  const { derived, refused } = deriveEvents(spans);
  for (const draft of derived) {
    const { event, refusal } = checkDraft(draft);
    if (event) {
      const { key, source, id, name, type_version, time } = event;
      // As the log would give it back, keys in order: columns of JSON keep the order they are given. Without its text, which would live as long as the batch.
      events.push({ key, source, id, name, type_version, time, data: inCanonicalOrder(event.data) });
    } else refused.push({ draft, reason: `${refusal.field}: expected ${refusal.expected}, got ${refusal.got}` });
  }
  return { events, refused };
}

/** The events derived from the spans, without those that fail: first each that fails by itself, then, by id, each that fails beside others. */
function deriveEvents(spans: readonly LoggedEvent[]): {
  readonly derived: readonly Draft[];
  readonly refused: RefusedDraft[];
} {
  const refused: RefusedDraft[] = [];
  const derive = (
    some: readonly LoggedEvent[],
  ): { readonly derived: readonly Draft[] } | { readonly reason: string } => {
    try {
      const derived = eventsOfTrace(some.map(({ data }) => asSent(data) as unknown as SpanItem));
      return derived.every(isDraft) ? { derived } : { reason: 'it maps to something that is not an event' };
    } catch (error) {
      return { reason: error instanceof Error ? error.message : String(error) };
    }
  };
  const whole = derive(spans);
  if ('derived' in whole) return { derived: whole.derived, refused };
  let left = [...spans].sort(byIdentity).filter((span) => {
    const alone = derive([span]);
    if ('reason' in alone) refused.push({ draft: span, reason: alone.reason });
    return 'derived' in alone;
  });
  for (;;) {
    const now = derive(left);
    if ('derived' in now) return { derived: now.derived, refused };
    let [good, bad] = [0, left.length];
    while (bad - good > 1) {
      const middle = (good + bad) >> 1;
      if ('derived' in derive(left.slice(0, middle))) good = middle;
      else bad = middle;
    }
    refused.push({ draft: left[good]!, reason: now.reason });
    left = left.filter((_, i) => i !== good);
  }
}

/** The events of an erased span are read from the log, where anybody may have written them. */
const isDraft = (draft: unknown): boolean =>
  isRecord(draft) && isRecord(draft.data) && Object.hasOwn(VOCABULARY, String(draft.name));

const byIdentity = (a: LoggedEvent, b: LoggedEvent): number => (identity(a) < identity(b) ? -1 : 1);

/** How the tables of some traces change by the spans of a batch. */
export type TraceDiff = {
  /** Events whose rows are to be written, besides those of the batch itself. */
  readonly added: readonly LoggedEvent[];
  /** Events that were derived before and are derived no longer. */
  readonly retracted: readonly LoggedEvent[];
  readonly refused: TraceEvents['refused'];
  /** By key, all events of these traces now. */
  readonly now: ReadonlyMap<string, readonly LoggedEvent[]>;
  /** Spans of earlier batches that had to be mapped again. */
  readonly replayedSpans: number;
};

/**
 * What changes by the spans of this batch, whose events of one key follow each other in the log. Of a trace that retracts something all
 * events are added again, since rows are removed whole.
 */
export async function diffTraces(
  tx: Session,
  batch: readonly LogEvent[],
  applied: Positions | null,
): Promise<TraceDiff> {
  const spans = batch.filter(({ name }) => name === 'span.recorded');
  const traces = groupBy(spans, ({ key }) => key);
  if (traces.size === 0) return { added: [], retracted: [], refused: [], now: new Map(), replayedSpans: 0 };
  const known = await spansBefore(tx, spans, applied);
  const added: LoggedEvent[] = [];
  const retracted: LoggedEvent[] = [];
  const refused: RefusedDraft[] = [];
  const all = new Map<string, readonly LoggedEvent[]>();
  const anew = new Set<string>();
  for (const [key, spans] of traces) {
    const earlier = known.get(key) ?? [];
    const now = traceEventsOf([...earlier, ...spans]);
    pushAll(refused, now.refused);
    all.set(key, now.events);
    if (earlier.length === 0) {
      pushAll(added, now.events);
      continue;
    }
    const before = traceEventsOf(earlier).events;
    const idsNow = new Set(now.events.map(identity));
    const gone = before.filter((event) => !idsNow.has(identity(event)));
    const idsBefore = new Set(gone.length > 0 ? [] : before.map(identity));
    pushAll(retracted, gone);
    pushAll(
      added,
      now.events.filter((event) => !idsBefore.has(identity(event))),
    );
    if (gone.length > 0) anew.add(key);
  }
  if (anew.size > 0) pushAll(added, await othersUntil(tx, anew, batch, applied));
  return { added, retracted, refused, now: all, replayedSpans: [...known.values()].flat().length };
}

/** The events of a batch, what they are applied to, and whether they were set aside before. */
export type BatchOfKey = {
  readonly events: readonly LogEvent[];
  readonly applied: Positions | null;
  readonly late: boolean;
};

/**
 * The events of a key, with the events derived from its spans in place of the spans, and those derived before this batch and no longer.
 * Without a batch all spans are mapped, and nothing is retracted.
 */
export function withDerived(
  stored: readonly LogEvent[],
  batch: BatchOfKey | null,
): {
  readonly events: readonly LoggedEvent[];
  readonly retracted: readonly LoggedEvent[];
  readonly derived: readonly LoggedEvent[] | null;
} {
  const spans = stored.filter(({ name }) => name === 'span.recorded');
  if (spans.length === 0) return { events: stored, retracted: [], derived: null };
  const here = batch === null ? null : new Set(batch.events.map(identity));
  const isApplied = batch === null ? () => false : isEarlier(batch.late ? [] : batch.events, batch.applied);
  const isBefore = (span: LogEvent) => isApplied(span) && !here?.has(identity(span));
  const before = spans.filter(isBefore);
  const now = traceEventsOf(
    here === null ? spans : spans.filter((span) => isBefore(span) || here.has(identity(span))),
  ).events;
  const known = new Set(now.map(identity));
  return {
    events: [...stored.filter(({ name }) => name !== 'span.recorded'), ...now],
    retracted: traceEventsOf(before).events.filter((event) => !known.has(identity(event))),
    derived: now,
  };
}

const identity = ({ key, source, id }: LoggedEvent): string => `${key}\u0000${source}\u0000${id}`;

async function spansBefore(
  tx: Session,
  batch: readonly LogEvent[],
  applied: Positions | null,
): Promise<ReadonlyMap<string, LoggedEvent[]>> {
  const { rows } = await tx.query<LoggedEvent>(
    `select e.key, e.source, e.id, e.name, e.type_version, e.time, e.data
     from unnest($1::text[]) as t (key) cross join lateral (
       select * from troupe.events e where e.key = t.key and e.name = 'span.recorded' offset 0
     ) e ${EARLIER} order by e.log, e.partition, e.position`,
    [[...new Set(batch.map(({ key }) => key))], ...earlierParams(batch, applied)],
    { name: 'spans_before' },
  );
  return groupBy(rows, ({ key }) => key);
}

/** The other events of these keys up to the end of the batch. */
async function othersUntil(
  tx: Session,
  keys: ReadonlySet<string>,
  batch: readonly LogEvent[],
  applied: Positions | null,
): Promise<readonly LoggedEvent[]> {
  const here = batch.filter(({ key, name }) => keys.has(key) && name !== 'span.recorded');
  const { rows } = await tx.query<LoggedEvent>(
    `select e.key, e.source, e.id, e.name, e.type_version, e.time, e.data
     from unnest($1::text[]) as t (key) cross join lateral (
       select * from troupe.events e where e.key = t.key and e.name <> 'span.recorded' offset 0
     ) e ${EARLIER} order by e.log, e.partition, e.position`,
    [[...keys], ...earlierParams(batch, applied)],
    { name: 'events_beside_spans' },
  );
  return [...rows, ...here];
}
