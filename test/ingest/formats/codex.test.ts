/** Recorded with Codex 0.169.0 against a scripted model server, which billed 10 + n tokens in and 3 n out for its nth answer. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { importFiles } from '../../../ingest/import.ts';
import { memoryLog } from '../support/memory-log.ts';
import { type Data, known, read } from './support/convert.ts';

const FOLDER = join(import.meta.dirname, 'recorded/codex');
const FILES = ['main.jsonl', 'subagent.jsonl'].map((file) => join(FOLDER, file));
const linesOf = (file: string): Record<string, unknown>[] =>
  readFileSync(join(FOLDER, file), 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
const [SESSION, CHILD] = ['01a20a2d-ce5d-7332-8538-b2e8e9bf4dc2', '01a20a2d-cf5b-7b53-9c02-59db37875243'];

describe('A session of Codex with a sub-agent', () => {
  it('is one episode: 5 calls of 2 agents, 5 tool calls, the tokens that were billed', async () => {
    const memory = memoryLog();
    const report = await importFiles(FILES, memory);
    expect(report).toMatchObject({
      format: 'codex',
      episodes: 1,
      tasks: 1,
      agents: 2,
      calls: 5,
      tool_calls: 5,
      errors: [],
    });
    const of = (name: string) =>
      memory.events.filter((event) => event.name === name).map(({ data }) => data as unknown as Data);
    expect(new Set(of('generation.completed').map(({ episode_id }) => episode_id))).toEqual(new Set([SESSION]));
    const billed = of('generation.completed').map(({ agent_id, usage }) => {
      const { input_tokens, output_tokens } = usage as { input_tokens: number; output_tokens: number };
      return [agent_id, input_tokens, output_tokens];
    });
    expect(billed.sort((a, b) => Number(a[1]) - Number(b[1]))).toEqual([
      ['main', 11, 3],
      ['main', 12, 6],
      [CHILD, 13, 9],
      [CHILD, 14, 12],
      ['main', 15, 15],
    ]);
    expect(of('tool.returned').map(({ tool_call_id, status }) => [tool_call_id, status])).toEqual([
      ['main/call_1_0', 'ok'],
      ['main/call_1_1', 'error'],
      ['main/call_1_2', 'ok'],
      ['main/call_2_0', 'ok'],
      [`${CHILD}/call_3_0`, 'ok'],
    ]);
    expect(of('agent.defined').map(({ agent_id, name, parent_agent_id }) => [agent_id, name, parent_agent_id])).toEqual(
      [
        ['main', 'main', undefined],
        [CHILD, 'Gibbs', 'main'],
      ],
    );
    expect(of('control.transferred')).toMatchObject([
      { from_agent: 'main', to_agent: CHILD, kind: 'delegate', tool_call_id: 'main/call_1_2' },
    ]);
  });

  it('says the same in any order of its files, and nothing new when it is read again', async () => {
    const memory = memoryLog();
    await importFiles(FILES, memory);
    const other = memoryLog();
    await importFiles(FILES.toReversed(), other);
    const digests = ({ events }: typeof memory) => events.map(({ id, digest }) => `${id} ${digest}`).sort();
    expect(digests(other)).toEqual(digests(memory));
    expect((await importFiles(FILES, memory)).events).toMatchObject({ accepted: 0, rejected: 0 });
  });

  it('shows each call its instructions and all messages before it', () => {
    const { of } = read('codex', linesOf('main.jsonl'));
    const [first, second] = of('generation.requested') as { input: { role: string; content: unknown }[] }[];
    expect(first!.input.map(({ role }) => role)).toEqual(['system', 'developer', 'user', 'user']);
    expect(first!.input[0]!.content).toBe('You code.');
    expect(second!.input.slice(4).map(({ role }) => role)).toEqual(['assistant', 'tool', 'tool', 'tool']);
    const [answer] = of('generation.completed') as { choices: { content: { type: string }[] }[] }[];
    expect(answer!.choices[0]!.content.map(({ type }) => type)).toEqual([
      'reasoning',
      'text',
      'tool_call',
      'tool_call',
      'tool_call',
    ]);
    expect(of('task.defined')).toMatchObject([{ query: 'TEAM: how far are Bern and Rome?' }]);
    expect(of('message.sent').map(({ from }) => from)).toEqual(['codex', 'codex', 'user', 'codex']);
    expect(of('episode.finished')).toMatchObject([{ answer: 'Bern is far.', stop_reason: 'task_complete' }]);
  });
});

/** Recorded with Codex 0.169.0 against a server that billed as above. Words of the program were left out. */
describe('A session of Codex that was resumed', () => {
  const { of, refused } = read('codex', linesOf('resumed.jsonl'));

  it('is 4 calls with all that was before each, and 3 tool calls: of a tool that is not there, one that fails, one that works', () => {
    expect(refused).toEqual([]);
    expect(
      of('generation.completed').map(({ usage }) => {
        const { input_tokens, output_tokens } = usage as Record<string, number>;
        return [input_tokens, output_tokens];
      }),
    ).toEqual([1, 2, 3, 4].map((n) => [10 + n, 3 * n]));
    expect(of('generation.requested').map(({ input }) => (input as unknown[]).length)).toEqual([4, 7, 9, 11]);
    expect(of('tool.called').map(({ call_id, name }) => [call_id, name])).toEqual([
      ['main/1', 'update_plan'],
      ['main/1', 'exec_command'],
      ['main/3', 'exec_command'],
    ]);
    expect(of('tool.returned').map(({ status, flags }) => [status, flags])).toEqual([
      ['ok', ['apparent_error']],
      ['error', undefined],
      ['ok', undefined],
    ]);
    expect(of('episode.finished')).toMatchObject([{ answer: 'Three.', stop_reason: 'task_complete' }]);
  });
});

/** Lines as versions of 2025 wrote them, by hand: usage in token_count alone, no events about commands. */
const at = (type: string, payload: object, second = 0) => ({
  timestamp: `2026-09-10T10:00:${String(second).padStart(2, '0')}.000Z`,
  type,
  payload,
});
const META = at('session_meta', {
  id: 's',
  timestamp: '2026-09-10T10:00:00Z',
  cwd: '/w',
  cli_version: '0.46.0',
  source: 'cli',
});
const messageOf = (role: string, text: string) =>
  at('response_item', {
    type: 'message',
    role,
    content: [{ type: role === 'user' ? 'input_text' : 'output_text', text }],
  });
const calls = (call_id: string) =>
  at('response_item', { type: 'function_call', name: 'shell', arguments: '{', call_id });
const returns = (call_id: string, output: unknown) =>
  at('response_item', { type: 'function_call_output', call_id, output });
const counted = (total: number, last: number) =>
  at('event_msg', {
    type: 'token_count',
    info: { total_token_usage: { input_tokens: total }, last_token_usage: { input_tokens: last, output_tokens: 1 } },
  });

describe('A line of Codex', () => {
  it('that counts tokens belongs to the call before it, and a repeated count to none', () => {
    const { of } = read('codex', [
      META,
      messageOf('user', 'q'),
      calls('c'),
      counted(5, 5),
      returns('c', 'Exit code: 2\nOutput:\nno'),
      messageOf('assistant', 'a'),
      counted(5, 5),
      counted(12, 7),
    ]);
    expect(of('generation.completed').map(({ usage }) => usage)).toEqual([
      { input_tokens: 5, output_tokens: 1 },
      { input_tokens: 7, output_tokens: 1 },
    ]);
    expect(of('tool.called')[0]!.parse_error).toEqual(expect.any(String));
    expect(of('tool.returned')).toMatchObject([{ status: 'ok', flags: ['apparent_error'] }]);
  });

  it('that counts tokens belongs to the call after it in a session that counts before its first answer', () => {
    const { of } = read('codex', [
      META,
      messageOf('user', 'q'),
      counted(5, 5),
      calls('c'),
      returns('c', 'two'),
      counted(12, 7),
      counted(12, 7),
      messageOf('assistant', 'a'),
      messageOf('user', 'r'),
      counted(21, 9),
      messageOf('assistant', 'b'),
    ]);
    expect(of('generation.completed').map(({ usage }) => (usage as Data).input_tokens)).toEqual([5, 7, 9]);
  });

  it('of a search that the model server ran is a part of the answer, also where it has no id', () => {
    const search = (more: object) => at('response_item', { type: 'web_search_call', status: 'completed', ...more });
    const { of } = read('codex', [
      META,
      messageOf('user', 'q'),
      at('response_item', { type: 'reasoning', summary: [] }),
      search({}),
      search({}),
      search({ id: 'ws_1', action: { type: 'search', query: 'w' } }),
      messageOf('assistant', 'a'),
      counted(5, 5),
    ]);
    expect(of('generation.completed').map(({ usage }) => (usage as Data).input_tokens)).toEqual([5]);
    expect(of('tool.called').map(({ tool_call_id, name, type }) => [tool_call_id, name, type])).toEqual([
      ['main/web_search_call', 'web_search', 'server'],
      ['main/web_search_call#2', 'web_search', 'server'],
      ['main/ws_1', 'web_search', 'server'],
    ]);
    expect(of('environment.observed')).toEqual([]);
  });

  it('that compacts or takes back turns changes what later calls were shown', () => {
    const inputs = (...lines: unknown[]) =>
      read('codex', [META, messageOf('user', 'q'), messageOf('assistant', 'a'), ...lines, messageOf('assistant', 'z')])
        .of('generation.requested')
        .at(-1)!.input;
    const text = (role: string, content: string) => ({ role, content: [{ type: 'text', content }] });
    const left = [{ type: 'message', role: 'user', content: [{ type: 'input_text', text: 'so far' }] }];
    expect(inputs(at('compacted', { message: 'm', replacement_history: left }))).toEqual([text('user', 'so far')]);
    expect(inputs(at('compacted', { message: 'm' }))).toBe(undefined);
    expect(inputs(at('event_msg', { type: 'thread_rolled_back', num_turns: 1 }), messageOf('user', 'p'))).toEqual([
      text('user', 'p'),
    ]);
  });

  it('that ends a turn early makes the outcome aborted', () => {
    const { of } = read('codex', [
      META,
      messageOf('user', 'q'),
      at('event_msg', { type: 'turn_aborted', reason: 'interrupted' }),
    ]);
    expect(of('episode.finished')).toMatchObject([{ outcome: 'aborted', stop_reason: 'turn_aborted' }]);
  });

  it('that cannot be read is refused by its place, the others are kept and the session is flagged', () => {
    const { refusals, of } = read('codex', [
      META,
      at('response_item', { type: 'function_call', name: 'shell' }),
      { timestamp: 't', type: 'response_item', payload: null },
      messageOf('assistant', 'a'),
    ]);
    expect(refusals.map(({ at, field }) => [at, field])).toEqual([
      [1, 'payload.call_id'],
      [2, 'payload'],
    ]);
    expect(of('generation.completed')).toHaveLength(1);
    expect(of('episode.started')[0]!.flags).toContain('incomplete');
    expect(read('codex', [messageOf('user', 'q')]).refused).toEqual(['bad_shape ']);
  });

  it('is recognised without a name', () => {
    expect(known(...linesOf('main.jsonl'))).toBe('codex');
    expect(known({ type: 'message', payload: {} })).toBe(null);
  });
});
