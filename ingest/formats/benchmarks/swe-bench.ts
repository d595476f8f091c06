/**
 * SWE-bench: instances, predictions and reports. A prediction is an episode without steps; a report names the instance alone, so
 * what lies in one folder is read together, and a report is about the one prediction of its instance there, else about the task.
 */
import type { Draft } from '../../events/events.ts';
import { canonicalJson, given, hashId, isRecord, parseRecord, without } from '../../events/json.ts';
import { type Converted, type Format, listsOf, type NativeRecord, type NativeRefusal } from '../kit/format.ts';
import { badIdentifier, emitterFor, refusal } from '../kit/native.ts';
import { patchDraft, runDrafts } from '../kit/run.ts';
import { badReport, isReport, reportDraft } from './swe-bench-report.ts';

const NAME = 'swe-bench';
const emit = emitterFor(NAME);

type Fields = Readonly<Record<string, unknown>>;

const isInstance = (row: unknown): boolean => isRecord(row) && 'problem_statement' in row && 'instance_id' in row;
/** Other programs call a patch `model_patch` too; the harness reads none without the name of the model. */
const isPrediction = (row: unknown): boolean => isRecord(row) && 'model_patch' in row && 'model_name_or_path' in row;
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
  restates: new Set(['task.defined']),
};

type Prediction = {
  readonly instance: string;
  readonly model: string | null;
  readonly patch: string | null;
  readonly canonical: string;
  readonly rest: Fields | undefined;
};

function convert(record: NativeRecord): Converted {
  const refusals: NativeRefusal[] = [];
  const drafts: Draft[] = [];
  const bodies = new Set<string>();
  const predictions = new Map<string, Prediction>();
  const reports: { readonly instance: string; readonly report: Fields; readonly canonical: string }[] = [];
  const take = (row: unknown, at: number, key?: string): void => {
    if (isInstance(row)) {
      const task = instanceDraft(row as Fields);
      if ('code' in task) refusals.push({ ...task, at });
      else drafts.push(task);
    } else if (isPrediction(row) || key === undefined) {
      const prediction = predictionOf(row, key);
      if ('code' in prediction) refusals.push({ ...prediction, at });
      else predictions.set(prediction.canonical, prediction);
    } else {
      const bad = badReport(row, key);
      if (bad) refusals.push({ ...bad, at });
      else reports.push({ instance: key, report: row as Fields, canonical: canonicalJson({ [key]: row }) });
    }
  };
  const rows = listsOf(record.value).flat();
  if (rows.length === 0) refusals.push(refusal('bad_shape', '', 'at least one record', rows));
  for (const [at, row] of rows.entries()) {
    const keyed =
      isKeyed(row, isPrediction) || isKeyed(row, isReport) || (isRecord(row) && Object.values(row).some(isReport));
    if (keyed) for (const [key, one] of Object.entries(row as Fields)) take(one, at, key);
    else take(row, at);
  }
  const known = [...predictions.values()];
  for (const prediction of known) {
    bodies.add(prediction.canonical);
    if (prediction.patch !== null) bodies.add(prediction.patch);
    drafts.push(...episodeDrafts(prediction));
  }
  for (const { instance, report, canonical } of reports) {
    const about = known.filter((prediction) => prediction.instance === instance);
    const episodeId = about.length === 1 ? episodeIdOf(about[0]!) : null;
    bodies.add(canonical);
    drafts.push(...reportDraft(emit, NAME, { instance, report, canonical, episodeId }));
  }
  return { drafts, refusals, raw: null, bodies: [...bodies], repeated: record.ordinal > 0 };
}

function instanceDraft(row: Fields): Draft | NativeRefusal {
  const { instance_id: id, problem_statement: query, patch, repo, version, base_commit, created_at } = row;
  const bad = badIdentifier(id, 'instance_id');
  if (bad) return bad;
  if (typeof query !== 'string') return refusal('bad_type', 'problem_statement', 'a text', query);
  const tests = without({
    fail_to_pass: listOf(row.FAIL_TO_PASS),
    pass_to_pass: listOf(row.PASS_TO_PASS),
    test_patch: row.test_patch,
  });
  const known = ['instance_id', 'problem_statement', 'patch', 'repo', 'version', 'base_commit', 'created_at'];
  return emit.state('task.defined', {
    task_id: id as string,
    source: NAME,
    query,
    ...given('reference', patch),
    ...given('tests', tests),
    tags: without({ repo, version, base_commit, created_at }) ?? {},
    ...given('unmapped', without(row, ...known, 'FAIL_TO_PASS', 'PASS_TO_PASS', 'test_patch')),
  });
}

/** Lists of tests are JSON inside a text; a list in its own right is taken too, and what cannot be read stays the text. */
function listOf(value: unknown): unknown {
  if (typeof value !== 'string') return value;
  const parsed = parseRecord(value);
  return 'refusal' in parsed ? value : parsed.value;
}

function predictionOf(row: unknown, key?: string): Prediction | NativeRefusal {
  if (!isRecord(row)) return refusal('bad_type', '', 'an instance, a prediction or a report', row);
  const { instance_id: id = key, model_name_or_path: model, model_patch: patch } = row;
  const bad =
    badIdentifier(id, 'instance_id') ??
    (model === undefined || model === null ? null : badIdentifier(model, 'model_name_or_path'));
  if (bad) return bad;
  if (patch !== null && typeof patch !== 'string')
    return refusal('bad_type', 'model_patch', 'a patch as a text, or null', patch);
  return {
    instance: id as string,
    model: typeof model === 'string' ? model : null,
    patch,
    canonical: canonicalJson(key === undefined ? row : { instance_id: key, ...row }),
    rest: without(row, 'instance_id', 'model_name_or_path', 'model_patch'),
  };
}

const episodeIdOf = ({ canonical }: Prediction): string => hashId(NAME, canonical, 0);

function episodeDrafts(prediction: Prediction): Draft[] {
  const { instance, model, patch, canonical, rest } = prediction;
  const episodeId = episodeIdOf(prediction);
  return runDrafts(emit, {
    format: NAME,
    episodeId,
    canonical,
    task: null,
    started: {
      task_id: instance,
      ...(patch === null ? { flags: ['no_patch'] } : { flags: [] }),
      ...given('unmapped', rest as Record<string, unknown> | undefined),
    },
    agents: model === null ? [] : [{ agent_id: model, model }],
    events: patch === null ? [] : [patchDraft(emit, episodeId, patch)],
    finished: { outcome: 'unknown' },
  });
}
