/**
 * Traces of the OpenAI Agents SDK, `{data: [trace, trace.span …]}` (openai-agents-js, openai-agents-python). A tool span has no call
 * id; with the Responses API a span may hold nothing but the id of the response.
 */
import { given, isRecord, type JsonObject, without } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import type { Act, Choice, SpanKind } from '../../traces/trace.ts';
import { type TraceReading, traceReading } from '../../traces/trace-import.ts';
import { badMessage, type ChatMessage, toMessage } from '../kit/chat-message.ts';
import { finishReasonIn } from '../kit/finish-reason.ts';
import { type Format, listed, listsOf, type NativeRefusal } from '../kit/format.ts';
import { badIdentifier, refusal } from '../kit/native.ts';
import { responseContent, responseInput } from '../kit/openai-responses.ts';
import { utcOf } from '../kit/run-times.ts';
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
  restates: new Set(['task.defined']),
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
    for (const [i, item] of (items ?? []).entries()) {
      const bad = badItem(item, `data[${i}]`);
      if (bad) {
        reading.refusals.push({ ...bad, at, raw: JSON.stringify(item ?? null) });
        continue;
      }
      const act = (item as JsonObject).object === 'trace' ? traceAct(item as JsonObject) : spanAct(item as JsonObject);
      reading.acts.push(act);
      reading.keep(act.trace, item);
    }
  }
  return reading;
}

function badItem(item: unknown, field: string): NativeRefusal | null {
  if (!isRecord(item)) return refusal('bad_type', field, 'a trace or a span', item);
  const { object, id, trace_id: trace, parent_id: parent, span_data: data } = item;
  if (object !== 'trace' && object !== 'trace.span')
    return refusal('bad_type', `${field}.object`, '"trace" or "trace.span"', object);
  const bad = badIdentifier(id, `${field}.id`);
  if (bad) return bad;
  if (object === 'trace') return null;
  const badTrace = badIdentifier(trace, `${field}.trace_id`);
  if (badTrace) return badTrace;
  if (parent !== null && parent !== undefined) {
    const badParent = badIdentifier(parent, `${field}.parent_id`);
    if (badParent) return badParent;
  }
  for (const name of ['started_at', 'ended_at']) {
    const time = item[name];
    if (time !== null && time !== undefined && utcOf(time) === null) {
      return refusal('bad_time', `${field}.${name}`, 'an RFC 3339 time or null', time);
    }
  }
  if (!isRecord(data) || typeof data.type !== 'string')
    return refusal('bad_type', `${field}.span_data`, 'an object with a type', data);
  return null;
}

function traceAct(item: JsonObject): Act {
  const metadata = isRecord(item.metadata) ? item.metadata : {};
  const id = item.id as string;
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
      sessionId: isIdentifier(item.group_id) ? item.group_id : undefined,
      taskId: isIdentifier(metadata.task_id) ? metadata.task_id : undefined,
      tags: without({ workflow: item.workflow_name ?? undefined, ...without(metadata, 'task_id') }),
    },
    unmapped: without(item, 'object', 'id', 'workflow_name', 'group_id', 'metadata'),
  };
}

function spanAct(item: JsonObject): Act {
  const data = item.span_data as JsonObject & { readonly type: string };
  const cut = isCut(data);
  const silent = data.type === 'response' && data._response === undefined && data.response === undefined;
  const { what, agent = null, mapped } = spanKindOf(data);
  return {
    format: NAME,
    trace: item.trace_id as string,
    id: item.id as string,
    parent: (item.parent_id as string | null | undefined) ?? null,
    name: typeof data.name === 'string' ? data.name : data.type,
    start: utcOf(item.started_at),
    end: utcOf(item.ended_at),
    what,
    agent,
    ...(item.error == null ? {} : { error: item.error }),
    flags: [...(cut ? ['truncated'] : []), ...(silent ? ['no_content'] : [])],
    unmapped: without({
      ...without(item, 'object', 'id', 'trace_id', 'parent_id', 'started_at', 'ended_at', 'span_data', 'error'),
      span_data: without(data, ...mapped),
    }),
  };
}

type Reading = { readonly what: SpanKind; readonly agent?: string | null; readonly mapped: readonly string[] };

const nameIn = (value: unknown): string => (isIdentifier(value) ? value : 'unknown');

function spanKindOf(data: JsonObject & { readonly type: string }): Reading {
  switch (data.type) {
    case 'agent':
      return {
        what: {
          kind: 'agent',
          tools: data.tools,
          description: without({ handoffs: data.handoffs, output_type: data.output_type }),
        },
        agent: isIdentifier(data.name) ? data.name : null,
        mapped: ['type', 'name', 'tools', 'handoffs', 'output_type'],
      };
    case 'generation':
      return { what: generationOf(data), mapped: ['type', 'input', 'output', 'model', 'model_config', 'usage'] };
    case 'response':
      return {
        what: responseOf(data),
        mapped: ['type', 'response_id', 'usage', 'input', '_input', 'response', '_response', 'model'],
      };
    case 'function':
      return {
        what: {
          kind: 'tool',
          tool: nameIn(data.name),
          callId: null,
          ...(data.mcp_data == null ? {} : { type: 'mcp' }),
          ...given('asked', data.input ?? undefined),
          ...given('output', data.output ?? undefined),
        },
        mapped: ['type', 'name', 'input', 'output'],
      };
    case 'handoff':
      return isIdentifier(data.to_agent)
        ? {
            what: { kind: 'handoff', from: isIdentifier(data.from_agent) ? data.from_agent : null, to: data.to_agent },
            mapped: ['type', 'from_agent', 'to_agent'],
          }
        : { what: { kind: 'wrapper' }, mapped: [] };
    case 'guardrail':
      return {
        what: {
          kind: 'decision',
          decided: data.triggered === true ? 'reject' : 'accept',
          decision: { guardrail: data.name ?? null, triggered: data.triggered ?? null },
        },
        mapped: ['type', 'name', 'triggered'],
      };
    default: {
      const inner = isRecord(data.data) ? data.data : {};
      return { what: { kind: 'wrapper' }, agent: isIdentifier(inner.agent_name) ? inner.agent_name : null, mapped: [] };
    }
  }
}

/** The output is a list of messages, or of one answer as a whole: a completion of the chat API (SDK for JavaScript), or a response. */
function generationOf({ input, output: written, model, model_config: params, usage: reported }: JsonObject): SpanKind {
  const [first] = Array.isArray(written) ? written : [];
  const completion = isRecord(first) && Array.isArray(first.choices) ? first : null;
  const output = completion === null ? written : completion.choices;
  const usage = reported ?? completion?.usage;
  return {
    kind: 'generation',
    ...given('model', typeof model === 'string' ? model : undefined),
    ...(isRecord(params) ? { params } : {}),
    ...(Array.isArray(input) ? { input: input.map((message) => messageIn(message)) } : {}),
    choices: Array.isArray(output) && output.length > 0 ? output.map(choiceOf) : [{ index: 0 }],
    ...given('usage', usageOf(usage)),
    ...given('responseId', isIdentifier(completion?.id) ? completion.id : undefined),
    ...given('responseModel', typeof completion?.model === 'string' ? completion.model : undefined),
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
function responseOf(data: JsonObject): SpanKind {
  const response = data._response ?? data.response;
  const known = isRecord(response) ? response : {};
  const asked = data._input ?? data.input;
  const usage = known.usage ?? data.usage;
  const output = Array.isArray(known.output) ? contentOf(responseContent(known.output)) : undefined;
  return {
    kind: 'generation',
    ...given('model', typeof known.model === 'string' ? known.model : undefined),
    ...(asked === undefined || asked === null ? {} : { input: responseInput(asked, known.instructions) }),
    ...(Array.isArray(known.tools) ? { tools: known.tools } : {}),
    choices: [{ index: 0, ...given('content', output), ...given('finish_reason', finishReasonIn(known)) }],
    ...given('usage', usageOf(usage)),
    ...given(
      'responseId',
      isIdentifier(data.response_id) ? data.response_id : isIdentifier(known.id) ? known.id : undefined,
    ),
    ...given('responseModel', typeof known.model === 'string' ? known.model : undefined),
  };
}

/** JsonObject of more than 100,000 bytes are cut by the SDK. */
function isCut(value: unknown): boolean {
  if (typeof value === 'string') return value.endsWith('... [truncated]') || value.endsWith('… [truncated]');
  if (Array.isArray(value)) return value.some(isCut);
  return isRecord(value) && ((value.truncated === true && 'preview' in value) || Object.values(value).some(isCut));
}
