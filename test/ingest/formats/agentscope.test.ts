/**
 * `recorded/agentscope` was written by AgentScope 2.0.11 with a scripted model server that billed 10 + n tokens in and 3 n out for its nth
 * answer: states of an agent, saved after each reply of two sessions, and the messages of the first as its workspace offloads them.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { importFiles } from '../../../ingest/files/import.ts';
import { memoryLog } from '../support/memory-log.ts';
import { type Data, known, read } from './support/convert.ts';

const message = (second: number, name: string, role: string, content: unknown, more: object = {}) => ({
  id: `m${second}`,
  name,
  role,
  content,
  metadata: {},
  timestamp: `2026-09-10 10:00:0${second}.000`,
  ...more,
});
const ASKED = message(0, 'user', 'user', 'How long?', { metadata: { task_id: 't-1' } });
const CALLS = message(1, 'solver', 'assistant', [
  { type: 'thinking', thinking: 'hm' },
  { type: 'tool_use', id: 'c', name: 'calc', input: { x: 1 } },
]);
const RESULT = message(2, 'system', 'system', [
  { type: 'tool_result', id: 'c', name: 'calc', output: [{ type: 'text', text: '2' }] },
]);
const LAST = message(3, 'solver', 'assistant', 'Two.', {
  usage: { input_tokens: 3, output_tokens: 1 },
  finished_reason: 'stop',
});

const path = (name: string): string => join(import.meta.dirname, 'recorded/agentscope', `${name}.jsonl`);
const lines = (name: string): Data[] =>
  readFileSync(path(name), 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Data);

describe('What AgentScope 2 saves', () => {
  it('as states is an episode for each session, a call for each answer, billed as a whole for each reply', async () => {
    const memory = memoryLog();
    expect(await importFiles([path('states')], memory)).toMatchObject({
      ...{ format: 'agentscope', episodes: 2, tasks: 2, agents: 1, calls: 5, tool_calls: 4, errors: [] },
    });
    expect((await importFiles([path('states')], memory)).events).toMatchObject({ accepted: 0, rejected: 0 });
    const { of } = read('agentscope', lines('states'));
    const calls = of('generation.completed').map(({ episode_id, usage, flags }) => {
      const { input_tokens, output_tokens } = (usage ?? {}) as { input_tokens?: number; output_tokens?: number };
      return [episode_id, input_tokens, output_tokens, flags];
    });
    const several = ['usage_of_several_calls'];
    expect(calls).toEqual([
      ['talk-1', undefined, undefined, undefined],
      ['talk-1', 11 + 12, 3 + 6, several],
      ['talk-1', 13, 9, undefined],
      ['talk-2', undefined, undefined, undefined],
      ['talk-2', 14 + 15, 12 + 15, several],
    ]);
    const content = of('generation.completed').map(({ choices }) =>
      (choices as { content: { type: string }[] }[])[0]!.content.map(({ type }) => type),
    );
    const reply = [['tool_call', 'tool_call'], ['text']];
    expect(content).toEqual([...reply, ['text'], ...reply]);
    expect(of('tool.returned').map(({ status }) => status)).toEqual(Array(4).fill('ok'));
    expect(of('message.sent').map(({ from, role }) => [from, role])).toEqual([
      ...[0, 1].map(() => ['user', 'user']).toSpliced(1, 0, ['system', 'user']),
      ...[
        ['user', 'user'],
        ['system', 'user'],
      ],
    ]);
  });

  it('as a state that was saved later is the same session, in any order, and with a summary is incomplete', () => {
    const [first, second, other] = lines('states') as [Data, Data, Data];
    const started = (states: Data[]) => read('agentscope', states).of('episode.started');
    const contentOf = (states: Data[]) =>
      read('agentscope', states).drafts.filter(({ name }) => !/^(artifact|episode)/.test(name));
    expect(started([second, first, other]).map(({ episode_id }) => episode_id)).toEqual(['talk-1', 'talk-2']);
    expect(contentOf([second, first])).toEqual(contentOf([first, second]));
    expect(contentOf([second])).toEqual(contentOf([first, second]));
    expect(started([{ ...second, summary: 'They talked.' }])).toMatchObject([
      { flags: ['no_token_ids', 'incomplete'] },
    ]);
    expect(started([{ ...second, context: [] }])).toMatchObject([{ flags: ['no_token_ids', 'incomplete'] }]);
    expect(known(first)).toBe('agentscope');
    const broken = { ...first, context: [...(first.context as Data[]), { role: 'x' }] };
    expect(read('agentscope', [broken]).refused).toEqual(['bad_type role']);
    expect(read('agentscope', [broken]).of('generation.completed')).toHaveLength(2);
  });

  it('as messages of a session is one run with the same calls', async () => {
    expect(await importFiles([path('offloaded')], memoryLog())).toMatchObject({
      ...{ format: 'agentscope', episodes: 1, tasks: 1, agents: 1, calls: 3, tool_calls: 2, errors: [] },
    });
  });
});

describe('a run of AgentScope', () => {
  it.each([[[]], [null]])('takes a message with content %j for a step where the model wrote tokens', (content) => {
    const cut = message(1, 'solver', 'assistant', content, {
      usage: { input_tokens: 3, output_tokens: 2 },
      finished_reason: 'length',
    });
    const { of, refused } = read('agentscope', [ASKED, cut, LAST]);
    expect(refused).toEqual([]);
    expect(of('generation.completed').map(({ choices, usage }) => [choices, usage])).toEqual([
      [[{ index: 0, finish_reason: 'length' }], { input_tokens: 3, output_tokens: 2 }],
      [[{ index: 0, content: 'Two.', finish_reason: 'stop' }], { input_tokens: 3, output_tokens: 1 }],
    ]);
    const unbilled = read('agentscope', [ASKED, message(1, 'solver', 'assistant', []), LAST]);
    expect(unbilled.of('generation.completed')).toHaveLength(1);
  });

  it('of version 1 has its tool results in messages of their own', () => {
    expect(known(ASKED)).toBe('agentscope');
    const { of, times, refused } = read('agentscope', [ASKED, CALLS, RESULT, LAST]);
    expect(refused).toEqual([]);
    expect(of('generation.completed').map(({ agent_id, choices }) => [agent_id, choices])).toEqual([
      [
        'solver',
        [
          {
            index: 0,
            content: [
              { type: 'reasoning', content: 'hm' },
              { type: 'tool_call', id: 'c', name: 'calc', arguments: { x: 1 }, arguments_raw: '{"x": 1}' },
            ],
          },
        ],
      ],
      ['solver', [{ index: 0, content: 'Two.', finish_reason: 'stop' }]],
    ]);
    expect(of('tool.called')).toMatchObject([{ tool_call_id: 'c', call_id: 'm1', arguments: { x: 1 } }]);
    expect(of('tool.returned')).toMatchObject([
      { tool_call_id: 'c', status: 'ok', output: [{ type: 'text', content: '2' }] },
    ]);
    expect(of('message.sent').map(({ from }) => from)).toEqual(['user']);
    expect(of('task.defined')[0]).toMatchObject({ task_id: 't-1', query: 'How long?' });
    expect(new Set(times('generation.completed'))).toEqual(new Set([null]));
  });

  it('of version 2 has them within the message, with a state and arguments as text', () => {
    const blocks = [
      { type: 'tool_call', id: 'c', name: 'calc', input: '{"x":1}', state: 'finished' },
      { type: 'tool_result', id: 'c', name: 'calc', output: 'no', state: 'interrupted' },
    ];
    const { of } = read('agentscope', [
      { ...CALLS, content: blocks, timestamp: undefined, created_at: '2026-09-10T10:00:01Z' },
    ]);
    expect(of('tool.called')).toMatchObject([{ arguments: { x: 1 }, arguments_raw: '{"x":1}' }]);
    expect(of('tool.returned')).toMatchObject([{ status: 'cancelled', output: 'no' }]);
    expect(of('generation.completed')[0]!.choices).toMatchObject([{ content: [{ type: 'tool_call' }] }]);
  });

  it('is the same in any order of its lines, and when it has grown', () => {
    const all = [ASKED, CALLS, RESULT, LAST];
    fc.assert(
      fc.property(fc.shuffledSubarray(all, { minLength: 4 }), (list) => {
        expect(read('agentscope', list).drafts).toEqual(read('agentscope', all).drafts);
      }),
    );
    const contentOf = (list: unknown[]) =>
      read('agentscope', list).drafts.filter(({ name }) => !/^(artifact|episode)/.test(name));
    expect(contentOf(all)).toEqual(expect.arrayContaining(contentOf([ASKED, CALLS])));
  });

  it('refuses a message by its line, and keeps the others', () => {
    const bad = [
      { ...ASKED, role: 'planner' },
      { ...CALLS, content: [{ type: 'tool_result', name: 'calc' }] },
      { ...LAST, content: 3 },
      LAST,
    ];
    const { refusals, of } = read('agentscope', bad);
    expect(refusals.map(({ at, field }) => [at, field])).toEqual([
      [0, 'role'],
      [1, 'content[0].id'],
      [2, 'content'],
    ]);
    expect(of('generation.completed')).toHaveLength(1);
    expect(read('agentscope', [3]).drafts).toEqual([]);
  });
});

describe('a saved state of AgentScope 1', () => {
  const memory = (...messages: unknown[]) => ({ _compressed_summary: '', content: messages.map((one) => [one, []]) });
  const other = message(4, 'critic', 'assistant', 'Right.');

  it('of a memory holds the messages of the run, as its lines do', () => {
    const lines = read('agentscope', [ASKED, CALLS, RESULT, LAST]);
    const states = [
      memory(ASKED, CALLS, RESULT, LAST),
      { content: [ASKED, CALLS, RESULT, LAST] },
      { name: 'solver', _sys_prompt: 'p', memory: memory(ASKED, CALLS, RESULT, LAST) },
    ];
    for (const state of states) {
      expect(known(state)).toBe('agentscope');
      const { drafts, refused } = read('agentscope', [state]);
      expect(refused).toEqual([]);
      expect(drafts).toEqual(lines.drafts);
    }
  });

  it('of a session has what its agents heard once, in the order of time', () => {
    const session = {
      critic: { name: 'critic', memory: memory(ASKED, LAST, other) },
      solver: { name: 'solver', memory: memory(ASKED, CALLS, RESULT, LAST, other), toolkit: { active_groups: [] } },
    };
    expect(known(session)).toBe('agentscope');
    const { of } = read('agentscope', [session]);
    expect(of('generation.completed').map(({ agent_id }) => agent_id)).toEqual(['solver', 'solver', 'critic']);
    expect(of('tool.returned')).toHaveLength(1);
    expect(of('message.sent')).toHaveLength(1);
    expect(of('episode.started')).toHaveLength(1);
  });

  it('of a memory without messages is no file of AgentScope', () => {
    expect(known(memory())).toBeNull();
    expect(known({ content: 'text', memory: 3 })).toBeNull();
  });
});
