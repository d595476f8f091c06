/**
 * Exports of Langfuse that hold traces, observations and scores in rows of their own: pages {data, meta} of its API, the export of its
 * pages, and blob storage, which holds the columns of its database: names in snake case, times in UTC without a zone, values as texts
 * (langfuse/langfuse, packages/shared/src/server/repositories).
 */
import { asText, isRecord, type JsonObject } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import type { NativeRefusal } from '../kit/format.ts';
import { refusal } from '../kit/native.ts';
import { timeOfMixed, utcOf } from '../kit/run.ts';
import { jsonIn } from '../kit/span-attributes.ts';
import type { Upsert } from './langfuse-events.ts';

const TYPES = /^(?:EVENT|SPAN|GENERATION|AGENT|TOOL|CHAIN|RETRIEVER|EVALUATOR|EMBEDDING|GUARDRAIL)$/;

/** What a page of the API holds, the trace that its web page downloads as `{trace, observations}`, or the record alone. */
export function itemsIn(record: unknown): readonly unknown[] {
  if (!isRecord(record)) return [record];
  const { data, meta, trace, observations } = record;
  if (Array.isArray(data) && isRecord(meta)) return data;
  const isDownload = isRecord(trace) && Array.isArray(observations) && observations.every(isOf(trace));
  return isDownload ? [{ scores: record.scores ?? [], ...trace, observations }] : [record];
}

const isOf =
  ({ id }: JsonObject) =>
  (observation: unknown): boolean =>
    isRecord(observation) &&
    typeof id === 'string' &&
    observation.traceId === id &&
    TYPES.test(asText(observation.type));

/** The rows of a page, or the record as the one row; none where it holds no row of Langfuse. */
export function rowsIn(record: unknown): JsonObject[] {
  return itemsIn(record).filter((row): row is JsonObject => isRecord(row) && kindOf(camel(row)) !== null);
}

function kindOf(row: JsonObject): Upsert['kind'] | null {
  if (!isIdentifier(row.id)) return null;
  if (isIdentifier(row.traceId) && TYPES.test(asText(row.type)) && 'startTime' in row) return 'observation';
  if (isIdentifier(row.name) && 'dataType' in row && 'source' in row && ('value' in row || 'stringValue' in row))
    return 'score';
  return 'timestamp' in row && 'sessionId' in row && 'tags' in row && !('traceId' in row) ? 'trace' : null;
}

/** Rows as what a batch would say of them. A row without a parent is the root of its trace, of which nothing else may be there. */
export function rowUpserts(rows: readonly JsonObject[]): Upsert[] {
  return rows.flatMap((native): Upsert[] => {
    const row = read(camel(native));
    const kind = kindOf(row)!;
    const time =
      [row.updatedAt, row.endTime, row.startTime, row.timestamp].find((one) => typeof one === 'string') ?? '';
    const one = {
      kind,
      type: kind === 'observation' ? asText(row.type) : kind.toUpperCase(),
      time: time as string,
      body: row,
    };
    if (kind !== 'observation' || isIdentifier(row.parentObservationId)) return [one];
    return [{ kind: 'trace', type: 'TRACE', time: asText(row.startTime ?? ''), body: { id: row.traceId } }, one];
  });
}

/** Why the time of a row cannot be read; null where it can. */
export function badRowTime({ body }: Upsert): NativeRefusal | null {
  const name = ['startTime', 'endTime', 'timestamp'].find((one) => body[one] != null && utcOf(body[one]) === null);
  return name === undefined ? null : refusal('bad_time', name, 'an ISO 8601 time', body[name]);
}

const camel = (row: JsonObject): JsonObject =>
  Object.fromEntries(
    Object.entries(row).map(([name, value]) => [
      name === 'provided_model_name' ? 'model' : name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()),
      value,
    ]),
  );

const TIMES = new Set(['startTime', 'endTime', 'timestamp', 'createdAt', 'updatedAt', 'completionStartTime']);

const OBJECTS = new Set(['metadata', 'modelParameters', 'usageDetails', 'costDetails', 'tags']);

/** Times with their zone, and values that are JSON in texts as what they are. */
const read = (row: JsonObject): JsonObject =>
  withValues(
    Object.fromEntries(
      Object.entries(row).map(([name, value]) => [
        name,
        TIMES.has(name) ? (timeOfMixed(typeof value === 'string' ? value.replace(' ', 'T') : value) ?? value) : value,
      ]),
    ),
  );

/** Values that are JSON in texts as what they are. */
export const withValues = (row: JsonObject): JsonObject =>
  Object.fromEntries(
    Object.entries(row).map(([name, value]) => {
      if (name === 'input' || name === 'output') return [name, messagesIn(value)];
      return [name, OBJECTS.has(name) ? (jsonIn(value) ?? value) : value];
    }),
  );

/** A text that is a list of messages or a message; any other text may be what a model wrote, and stays. */
function messagesIn(value: unknown): unknown {
  const found = typeof value === 'string' && /^\s*[[{]/.test(value) ? jsonIn(value) : undefined;
  const isMessages =
    Array.isArray(found) && found.length > 0 && found.every((one) => isRecord(one) && ('role' in one || 'type' in one));
  const isMessage =
    isRecord(found) && ['role', 'messages', 'choices', 'tool_calls', 'tool_call_id'].some((name) => name in found);
  return isMessages || isMessage ? found : value;
}
