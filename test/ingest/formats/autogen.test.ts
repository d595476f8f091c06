import { describe, expect, it } from 'vitest';
import { recognise } from '../../../ingest/formats/catalogue.ts';
import { known, read } from './support/convert.ts';

const USED = { prompt_tokens: 4, completion_tokens: 2 };
const message = (source: string, content: unknown, more: object = {}) => ({
  source,
  models_usage: null,
  metadata: {},
  content,
  type: 'TextMessage',
  ...more,
});
const asked = message('user', 'How long?', { id: 'u1', created_at: '2026-09-10T10:00:00Z' });
const result = (...messages: unknown[]) => ({ messages, stop_reason: 'done' });
const request = { type: 'ToolCallRequestEvent', models_usage: USED };

describe('a task result of AutoGen', () => {
  it('names the task by an id in the metadata of a message, else by its text', () => {
    const task = (metadata: object) => read('autogen', result({ ...asked, metadata })).of('task.defined')[0]!.task_id;
    expect(task({ task_id: 'math-1' })).toBe('math-1');
    expect(task({})).toMatch(/^text\//);
  });

  it('takes a message that used a model as a step, with the thought before it', () => {
    const native = result(
      asked,
      message('solver', 'add', { type: 'ThoughtEvent' }),
      message('solver', '20', { models_usage: USED, created_at: '2026-09-10T10:00:01Z' }),
    );
    expect(known(native)).toBe('autogen');
    const { of, times, refused } = read('autogen', native);
    expect(refused).toEqual([]);
    expect(of('generation.completed')).toMatchObject([
      {
        agent_id: 'solver',
        usage: { input_tokens: 4, output_tokens: 2 },
        choices: [
          {
            content: [
              { type: 'reasoning', content: 'add' },
              { type: 'text', content: '20' },
            ],
          },
        ],
      },
    ]);
    expect(times('generation.completed')).toEqual(['2026-09-10T10:00:01Z']);
    expect(of('message.sent').map(({ from, role }) => [from, role])).toEqual([['user', 'user']]);
    expect(of('episode.finished')[0]).toMatchObject({ outcome: 'unknown', stop_reason: 'done' });
    expect(of('agent.defined').map(({ agent_id }) => agent_id)).toEqual(['solver']);
  });

  it('pairs tool calls with their results, and does not count the summary that repeats them', () => {
    const calls = ['c', 'c'].map((id) => ({ id, name: 'calc', arguments: '{"x":1}' }));
    const results = [{ call_id: 'c', name: 'calc', content: '2', is_error: true }];
    const summary = { type: 'ToolCallSummaryMessage', tool_calls: calls, results };
    const { of } = read(
      'autogen',
      result(
        asked,
        message('solver', calls, request),
        message('solver', results, { type: 'ToolCallExecutionEvent' }),
        message('solver', '2', summary),
      ),
    );
    expect(of('generation.completed')).toHaveLength(1);
    expect(of('tool.called').map(({ tool_call_id, index, arguments: given }) => [tool_call_id, index, given])).toEqual([
      ['c', 0, { x: 1 }],
      ['c#2', 1, { x: 1 }],
    ]);
    expect(of('tool.returned')).toMatchObject([{ tool_call_id: 'c#2', status: 'error', output: '2' }]);
    expect(of('message.sent')[1]).toMatchObject({
      flags: ['repeats_results'],
      unmapped: { tool_calls: calls, results },
    });
  });

  it('hands over and selects, observes code and memory, drops chunks of a stream', () => {
    const { of } = read(
      'autogen',
      result(
        message('a', 'over', { type: 'HandoffMessage', target: 'b', context: [] }),
        message('manager', ['a', 'b'], { type: 'SelectSpeakerEvent' }),
        message('runner', undefined, { type: 'CodeExecutionEvent', result: { exit_code: 0, output: 'ok' } }),
        message('a', [{ content: 'm' }], { type: 'MemoryQueryEvent' }),
        message('a', 'par', { type: 'ModelClientStreamingChunkEvent' }),
        message('a', { x: 1 }, { type: 'StructuredMessage', models_usage: USED }),
      ),
    );
    expect(of('control.transferred').map(({ from_agent, to_agent, kind }) => [from_agent, to_agent, kind])).toEqual([
      ['a', 'b', 'handoff'],
      ['manager', 'a', 'select'],
      ['manager', 'b', 'select'],
    ]);
    expect(of('environment.observed').map(({ kind }) => kind)).toEqual(['output', 'memory']);
    expect(of('environment.observed')[0]!.content).toEqual({ exit_code: 0, output: 'ok' });
    expect(of('generation.completed')).toMatchObject([
      { choices: [{ content: [{ type: 'json', content: { x: 1 } }] }] },
    ]);
    expect(of('message.sent')).toHaveLength(1);
  });

  it('keeps a thought that nothing follows', () => {
    expect(read('autogen', result(message('a', 'hm', { type: 'ThoughtEvent' }))).of('message.sent')).toMatchObject([
      { content: 'hm' },
    ]);
  });

  it('refuses a message without type or source and keeps the run, flagged incomplete', () => {
    const { of, refused } = read(
      'autogen',
      result(asked, { source: 'a', content: 'x' }, { type: 'TextMessage', content: 'x' }, 3),
    );
    expect(refused).toEqual(['bad_type messages[1].type', 'bad_type messages[2].source', 'bad_type messages[3]']);
    expect(of('episode.started')[0]!.flags).toEqual(['no_token_ids', 'incomplete']);
    expect(read('autogen', { messages: {} }).refused).toEqual(['bad_type messages']);
  });

  it('reads the chat history of 0.2 by name, without knowing of models', () => {
    const native = {
      chat_history: [
        { role: 'user', name: 'user', content: 'q' },
        { role: 'assistant', name: 'solver', content: 'a' },
      ],
      cost: 1,
    };
    expect(known(native)).toBe('autogen');
    const { of } = read('autogen', native);
    expect(of('generation.completed')).toMatchObject([{ agent_id: 'solver', choices: [{ content: 'a' }] }]);
    expect(of('episode.finished')[0]!.unmapped).toEqual({ cost: 1 });
  });
});

describe('the saved state of a team of AutoGen', () => {
  const thread = [asked, message('solver', '20', { models_usage: USED })];
  const state = (messages: readonly unknown[]) => ({
    type: 'TeamState',
    version: '1.0.0',
    agent_states: {
      solver: { type: 'ChatAgentContainerState', agent_state: { llm_context: { messages: [] } }, message_buffer: [] },
      RoundRobinGroupChatManager: { type: 'RoundRobinManagerState', message_thread: messages, current_turn: 1 },
    },
  });

  it('says what the task result says that ends with it', () => {
    expect(known(state(thread))).toBe('autogen');
    const [saved, ended] = [read('autogen', state(thread)), read('autogen', result(...thread))];
    const facts = ({ of }: typeof saved, name: 'generation.completed' | 'message.sent' | 'agent.defined') =>
      of(name).map(({ episode_id, ...fact }) => fact);
    for (const name of ['generation.completed', 'message.sent', 'agent.defined'] as const)
      expect(facts(saved, name)).toEqual(facts(ended, name));
    expect(saved.of('task.defined')).toEqual(ended.of('task.defined'));
    expect(saved.of('generation.completed')).toHaveLength(1);
  });

  it('keeps the messages beside one that cannot be read, which is refused by its place', () => {
    const { of, refused } = read('autogen', state([...thread, { source: 7, type: 'TextMessage' }]));
    expect(refused).toEqual(['bad_type message_thread[2].source']);
    expect(of('episode.started')[0]!.flags).toContain('incomplete');
    expect(of('generation.completed')).toHaveLength(1);
  });
});

describe('a chat history of AutoGen 0.2 and AG2', () => {
  const call = (id: string, asked: string) => ({
    id,
    type: 'function',
    function: { name: 'height_of', arguments: JSON.stringify({ peak: asked }) },
  });
  const told = (id: string, content: string) => ({ tool_call_id: id, role: 'tool', content });
  const begun = { content: 'Which peak is higher?', role: 'assistant', name: 'guide' };
  const asks = { tool_calls: [call('t1', 'Eiger'), call('t2', 'Rigi')], content: null, role: 'assistant' };
  const answers = {
    content: '3967\n\nError: no peak',
    tool_responses: [told('t1', '3967'), told('t2', 'Error: no peak')],
    role: 'tool',
    name: 'guide',
  };
  const said = { content: 'The Eiger.', role: 'user', name: 'climber' };

  it('has tool calls with their results, which are no step of the agent that ran the tools', () => {
    const { of, refused } = read('autogen', { chat_history: [begun, asks, answers, said] });
    expect(refused).toEqual([]);
    expect(of('generation.completed').map(({ seq, agent_id }) => [seq, agent_id])).toEqual([
      [1, 'climber'],
      [3, 'climber'],
    ]);
    expect(
      of('tool.called').map(({ tool_call_id, agent_id, arguments: asked }) => [tool_call_id, agent_id, asked]),
    ).toEqual([
      ['t1', 'climber', { peak: 'Eiger' }],
      ['t2', 'climber', { peak: 'Rigi' }],
    ]);
    expect(of('tool.returned').map(({ tool_call_id, output, flags }) => [tool_call_id, output, flags])).toEqual([
      ['t1', '3967', undefined],
      ['t2', 'Error: no peak', ['apparent_error']],
    ]);
  });

  it('is a task in what it was begun with, which no model wrote', () => {
    const { of } = read('autogen', { chat_history: [begun, said] });
    expect(of('task.defined')).toMatchObject([{ query: 'Which peak is higher?' }]);
    expect(of('message.sent')).toMatchObject([{ from: 'guide', role: 'user' }]);
  });

  it('is in the view of who began it where nobody has a name', () => {
    const [first, answer] = [begun, said].map(({ content, role }) => ({ content, role }));
    const { of } = read('autogen', { chat_history: [first, answer] });
    expect(of('message.sent')).toMatchObject([{ from: 'user', content: 'Which peak is higher?' }]);
    expect(of('generation.completed')).toMatchObject([{ agent_id: 'assistant', choices: [{ content: 'The Eiger.' }] }]);
  });

  it('keeps functions of the older API, the text beside a call, and outputs of code', () => {
    const { of } = read('autogen', {
      chat_history: [
        begun,
        {
          content: 'I look.',
          role: 'assistant',
          name: 'climber',
          function_call: { name: 'height_of', arguments: '{}' },
        },
        { role: 'function', name: 'height_of', content: '12' },
        { ...said, content: 'exitcode: 0 (execution succeeded)\nCode output: 3', name: 'guide' },
        { ...said, content: '', name: 'guide' },
      ],
    });
    expect(of('generation.completed').map(({ choices }) => choices)).toMatchObject([
      [
        {
          content: [
            { type: 'text', content: 'I look.' },
            { type: 'tool_call', name: 'height_of' },
          ],
        },
      ],
    ]);
    expect(of('tool.returned')).toMatchObject([{ output: '12', tool_call_id: of('tool.called')[0]!.tool_call_id }]);
    expect(of('environment.observed').map(({ kind, content }) => [kind, content])).toEqual([
      ['output', 'exitcode: 0 (execution succeeded)\nCode output: 3'],
      ['output', ''],
    ]);
    expect(of('agent.defined').map(({ agent_id }) => agent_id)).toEqual(['guide', 'climber']);
  });

  it('refuses a result of a tool without an id by its place, and keeps the rest', () => {
    const { refused, of } = read('autogen', {
      chat_history: [begun, asks, { ...answers, tool_responses: [told('t1', '3967'), { content: '2' }] }, said],
    });
    expect(refused).toEqual(['bad_type chat_history[2].tool_responses[1].tool_call_id']);
    expect(of('generation.completed')).toHaveLength(2);
    expect(of('episode.started')[0]!.flags).toContain('incomplete');
  });

  it('is read as the list of a group chat alone, where each message has a name', () => {
    const list = [begun, { ...asks, content: 'None', name: 'climber' }, answers, said];
    expect(recognise({ records: list, shape: 'array' })?.name).toBe('autogen');
    expect(read('autogen', list).of('tool.called')).toHaveLength(2);
    expect(read('autogen', list).of('generation.completed')[0]).toMatchObject({
      choices: [{ content: [{ type: 'tool_call' }, { type: 'tool_call' }] }],
    });
  });
});

describe('a log of calls of AutoGen', () => {
  const messages = [{ role: 'user', content: 'Which peak is higher?' }];
  const response = {
    id: 'r1',
    model: 'm',
    created: 1789000000,
    choices: [{ index: 0, finish_reason: 'stop', message: { role: 'assistant', content: 'The Eiger.' } }],
    usage: { prompt_tokens: 7, completion_tokens: 3 },
  };
  const event = { type: 'LLMCall', messages, response, prompt_tokens: 7, completion_tokens: 3, tools: [] };
  const row = {
    invocation_id: 'i1',
    session_id: 's1',
    source_name: 'climber',
    request: JSON.stringify({ messages, model: 'm' }),
    response: JSON.stringify(response),
    is_cached: 0,
    cost: 0.1,
  };

  it('of version 0.4 and later is a call of the agent that the event names, in a team without the id of the team', () => {
    const agent = (agent_id: string | null) =>
      read('autogen', { ...event, agent_id }).of('generation.completed')[0]!.agent_id;
    expect(known({ ...event, agent_id: 'climber_t1/t1' })).toBe('autogen');
    expect([agent('climber_t1/t1'), agent('climber/default'), agent(null)]).toEqual(['climber', 'climber', undefined]);
    expect(read('autogen', event).of('generation.completed')[0]).toMatchObject({ usage: response.usage });
  });

  it('counts the lines that are no call by their type', () => {
    const line = { type: 'Message', payload: '{}', sender: null, receiver: 'climber/default' };
    expect(known(line)).toBe('autogen');
    expect(read('autogen', line)).toMatchObject({ refusals: [], unread: ['Message'], raw: null });
    const logged = { source_id: 1, source_name: 'climber', event_name: 'received_message', agent_module: 'm' };
    expect(read('autogen', logged).unread).toEqual(['received_message']);
  });

  it('of 0.2 and AG2 is an episode for a session and what it was asked, from rows with JSON as text', () => {
    expect(known(row)).toBe('autogen');
    const first = read('autogen', row);
    const other = { messages: [{ role: 'user', content: 'And the Rigi?' }], model: 'm' };
    const [again, apart] = [
      { ...row, invocation_id: 'i2' },
      { ...row, request: JSON.stringify(other) },
    ].map((one) => read('autogen', one).of('episode.started')[0]!.episode_id);
    const [episode] = first.of('episode.started');
    expect(first.of('generation.completed')).toMatchObject([{ agent_id: 'climber', usage: { prompt_tokens: 7 } }]);
    expect(again).toBe(episode!.episode_id);
    expect(apart).not.toBe(episode!.episode_id);
  });

  it('reads an answer that the file logger wrote as Python shows it', () => {
    const shown =
      "ChatCompletion(id='r1', choices=[Choice(finish_reason='tool_calls', index=0, logprobs=None, message=" +
      "ChatCompletionMessage(content=None, role='assistant', tool_calls=[Call(id='t1', function=Function(" +
      `arguments='{"peak":"Rigi"}', name='height_of'), type='function')]))], created=1789000000, model='m', ` +
      'usage=CompletionUsage(completion_tokens=3, prompt_tokens=7, total_tokens=10))';
    const { of } = read('autogen', { ...row, request: { messages }, response: shown });
    expect(of('generation.completed')[0]).toMatchObject({ response_model: 'm', usage: { completion_tokens: 3 } });
    expect(of('tool.called')).toMatchObject([{ name: 'height_of', arguments: { peak: 'Rigi' } }]);
  });

  it('has a call that failed with the text of its error', () => {
    const { of } = read('autogen', { ...row, response: 'Error code: 429' });
    expect(of('generation.completed')[0]).toMatchObject({ choices: [], error: 'Error code: 429' });
  });
});
