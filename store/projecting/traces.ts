/**
 * Traces in the tables. The log keeps the spans of a trace as they came (`span.recorded`); what they say together is told anew
 * whenever more of them are read, and the tables change by the difference: what is said for the first time is written, what is said
 * no longer is taken away. The same spans give the same rows, in whatever order and however many at a time they were read.
 */
import { asSent, checkDraft } from '../../ingest/decode.ts';
import { type Draft, VOCABULARY } from '../../ingest/events.ts';
import { eventsOfTrace, type SpanItem } from '../../ingest/formats/live-traces.ts';
import { inCanonicalOrder, isRecord } from '../../ingest/json.ts';
import type { Session } from '../db/pool.ts';
import type { Stored } from './amend.ts';
import { EARLIER, earlierParams, isEarlier } from './earlier.ts';
import type { Positions, Read } from './read-news.ts';

/** What a trace says, and what of it no table can hold, with the reason: an event that it told, or a span that cannot be told. */
export type Told = {
  readonly events: readonly Stored[];
  readonly refused: readonly Refused[];
};
export type Refused = { readonly draft: Draft | Stored; readonly reason: string };

/** The events that the spans of one trace tell together. A span that makes telling fail is refused, the others are told. Never throws. */
export function toldBy(spans: readonly Stored[]): Told {
  const events: Stored[] = [];
  const { told, refused } = tellable(spans);
  for (const draft of told) {
    const { event, refusal } = checkDraft(draft);
    if (event) {
      const { key, source, id, name, time } = event;
      // As the log would give it back, keys in order: columns of JSON keep the order they are given. Without its text, which would live as long as the batch.
      events.push({ key, source, id, name, time, data: inCanonicalOrder(event.data) });
    } else refused.push({ draft, reason: `${refusal.field}: expected ${refusal.expected}, got ${refusal.got}` });
  }
  return { events, refused };
}

/** What the spans tell, without those that make telling fail: first each that fails by itself, then, by id, each that fails beside others. */
function tellable(spans: readonly Stored[]): { readonly told: readonly Draft[]; readonly refused: Refused[] } {
  const refused: Refused[] = [];
  const tell = (some: readonly Stored[]): { readonly told: readonly Draft[] } | { readonly reason: string } => {
    try {
      const told = eventsOfTrace(some.map(({ data }) => asSent(data) as unknown as SpanItem));
      return told.every(isDraft) ? { told } : { reason: 'it tells what is no event' };
    } catch (error) {
      return { reason: error instanceof Error ? error.message : String(error) };
    }
  };
  const whole = tell(spans);
  if ('told' in whole) return { told: whole.told, refused };
  let left = [...spans].sort(byIdentity).filter((span) => {
    const alone = tell([span]);
    if ('reason' in alone) refused.push({ draft: span, reason: alone.reason });
    return 'told' in alone;
  });
  for (;;) {
    const now = tell(left);
    if ('told' in now) return { told: now.told, refused };
    let [good, bad] = [0, left.length];
    while (bad - good > 1) {
      const middle = (good + bad) >> 1;
      if ('told' in tell(left.slice(0, middle))) good = middle;
      else bad = middle;
    }
    refused.push({ draft: left[good]!, reason: now.reason });
    left = left.filter((_, i) => i !== good);
  }
}

/** What an erased span tells is read from the log, where anybody may have written it. */
const isDraft = (draft: unknown): boolean =>
  isRecord(draft) && isRecord(draft.data) && Object.hasOwn(VOCABULARY, String(draft.name));

const byIdentity = (a: Stored, b: Stored): number => (identity(a) < identity(b) ? -1 : 1);

/** How the tables of some traces change by the spans of a batch. */
export type Retelling = {
  /** Events whose rows are to be written, besides those of the batch itself. */
  readonly said: readonly Stored[];
  /** Events that were told before and are told no longer. */
  readonly unsaid: readonly Stored[];
  readonly refused: Told['refused'];
  /** By key, all events of these traces now. */
  readonly now: ReadonlyMap<string, readonly Stored[]>;
  /** Spans of earlier batches that had to be told again. */
  readonly toldAgain: number;
};

/**
 * What changes by the spans of this batch, whose events of one key follow each other in the log. Of a trace that unsays something all
 * events are said again, since rows are taken away whole.
 */
export async function retell(tx: Session, batch: readonly Read[], applied: Positions | null): Promise<Retelling> {
  const traces = new Map<string, Read[]>();
  for (const event of batch) {
    if (event.name !== 'span.recorded') continue;
    const trace = traces.get(event.key);
    if (trace) trace.push(event);
    else traces.set(event.key, [event]);
  }
  if (traces.size === 0) return { said: [], unsaid: [], refused: [], now: new Map(), toldAgain: 0 };
  const known = await spansBefore(tx, [...traces.values()].flat(), applied);
  const said: Stored[] = [];
  const unsaid: Stored[] = [];
  const refused: Refused[] = [];
  const all = new Map<string, readonly Stored[]>();
  const anew = new Set<string>();
  for (const [key, spans] of traces) {
    const earlier = known.get(key) ?? [];
    const now = toldBy([...earlier, ...spans]);
    refused.push(...now.refused);
    all.set(key, now.events);
    if (earlier.length === 0) {
      said.push(...now.events);
      continue;
    }
    const before = toldBy(earlier).events;
    const idsNow = new Set(now.events.map(identity));
    const gone = before.filter((event) => !idsNow.has(identity(event)));
    const idsBefore = new Set(gone.length > 0 ? [] : before.map(identity));
    unsaid.push(...gone);
    said.push(...now.events.filter((event) => !idsBefore.has(identity(event))));
    if (gone.length > 0) anew.add(key);
  }
  if (anew.size > 0) said.push(...(await othersUntil(tx, anew, batch, applied)));
  return { said, unsaid, refused, now: all, toldAgain: [...known.values()].flat().length };
}

/**
 * The events of a key with what its spans tell in the place of the spans, and what was told before this batch and is told no longer.
 * Without a batch all of them are told, and nothing is unsaid.
 */
export function withTold(
  stored: readonly Read[],
  batch: readonly Read[] | null,
  applied: Positions | null,
): { readonly events: readonly Stored[]; readonly unsaid: readonly Stored[]; readonly told: readonly Stored[] | null } {
  const spans = stored.filter(({ name }) => name === 'span.recorded');
  if (spans.length === 0) return { events: stored, unsaid: [], told: null };
  const isBefore = batch === null ? () => false : isEarlier(batch, applied);
  const here = batch === null ? null : new Set(batch.map(identity));
  const before = spans.filter(isBefore);
  const now = toldBy(here === null ? spans : spans.filter((span) => isBefore(span) || here.has(identity(span)))).events;
  const known = new Set(now.map(identity));
  return {
    events: [...stored.filter(({ name }) => name !== 'span.recorded'), ...now],
    unsaid: toldBy(before).events.filter((event) => !known.has(identity(event))),
    told: now,
  };
}

const identity = ({ key, source, id }: Stored): string => `${key}\u0000${source}\u0000${id}`;

async function spansBefore(
  tx: Session,
  batch: readonly Read[],
  applied: Positions | null,
): Promise<ReadonlyMap<string, Stored[]>> {
  const { rows } = await tx.query<Stored>(
    `select e.key, e.source, e.id, e.name, e.time, e.data
     from unnest($1::text[]) as t (key) cross join lateral (
       select * from troupe.events e where e.key = t.key and e.name = 'span.recorded' offset 0
     ) e ${EARLIER} order by e.log, e.partition, e.position`,
    [[...new Set(batch.map(({ key }) => key))], ...earlierParams(batch, applied)],
    { name: 'spans_before' },
  );
  const found = new Map<string, Stored[]>();
  for (const row of rows) {
    const list = found.get(row.key);
    if (list) list.push(row);
    else found.set(row.key, [row]);
  }
  return found;
}

/** The other events of these keys up to the end of the batch. */
async function othersUntil(
  tx: Session,
  keys: ReadonlySet<string>,
  batch: readonly Read[],
  applied: Positions | null,
): Promise<readonly Stored[]> {
  const here = batch.filter(({ key, name }) => keys.has(key) && name !== 'span.recorded');
  const { rows } = await tx.query<Stored>(
    `select e.key, e.source, e.id, e.name, e.time, e.data
     from unnest($1::text[]) as t (key) cross join lateral (
       select * from troupe.events e where e.key = t.key and e.name <> 'span.recorded' offset 0
     ) e ${EARLIER} order by e.log, e.partition, e.position`,
    [[...keys], ...earlierParams(batch, applied)],
    { name: 'events_beside_spans' },
  );
  return [...rows, ...here];
}
