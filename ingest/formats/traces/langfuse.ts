/**
 * Langfuse: batches for its ingestion API, exported traces and scores (langfuse/langfuse, ingestion/types.ts), and its OpenTelemetry
 * spans. A body is an upsert: of several values for one id, the later one that is not null counts.
 */
import { given, isRecord, type JsonObject, without } from '../../events/json.ts';
import { pushAll } from '../../events/push-all.ts';
import { isIdentifier } from '../../events/text.ts';
import { langfuseSpanKind, textOfAny } from '../../traces/langfuse-observations.ts';
import { isOtlp } from '../../traces/otlp/decode.ts';
import { convertOtlp, dialectOfRequest, LANGFUSE, otlpRequests } from '../../traces/otlp-traces.ts';
import { type Act, INCOMPLETE, type Judgement } from '../../traces/trace.ts';
import { type TraceReading, traceReading } from '../../traces/trace-import.ts';
import { type Format, listed, listsOf } from '../kit/format.ts';
import { refusal } from '../kit/native.ts';
import { Reader } from '../kit/reader.ts';
import { utcOf } from '../kit/run.ts';
import {
  exported,
  isBatch,
  isExport,
  type MergedObject,
  merged,
  readEvent,
  readScore,
  TARGETS,
  traceOf,
  type Upsert,
} from './langfuse-events.ts';
import { badRowTime, itemsIn, rowsIn, rowUpserts, withValues } from './langfuse-rows.ts';

export const langfuse: Format = {
  name: LANGFUSE,
  summary:
    'Langfuse: {batch: [{id, type, timestamp, body}]}, exported traces {id, observations, scores}, rows of its exports, its OTLP spans',
  recognises: ({ records }) =>
    records.some(
      (record) =>
        isBatch(record) ||
        itemsIn(record).some(isExport) ||
        dialectOfRequest(record) === LANGFUSE ||
        rowsIn(record).length > 0,
    ),
  gathers: ({ records }) => (records.some(isOtlp) ? 'import:otlp' : `import:${LANGFUSE}`),
  rereads: storedRecords,
  convert: (record) => {
    const requests = listsOf(record.value).flat();
    return requests.some(isOtlp) ? convertOtlp(record) : readLangfuse(requests).converted();
  },
};

/** The records that a stored original came from: requests of OTLP, rows of an export, and events of a batch. */
function storedRecords(stored: unknown): readonly unknown[] {
  const items = listed(stored).filter(isRecord);
  if (items.some((item) => 'span' in item || 'log' in item)) return otlpRequests(items);
  const isRow = ({ type }: JsonObject): boolean => typeof type === 'string' && type === type.toUpperCase();
  // A trace of which only the id is known, from a row of an observation, is derived from that row again.
  const rows = items
    .filter(isRow)
    .flatMap(({ body }) => (isRecord(body) && Object.keys(body).length > 1 ? [body] : []));
  const batch = items.filter((item) => !isRow(item)).map((item, i) => ({ id: `stored-${i}`, ...item }));
  return [...rows, ...(batch.length > 0 ? [{ batch }] : [])];
}

/** An exported trace whose values, and those of its observations, may be JSON in texts. */
const withTexts = ({ observations, ...trace }: JsonObject): JsonObject => ({
  ...withValues(trace),
  observations: (observations as readonly unknown[]).map((one) => (isRecord(one) ? withValues(one) : one)),
});

/** The scores of a request that holds nothing else. */
const scoresIn = (one: unknown): readonly unknown[] | null =>
  isRecord(one) && Array.isArray(one.scores) && !('observations' in one) && !('trace' in one) ? one.scores : null;

/** Batches, scores and exported traces, read together. */
export function readLangfuse(requests: readonly unknown[]): TraceReading {
  const reading = traceReading(LANGFUSE);
  const upserts: Upsert[] = [];
  for (const [at, one] of requests.entries()) {
    const items = itemsIn(one);
    if (items.some(isExport)) pushAll(upserts, items.filter(isExport).map(withTexts).flatMap(exported));
    const scores = scoresIn(one);
    if (scores !== null) {
      for (const [i, score] of scores.entries())
        reading.read(at, score, `scores[${i}]`, 'a score object', (read) =>
          upserts.push({ ...readScore(read, utcOf(read.native.timestamp) ?? ''), at }),
        );
    } else if (isRecord(one) && Array.isArray(one.batch)) {
      for (const [i, event] of one.batch.entries())
        reading.read(at, event, `batch[${i}]`, 'an event object', (read) => {
          const said = readEvent(read);
          if (said) upserts.push({ ...said, at });
        });
    } else {
      const rows = rowUpserts(rowsIn(one).filter((row) => !isExport(row)));
      for (const row of rows) {
        const bad = badRowTime(row);
        if (bad) reading.refusals.push({ ...bad, at, raw: JSON.stringify(row.body) });
        else upserts.push(row);
      }
      if (rows.length === 0 && !items.some(isExport))
        reading.refusals.push({
          ...refusal('bad_shape', '', 'a batch, an exported trace or rows of an export', one),
          at,
        });
    }
  }
  const groups = merged(upserts);
  const observed = new Set(groups.filter(({ kind }) => kind === 'observation').map(({ body }) => body.id));
  for (const group of groups) {
    const trace = traceOf(group);
    if (trace !== null)
      for (const one of group.events) reading.keep(trace, { type: one.type, timestamp: one.time, body: one.body });
    if (group.kind === 'score') reading.judgements.push(scoreOf(group));
    else if (group.kind === 'trace') reading.acts.push(traceAct(group, observed));
    else if (trace !== null) reading.acts.push(observationAct(group, trace));
    else {
      const [{ at = 0, body }] = group.events as [Upsert];
      const bad = refusal(
        'bad_reference',
        'body.traceId',
        'the trace, here or in another event about this id',
        body.traceId,
      );
      reading.refusals.push({ ...bad, at, raw: JSON.stringify(body) });
    }
  }
  return reading;
}

function traceAct({ body, first, revision }: MergedObject, observed: ReadonlySet<unknown>): Act {
  const metadata = isRecord(body.metadata) ? body.metadata : {};
  const named = Array.isArray(body.observations) ? body.observations.filter(isIdentifier) : [];
  return {
    format: LANGFUSE,
    trace: body.id as string,
    id: body.id as string,
    parent: null,
    name: typeof body.name === 'string' ? body.name : '',
    start: utcOf(body.timestamp) ?? (first || null),
    end: null,
    what: { kind: 'episode' },
    revision,
    // Its observations are in another file, or nowhere.
    flags: named.some((id) => !observed.has(id)) ? [INCOMPLETE] : undefined,
    about: {
      sessionId: isIdentifier(body.sessionId) ? body.sessionId : undefined,
      taskId: isIdentifier(metadata.task_id) ? metadata.task_id : undefined,
      taskText: textOfAny(body.input),
      answer: textOfAny(body.output),
      tags: without({ ...new Reader(body).these(...TAGS), metadata: without(metadata, 'task_id') }),
    },
    unmapped: without(body, 'id', 'timestamp', 'sessionId', 'metadata', 'input', 'output', ...TAGS),
  };
}

const TAGS = ['tags', 'name', 'release', 'environment'];
const MAPPED = ['id', 'traceId', 'type', 'parentObservationId', 'name', 'startTime', 'endTime', 'level'];
const CONTENT = ['input', 'output', 'model', 'modelParameters', 'usageDetails', 'usage'];

function observationAct({ body, type, revision }: MergedObject, trace: string): Act {
  const { what, agent } = langfuseSpanKind(type, body);
  const failed = body.level === 'ERROR';
  const parent = body.parentObservationId;
  const isCall = what.kind !== 'wrapper' && what.kind !== 'agent';
  return {
    format: LANGFUSE,
    trace,
    id: body.id as string,
    parent: isIdentifier(parent) ? parent : trace,
    name: typeof body.name === 'string' ? body.name : '',
    start: utcOf(body.startTime),
    end: utcOf(body.endTime),
    what,
    agent,
    revision,
    ...(failed ? { error: body.statusMessage ?? '' } : {}),
    unmapped: without(body, ...MAPPED, 'statusMessage', ...(isCall ? CONTENT : [])),
  };
}

function scoreOf({ body, revision, first }: MergedObject): Judgement {
  const { value, dataType } = body;
  const observation = isIdentifier(body.observationId) ? body.observationId : null;
  const trace = isIdentifier(body.traceId) ? body.traceId : null;
  const foreign = [body.sessionId, body.datasetRunId, observation].find(isIdentifier);
  const named = dataType === 'CATEGORICAL' && typeof body.stringValue === 'string' ? body.stringValue : value;
  const scored = dataType === 'BOOLEAN' && typeof value === 'number' ? value !== 0 : named;
  const text = typeof scored === 'string';
  return {
    format: LANGFUSE,
    id: isIdentifier(body.id) ? body.id : null,
    trace,
    act: observation,
    ...given('foreign', foreign),
    name: body.name as string,
    ...(text ? { label: scored, value: scored } : { value: (scored as number | boolean | undefined) ?? null }),
    ...given('explanation', typeof body.comment === 'string' ? body.comment : undefined),
    ...given('by', byOf(body.source)),
    time: utcOf(body.timestamp) ?? (first || null),
    revision,
    unmapped: without(body, 'id', 'name', 'value', 'comment', 'timestamp', ...TARGETS),
  };
}

const byOf = (source: unknown): string | undefined =>
  source === 'ANNOTATION' ? 'human' : source === 'EVAL' ? 'model' : source === 'API' ? 'code' : undefined;
