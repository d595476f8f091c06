/**
 * Results of MASLab (MASWorks/MASLab at 4ecccf58, inference.py and methods/mas_base/mas_base.py): a row of the data set with what a team
 * answered and what it used, {query, gt, tag, source, response, token_stats}. The messages between its agents are not in the file.
 */
import { given, isRecord, type JsonObject, without } from '../../events/json.ts';
import type { Conversion, Format, NativeRecord } from '../kit/format.ts';
import { emitterFor, recordId, refusal, refused } from '../kit/native.ts';
import { NO_TOKEN_IDS, runDrafts, taskOf } from '../kit/run.ts';

const NAME = 'maslab';
const emit = emitterFor(NAME);

const isStats = (stats: unknown): stats is Readonly<Record<string, JsonObject>> =>
  isRecord(stats) && Object.values(stats).every((one) => isRecord(one) && 'num_llm_calls' in one);

export const maslab: Format = {
  name: NAME,
  summary: 'MASLab results: {query, response, token_stats}',
  recognises: ({ records }) =>
    records.some(
      (record) =>
        isRecord(record) &&
        'query' in record &&
        ('response' in record || 'error' in record) &&
        isStats(record.token_stats) &&
        Object.keys(record.token_stats).length > 0,
    ),
  convert,
  restates: new Set(['task.defined']),
};

function convert(record: NativeRecord): Conversion {
  const { value: row } = record;
  if (!isRecord(row)) return refused(refusal('bad_type', '', 'a result object', row));
  const { query, gt, tag, source, response, error, token_stats: stats } = row;
  const task = taskOf(NAME, query, {
    ...given('ground_truth', gt ?? undefined),
    ...given('tags', without({ tag, source })),
  });
  if (!task) return refused(refusal('bad_type', 'query', 'the text of the task', query));
  if (response === undefined && error === undefined)
    return refused(refusal('bad_shape', 'response', 'the answer of the team, or the error', response));
  const failed = error !== undefined && error !== null;
  return {
    drafts: runDrafts(emit, {
      format: NAME,
      episodeId: recordId(NAME, record),
      canonical: record.canonical,
      task,
      started: {
        // No step can be made of it.
        flags: [NO_TOKEN_IDS, 'incomplete'],
        ...given('unmapped', without(row, 'query', 'gt', 'tag', 'source', 'response', 'error', 'token_stats')),
      },
      events: [],
      finished: {
        outcome: failed ? 'error' : 'unknown',
        ...(typeof response === 'string' ? { answer: response } : {}),
        ...(failed ? { stop_reason: lastLine(error) } : {}),
        ...(isStats(stats) ? { totals: totalsOf(stats) } : {}),
        ...(response === undefined || response === null || typeof response === 'string'
          ? {}
          : { unmapped: { response } }),
      },
    }),
    refusals: [],
    raw: record.canonical,
  };
}

/** The last line of a traceback says what was wrong; the record keeps all of it. */
const lastLine = (error: unknown): string =>
  (typeof error === 'string' ? error : JSON.stringify(error)).trim().split('\n').at(-1)!.slice(0, 500);

const COUNTS = {
  llm_calls: 'num_llm_calls',
  input_tokens: 'prompt_tokens',
  output_tokens: 'completion_tokens',
} as const;

function totalsOf(stats: Readonly<Record<string, JsonObject>>): Record<string, unknown> {
  const sum = (name: string): number =>
    Object.values(stats).reduce((all, one) => all + (typeof one[name] === 'number' ? one[name] : 0), 0);
  return { ...Object.fromEntries(Object.entries(COUNTS).map(([ours, native]) => [ours, sum(native)])), models: stats };
}
