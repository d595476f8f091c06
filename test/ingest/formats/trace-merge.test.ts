import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { EventName } from '../../../ingest/events/events.ts';
import type { Act, Choice } from '../../../ingest/traces/trace.ts';
import { traceDrafts } from '../../../ingest/traces/trace-drafts.ts';

type Made = {
  readonly id: string;
  readonly parent?: string | null;
  readonly from?: number;
  readonly to?: number;
  readonly format?: string;
  readonly text?: string;
  readonly tools?: readonly string[];
  readonly usage?: Record<string, number>;
  readonly responseId?: string;
};

const time = (second: number): string => new Date(Date.UTC(2026, 8, 10, 10, 0, 0) + second * 1000).toISOString();

const call = ({
  id,
  parent = null,
  from = 0,
  to = 9,
  format = 'openinference',
  text,
  tools = [],
  usage,
  responseId,
}: Made): Act => {
  const content = [
    ...(text === undefined ? [] : [{ type: 'text', content: text }]),
    ...tools.map((name) => ({ type: 'tool_call', id: `call-${name}`, name, arguments: '{}' })),
  ];
  const choice: Choice = content.length === 0 ? { index: 0 } : { index: 0, content };
  return {
    format,
    trace: 't',
    id,
    parent,
    name: id,
    start: time(from),
    end: time(to),
    what: {
      kind: 'generation',
      choices: [choice],
      ...(usage ? { usage } : {}),
      ...(responseId ? { responseId } : {}),
    },
  };
};
const chain = (id: string, parent: string | null = null): Act => ({
  format: 'openinference',
  trace: 't',
  id,
  parent,
  name: id,
  start: time(0),
  end: time(20),
  what: { kind: 'wrapper' },
});

const summaryOf = (acts: readonly Act[]) => {
  const { drafts } = traceDrafts(acts, [], { source: '/test', whole: true });
  const of = (name: EventName) =>
    drafts
      .filter((draft) => draft.name === name)
      .map(({ data }) => data as { call_id?: string; name?: string; usage?: { input_tokens?: number } });
  return {
    calls: of('generation.completed').map((data) => data.call_id),
    tokens: of('generation.completed').reduce((sum, { usage }) => sum + (usage?.input_tokens ?? 0), 0),
    tools: of('tool.called').map(({ name, call_id }) => [name, call_id]),
    completed: of('generation.completed'),
    spans: of('environment.observed').length,
  };
};

describe('spans of one model call', () => {
  it('keep the tool calls and the tokens of an outer span whose inner one is empty', () => {
    const { calls, tokens, tools } = summaryOf([
      call({ id: 'outer', tools: ['find', 'book'], usage: { input_tokens: 40 } }),
      call({ id: 'inner', parent: 'outer', from: 1, to: 8, usage: { input_tokens: 40 } }),
    ]);
    expect(calls).toEqual(['outer']);
    expect(tokens).toBe(40);
    expect(tools).toEqual([
      ['find', 'outer'],
      ['book', 'outer'],
    ]);
  });

  it('are one call where both know something: the one that holds the answer, with what only the other knows', () => {
    const { calls, completed, spans } = summaryOf([
      call({ id: 'outer', usage: { input_tokens: 7 }, responseId: 'r1' }),
      call({ id: 'inner', parent: 'outer', from: 1, to: 8, text: 'four' }),
    ]);
    expect(calls).toEqual(['inner']);
    expect(completed[0]).toMatchObject({ usage: { input_tokens: 7 }, response_id: 'r1' });
    expect(spans).toBe(1);
  });

  it('stay several where an outer span stands around several answers, whose tokens it repeats', () => {
    const { calls, tokens } = summaryOf([
      call({ id: 'outer', text: 'b', usage: { input_tokens: 12 } }),
      call({ id: 'a', parent: 'outer', from: 1, to: 2, text: 'a', usage: { input_tokens: 5 } }),
      call({ id: 'b', parent: 'outer', from: 3, to: 4, text: 'b', usage: { input_tokens: 7 } }),
    ]);
    expect(calls).toEqual(['a', 'b']);
    expect(tokens).toBe(12);
  });

  it('stay two where the provider gave both an answer of its own', () => {
    const { calls } = summaryOf([
      call({ id: 'outer', text: 'done', responseId: 'r2' }),
      call({ id: 'inner', parent: 'outer', from: 1, to: 2, text: 'asked within', responseId: 'r1' }),
    ]);
    expect(calls).toEqual(['outer', 'inner']);
  });

  it('side by side are one by the id of the response', () => {
    const { calls, tokens } = summaryOf([
      chain('c'),
      call({ id: 'a', parent: 'c', text: 'x', usage: { input_tokens: 5 }, responseId: 'r1' }),
      call({
        id: 'b',
        parent: 'c',
        from: 1,
        to: 8,
        usage: { input_tokens: 5 },
        responseId: 'r1',
        format: 'otel-genai',
      }),
    ]);
    expect(calls).toEqual(['a']);
    expect(tokens).toBe(5);
  });

  it('side by side are one where two instrumentations say the same at the same time, and two where one does', () => {
    const at = (id: string, format: string) => call({ id, parent: 'c', format, text: 'x', usage: { input_tokens: 5 } });
    expect(summaryOf([chain('c'), at('a', 'openinference'), at('b', 'traceloop')]).tokens).toBe(5);
    expect(summaryOf([chain('c'), at('a', 'openinference'), at('b', 'openinference')]).tokens).toBe(10);
  });

  it('stay two where a made-up answer repeats its id later', () => {
    const { calls } = summaryOf([
      chain('c'),
      call({ id: 'a', parent: 'c', from: 0, to: 1, text: 'x', responseId: 'fixed' }),
      call({ id: 'b', parent: 'c', from: 2, to: 3, text: 'y', responseId: 'fixed' }),
    ]);
    expect(calls).toEqual(['a', 'b']);
  });

  it('give every span once, as a call or as a span, in any order and any nesting, circles too', () => {
    const made = fc.array(
      fc.record({
        parent: fc.option(fc.nat(9)),
        text: fc.option(fc.constantFrom('x', 'y')),
        tokens: fc.option(fc.nat(9)),
        response: fc.option(fc.constantFrom('r1', 'r2')),
        from: fc.nat(9),
      }),
      { minLength: 1, maxLength: 10 },
    );
    fc.assert(
      fc.property(made, fc.nat(), (list, seed) => {
        const acts = list.map(({ parent, text, tokens, response, from }, i) =>
          call({
            id: `s${i}`,
            parent: parent === null ? null : `s${parent}`,
            from,
            to: from + 3,
            ...(text === null ? {} : { text }),
            ...(tokens === null ? {} : { usage: { input_tokens: tokens } }),
            ...(response === null ? {} : { responseId: response }),
          }),
        );
        const one = summaryOf(acts);
        expect(one.calls.length + one.spans).toBe(acts.length);
        const turned = acts.map((_, i) => acts[(i + seed) % acts.length]!);
        expect(summaryOf(turned)).toEqual(one);
      }),
    );
  });
});
