/** Spans in the forms in which Phoenix, MLflow, Braintrust and Opik export them. */
import { describe, expect, it } from 'vitest';
import { type Data, known, read } from './support/convert.ts';

const question = [{ role: 'user', content: 'What is 2+2?' }];
const answer = { choices: [{ message: { role: 'assistant', content: '4' } }] };

const phoenix = (more: Data = {}) => ({
  ...{ name: 'ChatCompletion', context: { trace_id: 't1', span_id: 's1' }, span_kind: 'LLM', parent_id: null },
  ...{ start_time: '2026-01-01T00:00:00Z', end_time: '2026-01-01T00:00:01Z', status_code: 'OK', events: [] },
  attributes: {
    llm: {
      model_name: 'made-up',
      input_messages: question.map((message) => ({ message })),
      output_messages: [{ message: { role: 'assistant', content: '4' } }],
      token_count: { prompt: 10, completion: 3 },
    },
  },
  ...more,
});
const mlflow = (attributes: Data = {}, more: Data = {}) => ({
  info: { trace_id: 't1', state: 'OK' },
  data: {
    spans: [
      {
        ...{ trace_id: 'AA==', span_id: 'AQ==', parent_span_id: null, name: 'Completions' },
        ...{ start_time_unix_nano: 1, end_time_unix_nano: '1767225601000000000', status: { code: 'STATUS_CODE_OK' } },
        attributes: {
          'mlflow.spanType': '"CHAT_MODEL"',
          'mlflow.spanInputs': JSON.stringify({ model: 'made-up', temperature: 0.5, messages: question }),
          'mlflow.spanOutputs': JSON.stringify({ ...answer, usage: { prompt_tokens: 10, completion_tokens: 3 } }),
          ...attributes,
        },
        ...more,
      },
    ],
  },
});
const braintrust = (more: Data = {}) => ({
  ...{ id: 'r', span_id: 's1', root_span_id: 't1', span_parents: null, span_attributes: { type: 'llm', name: 'Chat' } },
  ...{ input: question, output: answer.choices, metadata: { model: 'made-up' } },
  metrics: {
    start: 1767225600,
    end: 1767225601,
    prompt_tokens: 10,
    completion_tokens: 3,
    tokens: 13,
    prompt_cached_tokens: 4,
  },
  ...more,
});
const span = (more: Data = {}) => ({
  ...{ id: 's1', trace_id: 't1', parent_span_id: null, name: 'chat', type: 'llm', model: 'made-up' },
  ...{ start_time: '2026-01-01 00:00:00+00:00', end_time: '2026-01-01 00:00:01+00:00', input: { messages: question } },
  ...{ output: answer, usage: { prompt_tokens: 10, completion_tokens: 3 }, ...more },
});
const opik = (...spans: readonly Data[]) => ({
  trace: { id: 't1', name: 'team', start_time: '2026-01-01 00:00:00+00:00', input: { q: 'Add.' }, output: { a: '4' } },
  spans,
});

/** A file of these records. */
const readFile = (...records: readonly Data[]) => read('exported-spans', [records]);

describe('exported-spans', () => {
  it.each([
    ['Phoenix', phoenix()],
    ['MLflow', mlflow()],
    ['Braintrust', braintrust()],
    ['Opik', opik(span())],
    ['Opik, a span alone', span()],
  ])('reads a call of %s: what it was shown, what it answered, its model, tokens and end', (_, record) => {
    expect(known(record)).toBe('exported-spans');
    const { of, times, refused } = readFile(record);
    expect(refused).toEqual([]);
    expect(of('generation.requested')).toMatchObject([{ model: 'made-up', input: question }]);
    expect(of('generation.completed')).toMatchObject([
      { choices: [{ content: '4' }], usage: { input_tokens: 10, output_tokens: 3 } },
    ]);
    expect(times('generation.completed').map((time) => time && Date.parse(time))).toEqual([1767225601000]);
    expect(of('episode.started')).toMatchObject([{ episode_id: 't1' }]);
  });

  it('takes the task from the question, and of Opik from the trace', () => {
    for (const record of [mlflow(), braintrust(), span()])
      expect(readFile(record).of('task.defined')).toMatchObject([{ query: 'What is 2+2?' }]);
    expect(readFile(opik(span())).of('task.defined')).toMatchObject([{ query: 'Add.' }]);
  });

  it('reads a data frame of Phoenix as rows, whose names hold the path', () => {
    const row = {
      ...{
        name: 'ChatCompletion',
        'context.trace_id': 't1',
        'context.span_id': 's1',
        span_kind: 'LLM',
        status_code: 'OK',
      },
      ...{ start_time: 1767225600000, end_time: 1767225601000, 'attributes.llm.model_name': 'made-up' },
      'attributes.llm.output_messages': [{ 'message.role': 'assistant', 'message.content': '4' }],
    };
    expect(known(row)).toBe('exported-spans');
    const { of, times } = readFile(row);
    expect(of('generation.completed')).toMatchObject([{ choices: [{ content: '4' }] }]);
    expect(times('generation.completed')).toEqual(['2026-01-01T00:00:01.000000Z']);
  });

  it('counts the parts of tokens that Braintrust names in its own way', () => {
    expect(readFile(braintrust()).of('generation.completed')).toMatchObject([{ usage: { cached_input_tokens: 4 } }]);
  });

  it('keeps the parameters and the tools of a call', () => {
    const { of } = readFile(mlflow({ 'mlflow.chat.tools': JSON.stringify([{ type: 'function' }]) }));
    expect(of('generation.requested')).toMatchObject([{ params: { temperature: 0.5 }, tools: [{ type: 'function' }] }]);
  });

  it('pairs a tool with the call that asked for it, and says where it failed', () => {
    const called = {
      choices: [
        {
          message: {
            role: 'assistant',
            tool_calls: [{ id: 'c1', type: 'function', function: { name: 'add', arguments: '{}' } }],
          },
        },
      ],
    };
    const tool = span({ id: 's2', type: 'tool', name: 'add', input: {}, output: null, error_info: { message: 'no' } });
    const later = { start_time: '2026-01-01 00:00:02+00:00', end_time: '2026-01-01 00:00:03+00:00' };
    const { of } = readFile(opik(span({ output: called }), { ...tool, ...later }));
    const [call] = of('tool.called');
    expect(of('tool.returned')).toMatchObject([{ tool_call_id: call!.tool_call_id, status: 'error' }]);
  });

  it('takes scores as feedback on the trace or the span, with the reference of Braintrust', () => {
    const scored = readFile(braintrust({ scores: { exact: 0.5, open: null }, expected: '4' }));
    expect(scored.of('feedback.recorded')).toMatchObject([
      { name: 'exact', value: 0.5, target: { kind: 'episode', id: 't1' } },
    ]);
    expect(scored.of('task.defined')).toMatchObject([{ ground_truth: '4' }]);
    const own = readFile(opik(span({ feedback_scores: [{ name: 'short', value: 1, reason: 'r' }] })));
    expect(own.of('feedback.recorded')).toMatchObject([{ name: 'short', value: 1, explanation: 'r' }]);
  });

  it('knows no answer of a call that has not ended', () => {
    const { of } = readFile(span({ end_time: null, output: null }));
    expect([of('generation.requested').length, of('generation.completed')]).toEqual([1, []]);
  });
});
