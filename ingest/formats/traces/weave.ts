/**
 * Calls of W&B Weave (wandb/weave 0.54.0: trace/weave_client.py writes them, vendor/weave_server_sdk/types/call_read_response.py is their
 * form), as the trace server's `calls/stream_query` and the export of its page give them: one call a line, with feedback in its summary
 * or in rows of its own. Of an evaluation each example is an episode.
 */
import { asText, hashId, isRecord, type JsonObject, without } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import type { About, Act, Judgement } from '../../traces/trace.ts';
import { type TraceReading, traceReading } from '../../traces/trace-import.ts';
import { type Format, listed, listsOf } from '../kit/format.ts';
import { refusal } from '../kit/native.ts';
import { Reader } from '../kit/reader.ts';
import { timeOfMixed } from '../kit/run.ts';
import { jsonIn, withObjects } from '../kit/span-attributes.ts';
import { opName, toolsAsked, weaveSpanKind } from './weave-calls.ts';

const NAME = 'weave';

const isCall = (record: unknown): record is JsonObject =>
  isRecord(record) && typeof record.op_name === 'string' && 'trace_id' in record && 'started_at' in record;
const isFeedback = (record: unknown): record is JsonObject =>
  isRecord(record) && typeof record.feedback_type === 'string' && 'weave_ref' in record;
const isAnswer = (record: unknown): record is { readonly calls: readonly unknown[] } =>
  isRecord(record) && Array.isArray(record.calls) && record.calls.some(isCall);

export const weave: Format = {
  name: NAME,
  summary: 'W&B Weave calls {op_name, trace_id, inputs, output}, one a line, and feedback {weave_ref, feedback_type}',
  recognises: ({ records }) => records.some((record) => isCall(record) || isFeedback(record) || isAnswer(record)),
  gathers: () => `import:${NAME}`,
  rereads: listed,
  convert: ({ value }) => readWeave(listsOf(value).flat()).converted(),
};

type CallRecord = { readonly call: JsonObject & { readonly id: string }; readonly native: unknown };

function readWeave(records: readonly unknown[]): TraceReading {
  const reading = traceReading(NAME);
  const calls = new Map<string, CallRecord>();
  const feedback: { readonly row: JsonObject; readonly at: number }[] = [];
  if (records.length === 0)
    reading.refusals.push({ ...refusal('bad_shape', '', 'calls or feedback', records), at: 0, raw: '[]' });
  for (const [at, record] of records.entries()) {
    for (const one of isAnswer(record) ? record.calls : [record]) {
      if (isFeedback(one)) {
        feedback.push({ row: one, at });
        continue;
      }
      if (!isCall(one)) {
        reading.refusals.push({ ...refusal('bad_shape', '', CALL, one), at, raw: JSON.stringify(one ?? null) });
        continue;
      }
      reading.read(at, one, '', CALL, (native) => {
        checkCall(native);
        // Inputs are an object; where they are a text, the row comes from a table.
        const read = typeof native.native.inputs === 'string' ? withObjects(native.native, OBJECTS) : native.native;
        const call = plain(read) as CallRecord['call'];
        const before = calls.get(call.id);
        // A call that was exported while it ran, and again after it.
        if (!before || fuller(call, before.call)) calls.set(call.id, { call, native: one });
        for (const row of feedbackIn(call)) feedback.push({ row, at });
      });
    }
  }
  const traceOf = traces(calls);
  const asked = new Map<string, Set<string>>();
  for (const { call } of calls.values()) {
    const names = asked.get(call.trace_id as string) ?? new Set();
    asked.set(call.trace_id as string, names);
    for (const name of toolsAsked(weaveSpanKind(call, NONE))) names.add(name);
  }
  const evaluations = new Set([...calls.values()].flatMap(({ call }) => (isExample(call) ? [call.trace_id] : [])));
  for (const { call, native } of calls.values()) {
    const trace = traceOf(call.id)!;
    const meaning = weaveSpanKind(call, asked.get(call.trace_id as string) ?? NONE);
    // What stands around the examples of an evaluation is no episode.
    if (meaning.what.kind === 'wrapper' && trace === call.trace_id && evaluations.has(trace)) continue;
    reading.acts.push(actOf(call, trace, meaning));
    reading.keep(trace, native);
    if (isExample(call)) reading.judgements.push(...scoresOf(call));
  }
  for (const { row, at } of feedback) {
    // The example around a call that a scorer judged says the same.
    if (scorerOf(row) in scoresIn(calls.get(traceOf(refOf(row) ?? '') ?? '')?.call)) continue;
    const judged = feedbackOf(row, traceOf);
    if (judged.length > 0) reading.judgements.push(...judged);
    else
      reading.refusals.push({ ...refusal('bad_reference', 'weave_ref', 'the reference of a call', row.weave_ref), at });
  }
  return reading;
}

const NONE: ReadonlySet<string> = new Set();
const OBJECTS = ['inputs', 'output', 'summary', 'attributes'];

const CALL = 'a call {id, op_name, trace_id, started_at} or feedback';

/** Ends the reading of what cannot be a call. */
function checkCall(call: Reader): void {
  call.ownId('id');
  call.ownId('trace_id');
  call.idIfAny('parent_id');
  for (const name of ['started_at', 'ended_at']) call.timeIfAny(name, timeOfMixed, 'an ISO 8601 time');
}

const fuller = (call: JsonObject, before: JsonObject): boolean =>
  (timeOfMixed(call.ended_at) ?? '') > (timeOfMixed(before.ended_at) ?? '') ||
  (timeOfMixed(call.ended_at) === timeOfMixed(before.ended_at) && JSON.stringify(call) > JSON.stringify(before));

const PYTHON = new Set(['_type', '_class_name', '_bases']);
/** What a client library holds in the place of an argument that was not given, and objects that have no other text. */
const UNSAID = /^(?:NOT_GIVEN|Omit\(\)|<.+ object at 0x[0-9a-f]+>)$/;

/** A value without what Weave adds for Python: names of classes, and arguments that were not given. */
function plain(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(plain);
  if (!isRecord(value)) return value;
  const ofPython = '_class_name' in value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(
        ([name, member]) => !(ofPython && PYTHON.has(name)) && !(typeof member === 'string' && UNSAID.test(member)),
      )
      .map(([name, member]) => [name, plain(member)]),
  );
}

const isExample = (call: JsonObject): boolean => opName(call) === 'Evaluation.predict_and_score';

/** The episode of each call: the example of an evaluation around it, else its trace; null for a call that is not there. */
function traces(calls: ReadonlyMap<string, CallRecord>): (id: string) => string | null {
  const found = new Map<string, string>();
  return (id) => {
    const way = new Set<string>();
    for (let at: string = id; !way.has(at) && !found.has(id); ) {
      const call = calls.get(at)?.call;
      if (!call) break;
      way.add(at);
      const trace = found.get(at) ?? (isExample(call) ? call.id : undefined);
      if (trace !== undefined) found.set(id, trace);
      else at = typeof call.parent_id === 'string' ? call.parent_id : '';
    }
    const trace = found.get(id) ?? calls.get(id)?.call.trace_id;
    for (const one of way) if (typeof trace === 'string') found.set(one, trace);
    return typeof trace === 'string' ? trace : null;
  };
}

function actOf(
  native: CallRecord['call'],
  trace: string,
  { what, agent, flags }: ReturnType<typeof weaveSpanKind>,
): Act {
  const call = new Reader(Object.fromEntries(Object.entries(native).filter(([, member]) => member !== null)));
  const exception = call.any('exception');
  const start = timeOfMixed(call.any('started_at'));
  const end = timeOfMixed(call.any('ended_at'));
  const parent = call.id('parent_id') ?? null;
  call.these('id', 'trace_id', 'op_name', 'thread_id', 'project_id');
  if (what.kind === 'generation' || what.kind === 'tool' || what.kind === 'observation') call.these('inputs', 'output');
  return {
    format: NAME,
    trace,
    id: native.id,
    parent: native.id === trace ? null : parent,
    name: opName(native),
    start,
    end,
    what,
    agent,
    flags,
    error: exception === undefined ? undefined : withoutPlaces(jsonIn(exception) ?? exception),
    about: aboutOf(native, trace),
    revision: end ?? '',
    unmapped: call.rest(),
  };
}

/** A traceback names the files of the machine; the record keeps it. */
const withoutPlaces = (error: unknown): unknown => (isRecord(error) ? without(error, 'traceback') : error);

function aboutOf(call: CallRecord['call'], trace: string): About {
  const attributes = isRecord(call.attributes) ? call.attributes : {};
  const root = call.parent_id == null || call.id === trace;
  const tags = without(attributes, ...OF_WEAVE, 'task_id');
  const example = isExample(call) ? exampleOf(call) : null;
  return {
    sessionId: isIdentifier(call.thread_id) ? call.thread_id : undefined,
    taskId: [attributes.task_id, example?.taskId].find(isIdentifier),
    // The text of a row is not in the file, and what a judge was asked is not the task.
    ...(example ? { groupId: example.groupId, taskText: '' } : {}),
    ...(root ? { tags: without({ ...tags, project: call.project_id ?? undefined }) } : {}),
  };
}

const OF_WEAVE = ['weave', 'integration', '_weave_eval_meta', 'lc_id', 'lc_name', 'parent_run_id'];

/** An example that is the row of a dataset is named by the digest of its content; the trials of a model are a group. */
function exampleOf({ inputs }: JsonObject): { readonly taskId: string; readonly groupId: string } | null {
  const { example, model } = isRecord(inputs) ? inputs : {};
  const row = typeof example === 'string' ? /^weave:\/\/\/.+\/id\/([^/]+)$/.exec(example)?.[1] : undefined;
  if (row === undefined) return null;
  return { taskId: `${NAME}/${row}`, groupId: hashId(NAME, row, model ?? null) };
}

const leaves = (value: unknown, name: string): (readonly [string, number | boolean | string])[] =>
  typeof value === 'number' || typeof value === 'boolean'
    ? [[name, value]]
    : isRecord(value)
      ? Object.entries(value).flatMap(([key, member]) => leaves(member, `${name}.${key}`))
      : [];

const scoresIn = (call: JsonObject | undefined): JsonObject =>
  call && isExample(call) && isRecord(call.output) && isRecord(call.output.scores) ? call.output.scores : {};

/** What the scorers of an evaluation found: each number and boolean of them is a score of the example. */
function scoresOf(call: CallRecord['call']): Judgement[] {
  return Object.entries(scoresIn(call))
    .flatMap(([name, value]) => leaves(value, name))
    .filter(([name]) => isIdentifier(name))
    .map(([name, value]) => ({
      format: NAME,
      id: `${call.id}/${name}`,
      trace: call.id,
      act: call.id,
      name,
      value,
      by: 'code',
      time: timeOfMixed(call.ended_at),
    }));
}

const feedbackIn = ({ summary }: JsonObject): readonly JsonObject[] => {
  const derived = isRecord(summary) && isRecord(summary.weave) ? summary.weave : {};
  return Array.isArray(derived.feedback) ? derived.feedback.filter(isFeedback) : [];
};

/** The id of the call that feedback is about; null where it names none. */
function refOf({ weave_ref: ref }: JsonObject): string | null {
  const id = typeof ref === 'string' ? /^weave:\/\/\/.+\/call\/([^/]+)/.exec(ref)?.[1] : undefined;
  return isIdentifier(id) ? id : null;
}

/** The name of the scorer whose result feedback is; empty where it is none. */
const scorerOf = ({ feedback_type: type }: JsonObject): string =>
  /^wandb\.runnable\.(.+)$/.exec(asText(type))?.[1] ?? '';

/** Reactions and notes of people, annotations, results of scorers, and kinds of the program's own. None where it names no call. */
function feedbackOf(row: JsonObject, traceOf: (call: string) => string | null): Judgement[] {
  const id = refOf(row);
  if (id === null) return [];
  const type = row.feedback_type as string;
  const payload = isRecord(row.payload) ? row.payload : {};
  const scored = scorerOf(row) !== '';
  const name = scored ? scorerOf(row) : (/^wandb\.(?:annotation\.)?(.+?)(?:\.1)?$/.exec(type)?.[1] ?? type);
  const found = leaves(payload.output ?? payload.value, name);
  const texts = [payload.output, payload.value, payload.emoji].filter((text) => typeof text === 'string');
  const values: (readonly [string, number | boolean | string | null])[] =
    found.length > 0 ? found : [[name, (texts[0] as string | undefined) ?? null]];
  return values
    .filter(([one]) => isIdentifier(one))
    .map(([one, value]) => ({
      format: NAME,
      id: isIdentifier(row.id) ? (values.length > 1 ? `${row.id}/${one}` : row.id) : null,
      trace: traceOf(id),
      act: id,
      name: one,
      value,
      label: typeof value === 'string' ? value : undefined,
      explanation: typeof payload.note === 'string' ? payload.note : undefined,
      by: scored || !type.startsWith('wandb.') ? 'code' : 'human',
      annotator: isIdentifier(row.creator) ? row.creator : undefined,
      time: timeOfMixed(row.created_at),
      unmapped: without({ payload: Object.keys(payload).length > 0 ? payload : undefined }),
    }));
}
