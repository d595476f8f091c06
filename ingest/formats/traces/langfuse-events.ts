/** Events of Langfuse's ingestion API and the members of its exports, checked, and what is known of each id after all of them. */
import { asText, given, isRecord, type JsonObject } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import { badIdentifier } from '../kit/native.ts';
import { demand, Reader, unreadable } from '../kit/reader.ts';
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

const TIME = 'an ISO 8601 time with a zone';
const TYPE = 'a type such as "generation-create"';
export const TARGETS = ['traceId', 'observationId', 'sessionId', 'datasetRunId'];

/** What an event of a batch says of an object; null for one that says nothing of any. */
export function readEvent(event: Reader): Upsert | null {
  event.ownId('id');
  const type = event.text('type', TYPE);
  if (!TYPES.test(type)) unreadable('bad_type', event.path('type'), TYPE, type);
  const { timestamp } = event.native;
  const time = utcOf(timestamp) ?? unreadable('bad_time', event.path('timestamp'), TIME, timestamp);
  const body = event.object('body', 'an object');
  const { native } = body;
  if (type === 'sdk-log') return null;
  const what = type.replace(/-(?:create|update)$/, '');
  if (what === 'score') return readScore(body, time);
  body.ownId('id');
  if (what !== 'trace' && (native.traceId != null || !type.endsWith('-update')))
    demand(badIdentifier(native.traceId ?? native.id, body.path('traceId')));
  for (const name of ['startTime', 'endTime']) body.timeIfAny(name, utcOf, TIME);
  const named = what === 'observation' && typeof native.type === 'string' ? native.type : what;
  return { kind: what === 'trace' ? what : 'observation', type: named.toUpperCase(), time, body: native };
}

/** A judgement of a trace, an observation, a session or a run of a data set. */
export function readScore(score: Reader, time: string): Upsert {
  score.ownId('name');
  const { value, dataType, traceId } = score.native;
  if (/^(?:NUMERIC|BOOLEAN)$/.test(asText(dataType)) && typeof value !== 'number')
    unreadable('bad_number', score.path('value'), `a number for ${asText(dataType)}`, value);
  if (value !== null && !['number', 'string', 'boolean'].includes(typeof value))
    unreadable('bad_type', score.path('value'), 'a number or a text', value);
  if (!TARGETS.some((name) => isIdentifier(score.native[name])))
    unreadable('bad_reference', score.at, 'a traceId, sessionId, observationId or datasetRunId', traceId);
  return { kind: 'score', type: 'SCORE', time, body: score.native };
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
    ...members(scores).flatMap((one) =>
      // A score that says too little is left out.
      new Reader({}).attempt(() =>
        readScore(new Reader({ traceId: trace.id, ...one }), utcOf(one.updatedAt) ?? utcOf(one.timestamp) ?? ''),
      ),
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
