import { expect, it } from 'vitest';
import { decodeOtlp } from '../../../ingest/traces/otlp/decode.ts';
import { eventsOfSpans } from '../../../ingest/traces/otlp-traces.ts';
import { request, span } from '../support/spans.ts';

const kind = (name: string) => ({ 'openinference.span.kind': name });
const dataOf = (spans: readonly unknown[], name: string) =>
  eventsOfSpans(decodeOtlp(request(spans)).spans, { logs: [], whole: true })
    .filter((draft) => draft.name === name)
    .map(({ data }) => data as never as Record<string, unknown>);
const reply = 'llm.output_messages';

it('reasoning and message of one response are one candidate', () => {
  const spans = [
    span({
      id: 1,
      attributes: {
        ...kind('LLM'),
        [`${reply}.0.message.role`]: 'assistant',
        [`${reply}.0.message.contents.0.message_content.type`]: 'reasoning',
        [`${reply}.0.message.contents.0.message_content.text`]: 'let me think',
        [`${reply}.1.message.role`]: 'assistant',
        [`${reply}.1.message.content`]: 'four',
      },
    }),
  ];
  expect(dataOf(spans, 'generation.completed')).toMatchObject([
    {
      choices: [
        {
          index: 0,
          content: [
            { type: 'reasoning', content: 'let me think' },
            { type: 'text', content: 'four' },
          ],
        },
      ],
    },
  ]);
});

it('messages are candidates where several were asked for', () => {
  const spans = [
    span({
      id: 1,
      attributes: {
        ...kind('LLM'),
        'llm.invocation_parameters': '{"n":2}',
        [`${reply}.0.message.content`]: 'four',
        [`${reply}.1.message.content`]: '4',
      },
    }),
  ];
  expect(dataOf(spans, 'generation.completed')).toMatchObject([
    {
      choices: [
        { index: 0, content: 'four' },
        { index: 1, content: '4' },
      ],
    },
  ]);
});

it('a model span without messages, tokens and an error is no call', () => {
  const spans = [
    span({ id: 1, at: 0, until: 4, attributes: { ...kind('LLM'), 'llm.model_name': 'm', 'input.value': '{}' } }),
    span({ id: 2, at: 5, attributes: { ...kind('LLM'), [`${reply}.0.message.content`]: 'four' } }),
    span({ id: 3, at: 6, attributes: { ...kind('LLM'), 'llm.token_count.prompt': 3 } }),
  ];
  expect(dataOf(spans, 'generation.completed')).toHaveLength(2);
  expect(dataOf(spans, 'environment.observed')).toMatchObject([{ kind: 'span' }]);
});

it('an agent without a name takes that of its span', () => {
  const spans = [
    span({ id: 1, name: 'CodeAgent.run', at: 0, until: 9, attributes: kind('AGENT') }),
    span({ id: 2, parent: 1, attributes: { ...kind('LLM'), [`${reply}.0.message.content`]: 'four' } }),
  ];
  expect(dataOf(spans, 'agent.defined')).toMatchObject([{ agent_id: 'CodeAgent.run' }]);
  expect(dataOf(spans, 'generation.completed')).toMatchObject([{ agent_id: 'CodeAgent.run' }]);
});

it('a hand-off of the OpenAI Agents SDK is the one tool call that asked for it', () => {
  const call = `${reply}.0.message.tool_calls.0.tool_call`;
  const spans = [
    span({ id: 1, until: 9, name: 'planner', attributes: kind('AGENT') }),
    span({
      id: 2,
      parent: 1,
      attributes: {
        ...kind('LLM'),
        [`${reply}.0.message.role`]: 'assistant',
        [`${call}.id`]: 'c1',
        [`${call}.function.name`]: 'transfer_to_writer',
        [`${call}.function.arguments`]: '{}',
      },
    }),
    span({ id: 3, parent: 1, name: 'handoff to writer', attributes: kind('TOOL') }),
  ];
  expect(dataOf(spans, 'tool.called').map(({ tool_call_id, name }) => [tool_call_id, name])).toEqual([
    ['c1', 'transfer_to_writer'],
  ]);
  expect(dataOf(spans, 'control.transferred')).toMatchObject([{ from_agent: 'planner', to_agent: 'writer' }]);
});

it('the answer of a graph of LangChain is its last message, not its whole state', () => {
  const human = { type: 'human', data: { content: 'How far?' } };
  const state = (last: object) => JSON.stringify({ messages: [human, last] });
  const graph = (output: string) =>
    span({
      id: 1,
      attributes: { ...kind('CHAIN'), 'output.value': output, 'output.mime_type': 'application/json', metadata: '{}' },
    });
  const answers = [
    state({ type: 'ai', data: { content: 'Far.' } }),
    state({ role: 'assistant', content: 'Far.' }),
    '{"a":1}',
  ];
  expect(answers.map((output) => dataOf([graph(output)], 'episode.finished')[0]!.answer)).toEqual([
    'Far.',
    'Far.',
    '{"a":1}',
  ]);
});

it('runs of one tool at once answer the calls with their arguments, in whatever order threads begin them', () => {
  const call = (i: number, city: string) => ({
    [`${reply}.0.message.tool_calls.${i}.tool_call.function.name`]: 'look_up',
    [`${reply}.0.message.tool_calls.${i}.tool_call.function.arguments`]: JSON.stringify({ city }),
  });
  const run = (id: number, input: object, output: string) =>
    span({
      id,
      at: 2 + id / 100,
      attributes: {
        ...kind('TOOL'),
        'tool.name': 'look_up',
        'input.value': JSON.stringify(input),
        'output.value': output,
      },
    });
  const spans = [
    span({ id: 1, attributes: { ...kind('LLM'), ...call(0, 'Bern'), ...call(1, 'Rome'), ...call(2, 'Oslo') } }),
    run(3, { args: [], sanitize_inputs_outputs: true, kwargs: { city: 'Rome' } }, 'Rome is far'),
    run(4, { city: 'Oslo', unit: 'km' }, 'Oslo is far'),
    run(5, { city: 'Bern' }, 'Bern is far'),
  ];
  expect(dataOf(spans, 'tool.returned').map(({ flags }) => flags)).toEqual([undefined, undefined, undefined]);
  const called = new Map(dataOf(spans, 'tool.called').map((one) => [one.tool_call_id, one.arguments]));
  expect(called.size).toBe(3);
  for (const { tool_call_id: id, output } of dataOf(spans, 'tool.returned'))
    expect(output).toBe(`${(called.get(id) as { city: string }).city} is far`);
});

it('an answer that only the whole output holds, as a response, is the candidate', () => {
  const call = {
    type: 'function_call',
    id: '__fake_id__',
    call_id: 'c',
    name: 'look_up',
    arguments: '{"city":"Bern"}',
  };
  const attributes = {
    ...kind('LLM'),
    'llm.token_count.prompt': 3,
    'output.mime_type': 'application/json',
    'output.value': JSON.stringify([{ id: '__fake_id__', object: 'response', output: [call] }]),
  };
  const spans = [span({ id: 1, attributes })];
  expect(dataOf(spans, 'generation.completed')).toMatchObject([
    { choices: [{ index: 0, content: [{ type: 'tool_call', id: 'c', name: 'look_up' }] }] },
  ]);
  expect(dataOf(spans, 'tool.called')).toMatchObject([{ tool_call_id: 'c', arguments: { city: 'Bern' } }]);
});

it('a run whose arguments are those of none of several open calls is flagged: only the order says which it answers', () => {
  const call = (i: number, city: string) => ({
    [`${reply}.0.message.tool_calls.${i}.tool_call.function.name`]: 'look_up',
    [`${reply}.0.message.tool_calls.${i}.tool_call.function.arguments`]: JSON.stringify({ city }),
  });
  const run = (id: number) =>
    span({ id, attributes: { ...kind('TOOL'), 'tool.name': 'look_up', 'output.value': 'far' } });
  const asked = (...cities: string[]) =>
    span({ id: 1, attributes: { ...kind('LLM'), ...Object.assign({}, ...cities.map((city, i) => call(i, city))) } });
  const flags = (spans: readonly unknown[]) => dataOf(spans, 'tool.returned').map((one) => one.flags);
  // The last one has no other left to answer.
  expect(flags([asked('Bern', 'Rome'), run(2), run(3)])).toEqual([['paired_by_order'], undefined]);
  expect(flags([asked('Bern', 'Bern'), run(2), run(3)])).toEqual([undefined, undefined]);
});
