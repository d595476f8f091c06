/**
 * Results of MASLab (MASWorks/MASLab at 4ecccf58, inference.py and methods/mas_base/mas_base.py): a row of the data set with what a team
 * answered and what it used, {query, gt, tag, source, response, token_stats}. The messages between its agents are not in the file.
 */
import { isRecord, type JsonObject } from '../../events/json.ts';
import { format, unreadable } from '../kit/reader.ts';
import { taskOf } from '../kit/run.ts';
import { Trace } from '../kit/trace.ts';

const NAME = 'maslab';

const isStats = (stats: unknown): stats is Readonly<Record<string, JsonObject>> =>
  isRecord(stats) && Object.values(stats).every((one) => isRecord(one) && 'num_llm_calls' in one);

export const maslab = format({
  name: NAME,
  summary: 'MASLab results: {query, response, token_stats}',
  called: 'a result object',
  recognises: (row) =>
    'query' in row &&
    ('response' in row || 'error' in row) &&
    isStats(row.token_stats) &&
    Object.keys(row.token_stats).length > 0,
  convert(row, record) {
    const tags = row.these('tag', 'source');
    const task = taskOf(NAME, row.any('query'), { ground_truth: row.any('gt'), tags });
    if (!task) return unreadable('bad_type', 'query', 'the text of the task', row.native.query);
    if (!('response' in row.native || 'error' in row.native))
      return unreadable('bad_shape', 'response', 'the answer of the team, or the error', undefined);
    const error = row.any('error');
    const answer = row.any('response');
    const stats = row.any('token_stats');
    const isText = typeof answer === 'string';
    return Trace.of(NAME, record).finish({
      task,
      // No step can be made of it.
      incomplete: true,
      started: { unmapped: row.rest() },
      finished: {
        outcome: error === undefined ? 'unknown' : 'error',
        answer: isText ? answer : undefined,
        stop_reason: error === undefined ? undefined : lastLine(error),
        totals: isStats(stats) ? totalsOf(stats) : undefined,
        unmapped: isText || answer === undefined ? undefined : { response: answer },
      },
    });
  },
});

/** The last line of a traceback says what was wrong; the record keeps all of it. */
const lastLine = (error: unknown): string =>
  (typeof error === 'string' ? error : JSON.stringify(error)).trim().split('\n').at(-1)!.slice(0, 500);

function totalsOf(stats: Readonly<Record<string, JsonObject>>): Record<string, unknown> {
  const sum = (name: string): number =>
    Object.values(stats).reduce((all, { [name]: count }) => all + (typeof count === 'number' ? count : 0), 0);
  const [calls, input, output] = [sum('num_llm_calls'), sum('prompt_tokens'), sum('completion_tokens')];
  return { llm_calls: calls, input_tokens: input, output_tokens: output, models: stats };
}
