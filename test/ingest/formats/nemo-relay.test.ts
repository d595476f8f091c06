/** Events of NVIDIA NeMo Relay. */
import { describe, expect, it } from 'vitest';
import { type Data, known, read } from './support/convert.ts';

const event = (uuid: string, parent_uuid: string | null, at: number, more: Data) => ({
  ...{ atof_version: '0.1', kind: 'scope', attributes: [], category_profile: null, data: null, metadata: null },
  ...{ uuid, parent_uuid, timestamp: (1767225600 + at) * 1e6, name: 'x', ...more },
});
const scope = (
  uuid: string,
  parent: string | null,
  at: number,
  category: string,
  input: unknown,
  output: unknown,
  more: Data = {},
) => [
  event(uuid, parent, at, { category, scope_category: 'start', data: input, ...more }),
  event(uuid, parent, at + 1, { category, scope_category: 'end', data: output, ...more }),
];
const readLines = (...events: readonly Data[]) => read('nemo-relay', [events]);
const question = [{ role: 'user', content: 'q' }];
const asked = (body: Data) => ({ headers: {}, content: { model: 'made-up', temperature: 0.5, ...body } });

describe('nemo-relay', () => {
  it.each([
    [
      'chat completions',
      { messages: question },
      {
        choices: [{ message: { role: 'assistant', content: 'a' } }],
        usage: { prompt_tokens: 3, completion_tokens: 1 },
      },
    ],
    [
      'messages',
      { messages: question, system: undefined },
      {
        type: 'message',
        role: 'assistant',
        content: [{ type: 'text', text: 'a' }],
        usage: { input_tokens: 3, output_tokens: 1 },
      },
    ],
    [
      'responses',
      { input: 'q' },
      {
        output: [{ type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'a' }] }],
        usage: { input_tokens: 3, output_tokens: 1 },
      },
    ],
  ])('reads a call of %s', (_, request, response) => {
    const events = scope('l', null, 0, 'llm', asked(request), response);
    expect(known(...events)).toBe('nemo-relay');
    const { of, times, refused } = readLines(...events);
    expect(refused).toEqual([]);
    expect(of('generation.requested')).toMatchObject([
      { model: 'made-up', params: { temperature: 0.5 }, input: question },
    ]);
    const [{ choices, usage }] = of('generation.completed') as [{ choices: Data[]; usage: Data }];
    expect([JSON.stringify(choices[0]!.content).includes('"a"'), usage.input_tokens, usage.output_tokens]).toEqual([
      true,
      3,
      1,
    ]);
    expect(times('generation.completed')).toEqual(['2026-01-01T00:00:01.000000Z']);
  });

  it('puts the scopes of an agent into one episode, and pairs its tools by the id of the call', () => {
    const call = { id: 'c1', type: 'function', function: { name: 'look', arguments: '{}' } };
    const answer = { choices: [{ message: { role: 'assistant', tool_calls: [call] } }] };
    const { of } = readLines(
      ...scope('a', 'not here', 0, 'agent', { question: 'q' }, { answer: 'x' }, { name: 'pilot' }),
      ...scope('l', 'a', 1, 'llm', asked({ messages: question }), answer),
      ...scope('t', 'a', 3, 'tool', {}, 'seen', { name: 'look', category_profile: { tool_call_id: 'c1' } }),
      event('m', 'a', 5, { kind: 'mark', name: 'ebb', data: { level: 1 } }),
    );
    expect(of('episode.started')).toMatchObject([{ episode_id: 'a' }]);
    expect(of('generation.completed')).toMatchObject([{ agent_id: 'pilot' }]);
    expect(of('tool.returned')).toMatchObject([{ tool_call_id: of('tool.called')[0]!.tool_call_id, output: 'seen' }]);
    expect(of('environment.observed')).toMatchObject([{ kind: 'mark', content: { name: 'ebb', data: { level: 1 } } }]);
    expect(of('task.defined')).toMatchObject([{ query: 'q' }]);
  });

  it('keeps a call whose end is missing as one without an answer, and marks one that failed', () => {
    const [start] = scope('l', null, 0, 'llm', asked({ messages: question }), null);
    expect(readLines(start!).of('generation.completed')).toEqual([]);
    const failed = scope('l', null, 0, 'llm', asked({ messages: question }), null);
    const end = { ...failed[1]!, metadata: { 'otel.status_code': 'ERROR', 'otel.status_message': 'no quota' } };
    expect(readLines(failed[0]!, end).of('generation.completed')).toMatchObject([{ error: 'no quota' }]);
  });
});
