/**
 * Traces of the OpenAI Agents SDK, `{data: [trace, trace.span …]}` (openai-agents-js, openai-agents-python). A tool span has no call
 * id; with the Responses API a span may hold nothing but the id of the response.
 */
import { given, isRecord, without } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import type { Act, Choice, SpanKind } from '../../traces/trace.ts';
import { type TraceReading, traceReading } from '../../traces/trace-import.ts';
import { badMessage, type ChatMessage, toMessage } from '../kit/chat-message.ts';
import { finishReasonIn } from '../kit/finish-reason.ts';
import { type Format, listed, listsOf } from '../kit/format.ts';
import { refusal } from '../kit/native.ts';
import { responseContent, responseInput } from '../kit/openai-responses.ts';
import { type Reader, unreadable } from '../kit/reader.ts';
import { utcOf } from '../kit/run.ts';
import { contentOf, messageOf } from '../kit/span-attributes.ts';
import { usageOf } from '../kit/usage.ts';

const NAME = 'openai-agents';

export const openaiAgents: Format = {
  name: NAME,
  summary:
    'OpenAI Agents SDK traces: {data: [{object: "trace"} and {object: "trace.span"} …]}, or these items one a line',
  recognises: ({ records }) => records.some((record) => itemsOf(record)?.some(isItem) ?? false),
  gathers: () => `import:${NAME}`,
  rereads: listed,
  convert: (record) => readOpenaiAgents(listsOf(record.value).flat()).converted(),
};

const isItem = (value: unknown): boolean =>
  isRecord(value) && (value.object === 'trace.span' || (value.object === 'trace' && 'workflow_name' in value));

/** The items of a request, or the item that a record is; null where it is neither. */
const itemsOf = (record: unknown): readonly unknown[] | null =>
  isRecord(record) ? (Array.isArray(record.data) ? record.data : isItem(record) ? [record] : null) : null;

/** Requests `{data}`, or items of them, read together. */
export function readOpenaiAgents(requests: readonly unknown[]): TraceReading {
  const reading = traceReading(NAME);
  for (const [at, one] of requests.entries()) {
    const items = itemsOf(one);
    if (!items) reading.refusals.push({ ...refusal('bad_shape', 'data', 'a list of traces and spans', one), at });
    for (const [i, native] of (items ?? []).entries())
      reading.read(at, native, `data[${i}]`, 'a trace or a span', (item) => {
        const act = actOf(item);
        reading.acts.push(act);
        reading.keep(act.trace, native);
      });
  }
  return reading;
}

function actOf(item: Reader): Act {
  const object = item.any('object');
  if (object !== 'trace' && object !== 'trace.span')
    return unreadable('bad_type', item.path('object'), '"trace" or "trace.span"', object);
  const id = item.ownId('id');
  return object === 'trace' ? traceAct(item, id) : spanAct(item, id);
}

function traceAct(item: Reader, id: string): Act {
  const { task_id: taskId, ...tags } = item.record('metadata') ?? {};
  return {
    format: NAME,
    trace: id,
    id,
    // The roots of its spans define when it began and ended.
    parent: '',
    name: '',
    start: null,
    end: null,
    what: { kind: 'episode' },
    about: {
      sessionId: item.id('group_id'),
      taskId: isIdentifier(taskId) ? taskId : undefined,
      tags: without({ workflow: item.any('workflow_name'), ...tags }),
    },
    unmapped: item.rest(),
  };
}

const TIME = 'an RFC 3339 time or null';

function spanAct(item: Reader, id: string): Act {
  const trace = item.ownId('trace_id');
  const parent = item.idIfAny('parent_id') ?? null;
  const start = item.timeIfAny('started_at', utcOf, TIME);
  const end = item.timeIfAny('ended_at', utcOf, TIME);
  const data = item.object('span_data', 'an object with a type');
  const { type, name, _response, response } = data.native;
  if (typeof type !== 'string') return unreadable('bad_type', data.at, 'an object with a type', data.native);
  const silent = type === 'response' && _response === undefined && response === undefined;
  return {
    format: NAME,
    trace,
    id,
    parent,
    name: typeof name === 'string' ? name : type,
    start,
    end,
    ...spanKindOf(data),
    error: item.any('error'),
    flags: [...(isCut(data.native) ? ['truncated'] : []), ...(silent ? ['no_content'] : [])],
    unmapped: item.rest(),
  };
}

function spanKindOf(data: Reader): { readonly what: SpanKind; readonly agent: string | null } {
  const { native } = data;
  const by = (what: SpanKind, agent: string | null = null) => ({ what, agent });
  switch (data.text('type')) {
    case 'agent': {
      const description = data.these('handoffs', 'output_type');
      return by({ kind: 'agent', tools: data.any('tools'), description }, data.id('name') ?? null);
    }
    case 'generation':
      return by(generationOf(data));
    case 'response':
      return by(responseOf(data));
    case 'function':
      return by({
        kind: 'tool',
        tool: data.id('name') ?? 'unknown',
        callId: null,
        type: native.mcp_data == null ? undefined : 'mcp',
        asked: data.any('input'),
        output: data.any('output'),
      });
    case 'handoff': {
      const to = data.id('to_agent');
      if (to !== undefined) return by({ kind: 'handoff', from: data.id('from_agent') ?? null, to });
      break;
    }
    case 'guardrail': {
      const { name = null, triggered = null } = native;
      data.these('name', 'triggered');
      const decision = { guardrail: name, triggered };
      return by({ kind: 'decision', decided: triggered === true ? 'reject' : 'accept', decision });
    }
  }
  data.leave('type');
  const { data: inner } = native;
  return by({ kind: 'wrapper' }, isRecord(inner) && isIdentifier(inner.agent_name) ? inner.agent_name : null);
}

/** The output is a list of messages, or of one answer as a whole: a completion of the chat API (SDK for JavaScript), or a response. */
function generationOf(data: Reader): SpanKind {
  const [input, written] = [data.any('input'), data.any('output')];
  const [first] = Array.isArray(written) ? written : [];
  const completion = isRecord(first) && Array.isArray(first.choices) ? first : null;
  const output = completion === null ? written : completion.choices;
  return {
    kind: 'generation',
    model: data.text('model'),
    params: data.record('model_config'),
    input: Array.isArray(input) ? input.map(messageIn) : undefined,
    choices: Array.isArray(output) && output.length > 0 ? output.map(choiceOf) : [{ index: 0 }],
    usage: usageOf(data.any('usage') ?? completion?.usage),
    responseId: isIdentifier(completion?.id) ? completion.id : undefined,
    responseModel: typeof completion?.model === 'string' ? completion.model : undefined,
  };
}

const messageIn = (value: unknown) =>
  badMessage(value, '') === null
    ? toMessage(value as ChatMessage)
    : (responseInput([value])[0] ?? messageOf('unknown', [{ type: 'raw', content: value }]));

function choiceOf(value: unknown, index: number): Choice {
  // A streamed answer of a chat model stands here as the response that the SDK made of it (openai-agents 0.24.0, openai_chatcompletions.py).
  if (isRecord(value) && Array.isArray(value.output))
    return {
      index,
      ...given('content', contentOf(responseContent(value.output))),
      ...given('finish_reason', finishReasonIn(value)),
    };
  const message = isRecord(value) && isRecord(value.message) ? value.message : value;
  const reason = finishReasonIn(value);
  const { content } = messageIn(isRecord(message) ? { role: 'assistant', ...message } : message);
  return { index, ...given('content', content), ...given('finish_reason', reason) };
}

/** A response: with its content only where a custom exporter kept `_input` and `_response`. */
function responseOf(data: Reader): SpanKind {
  const { _response, response, _input, input } = data.native;
  data.these('_response', 'response', '_input', 'input', 'model');
  const held = _response ?? response;
  const known = isRecord(held) ? held : {};
  const asked = _input ?? input;
  const output = Array.isArray(known.output) ? contentOf(responseContent(known.output)) : undefined;
  const model = typeof known.model === 'string' ? known.model : undefined;
  const usage = data.any('usage');
  return {
    kind: 'generation',
    model,
    input: asked == null ? undefined : responseInput(asked, known.instructions),
    tools: Array.isArray(known.tools) ? known.tools : undefined,
    choices: [{ index: 0, ...given('content', output), ...given('finish_reason', finishReasonIn(known)) }],
    usage: usageOf(known.usage ?? usage),
    responseId: [data.any('response_id'), known.id].find(isIdentifier),
    responseModel: model,
  };
}

/** Fields of more than 100,000 bytes are cut by the SDK. */
function isCut(value: unknown): boolean {
  if (typeof value === 'string') return value.endsWith('... [truncated]') || value.endsWith('… [truncated]');
  if (Array.isArray(value)) return value.some(isCut);
  return isRecord(value) && ((value.truncated === true && 'preview' in value) || Object.values(value).some(isCut));
}
