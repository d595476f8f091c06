/** Recorded with Gemini CLI 0.61.0 against a scripted model server, which billed 10 + n tokens in and 3 n out for its nth answer. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { importFiles } from '../../../ingest/files/import.ts';
import { memoryLog } from '../support/memory-log.ts';
import { type Data, known, read } from './support/convert.ts';

const FOLDER = join(import.meta.dirname, 'recorded/gemini-cli');
const FILES = ['main.jsonl', 'subagent.jsonl'].map((file) => join(FOLDER, file));
const linesOf = (file: string): Data[] =>
  readFileSync(join(FOLDER, file), 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
const [SESSION, CHILD] = ['7d232be0-47fe-467f-98c4-c66c17f47afb', 'fc038731-0c9c-4f44-9fbf-17c5490fa510'];
const rolesOf = ({ input }: Data) => (input as Data[]).map(({ role }) => role);

const HEAD = { sessionId: 's', projectHash: 'p', startTime: '2026-01-01T00:00:00Z' };
const at = (second: number) => `2026-01-01T00:00:0${second}Z`;
const user = (id: string, second: number, text: string) => ({
  id,
  timestamp: at(second),
  type: 'user',
  content: [{ text }],
});
const model = (id: string, second: number, more: Data) => ({
  id,
  timestamp: at(second),
  type: 'gemini',
  content: '',
  model: 'm',
  ...more,
});

describe('A chat of Gemini CLI that was resumed', () => {
  it('has 4 calls and 3 tool calls of main, and the two of its sub-agent as an episode of their own', async () => {
    const memory = memoryLog();
    const report = await importFiles(FILES, memory);
    expect(report).toMatchObject({ format: 'gemini-cli', episodes: 2, calls: 6, tool_calls: 5, errors: [] });
    const of = (name: string) =>
      memory.events.filter((event) => event.name === name).map(({ data }) => data as unknown as Data);
    const billed = of('generation.completed').map(({ episode_id, agent_id, usage }) => {
      const { input_tokens, output_tokens } = usage as Data;
      return [episode_id, agent_id, input_tokens, output_tokens];
    });
    expect(billed).toEqual([
      [SESSION, 'main', 11, 3],
      [SESSION, 'main', 12, 6],
      [SESSION, 'main', 15, 15],
      [SESSION, 'main', 16, 18],
      [CHILD, CHILD, 13, 9],
      [CHILD, CHILD, 14, 12],
    ]);
    expect(of('tool.returned').map(({ status }) => status)).toEqual(['ok', 'error', 'ok', 'ok', 'ok']);
    expect(of('control.transferred')).toMatchObject([{ from_agent: 'main', to_agent: CHILD, kind: 'delegate' }]);
    expect(of('agent.defined')).toContainEqual({
      episode_id: SESSION,
      agent_id: CHILD,
      name: 'generalist',
      role: 'generalist',
      parent_agent_id: 'main',
    });
  });

  it('shows each call the messages before it, each result once though the program sent it twice', () => {
    const { of } = read('gemini-cli', linesOf('main.jsonl'));
    expect(of('generation.requested').map(rolesOf).at(-1)).toEqual([
      'user',
      'user',
      'assistant',
      'tool',
      'tool',
      'assistant',
      'tool',
      'assistant',
      'user',
    ]);
    expect(of('task.defined')).toMatchObject([{ query: 'What do the notes say?' }]);
  });

  it('says the same when it was kept as one document, as versions before 2026 did', () => {
    const lines = linesOf('main.jsonl').slice(0, 12);
    const last = new Map(lines.filter(({ type }) => type).map((line) => [line.id, line]));
    const [head, first] = lines as [Data, { $set: { messages: Data[] } }];
    const { of } = read('gemini-cli', { ...head, messages: [...first.$set.messages, ...last.values()] });
    const whole = read('gemini-cli', lines);
    for (const name of ['generation.completed', 'tool.called', 'tool.returned', 'message.sent'] as const)
      expect(of(name)).toEqual(whole.of(name));
  });
});

describe('Lines of Gemini CLI', () => {
  it('that go back to a message take no call back, but later calls are not shown what followed it', () => {
    const { of } = read('gemini-cli', [
      HEAD,
      user('u1', 1, 'one'),
      model('g1', 2, { content: 'a' }),
      user('u2', 3, 'two'),
      model('g2', 4, { content: 'b' }),
      { $rewindTo: 'u2' },
      user('u3', 5, 'three'),
      model('g3', 6, { content: 'c' }),
    ]);
    expect(of('generation.completed')).toHaveLength(3);
    expect(
      (of('generation.requested')[2]!.input as Data[]).map(({ content }) => (content as Data[])[0]!.content),
    ).toEqual(['one', 'a', 'three']);
  });

  it('count thoughts with the output, and leave unknown what was not counted', () => {
    const tokens = { input: 5, output: 2, cached: 3, thoughts: 4, tool: 1, total: 12 };
    const { of } = read('gemini-cli', [
      HEAD,
      user('u', 1, 'q'),
      model('g', 2, { tokens }),
      model('h', 3, { tokens: null }),
    ]);
    expect(of('generation.completed').map(({ usage }) => usage)).toEqual([
      { input_tokens: 6, output_tokens: 6, cached_input_tokens: 3, reasoning_tokens: 4, total_tokens: 12 },
      undefined,
    ]);
  });

  it('with a tool that was not run to its end have a call without a result, or a cancelled one', () => {
    const call = (id: string, status: string) => ({ id, name: 'f', args: {}, status, timestamp: at(3) });
    const { of } = read('gemini-cli', [
      HEAD,
      user('u', 1, 'q'),
      model('g', 2, { toolCalls: [call('a', 'executing'), call('b', 'cancelled')] }),
    ]);
    expect(of('tool.called')).toHaveLength(2);
    expect(of('tool.returned')).toMatchObject([{ tool_call_id: 'g/b', status: 'cancelled' }]);
  });

  it('that cannot be read are refused by their place, and the chat is incomplete', () => {
    const { of, refused, refusals } = read('gemini-cli', [
      HEAD,
      user('u', 1, 'q'),
      { id: 7, timestamp: at(2), type: 'gemini', content: '' },
      model('g', 3, { toolCalls: [{ id: 'a' }] }),
      model('h', 4, { content: 'a' }),
    ]);
    expect(refused).toEqual(['bad_type id', 'bad_type toolCalls[0].name']);
    expect(refusals.map(({ at: place }) => place)).toEqual([2, 3]);
    expect(of('episode.started')[0]!.flags).toContain('incomplete');
    expect(of('generation.completed')).toHaveLength(1);
  });

  it('without the head of a chat are refused with what to do', () => {
    const { refusals } = read('gemini-cli', [user('u', 1, 'q')]);
    expect(refusals[0]!.expected).toContain('import all parts in one command');
  });
});

describe('A saved history of Gemini CLI', () => {
  const history = [
    { role: 'user', parts: [{ text: 'What do the notes say?' }] },
    { role: 'model', parts: [{ functionCall: { name: 'f', args: { a: 1 } } }] },
    { role: 'user', parts: [{ functionResponse: { name: 'f', response: { error: 'No such file.' } } }] },
    { role: 'model', parts: [{ text: 'Nothing.' }] },
  ];

  it.each([
    ['a list of contents', history],
    ['a history', { history, authType: 'x' }],
    ['one beside a tool call', { history: [], clientHistory: history, toolCall: { name: 'f', args: {} } }],
  ])('that is %s is a conversation with 2 calls and a tool that failed', (_, value) => {
    const { of, refused } = read('gemini-cli', value);
    expect(refused).toEqual([]);
    expect(of('generation.completed').map(({ usage }) => usage)).toEqual([undefined, undefined]);
    expect(of('tool.returned')).toMatchObject([{ status: 'error', output: 'No such file.' }]);
    expect(of('generation.requested').map(rolesOf)).toEqual([['user'], ['user', 'assistant', 'tool']]);
  });
});

it('files of Gemini CLI are known by what they hold', () => {
  expect(known(...linesOf('main.jsonl'))).toBe('gemini-cli');
  expect(known(...linesOf('subagent.jsonl').slice(1))).toBe('gemini-cli');
  expect(known({ role: 'user', parts: [{ text: 'q' }] })).toBe('gemini-cli');
});
