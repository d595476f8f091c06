/**
 * SWE-Dev: the description of a task, what a method wrote for it, and what pytest counted. The counts name neither task nor method,
 * so they stand as feedback on a foreign id, the hash of their content.
 */
import { canonicalJson, hashId, isRecord, sha256 } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import type { Conversion, NativeRecord } from '../kit/format.ts';
import { emitterFor, recordId } from '../kit/native.ts';
import { format, type Reader, unreadable } from '../kit/reader.ts';
import { taskOf } from '../kit/run.ts';
import { Trace } from '../kit/trace.ts';

const NAME = 'swe-dev';
const emit = emitterFor(NAME);

type Native = Readonly<Record<string, unknown>>;

const isMetadata = (row: Native): boolean => 'PRD' in row;
const isEval = (row: Native): boolean => 'passed' in row && 'failed' in row && 'errors' in row && 'total_tests' in row;
const isInference = (row: Native): boolean => !('mas_str' in row) && ('generated_output' in row || 'file_code' in row);

export const sweDev = format({
  name: NAME,
  summary:
    'SWE-Dev tasks {PRD, file_code, GT_file_code}, results {query, generated_output | error}, counts {passed, failed, …}',
  called: 'a task, a result or counts',
  recognises: (row) => isMetadata(row) || isInference(row) || isEval(row),
  convert(row, record) {
    if (isMetadata(row.native)) return convertTask(row, record);
    return isEval(row.native) && !('query' in row.native) ? convertCounts(row, record) : convertResult(row, record);
  },
});

function convertTask(row: Reader, { canonical }: NativeRecord): Conversion {
  const text = row.any('PRD');
  const about = { reference: row.any('GT_file_code'), tests: row.any('test_file') };
  const task = taskOf(NAME, text, { ...about, unmapped: row.rest() });
  if (!task) return unreadable('bad_type', 'PRD', 'the text of the task', row.native.PRD);
  return { drafts: [emit.state('task.defined', task)], refusals: [], raw: canonical };
}

function convertResult(row: Reader, record: NativeRecord): Conversion {
  const task = taskOf(NAME, row.native.query);
  if (!task) return unreadable('bad_type', 'query', 'the text of the task', row.native.query);
  const error = row.any('error');
  const output = row.object('generated_output');
  if (!output && (error === undefined || row.has('generated_output'))) {
    const [code, expected] = row.has('generated_output')
      ? (['bad_type', 'an object of paths and their code'] as const)
      : (['bad_shape', 'what was written, or an error'] as const);
    return unreadable(code, 'generated_output', expected, row.native.generated_output);
  }
  const trace = Trace.of(NAME, record);
  const bodies = Object.entries(output?.native ?? {}).map(([path, code]) => {
    const body = typeof code === 'string' ? code : canonicalJson(code);
    output?.any(path);
    trace.add('artifact.attached', [path], {
      artifact_id: hashId(NAME, trace.episodeId, path),
      role: 'code',
      name: path,
      media_type: path.endsWith('.py') ? 'text/x-python' : 'text/plain',
      sha256: sha256(body),
      size: Buffer.byteLength(body),
    });
    return body;
  });
  if (error !== undefined) trace.add('environment.observed', [], { kind: 'error', content: error });
  const stats = row.any('token_stats');
  const run = trace.finish({
    // The metadata define the task; stated here too, by its text alone, the one would hide the other.
    task: null,
    agents: Object.keys(isRecord(stats) ? stats : {})
      .filter(isIdentifier)
      .map((model) => ({ agent_id: model, model })),
    started: { task_id: task.task_id, unmapped: row.rest() },
    finished: {
      outcome: error === undefined ? 'unknown' : 'error',
      totals: isRecord(stats) ? { token_stats: stats } : undefined,
    },
  });
  return { ...run, bodies };
}

/** The total of pytest's summary counts warnings too, so it is not divided by. */
function convertCounts(row: Reader, record: NativeRecord): Conversion {
  const [passed, failed, errors] = ['passed', 'failed', 'errors'].map((name) => {
    const count = row.whole(name);
    return count !== undefined && count >= 0
      ? count
      : unreadable('bad_number', name, 'a count of tests', row.native[name]);
  }) as [number, number, number];
  const ran = passed + failed + errors;
  const id = recordId(NAME, record);
  const drafts = [
    emit.event('feedback.recorded', [id], {
      feedback_id: id,
      target: { kind: 'foreign', id: `${NAME}/${id}` },
      kind: 'score',
      name: 'pass_rate',
      value: ran === 0 ? null : passed / ran,
      by: 'code',
      flags: ran === 0 ? ['no_tests_ran'] : undefined,
      unmapped: row.native,
    }),
  ];
  return { drafts, refusals: [], raw: record.canonical };
}
