/** What coding agents print while they work (`claude-stream`, `codex-exec`), and the sessions of Qwen Code. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { importFiles } from '../../../ingest/files/import.ts';
import { memoryLog } from '../support/memory-log.ts';
import { type Data, known, read } from './support/convert.ts';

const RECORDED = join(import.meta.dirname, 'recorded');

/** A session of two calls: the first asks for a tool, which fails. */
const streamed = (more: Data = {}) => {
  const line = (type: string, uuid: string, message: Data, rest: Data = {}) => ({
    ...{ type, uuid, session_id: 'quay', parent_tool_use_id: null, message: { role: type, ...message } },
    ...rest,
  });
  const usage = (input: number, written: number, read: number, output: number) => ({
    ...{ input_tokens: input, cache_creation_input_tokens: written, cache_read_input_tokens: read },
    output_tokens: output,
  });
  const use = { type: 'tool_use', id: 'toolu_1', name: 'Read', input: { file_path: '/tides.txt' } };
  const failed = { type: 'tool_result', tool_use_id: 'toolu_1', is_error: true, content: 'too large' };
  return [
    { type: 'system', subtype: 'init', session_id: 'quay', uuid: 'i', cwd: '/quay', tools: ['Read'], model: 'opus' },
    line('assistant', 'a', {
      id: 'msg_1',
      model: 'opus',
      content: [use],
      stop_reason: null,
      usage: usage(1, 100, 0, 1),
    }),
    line('user', 'b', { content: [failed] }, { tool_use_result: 'Error: too large' }),
    line('assistant', 'c', {
      ...{ id: 'msg_2', model: 'opus', content: [{ type: 'text', text: 'Done.' }], stop_reason: null },
      usage: usage(0, 10, 100, 3),
    }),
    {
      ...{ type: 'result', subtype: 'success', is_error: false, num_turns: 2, result: 'Done.', session_id: 'quay' },
      ...{ total_cost_usd: 0.01, usage: { input_tokens: 1, output_tokens: 4 }, ...more },
    },
  ];
};
const sums = (calls: readonly Data[], name: string) =>
  calls.reduce((sum, { usage }) => sum + Number((usage as Data)[name]), 0);

describe('claude-stream', () => {
  it('gives a session its calls, tools, tokens and cost; what the calls were shown is unknown without the prompt', () => {
    const { of, refused } = read('claude-stream', streamed());
    expect(refused).toEqual([]);
    const calls = of('generation.completed');
    expect([sums(calls, 'input_tokens'), sums(calls, 'output_tokens')]).toEqual([211, 4]);
    expect(of('tool.called')).toMatchObject([{ name: 'Read', arguments: { file_path: '/tides.txt' } }]);
    expect(of('tool.returned')).toMatchObject([{ tool_call_id: 'toolu_1', status: 'error', output: 'too large' }]);
    expect(of('generation.requested').map(({ input }) => input)).toEqual([undefined, undefined]);
    expect(of('task.defined')).toEqual([]);
    expect(of('episode.started')).toMatchObject([
      { episode_id: 'quay', flags: ['no_token_ids', 'incomplete'], tags: { cwd: '/quay' } },
    ]);
    expect(of('episode.finished')).toMatchObject([{ answer: 'Done.', totals: { total_cost_usd: 0.01, num_turns: 2 } }]);
  });

  it('knows the prompt where the program was asked to repeat it', () => {
    const [init, ...rest] = streamed();
    const content = [{ type: 'text', text: 'Read the tides.' }];
    const prompt = {
      type: 'user',
      uuid: 'p',
      session_id: 'quay',
      parent_tool_use_id: null,
      message: { role: 'user', content },
    };
    const { of } = read('claude-stream', [init, prompt, ...rest]);
    expect(of('task.defined')).toMatchObject([{ query: 'Read the tides.' }]);
    expect(of('generation.requested').map(({ input }) => (input as Data[]).length)).toEqual([1, 3]);
    expect(of('episode.started')).toMatchObject([{ flags: ['no_token_ids'] }]);
  });

  it('says that tokens are those of the begin of an answer where the end of the session counts others', () => {
    const { of } = read('claude-stream', streamed({ usage: { input_tokens: 1, output_tokens: 90 } }));
    expect(of('episode.started')[0]!.flags).toContain('usage_incomplete');
  });

  it('ends as an error where the session did', () => {
    const { of } = read('claude-stream', streamed({ subtype: 'error_max_turns', is_error: true, result: undefined }));
    expect(of('episode.finished')).toMatchObject([{ outcome: 'error', stop_reason: 'error_max_turns' }]);
  });

  it('gives a sub-agent its own calls, its prompt and who started it', async () => {
    const memory = memoryLog();
    await importFiles([join(RECORDED, 'claude-stream/team.jsonl')], memory);
    const of = (name: string) => memory.events.filter((event) => event.name === name).map(({ data }) => data as Data);
    const [child] = of('agent.defined').filter(({ agent_id: id }) => id !== 'main');
    expect(child).toMatchObject({ role: 'general-purpose', parent_agent_id: 'main' });
    expect(of('control.transferred')).toMatchObject([
      { from_agent: 'main', to_agent: child!.agent_id, kind: 'delegate', tool_call_id: 'toolu_3' },
    ]);
    const own = of('generation.requested').filter(({ agent_id: id }) => id === child!.agent_id);
    expect(own.map(({ input }) => input)).toMatchObject([[{ role: 'user' }]]);
  });

  it('takes the tokens and the end of an answer from the events of the API, where they are printed', async () => {
    const memory = memoryLog();
    await importFiles([join(RECORDED, 'claude-stream/partial.jsonl')], memory);
    const calls = memory.events.filter(({ name }) => name === 'generation.completed').map(({ data }) => data as Data);
    expect(sums(calls, 'output_tokens')).toBe(57);
    expect(calls.map(({ choices }) => (choices as Data[])[0]!.finish_reason)).toEqual(['tool_use', 'end_turn']);
  });

  it('counts an answer of Qwen Code once, whose words and tools are printed apart', async () => {
    const report = await importFiles([join(RECORDED, 'claude-stream/qwen.jsonl')], memoryLog());
    expect(report).toMatchObject({ format: 'claude-stream', calls: 2, tool_calls: 1, errors: [] });
  });

  it('is refused beside the session that the program kept itself', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'printed-'));
    try {
      const lines = streamed();
      writeFileSync(join(folder, 'printed.jsonl'), lines.map((line) => JSON.stringify(line)).join('\n'));
      const kept = lines
        .filter(({ type }) => type === 'assistant' || type === 'user')
        .map(({ session_id: sessionId, ...line }: Data) => JSON.stringify({ ...line, sessionId, parentUuid: null }));
      writeFileSync(join(folder, 'kept.jsonl'), kept.join('\n'));
      const report = await importFiles([folder], memoryLog());
      expect(report).toMatchObject({ episodes: 1, errors: [{ code: 'id_conflict' }] });
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});

describe('codex-exec', () => {
  const item = (type: string, id: string, more: Data) => ({ type: 'item.completed', item: { id, type, ...more } });
  const command = (id: string, exit_code: number) =>
    item('command_execution', id, {
      ...{ command: 'ls', aggregated_output: 'tides.txt', exit_code },
      status: exit_code === 0 ? 'completed' : 'failed',
    });
  const begin = [{ type: 'thread.started', thread_id: 'quay' }, { type: 'turn.started' }];
  const usage = { input_tokens: 10, cached_input_tokens: 4, output_tokens: 3 };

  it('takes what stands between results of tools as one call, and notes the usage of a turn at its last', () => {
    const { of, refused } = read('codex-exec', [
      ...begin,
      item('reasoning', 'i0', { text: 'I look.' }),
      command('i1', 0),
      command('i2', 2),
      item('agent_message', 'i3', { text: 'One file.' }),
      { type: 'turn.completed', usage },
    ]);
    expect(refused).toEqual([]);
    const calls = of('generation.completed');
    expect(calls.map(({ choices }) => ((choices as Data[])[0]!.content as Data[]).map(({ type }) => type))).toEqual([
      ['reasoning', 'tool_call'],
      ['tool_call'],
      ['text'],
    ]);
    expect(calls.map((call) => [call.usage, call.flags])).toEqual([
      [undefined, undefined],
      [undefined, undefined],
      [{ input_tokens: 10, cached_input_tokens: 4, output_tokens: 3 }, ['usage_of_several_calls']],
    ]);
    expect(of('tool.returned').map(({ status, output }) => [status, output])).toEqual([
      ['ok', 'tides.txt'],
      ['error', 'tides.txt'],
    ]);
    expect(of('episode.finished')).toMatchObject([{ outcome: 'unknown', answer: 'One file.' }]);
  });

  it('takes tools that ran at once as those of one call', () => {
    const started = (id: string) => ({
      type: 'item.started',
      item: { id, type: 'command_execution', command: 'ls', aggregated_output: '', status: 'in_progress' },
    });
    const { of } = read('codex-exec', [...begin, started('i1'), started('i2'), command('i2', 0), command('i1', 0)]);
    expect(of('generation.completed').length).toBe(1);
    expect(of('tool.called').map(({ index }) => index)).toEqual([0, 1]);
    expect(of('tool.returned').length).toBe(2);
    expect(of('episode.started')[0]!.flags).toContain('incomplete');
  });

  it('ends as an error, with what the program said', () => {
    const { of } = read('codex-exec', [...begin, { type: 'turn.failed', error: { message: 'no quota' } }]);
    expect(of('episode.finished')).toMatchObject([{ outcome: 'error', stop_reason: 'no quota' }]);
    expect(of('environment.observed')).toMatchObject([{ kind: 'error', content: { message: 'no quota' } }]);
  });

  it('refuses a line that is no event, and a file that names no thread', () => {
    expect(read('codex-exec', [...begin, { type: 'item.completed', item: 3 }]).refused).toEqual(['bad_shape item']);
    expect(read('codex-exec', [{ type: 'turn.completed', usage }]).refused).toEqual(['bad_shape ']);
  });
});

describe('qwen-code', () => {
  const line = (uuid: string, parentUuid: string | null, type: string, parts: readonly Data[], more: Data = {}) => ({
    ...{ uuid, parentUuid, sessionId: 'quay', timestamp: `2026-11-02T08:00:0${uuid}Z`, type, cwd: '/quay' },
    message: { role: type === 'assistant' ? 'model' : 'user', parts },
    ...more,
  });
  const asked = line('1', null, 'user', [{ text: 'Which tide?' }]);
  const call = { functionCall: { id: 'c1', name: 'read_file', args: { path: 'tides' } } };
  const usageMetadata = { promptTokenCount: 9, candidatesTokenCount: 2, thoughtsTokenCount: 3, totalTokenCount: 14 };
  const answer = line('2', '1', 'assistant', [{ text: 'Hm.', thought: true }, call], {
    model: 'made-up',
    usageMetadata,
  });
  const result = (response: Data) => line('3', '2', 'tool_result', [{ functionResponse: { id: 'c1', response } }]);

  it('reads thoughts, calls, results and tokens, and a result that is an error as one', () => {
    expect(known(asked, answer)).toBe('qwen-code');
    for (const [response, status] of [
      [{ output: 'high' }, 'ok'],
      [{ error: 'no such file' }, 'error'],
    ] as const) {
      const { of, refused } = read('qwen-code', [asked, answer, result(response)]);
      expect(refused).toEqual([]);
      expect(of('generation.completed')).toMatchObject([
        {
          choices: [
            {
              content: [
                { type: 'reasoning', content: 'Hm.' },
                { type: 'tool_call', name: 'read_file' },
              ],
            },
          ],
          usage: { input_tokens: 9, output_tokens: 5, reasoning_tokens: 3 },
        },
      ]);
      expect(of('tool.returned')).toMatchObject([{ tool_call_id: 'c1', status, output: Object.values(response)[0] }]);
      expect(of('task.defined')).toMatchObject([{ query: 'Which tide?' }]);
    }
  });

  it('shows a call behind a compression what that left', () => {
    const compressedHistory = [
      { role: 'user', parts: [{ text: 'So far: the tide.' }] },
      { role: 'model', parts: [{ text: 'Understood.' }] },
    ];
    const cut = {
      ...{ uuid: '4', parentUuid: '3', sessionId: 'quay', timestamp: '2026-11-02T08:00:04Z', type: 'system' },
      ...{ subtype: 'chat_compression', systemPayload: { compressedHistory } },
    };
    const more = line('5', '4', 'user', [{ text: 'And now?' }]);
    const last = line('6', '5', 'assistant', [{ text: 'Low.' }], { model: 'made-up' });
    const { of, refused } = read('qwen-code', [asked, answer, result({ output: 'high' }), cut, more, last]);
    expect(refused).toEqual([]);
    const input = of('generation.requested').at(-1)!.input as { content: Data[] }[];
    expect(input.map(({ content }) => content[0]!.content)).toEqual(['So far: the tide.', 'Understood.', 'And now?']);
  });
});
