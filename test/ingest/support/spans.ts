/** Made-up OTLP spans: a planner and a solver who calls a tool, in any of the conventions. */
import { toAttributes } from '../../../ingest/traces/otlp/any-value.ts';

export type MadeSpan = {
  readonly id: number;
  readonly parent?: number | null;
  readonly name?: string;
  readonly at?: number;
  readonly until?: number;
  readonly attributes?: Record<string, unknown>;
  readonly more?: Record<string, unknown>;
};

export const TRACE = 'a1b2c3d4e5f60718293a4b5c6d7e8f90';
export const spanId = (id: number): string => id.toString(16).padStart(16, 'c');
const nanos = (at: number): string => `${1789000000n * 1_000_000_000n + BigInt(Math.round(at * 1e9))}`;

export const span = ({
  id,
  parent = null,
  name = 'span',
  at = id,
  until = at + 0.5,
  attributes = {},
  more = {},
}: MadeSpan) => ({
  traceId: TRACE,
  spanId: spanId(id),
  ...(parent === null ? {} : { parentSpanId: spanId(parent) }),
  name,
  kind: 1,
  startTimeUnixNano: nanos(at),
  endTimeUnixNano: nanos(until),
  attributes: toAttributes(attributes),
  ...more,
});

export type SpanJson = ReturnType<typeof span>;

export const request = (spans: readonly unknown[], resource: Record<string, unknown> = { 'service.name': 'team' }) => ({
  resourceSpans: [
    { resource: { attributes: toAttributes(resource) }, scopeSpans: [{ scope: { name: 'made-up' }, spans }] },
  ],
});

export const logRequest = (logRecords: readonly unknown[]) => ({
  resourceLogs: [{ scopeLogs: [{ scope: { name: 'grader' }, logRecords }] }],
});

export const message = (role: string, ...parts: readonly unknown[]) => ({ role, parts });
export const text = (content: string) => ({ type: 'text', content });

export const chat = (
  made: MadeSpan,
  output: readonly unknown[],
  input: readonly unknown[] = [message('user', text('How far?'))],
) =>
  span({
    name: 'chat m1',
    ...made,
    attributes: {
      'gen_ai.operation.name': 'chat',
      'gen_ai.request.model': 'm1',
      'gen_ai.input.messages': JSON.stringify(input),
      'gen_ai.output.messages': JSON.stringify(output),
      ...made.attributes,
    },
  });

export const agent = (made: MadeSpan, name: string) =>
  span({
    name: `invoke_agent ${name}`,
    ...made,
    attributes: { 'gen_ai.operation.name': 'invoke_agent', 'gen_ai.agent.name': name, ...made.attributes },
  });

export const tool = (made: MadeSpan, name: string, callId: string | null, more: Record<string, unknown> = {}) =>
  span({
    name: `execute_tool ${name}`,
    ...made,
    attributes: {
      'gen_ai.operation.name': 'execute_tool',
      'gen_ai.tool.name': name,
      ...(callId === null ? {} : { 'gen_ai.tool.call.id': callId }),
      ...more,
    },
  });

const call = (id: string, x: number) => ({ type: 'tool_call', id, name: 'calc', arguments: { x } });

/** A trace of nine spans: a root, two agents, three calls, three tool runs, of which two answer the same native id. */
export const aTrace = (): SpanJson[] => [
  span({
    id: 1,
    name: 'team',
    at: 0,
    until: 20,
    attributes: { 'gen_ai.operation.name': 'invoke_workflow', 'gen_ai.conversation.id': 'conv' },
  }),
  agent({ id: 2, parent: 1, at: 1, until: 4 }, 'planner'),
  chat({ id: 3, parent: 2, at: 1, until: 3 }, [message('assistant', text('Ask the solver.'))]),
  agent({ id: 4, parent: 1, at: 5, until: 15 }, 'solver'),
  chat({ id: 5, parent: 4, at: 5, until: 6 }, [message('assistant', call('c', 1), call('d', 2))]),
  tool({ id: 6, parent: 4, at: 7, until: 8 }, 'calc', 'c', { 'gen_ai.tool.call.result': 'one' }),
  tool({ id: 7, parent: 4, at: 7, until: 8 }, 'calc', 'd', { 'gen_ai.tool.call.result': 'two \u0000 \ud800' }),
  chat({ id: 8, parent: 4, at: 9, until: 10 }, [message('assistant', call('c', 3))]),
  tool({ id: 9, parent: 4, at: 11, until: 12 }, 'calc', 'c', { 'gen_ai.tool.call.result': 'three' }),
];
