/**
 * LangSmith runs of LangChain and LangGraph (langchain-ai/langsmith-sdk, js/src/schemas.ts): batches `{post, patch}`, trees with
 * `child_runs`, single runs and feedback. A patch changes the run that was posted, whichever comes first.
 */
import { given, isRecord, type JsonObject, without } from '../../events/json.ts';
import { pushAll } from '../../events/push-all.ts';
import { isIdentifier } from '../../events/text.ts';
import { langsmithAct } from '../../traces/langsmith-runs.ts';
import { LANGSMITH } from '../../traces/langsmith-spans.ts';
import { isOtlp } from '../../traces/otlp/decode.ts';
import { convertOtlp, dialectOfRequest } from '../../traces/otlp-traces.ts';
import type { Judgement } from '../../traces/trace.ts';
import { type TraceReading, traceReading } from '../../traces/trace-import.ts';
import { type Format, listed, listsOf, type NativeRefusal } from '../kit/format.ts';
import { badIdentifier, refusal } from '../kit/native.ts';
import { timeOfMixed } from '../kit/run-times.ts';
import { withObjects } from '../kit/span-attributes.ts';

const NAME = 'langsmith';

type PlacedRun = { readonly run: JsonObject; readonly field: string; readonly at: number; readonly patch: boolean };

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
  restates: new Set(['task.defined']),
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
    const add = (list: unknown, field: string, patch: boolean): void => {
      for (const [i, run] of (Array.isArray(list) ? list : []).entries())
        placed.push({ run: run as JsonObject, field: `${field}[${i}]`, at, patch });
    };
    if (isFeedback(one)) {
      const feedback = feedbackOf(one);
      if (feedback) reading.judgements.push(feedback);
      else reading.refusals.push({ ...refusal('bad_identifier', 'run_id', 'the id of a run', one.run_id), at });
    } else if (isBatch(one)) {
      add(one.post, 'post', false);
      add(one.patch, 'patch', true);
    } else if (isRecord(one) && ('run_type' in one || 'child_runs' in one)) pushAll(placed, unfolded(one, '', at));
    else reading.refusals.push({ ...refusal('bad_shape', '', 'runs or feedback', one), at });
  }
  const refuse = ({ at, run }: PlacedRun, bad: NativeRefusal): void => {
    reading.refusals.push({ ...bad, at, raw: JSON.stringify(run ?? null) });
  };
  const runs = new Map<string, { posts: JsonObject[]; patches: PlacedRun[] }>();
  const keep = (id: string) => {
    const known = runs.get(id) ?? { posts: [], patches: [] };
    runs.set(id, known);
    return known;
  };
  for (const one of placed) {
    const bad = badRun(one);
    if (bad) refuse(one, bad);
    else if (one.patch) keep(one.run.id as string).patches.push(one);
    else keep(one.run.id as string).posts.push(one.run);
  }
  for (const { posts, patches } of runs.values()) {
    if (posts.length === 0) {
      for (const one of patches)
        refuse(one, refusal('bad_reference', `${one.field}.id`, 'the id of a run that was posted', one.run.id));
      continue;
    }
    const changes = [...posts, ...patches.map(({ run }) => run)];
    const run = mergedRun(
      posts,
      patches.map(({ run }) => run),
    );
    const act = langsmithAct(NAME, withObjects(run, OBJECTS), traceIdOf(run));
    reading.acts.push(act);
    for (const change of changes) reading.keep(act.trace, change);
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
  if (!isRecord(run) || badRun({ run, field: 'patch[0]', at: 0, patch: true }) !== null) return null;
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
      return isRecord(child)
        ? unfolded(child, place, at, known)
        : [{ run: child as never, field: place, at, patch: false }];
    }),
  ];
}

const UUID = '[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{12}';
const DOTTED = new RegExp(`^\\d{8}T\\d{12}Z${UUID}(?:\\.\\d{8}T\\d{12}Z${UUID})*$`);

function badRun({ run, field, patch }: PlacedRun): NativeRefusal | null {
  if (!isRecord(run)) return refusal('bad_type', field, 'a run object', run);
  const badId = badIdentifier(run.id, `${field}.id`);
  if (badId) return badId;
  const { dotted_order: dotted } = run;
  if (dotted !== undefined && dotted !== null && (typeof dotted !== 'string' || !DOTTED.test(dotted))) {
    return refusal('bad_shape', `${field}.dotted_order`, 'times and run ids joined by dots', dotted);
  }
  for (const name of ['start_time', 'end_time']) {
    if (run[name] != null && timeOfMixed(run[name]) === null) {
      return refusal('bad_time', `${field}.${name}`, 'an ISO 8601 time or milliseconds since 1970', run[name]);
    }
  }
  for (const name of ['trace_id', 'parent_run_id']) {
    const bad = run[name] == null ? null : badIdentifier(run[name], `${field}.${name}`);
    if (bad) return bad;
  }
  if (patch) return null;
  return typeof run.run_type === 'string' && run.run_type !== ''
    ? null
    : refusal('bad_type', `${field}.run_type`, 'chain, llm, tool, retriever …', run.run_type);
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

function feedbackOf(fields: JsonObject): Judgement | null {
  const { run_id: run, trace_id: trace, key, score, value, comment, id } = fields;
  if (!isIdentifier(key) || (!isIdentifier(run) && !isIdentifier(trace))) return null;
  const judged = score ?? value;
  const plain = typeof judged === 'number' || typeof judged === 'boolean' || typeof judged === 'string';
  return {
    format: NAME,
    id: isIdentifier(id) ? id : null,
    trace: isIdentifier(trace) ? trace : null,
    act: isIdentifier(run) ? run : null,
    name: key,
    ...(plain ? { value: judged } : judged === undefined ? {} : { value: null }),
    ...given('label', typeof value === 'string' ? value : undefined),
    ...given('explanation', typeof comment === 'string' ? comment : undefined),
    time: timeOfMixed(fields.created_at),
    unmapped: without(
      fields,
      'id',
      'run_id',
      'trace_id',
      'key',
      'score',
      'comment',
      'created_at',
      ...(plain ? ['value'] : []),
    ),
  };
}
