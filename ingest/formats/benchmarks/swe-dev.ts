/**
 * SWE-Dev: the description of a task, what a method wrote for it, and what pytest counted. The counts name neither task nor method,
 * so they stand as feedback on a foreign id, the hash of their content.
 */
import type { Draft } from '../../events/events.ts';
import { canonicalJson, given, hashId, isRecord, sha256, without } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import type { Converted, Format, NativeRecord } from '../kit/format.ts';
import { emitterFor, recordId, refusal, refused } from '../kit/native.ts';
import { runDrafts, taskOf } from '../kit/run.ts';

const NAME = 'swe-dev';
const emit = emitterFor(NAME);

const isMetadata = (row: Record<string, unknown>): boolean => 'PRD' in row;
const isEval = (row: Record<string, unknown>): boolean =>
  'passed' in row && 'failed' in row && 'errors' in row && 'total_tests' in row;
const isInference = (row: Record<string, unknown>): boolean =>
  !('mas_str' in row) && ('generated_output' in row || 'file_code' in row);

export const sweDev: Format = {
  name: NAME,
  summary:
    'SWE-Dev tasks {PRD, file_code, GT_file_code}, results {query, generated_output | error}, counts {passed, failed, …}',
  recognises: ({ records }) =>
    records.some((record) => isRecord(record) && (isMetadata(record) || isInference(record) || isEval(record))),
  convert: (record) => {
    const { value: row } = record;
    if (!isRecord(row)) return refused(refusal('bad_type', '', 'a task, a result or counts', row));
    if (isMetadata(row)) return convertTask(row, record);
    return isEval(row) && !('query' in row) ? convertCounts(row, record) : convertResult(row, record);
  },
  restates: new Set(['task.defined']),
};

function convertTask(row: Record<string, unknown>, { canonical }: NativeRecord): Converted {
  const { PRD: text, GT_file_code: truth, test_file: test } = row;
  const task = taskOf(NAME, text, {
    ...given('reference', truth),
    ...given('tests', test),
    ...given('unmapped', without(row, 'PRD', 'GT_file_code', 'test_file')),
  });
  if (!task) return refused(refusal('bad_type', 'PRD', 'the text of the task', text));
  return { drafts: [emit.state('task.defined', task)], refusals: [], raw: canonical };
}

function convertResult(row: Record<string, unknown>, record: NativeRecord): Converted {
  const { query, generated_output: output, error, token_stats: stats } = row;
  const task = taskOf(NAME, query);
  if (!task) return refused(refusal('bad_type', 'query', 'the text of the task', query));
  const failed = error !== undefined && error !== null;
  if (output !== undefined && output !== null && !isRecord(output)) {
    return refused(refusal('bad_type', 'generated_output', 'an object of paths and their code', output));
  }
  if (!failed && !isRecord(output)) {
    return refused(refusal('bad_shape', 'generated_output', 'what was written, or an error', output));
  }
  const episodeId = recordId(NAME, record);
  const files = Object.entries(isRecord(output) ? output : {}).map(([path, code]) => ({
    path,
    body: typeof code === 'string' ? code : canonicalJson(code),
  }));
  const models = isRecord(stats) ? Object.keys(stats).filter(isIdentifier) : [];
  return {
    drafts: runDrafts(emit, {
      format: NAME,
      episodeId,
      canonical: record.canonical,
      // The metadata define the task; stated here too, by its text alone, the one would hide the other.
      task: null,
      agents: models.map((model) => ({ agent_id: model, model })),
      started: {
        task_id: task.task_id,
        ...given('unmapped', without(row, 'generated_output', 'error', 'token_stats')),
      },
      events: [...files.map((file) => fileDraft(file, episodeId)), ...(failed ? [errorDraft(error, episodeId)] : [])],
      finished: {
        outcome: failed ? 'error' : 'unknown',
        ...(isRecord(stats) ? { totals: { token_stats: stats } } : {}),
      },
    }),
    refusals: [],
    raw: record.canonical,
    bodies: files.map(({ body }) => body),
  };
}

const fileDraft = ({ path, body }: { readonly path: string; readonly body: string }, episodeId: string): Draft =>
  emit.event('artifact.attached', [episodeId, path], {
    artifact_id: hashId(NAME, episodeId, path),
    episode_id: episodeId,
    role: 'code',
    name: path,
    media_type: path.endsWith('.py') ? 'text/x-python' : 'text/plain',
    sha256: sha256(body),
    size: Buffer.byteLength(body),
  });

const errorDraft = (content: unknown, episodeId: string): Draft =>
  emit.event('environment.observed', [episodeId], { episode_id: episodeId, kind: 'error', content });

/** The total of pytest's summary counts warnings too, so it is not divided by. */
function convertCounts(row: Record<string, unknown>, record: NativeRecord): Converted {
  for (const name of ['passed', 'failed', 'errors']) {
    const count = row[name];
    if (!Number.isSafeInteger(count) || (count as number) < 0) {
      return refused(refusal('bad_number', name, 'a count of tests', count));
    }
  }
  const [passed, failed, errors] = [row.passed, row.failed, row.errors] as [number, number, number];
  const ran = passed + failed + errors;
  const id = recordId(NAME, record);
  return {
    drafts: [
      emit.event('feedback.recorded', [id], {
        feedback_id: id,
        target: { kind: 'foreign', id: `${NAME}/${id}` },
        kind: 'score',
        name: 'pass_rate',
        value: ran === 0 ? null : passed / ran,
        by: 'code',
        ...(ran === 0 ? { flags: ['no_tests_ran'] } : {}),
        unmapped: row,
      }),
    ],
    refusals: [],
    raw: record.canonical,
  };
}
