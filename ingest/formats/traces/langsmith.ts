/**
 * LangSmith runs of LangChain and LangGraph (langchain-ai/langsmith-sdk, js/src/schemas.ts): batches `{post, patch}`, trees with
 * `child_runs`, single runs and feedback. A patch changes the run that was posted, whichever comes first.
 */
import { given, isRecord, type JsonObject } from '../../events/json.ts';
import { pushAll } from '../../events/push-all.ts';
import { isIdentifier } from '../../events/text.ts';
import { langsmithAct } from '../../traces/langsmith-runs.ts';
import { LANGSMITH } from '../../traces/langsmith-spans.ts';
import { isOtlp } from '../../traces/otlp/decode.ts';
import { convertOtlp, dialectOfRequest } from '../../traces/otlp-traces.ts';
import type { Judgement } from '../../traces/trace.ts';
import { type TraceReading, traceReading } from '../../traces/trace-import.ts';
import { type Format, listed, listsOf } from '../kit/format.ts';
import { refusal } from '../kit/native.ts';
import { Reader, unreadable } from '../kit/reader.ts';
import { timeOfMixed } from '../kit/run.ts';
import { withObjects } from '../kit/span-attributes.ts';

const NAME = 'langsmith';

type PlacedRun = { readonly run: unknown; readonly field: string; readonly at: number; readonly patch: boolean };

export const langsmith: Format = {
  name: NAME,
  summary:
    'LangSmith runs of LangChain and LangGraph: {post, patch} batches, run trees {run_type, child_runs}, feedback; its OTLP spans',
  recognises: ({ records }) =>
    records.some(
      (record) =>
        runsIn(record).some(isSent) || isRun(record) || isFeedback(record) || dialectOfRequest(record) === LANGSMITH,
    ),
  gathers: () => `import:${NAME}`,
  rereads: listed,
  convert: (record) => {
    const requests = listsOf(record.value).flat();
    return requests.some(isOtlp) ? convertOtlp(record) : readLangsmith(requests).converted();
  },
};

/** What a batch posts is whole runs; what it patches may be no more than an id and the place in its trace. */
const isSent = (run: unknown): boolean =>
  isRecord(run) && ('run_type' in run || 'dotted_order' in run || 'trace_id' in run);
const runsIn = (value: unknown): readonly unknown[] =>
  isBatch(value) ? [value.post, value.patch].flatMap((runs) => (Array.isArray(runs) ? runs : [])) : [];

const isBatch = (value: unknown): value is JsonObject =>
  isRecord(value) && (Array.isArray(value.post) || Array.isArray(value.patch)) && !('batch' in value);
const isRun = (value: unknown): value is JsonObject =>
  isRecord(value) &&
  typeof value.run_type === 'string' &&
  ('dotted_order' in value || 'trace_id' in value || 'child_runs' in value);
const isFeedback = (value: unknown): value is JsonObject =>
  isRecord(value) &&
  typeof value.key === 'string' &&
  ('run_id' in value || 'trace_id' in value) &&
  ('score' in value || 'value' in value);

/** Batches, run trees, single runs and feedback, read together. */
export function readLangsmith(requests: readonly unknown[]): TraceReading {
  const reading = traceReading(NAME);
  const placed: PlacedRun[] = [];
  for (const [at, one] of requests.entries()) {
    const add = (list: unknown, name: string, patch: boolean): void => {
      for (const [i, run] of (Array.isArray(list) ? list : []).entries())
        placed.push({ run, field: `${name}[${i}]`, at, patch });
    };
    if (isFeedback(one)) {
      const feedback = feedbackOf(new Reader(one));
      if (feedback) reading.judgements.push(feedback);
      else reading.refusals.push({ ...refusal('bad_identifier', 'run_id', 'the id of a run', one.run_id), at });
    } else if (isBatch(one)) {
      add(one.post, 'post', false);
      add(one.patch, 'patch', true);
    } else if (isRecord(one) && ('run_type' in one || 'child_runs' in one)) pushAll(placed, unfolded(one, '', at));
    else reading.refusals.push({ ...refusal('bad_shape', '', 'runs or feedback', one), at });
  }
  const runs = new Map<string, { posts: JsonObject[]; patches: PlacedRun[] }>();
  for (const one of placed)
    reading.read(one.at, one.run, one.field, 'a run object', (run) => {
      const id = runId(run, one.patch);
      const known = runs.get(id) ?? { posts: [], patches: [] };
      runs.set(id, known);
      if (one.patch) known.patches.push(one);
      else known.posts.push(run.native);
    });
  for (const [id, { posts, patches }] of runs) {
    if (posts.length === 0) {
      for (const { at, run, field } of patches)
        reading.read(at, run, field, 'a run object', (patch) =>
          unreadable('bad_reference', patch.path('id'), 'the id of a run that was posted', id),
        );
      continue;
    }
    const changes = patches.map(({ run }) => run as JsonObject);
    const run = mergedRun(posts, changes);
    const act = langsmithAct(NAME, withObjects(run, OBJECTS), traceIdOf(run));
    reading.acts.push(act);
    for (const change of [...posts, ...changes]) reading.keep(act.trace, change);
  }
  const traces = new Map(reading.acts.map(({ id, trace }) => [id, trace]));
  for (const [i, judgement] of reading.judgements.entries()) {
    reading.judgements[i] = { ...judgement, trace: judgement.trace ?? traces.get(judgement.act ?? '') ?? null };
  }
  return reading;
}

/** The trace that an update of a run names, for a run that was not posted yet; null where it names none. */
export function traceOfPatch(request: unknown): string | null {
  if (!isBatch(request) || !Array.isArray(request.patch)) return null;
  const [run] = request.patch as unknown[];
  if (!isRecord(run) || new Reader({}).attempt(() => runId(new Reader(run), true)).length === 0) return null;
  return isIdentifier(run.trace_id) || typeof run.dotted_order === 'string' ? traceIdOf(run) : null;
}

/** A tree of runs as a list; a child without a parent id belongs to the run around it. */
function unfolded(run: JsonObject, field: string, at: number, parent: JsonObject | null = null): PlacedRun[] {
  const { child_runs: children, ...own } = run;
  const known = parent ? { parent_run_id: parent.id, ...given('trace_id', parent.trace_id ?? parent.id), ...own } : own;
  return [
    { run: known, field: field === '' ? 'run' : field, at, patch: false },
    ...(Array.isArray(children) ? children : []).flatMap((child: unknown, i) => {
      const place = `${field === '' ? '' : `${field}.`}child_runs[${i}]`;
      return isRecord(child) ? unfolded(child, place, at, known) : [{ run: child, field: place, at, patch: false }];
    }),
  ];
}

const UUID = '[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{12}';
const DOTTED = new RegExp(`^\\d{8}T\\d{12}Z${UUID}(?:\\.\\d{8}T\\d{12}Z${UUID})*$`);

const KINDS = 'chain, llm, tool, retriever …';

/** The id of a run; what cannot be a run ends its reading. */
function runId(run: Reader, patch: boolean): string {
  const id = run.ownId('id');
  const dotted = run.any('dotted_order');
  if (dotted !== undefined && (typeof dotted !== 'string' || !DOTTED.test(dotted)))
    return unreadable('bad_shape', run.path('dotted_order'), 'times and run ids joined by dots', dotted);
  for (const name of ['start_time', 'end_time'])
    run.timeIfAny(name, timeOfMixed, 'an ISO 8601 time or milliseconds since 1970');
  for (const name of ['trace_id', 'parent_run_id']) run.idIfAny(name);
  if (!patch && run.text('run_type', KINDS) === '') return unreadable('bad_type', run.path('run_type'), KINDS, '');
  return id;
}

/** A run after its patches, in the order of the times they give; members that are null change nothing. */
function mergedRun(posts: readonly JsonObject[], patches: readonly JsonObject[]): JsonObject {
  const orderOf = (run: JsonObject): string => `${timeOfMixed(run.end_time) ?? ''}${JSON.stringify(run)}`;
  const sorted = (runs: readonly JsonObject[]): JsonObject[] =>
    [...runs].sort((a, b) => (orderOf(a) < orderOf(b) ? -1 : 1));
  const merged: Record<string, unknown> = {};
  for (const change of [...sorted(posts), ...sorted(patches)]) {
    for (const [name, value] of Object.entries(change)) if (value !== null && value !== undefined) merged[name] = value;
  }
  return merged;
}

/** Tables of a bulk export hold them as texts. */
const OBJECTS = ['inputs', 'outputs', 'extra', 'events', 'serialized', 'feedback_stats'];

/** The root of a run: as given, or the first id in its dotted order, or itself. */
function traceIdOf({ trace_id: trace, dotted_order: dotted, id }: JsonObject): string {
  if (typeof trace === 'string') return trace;
  const first = typeof dotted === 'string' ? dotted.split('.')[0]!.replace(/^\d{8}T\d{12}Z/, '') : undefined;
  return first ?? (id as string);
}

function feedbackOf(feedback: Reader): Judgement | null {
  const name = feedback.id('key');
  const [run = null, trace = null] = [feedback.id('run_id'), feedback.id('trace_id')];
  if (name === undefined || (run === null && trace === null)) return null;
  const { value } = feedback.native;
  const judged = feedback.any('score') ?? value;
  const plain = typeof judged === 'number' || typeof judged === 'boolean' || typeof judged === 'string';
  if (plain) feedback.any('value');
  return {
    format: NAME,
    id: feedback.id('id') ?? null,
    trace,
    act: run,
    name,
    ...(plain ? { value: judged } : judged === undefined ? {} : { value: null }),
    label: typeof value === 'string' ? value : undefined,
    explanation: feedback.text('comment'),
    time: timeOfMixed(feedback.any('created_at')),
    unmapped: feedback.rest(),
  };
}
