/** Sessions and runs that frameworks for agents store. */
import { describe, expect, it } from 'vitest';
import { type Data, known, read } from './support/convert.ts';

describe('google-adk', () => {
  const event = (id: string, author: string, role: string, parts: readonly Data[], more: Data = {}) => ({
    ...{ id, invocation_id: 'i', author, content: { role, parts }, timestamp: Number(id) },
    ...more,
  });
  const session = (...events: readonly Data[]) => ({ id: 's', app_name: 'quay', user_id: 'ann', state: {}, events });
  const asked = event('1', 'user', 'user', [{ text: 'hi' }]);
  const answered = event('2', 'clerk', 'model', [{ text: 'yo' }]);

  it('reads a session in either spelling: one call, by its author, shown what the user said', () => {
    const { app_name: appName, user_id: userId, events, ...rest } = session(asked, answered);
    const other = {
      ...rest,
      appName,
      userId,
      events: events.map(({ invocation_id: id, ...one }) => ({ ...one, invocationId: id })),
    };
    for (const native of [session(asked, answered), other]) {
      expect(known(native)).toBe('google-adk');
      const { of, times, refused } = read('google-adk', native);
      expect(refused).toEqual([]);
      expect(of('generation.completed')).toMatchObject([
        { agent_id: 'clerk', choices: [{ content: [{ content: 'yo' }] }] },
      ]);
      expect(of('generation.requested')).toMatchObject([{ input: [{ role: 'user' }] }]);
      expect(times('generation.completed')).toEqual(['1970-01-01T00:00:02.000000Z']);
    }
  });

  it('says of several agents who handed over to whom, and not what each was shown', () => {
    const call = { function_call: { id: 'f', name: 'transfer_to_agent', args: { agent_name: 'pilot' } } };
    const result = { function_response: { id: 'f', name: 'transfer_to_agent', response: { result: null } } };
    const { of, refused } = read(
      'google-adk',
      session(
        asked,
        event('2', 'clerk', 'model', [call]),
        event('3', 'clerk', 'user', [result], { actions: { transfer_to_agent: 'pilot' } }),
        event('4', 'pilot', 'model', [{ text: 'Aye.' }]),
      ),
    );
    expect([refused, of('generation.requested')]).toEqual([[], []]);
    expect(of('control.transferred')).toMatchObject([
      { from_agent: 'clerk', to_agent: 'pilot', kind: 'handoff', seq: 2 },
    ]);
    expect(of('tool.returned')).toMatchObject([{ tool_call_id: 'f', status: 'ok', output: '{"result": null}' }]);
    expect(of('generation.completed').map(({ agent_id: agent }) => agent)).toEqual(['clerk', 'pilot']);
  });

  it('takes an answer that the model did not end as an error, and a result that tells of one', () => {
    const call = { functionCall: { name: 'tides', args: {} } };
    const result = { functionResponse: { name: 'tides', response: { error: 'no such bay' } } };
    const { of } = read(
      'google-adk',
      session(asked, event('2', 'clerk', 'model', [call]), event('3', 'clerk', 'user', [result]), {
        ...{
          id: '4',
          invocation_id: 'i',
          author: 'clerk',
          error_code: 'SAFETY',
          error_message: 'blocked',
          timestamp: 4,
        },
      }),
    );
    expect(of('tool.returned')).toMatchObject([{ status: 'error' }]);
    expect(of('environment.observed')).toMatchObject([
      { kind: 'error', content: { code: 'SAFETY', message: 'blocked' } },
    ]);
    expect(of('episode.finished')).toMatchObject([{ outcome: 'error' }]);
  });

  it('knows a session again that has grown', () => {
    const episodes = [
      session(asked, answered),
      session(asked, answered, event('3', 'user', 'user', [{ text: 'bye' }])),
    ];
    const [before, after] = episodes.map((one) => read('google-adk', one));
    expect(after!.of('episode.started')[0]!.episode_id).toBe(before!.of('episode.started')[0]!.episode_id);
  });
});

describe('smolagents', () => {
  const text = (role: string, words: string) => ({ role, content: [{ type: 'text', text: words }] });
  const step = (number: number, tools: readonly Data[] | null, more: Data = {}) => ({
    ...{ step_number: number, timing: { start_time: number, end_time: number + 0.5 }, tool_calls: tools, error: null },
    model_input_messages: [
      text('system', 'Be brief.'),
      text('user', 'q'),
      text('tool-call', 'c'),
      text('tool-response', 'r'),
    ],
    model_output_message: { role: 'assistant', content: 'I look.', tool_calls: null, token_usage: null },
    ...{ observations: 'seen', token_usage: { input_tokens: 5, output_tokens: 2 } },
    ...more,
  });
  const call = (id: string, input: unknown) => ({ id, type: 'function', function: { name: 'look', arguments: input } });

  it('shows each call what was sent, where calls and results are words of the assistant and the user', () => {
    const run = [{ task: 'q' }, step(1, [call('c1', { bay: 'Elm' })])];
    expect(known(...run)).toBe('smolagents');
    const { of, times, refused } = read('smolagents', run);
    expect(refused).toEqual([]);
    const [{ input }] = of('generation.requested') as [{ input: { role: string }[] }];
    expect(input.map(({ role }) => role)).toEqual(['system', 'user', 'assistant', 'user']);
    expect(of('generation.completed')).toMatchObject([
      { choices: [{ content: 'I look.' }], usage: { input_tokens: 5, output_tokens: 2 } },
    ]);
    expect(times('generation.completed')).toEqual(['1970-01-01T00:00:01.500000Z']);
    expect(of('tool.called')).toMatchObject([{ name: 'look', arguments: { bay: 'Elm' } }]);
    expect(of('tool.returned')).toMatchObject([{ tool_call_id: 'c1', status: 'ok', output: 'seen' }]);
    expect(of('task.defined')).toMatchObject([{ query: 'q' }]);
  });

  it('joins messages of one role as it sends them', () => {
    const shown = [text('user', 'a'), text('tool-response', 'b')];
    const { of } = read('smolagents', [step(1, null, { model_input_messages: shown })]);
    expect(of('generation.requested')).toMatchObject([{ input: [{ role: 'user', content: [{ content: 'a\nb' }] }] }]);
  });

  it('keeps code as it was written, and takes a step with an error as a failed call', () => {
    const failed = { error: { type: 'AgentExecutionError', message: 'no such name' }, observations: null };
    const { of } = read('smolagents', {
      state: 'max_steps_error',
      output: 'none',
      steps: [step(1, [call('c1', 'look(1)')], failed)],
    });
    expect(of('tool.called')).toMatchObject([{ arguments: 'look(1)', parse_error: null }]);
    expect(of('tool.returned')).toMatchObject([{ status: 'error', output: 'no such name' }]);
    expect(of('episode.finished')).toMatchObject([{ answer: 'none', stop_reason: 'max_steps_error' }]);
  });

  it('gives the one text that several tools returned to none of them', () => {
    const { of } = read('smolagents', [step(1, [call('c1', {}), call('c2', {})])]);
    expect([of('tool.called').length, of('tool.returned')]).toEqual([2, []]);
    expect(of('environment.observed')).toMatchObject([{ kind: 'observations', content: 'seen' }]);
  });
});
