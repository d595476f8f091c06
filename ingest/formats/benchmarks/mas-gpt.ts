/**
 * MAS-GPT: a model writes a team as a program for each query. `gen.json` holds what it wrote, `infer.jsonl` the same rows with what
 * the program answered; both rows of one generation are one episode. The program is kept and never run.
 */
import { hashId, sha256 } from '../../events/json.ts';
import { format, unreadable } from '../kit/reader.ts';
import { taskOf } from '../kit/run.ts';
import { Trace } from '../kit/trace.ts';

const NAME = 'mas-gpt';
const CALL = 'generation';

export const masGpt = format({
  name: NAME,
  summary:
    'MAS-GPT generations {query, masgpt_generated, mas_str, extract_flag}, with generated_output once they were run',
  called: 'a generation object',
  recognises: (row) => 'masgpt_generated' in row || 'mas_str' in row,
  restates: ['task.defined', 'agent.defined', 'generation.completed', 'artifact.attached'],
  convert(row, record) {
    const about = { ground_truth: row.any('gt'), tags: row.these('tag', 'source') };
    const task = taskOf(NAME, row.any('query'), about);
    if (!task) return unreadable('bad_type', 'query', 'the text of the task', row.native.query);
    const text = row.text('masgpt_generated', 'a text');
    const extracted = row.boolean('extract_flag');
    const program = row.text('mas_str');
    if (extracted === undefined && row.has('extract_flag'))
      return unreadable('bad_type', 'extract_flag', 'true or false', row.native.extract_flag);
    if (program === undefined && row.has('mas_str'))
      return unreadable('bad_type', 'mas_str', 'a text', row.native.mas_str);
    const episodeId = hashId(NAME, row.native.query, text, record.ordinal);
    const trace = Trace.revised(NAME, record, episodeId);
    const choices = [{ index: 0, content: text }];
    trace.add('generation.completed', [], { seq: 0, call_id: CALL, agent_id: trace.member('generator'), choices });
    if (program !== undefined) {
      const hash = sha256(program);
      trace.add('artifact.attached', [hash], {
        artifact_id: hash,
        role: 'code',
        media_type: 'text/x-python',
        sha256: hash,
        size: Buffer.byteLength(program),
        target: { kind: 'step', id: `${CALL}/0`, episode_id: episodeId },
        // Where it could not be read out of the text it is the built-in fallback, not the model's work.
        flags: extracted === false ? ['fallback_code'] : undefined,
      });
    }
    const ran = row.native.generated_output !== undefined;
    const answer = row.text('generated_output');
    const other = answer === undefined ? { generated_output: row.native.generated_output } : undefined;
    row.any('generated_output');
    const run = trace.finish({
      task,
      started: { unmapped: row.rest() },
      finished: ran ? { outcome: 'unknown', answer, unmapped: other } : null,
    });
    return program === undefined ? run : { ...run, bodies: [program] };
  },
});
