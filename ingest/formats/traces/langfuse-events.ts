/** Events of Langfuse's ingestion API and the members of its exports, checked, and what is known of each id after all of them. */
import { asText, given, isRecord, type JsonObject } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import type { NativeRefusal } from '../kit/format.ts';
import { badIdentifier, refusal } from '../kit/native.ts';
import { utcOf } from '../kit/run.ts';

/** One event of a batch, or the equivalent member of an export. */
export type Upsert = {
  readonly kind: 'trace' | 'score' | 'observation';
  readonly type: string;
  readonly time: string;
  readonly body: JsonObject;
  readonly at?: number;
};

const TYPES =
  /^(?:trace|score|event|span|generation|agent|tool|chain|retriever|evaluator|embedding|guardrail|observation)-(?:create|update)$|^sdk-log$/;

export const isBatch = (value: unknown): value is JsonObject & { readonly batch: readonly unknown[] } =>
  isRecord(value) &&
  Array.isArray(value.batch) &&
  value.batch.some((event) => isRecord(event) && TYPES.test(asText(event.type)));
export const isExport = (value: unknown): value is JsonObject =>
  isRecord(value) &&
  typeof value.id === 'string' &&
  Array.isArray(value.observations) &&
  ('scores' in value || 'sessionId' in value || 'htmlPath' in value);

export function badEvent(event: unknown, field: string): NativeRefusal | null {
  if (!isRecord(event)) return refusal('bad_type', field, 'an event object', event);
  const { id, type, timestamp, body } = event;
  const bad = badIdentifier(id, `${field}.id`);
  if (bad) return bad;
  if (typeof type !== 'string' || !TYPES.test(type))
    return refusal('bad_type', `${field}.type`, 'a type such as "generation-create"', type);
  if (utcOf(timestamp) === null)
    return refusal('bad_time', `${field}.timestamp`, 'an ISO 8601 time with a zone', timestamp);
  if (!isRecord(body)) return refusal('bad_type', `${field}.body`, 'an object', body);
  if (type === 'sdk-log') return null;
  if (type.startsWith('score-')) return badScore(body, `${field}.body`);
  const badId = badIdentifier(body.id, `${field}.body.id`);
  if (badId) return badId;
  if (!type.startsWith('trace-')) {
    const badTrace =
      body.traceId == null && type.endsWith('-update')
        ? null
        : badIdentifier(body.traceId ?? body.id, `${field}.body.traceId`);
    if (badTrace) return badTrace;
  }
  for (const name of ['startTime', 'endTime']) {
    if (body[name] != null && utcOf(body[name]) === null) {
      return refusal('bad_time', `${field}.body.${name}`, 'an ISO 8601 time with a zone', body[name]);
    }
  }
  return null;
}

/** Why a score cannot be read; null where it can. */
export function badScore(body: JsonObject, field: string): NativeRefusal | null {
  const badName = badIdentifier(body.name, `${field}.name`);
  if (badName) return badName;
  const { value, dataType } = body;
  const numeric = dataType === 'NUMERIC' || dataType === 'BOOLEAN';
  if (numeric && typeof value !== 'number')
    return refusal('bad_number', `${field}.value`, `a number for ${dataType}`, value);
  if (value !== null && !['number', 'string', 'boolean'].includes(typeof value)) {
    return refusal('bad_type', `${field}.value`, 'a number or a text', value);
  }
  const target = ['traceId', 'observationId', 'sessionId', 'datasetRunId'].find((name) => isIdentifier(body[name]));
  return target
    ? null
    : refusal('bad_reference', field, 'a traceId, sessionId, observationId or datasetRunId', body.traceId);
}

export function upsertOf({ type, timestamp, body }: JsonObject): Upsert {
  const [what = ''] = asText(type).split(/-(?:create|update)$/);
  const fields = body as JsonObject;
  const named = what === 'observation' && typeof fields.type === 'string' ? fields.type : what;
  return {
    kind: what === 'trace' || what === 'score' ? what : 'observation',
    type: named.toUpperCase(),
    time: utcOf(timestamp)!,
    body: fields,
  };
}

export function exported(trace: JsonObject): Upsert[] {
  const { observations, scores, ...own } = trace;
  // The list of traces of the API names what belongs to them by ids alone.
  const named = (list: unknown): unknown => (Array.isArray(list) && list.some(isIdentifier) ? list : undefined);
  const body = { ...own, ...given('observations', named(observations)), ...given('scores', named(scores)) };
  const time = utcOf(trace.updatedAt) ?? utcOf(trace.timestamp) ?? '';
  const members = (list: unknown): JsonObject[] => (Array.isArray(list) ? list.filter(isRecord) : []);
  return [
    { kind: 'trace', type: 'TRACE', time, body },
    ...members(observations)
      .filter((one) => isIdentifier(one.id))
      .map(
        (one): Upsert => ({
          kind: 'observation',
          type: asText(one.type ?? 'SPAN').toUpperCase(),
          time: utcOf(one.updatedAt) ?? utcOf(one.endTime) ?? utcOf(one.startTime) ?? '',
          body: { traceId: trace.id, ...one },
        }),
      ),
    ...members(scores)
      .filter((one) => badScore({ traceId: trace.id, ...one }, '') === null)
      .map(
        (one): Upsert => ({
          kind: 'score',
          type: 'SCORE',
          time: utcOf(one.updatedAt) ?? utcOf(one.timestamp) ?? '',
          body: { traceId: trace.id, ...one },
        }),
      ),
  ];
}

export type MergedObject = {
  readonly kind: Upsert['kind'];
  readonly type: string;
  readonly body: JsonObject;
  readonly events: readonly Upsert[];
  /** Time of the first and of the last event about it. */
  readonly first: string;
  readonly revision: string;
};

/** What is known of each id after all its events in the order of their times; a score without an id is kept by itself. */
export function merged(upserts: readonly Upsert[]): MergedObject[] {
  const groups = new Map<string, Upsert[]>();
  for (const one of upserts) {
    const key = JSON.stringify([one.kind, one.body.id ?? [one.time, one.body]]);
    groups.set(key, [...(groups.get(key) ?? []), one]);
  }
  return [...groups.values()].map((group) => {
    const events = group.sort((a, b) => (a.time + JSON.stringify(a.body) < b.time + JSON.stringify(b.body) ? -1 : 1));
    const body: Record<string, unknown> = {};
    for (const { body: next } of events) {
      for (const [name, value] of Object.entries(next)) if (value !== null && value !== undefined) body[name] = value;
    }
    const types = events.map(({ type }) => type);
    return {
      kind: events[0]!.kind,
      type: types.find((type) => type !== 'SPAN' && type !== 'OBSERVATION') ?? types[0]!,
      body,
      events,
      first: events[0]!.time,
      revision: events.at(-1)!.time,
    };
  });
}

export const traceOf = ({ kind, body }: MergedObject): string | null => {
  const id = kind === 'trace' ? body.id : body.traceId;
  return isIdentifier(id) ? id : null;
};
