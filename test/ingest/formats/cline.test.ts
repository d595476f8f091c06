import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { importFiles } from '../../../ingest/files/import.ts';
import { memoryLog } from '../support/memory-log.ts';
import { type Data, read } from './support/convert.ts';

const FOLDER = join(import.meta.dirname, 'recorded/cline');
const contentOf = (file: string) => JSON.parse(readFileSync(join(FOLDER, file), 'utf8'));

describe('Cline', () => {
  it('gives an episode a file, each with the calls, tools and tokens that it names', async () => {
    const report = await importFiles([FOLDER], memoryLog());
    expect(report).toMatchObject({ format: 'cline', episodes: 2, tasks: 1, calls: 4, tool_calls: 2, errors: [] });
  });

  it('keeps a result whose shape is not known, and counts what came from a cache among the input once', () => {
    for (const file of ['session.messages.json', 'api_conversation_history.json']) {
      const { of, refused } = read('cline', contentOf(file));
      expect(refused).toEqual([]);
      expect(of('tool.returned')).toMatchObject([
        { tool_call_id: 'call_1', output: [{ type: 'json', content: { query: '.', result: 'a.py', success: true } }] },
      ]);
      expect(
        of('generation.completed').map(({ usage, response_model }) => {
          const { input_tokens, cached_input_tokens, output_tokens } = usage as Data;
          return [response_model, input_tokens, cached_input_tokens, output_tokens];
        }),
      ).toEqual([
        ['some-model', 40, 30, 6],
        ['some-model', 60, 40, 4],
      ]);
    }
    const session = read('cline', contentOf('session.messages.json'));
    expect(session.of('agent.defined')).toMatchObject([
      { agent_id: 'main', name: 'lead', system_instructions: 'You code.' },
    ]);
    expect((session.of('generation.requested')[1]!.input as Data[]).map(({ role }) => role)).toEqual([
      'system',
      'user',
      'assistant',
      'tool',
    ]);
  });
});
