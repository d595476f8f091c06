/** What rows are made of. Nothing here reads the clock, randomness or other rows. */
import type { EventData, EventName } from '../../ingest/events/events.ts';
import { isRecord } from '../../ingest/events/json.ts';
import type { ColumnType } from '../../ingest/log/copy-rows.ts';

/** A group of columns of one table that one event type owns. `version` is null for stubs and bodies, which only ever appear. */
export type Target = {
  readonly name: string;
  readonly table: string;
  readonly keys: Readonly<Record<string, ColumnType>>;
  readonly columns: Readonly<Record<string, ColumnType>>;
  readonly version: string | null;
};

export type TableRow = Readonly<Record<string, unknown>>;
export type Rows = readonly (readonly [target: Target, rows: readonly TableRow[]])[];

/** An event as the projections see it: corrected by all amendments that are known. */
export type Effective<N extends EventName = EventName> = {
  readonly name: N;
  readonly source: string;
  readonly id: string;
  readonly time: string | null;
  readonly key: string;
  readonly data: EventData<N>;
  /** Sorts by time, then id, then source; an unknown time comes first. */
  readonly version: string;
};

/** `time|id` and, for ids that two sources share, the source. A space for an unknown time sorts before every digit. */
export const versionOf = (event: {
  readonly time: string | null;
  readonly id: string;
  readonly source: string;
}): string => `${event.time === null ? ' ' : sortable(event.time)}|${event.id}\u0001${event.source}`;

/** PostgreSQL leaves out zeros at the end of a second; as text, 10:00:01.5Z would come before 10:00:01Z. */
const sortable = (time: string): string =>
  time.length === 27 ? time : `${time.slice(0, 19)}.${time.slice(20, -1).padEnd(6, '0')}Z`;

/** What of an event has no column. The item of a trace that it was made from is named, not repeated: the event has it whole. */
export function unmapped({
  unmapped: fields,
}: {
  readonly unmapped?: Readonly<Record<string, unknown>> | null;
}): unknown {
  if (!isRecord(fields?.otlp)) return fields ?? null;
  const items = (['span', 'log'] as const).flatMap((kind) => {
    const item = (fields.otlp as Record<string, unknown>)[kind];
    return isRecord(item) ? [[kind, { spanId: item.spanId, traceId: item.traceId }] as const] : [];
  });
  return { ...fields, otlp: Object.fromEntries(items) };
}

/** The plain text in a content: the string, or its text parts joined by line breaks; null when there is none. */
export function textOf(content: unknown): string | null {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return null;
  const texts = content.flatMap((part) => {
    // Programs that record what they send to OpenAI write `text` where the vocabulary has `content`.
    const text = part?.type === 'text' ? (part.content ?? part.text) : null;
    return typeof text === 'string' ? [text] : [];
  });
  return texts.length === 0 ? null : texts.join('\n');
}

/** Content that is more than its text. */
export const partsOf = (content: unknown): unknown => (Array.isArray(content) ? content : null);
