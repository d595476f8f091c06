import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
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

  it('reads the reports of a tool for whether it failed, and keeps what each call cost', () => {
    const report = (success: boolean) => ({ query: 'ls', result: success ? 'a.py' : '', success });
    const use = { type: 'tool_use', id: 'c', name: 'run', input: {} };
    const session = (content: readonly unknown[]) => [
      { role: 'user', content: 'Which files?', ts: 1 },
      { role: 'assistant', content: [use], ts: 2, metrics: { inputTokens: 4, outputTokens: 2, cost: 0.5 } },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'c', content }], ts: 3 },
    ];
    const of = (...reports: boolean[]) => read('cline', session(reports.map(report))).of;
    expect(of(true)('generation.completed')[0]!.usage).toMatchObject({ cost_usd: 0.5 });
    for (const [reports, status] of [
      [[true], 'ok'],
      [[true, false], 'ok'],
      [[false, false], 'error'],
    ] as const) {
      const [returned] = of(...reports)('tool.returned');
      expect(returned).toMatchObject({
        status,
        output: reports.map((success) => ({ type: 'json', content: report(success) })),
      });
      expect(returned).not.toHaveProperty('flags');
    }
  });

  it('says that what the window of a task showed is not read', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'troupe-cline-'));
    const shown = [
      { ts: 1, type: 'say', say: 'text', text: 'Which files?' },
      { ts: 2, type: 'ask', ask: 'completion_result', text: '' },
    ];
    writeFileSync(join(folder, 'ui_messages.json'), JSON.stringify(shown));
    const report = await importFiles([folder], memoryLog());
    expect(report).toMatchObject({ episodes: 0, errors: [], unread_lines: [{ type: 'ui_messages.json', lines: 1 }] });
    writeFileSync(
      join(folder, 'api_conversation_history.json'),
      JSON.stringify(contentOf('api_conversation_history.json')),
    );
    expect(await importFiles([folder], memoryLog())).toMatchObject({
      ...{ episodes: 1, calls: 2, errors: [] },
      unread_lines: [{ type: 'ui_messages.json' }],
    });
    rmSync(folder, { recursive: true });
  });
});
