/**
 * SWE-bench: instances, predictions and reports. A prediction is an episode without steps; a report names the instance alone, so
 * what lies in one folder is read together, and a report is about the one prediction of its instance there, else about the task.
 */
import type { Draft, Matrix } from '../../events/events.ts';
import { canonicalJson, hashId, isRecord, parseRecord, without } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import { type Conversion, type Format, listsOf, type NativeRecord, type NativeRefusal } from '../kit/format.ts';
import { badIdentifier, emitterFor, refusal } from '../kit/native.ts';
import { demand, Reader, Unreadable, unreadable } from '../kit/reader.ts';
import { patchDraft } from '../kit/run.ts';
import { Trace } from '../kit/trace.ts';

const NAME = 'swe-bench';
const emit = emitterFor(NAME);

type Native = Readonly<Record<string, unknown>>;

const isInstance = (row: unknown): boolean => isRecord(row) && 'problem_statement' in row && 'instance_id' in row;
/** Other programs call a patch `model_patch` too; the harness reads none without the name of the model. */
const isPrediction = (row: unknown): boolean => isRecord(row) && 'model_patch' in row && 'model_name_or_path' in row;
const isReport = (row: unknown): boolean =>
  isRecord(row) && ('resolved' in row || 'patch_successfully_applied' in row || 'patch_exists' in row);
const isKeyed = (row: unknown, is: (one: unknown) => boolean): boolean =>
  isRecord(row) && Object.keys(row).length > 0 && Object.values(row).every(is);

export const sweBench: Format = {
  name: NAME,
  summary:
    'SWE-bench instances {instance_id, problem_statement, …}, predictions {instance_id, model_patch}, reports by instance',
  recognises: ({ records }) =>
    records.some((row) => isInstance(row) || isPrediction(row) || isKeyed(row, isPrediction) || isKeyed(row, isReport)),
  gathers: () => 'folder',
  convert,
};

/** What a record is about, with the record as it is kept. */
type Prediction = { readonly instance: string; readonly row: Reader; readonly canonical: string };
type Report = Prediction;

function convert(record: NativeRecord): Conversion {
  const refusals: NativeRefusal[] = [];
  const drafts: Draft[] = [];
  const bodies = new Set<string>();
  const predictions = new Map<string, Prediction>();
  const reports: Report[] = [];
  const take = (row: unknown, key?: string): void => {
    if (isInstance(row)) drafts.push(instanceDraft(new Reader(row as Native)));
    else if (isPrediction(row) || key === undefined) {
      const prediction = predictionOf(row, key);
      predictions.set(prediction.canonical, prediction);
    } else reports.push(reportOf(row, key));
  };
  const rows = listsOf(record.value).flat();
  if (rows.length === 0) refusals.push(refusal('bad_shape', '', 'at least one record', rows));
  for (const [at, row] of rows.entries()) {
    const keyed =
      isKeyed(row, isPrediction) || isKeyed(row, isReport) || (isRecord(row) && Object.values(row).some(isReport));
    const members = keyed ? Object.entries(row as Native) : [[undefined, row] as const];
    for (const [key, one] of members)
      try {
        take(one, key);
      } catch (error) {
        if (!(error instanceof Unreadable)) throw error;
        refusals.push({ ...error.refusal, at });
      }
  }
  const known = [...predictions.values()];
  for (const prediction of known) {
    const patch = prediction.row.text('model_patch');
    bodies.add(prediction.canonical);
    if (patch !== undefined) bodies.add(patch);
    drafts.push(...episodeDrafts(prediction, patch));
  }
  for (const report of reports) {
    const about = known.filter(({ instance }) => instance === report.instance);
    bodies.add(report.canonical);
    drafts.push(reportDraft(report, about.length === 1 ? episodeIdOf(about[0]!) : null));
  }
  return { drafts, refusals, raw: null, bodies: [...bodies], repeated: record.ordinal > 0 };
}

const instanceDraft = (row: Reader): Draft =>
  emit.state('task.defined', {
    task_id: row.ownId('instance_id'),
    source: NAME,
    query: row.text('problem_statement', 'a text'),
    reference: row.any('patch'),
    tests: without({
      fail_to_pass: listOf(row.any('FAIL_TO_PASS')),
      pass_to_pass: listOf(row.any('PASS_TO_PASS')),
      test_patch: row.any('test_patch'),
    }),
    tags: row.these('repo', 'version', 'base_commit', 'created_at') ?? {},
    unmapped: row.rest(),
  });

/** Lists of tests are JSON inside a text; a list in its own right is taken too, and what cannot be read stays the text. */
function listOf(value: unknown): unknown {
  if (typeof value !== 'string') return value;
  const parsed = parseRecord(value);
  return 'refusal' in parsed ? value : parsed.value;
}

function predictionOf(native: unknown, key?: string): Prediction {
  if (!isRecord(native)) return unreadable('bad_type', '', 'an instance, a prediction or a report', native);
  const whole = key === undefined ? native : { instance_id: key, ...native };
  const row = new Reader(whole);
  const instance = row.ownId('instance_id');
  if (row.has('model_name_or_path')) row.ownId('model_name_or_path');
  if (native.model_patch !== null) row.text('model_patch', 'a patch as a text, or null');
  return { instance, row, canonical: canonicalJson(whole) };
}

const episodeIdOf = ({ canonical }: Prediction): string => hashId(NAME, canonical, 0);

function episodeDrafts(prediction: Prediction, patch: string | undefined): readonly Draft[] {
  const { instance, row, canonical } = prediction;
  const episodeId = episodeIdOf(prediction);
  const model = row.id('model_name_or_path');
  const trace = Trace.of(NAME, { value: row.native, canonical, ordinal: 0 }, episodeId);
  if (patch !== undefined) trace.events.push(patchDraft(emit, episodeId, patch));
  const run = {
    task: null,
    started: { task_id: instance, flags: patch === undefined ? ['no_patch'] : [], unmapped: row.rest() },
    agents: model === undefined ? [] : [{ agent_id: model, model }],
    finished: { outcome: 'unknown' as const },
  };
  return trace.finish(run).drafts;
}

function reportOf(native: unknown, instance: string): Report {
  if (!isRecord(native)) return unreadable('bad_type', instance, 'a report object', native);
  const row = new Reader(native, instance);
  if (row.boolean('resolved') === undefined)
    return unreadable('bad_type', row.path('resolved'), 'true or false', native.resolved);
  demand(badIdentifier(instance, 'instance_id'));
  return { instance, row, canonical: canonicalJson({ [instance]: native }) };
}

/** What the harness found out: the verdict on an episode, or on the task where several predictions or none could be meant. */
function reportDraft({ instance, row, canonical }: Report, episodeId: string | null): Draft {
  const id = hashId(NAME, 'report', episodeId, canonical);
  return emit.event('feedback.recorded', [id], {
    feedback_id: id,
    target:
      episodeId === null ? { kind: 'task', id: instance } : { kind: 'episode', id: episodeId, episode_id: episodeId },
    kind: 'execution',
    name: 'resolved',
    value: row.boolean('resolved'),
    matrix: matrixOf(row.native.tests_status),
    by: 'code',
    flags: episodeId === null ? ['prediction_unknown'] : undefined,
    unmapped: row.rest(),
  });
}

/** One program against all tests that were reported; undefined where none was. */
function matrixOf(status: unknown): Matrix | undefined {
  if (!isRecord(status)) return undefined;
  const cells = new Map<string, 0 | 1>();
  const add = (names: unknown, cell: 0 | 1): void => {
    if (Array.isArray(names)) for (const name of names.filter(isIdentifier)) cells.set(name, cell);
  };
  for (const group of Object.values(status).filter(isRecord)) {
    add(group.success, 1);
    add(group.failure, 0);
  }
  if (cells.size === 0) return undefined;
  const tests = [...cells].sort(([a], [b]) => (a < b ? -1 : 1));
  return {
    programs: [{ name: 'model_patch' }],
    tests: tests.map(([name]) => ({ name })),
    pass: [tests.map(([, cell]) => cell)],
  };
}
