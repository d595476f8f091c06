/**
 * Spans of the Vercel AI SDK (vercel/ai, content/docs/03-ai-sdk-core/60-telemetry.mdx). Version 7 follows the GenAI conventions with
 * members of its own; before it, and in its legacy mode, `ai.generateText` stands around `.doGenerate` and `ai.toolCall`.
 */
import type { Message, Part } from '../events/events.ts';
import { given, isRecord, without } from '../events/json.ts';
import {
  choiceOf,
  contentOf,
  finishReason,
  idAt,
  jsonIn,
  jsonOrText,
  leftover,
  messageOf,
  textAt,
  under,
} from '../formats/kit/span-attributes.ts';
import { usageOf } from '../formats/kit/usage.ts';
import { genaiAct, placeOf, restOf } from './otel-genai-spans.ts';
import type { Attributes, OtlpSpan } from './otlp/span.ts';
import type { About, Act, SpanKind } from './trace.ts';

export const VERCEL_AI = 'vercel-ai';

export const isVercelAi = ({ attributes }: OtlpSpan): boolean =>
  attributes['gen_ai.operation.name'] === 'agent_step' || Object.keys(attributes).some((key) => key.startsWith('ai.'));

export function vercelAct(span: OtlpSpan): Act {
  const { attributes } = span;
  const operation = textAt(attributes, 'ai.operationId');
  if (operation === undefined) return current(span);
  const what = spanKindOf(attributes, operation);
  const cut =
    what.kind === 'generation' &&
    attributes['ai.response.toolCalls'] !== undefined &&
    !Array.isArray(jsonIn(attributes['ai.response.toolCalls']));
  return {
    ...placeOf(span, VERCEL_AI),
    what,
    agent: idAt(attributes, 'ai.telemetry.functionId') ?? null,
    about: aboutOf(attributes),
    ...(cut ? { flags: ['unparsed_tool_calls'] } : {}),
    unmapped: without({
      attributes: leftover(attributes, (key) => !(cut && key === 'ai.response.toolCalls') && isMapped(key, what)),
      ...restOf(span),
    }),
  };
}

/** A span of version 7, which the GenAI conventions describe, with the context of the run that the program handed over. */
function current(span: OtlpSpan): Act {
  const { native: _, ...act } = genaiAct(span);
  return {
    ...act,
    format: VERCEL_AI,
    about: { ...act.about, ...without(aboutOf(span.attributes) as Record<string, unknown>) },
  };
}

function spanKindOf(attributes: Attributes, operation: string): SpanKind {
  if (operation === 'ai.toolCall') {
    return {
      kind: 'tool',
      tool: idAt(attributes, 'ai.toolCall.name') ?? 'unknown',
      callId: idAt(attributes, 'ai.toolCall.id') ?? null,
      ...given('asked', attributes['ai.toolCall.args']),
      ...given('output', jsonOrText(attributes['ai.toolCall.result'])),
    };
  }
  if (/\.do(?:Generate|Stream)$/.test(operation)) return generationOf(attributes);
  return /^ai\.(?:generate|stream)(?:Text|Object)$/.test(operation) ? { kind: 'agent' } : { kind: 'wrapper' };
}

function generationOf(attributes: Attributes): SpanKind {
  const messages = jsonIn(attributes['ai.prompt.messages']);
  const tools = attributes['ai.prompt.tools'];
  const usage = usageOf(under(attributes, 'ai.usage.'), 'within');
  const text = attributes['ai.response.text'] ?? attributes['ai.response.object'];
  const reasoning = textAt(attributes, 'ai.response.reasoning');
  const calls = jsonIn(attributes['ai.response.toolCalls']);
  const called = Array.isArray(calls) ? calls.map(toCall) : [];
  const parts: Part[] = [
    ...(reasoning === undefined ? [] : [{ type: 'reasoning', content: reasoning }]),
    ...(typeof text === 'string' && (text !== '' || called.length === 0) ? [{ type: 'text', content: text }] : []),
    ...called,
  ];
  return {
    kind: 'generation',
    ...given('model', textAt(attributes, 'ai.model.id', 'gen_ai.request.model')),
    ...given('params', paramsOf(attributes)),
    ...(Array.isArray(messages) ? { input: messages.map(toMessage) } : {}),
    ...(Array.isArray(tools) ? { tools: tools.map(jsonOrText) } : {}),
    choices: [choiceOf(0, contentOf(parts), finishReason(attributes['ai.response.finishReason']))],
    ...given('usage', usage),
    ...given('responseId', idAt(attributes, 'ai.response.id')),
    ...given('responseModel', textAt(attributes, 'ai.response.model')),
  };
}

/** Settings of the sampling; those of the program around it are not. */
const paramsOf = (attributes: Attributes): Record<string, unknown> | undefined =>
  without({
    ...without(under(attributes, 'gen_ai.request.') ?? {}, 'model'),
    maxRetries: attributes['ai.settings.maxRetries'],
  });

function toCall(value: unknown): Part {
  if (!isRecord(value)) return { type: 'raw', content: value };
  const { toolCallId: id, toolName: name, input, args, ...rest } = value;
  return { ...without(rest, 'type'), type: 'tool_call', id, name, arguments: input ?? args } as Part;
}

function toMessage(value: unknown): Message {
  if (!isRecord(value)) return messageOf('unknown', [{ type: 'raw', content: value }]);
  const { role, content, ...rest } = value;
  const parts = Array.isArray(content) ? content : [content];
  return messageOf(role, parts.filter((part) => part !== undefined && part !== null).map(toPart), rest);
}

function toPart(value: unknown): Part {
  if (typeof value === 'string') return { type: 'text', content: value };
  if (!isRecord(value)) return { type: 'raw', content: value };
  if (value.type === 'tool-call') return toCall(value);
  if (value.type === 'tool-result') {
    const { toolCallId: id, toolName: name, output, result, ...rest } = value;
    return { ...rest, type: 'tool_call_response', id, name, response: output ?? result } as Part;
  }
  if ((value.type === 'text' || value.type === 'reasoning') && typeof value.text === 'string') {
    return { ...without(value, 'text'), type: value.type, content: value.text };
  }
  return typeof value.type === 'string' && value.type !== '' ? (value as Part) : { ...value, type: 'raw' };
}

/** Facts of a run, from the runtime context or the older telemetry metadata that the program handed over. */
function aboutOf(attributes: Attributes): About {
  const context = { ...under(attributes, 'ai.telemetry.metadata.'), ...under(attributes, 'ai.settings.context.') };
  return {
    taskId: idAt(context, 'taskId', 'task_id'),
    sessionId:
      idAt(context, 'sessionId', 'session_id', 'runId', 'run_id') ?? idAt(attributes, 'gen_ai.conversation.id'),
    groupId: idAt(context, 'groupId', 'group_id'),
    tags: without(context, 'taskId', 'task_id'),
  };
}

const MAPPED =
  /^ai\.(?:operationId|telemetry\.functionId|model\.id|settings\.maxRetries|prompt\.(?:messages|tools)|toolCall\.(?:name|id|args|result)|response\.(?:text|object|reasoning|toolCalls|finishReason|id|model))$/;
const TWINS = /^gen_ai\.(?:request\.|usage\.|response\.(?:id|model|finish_reasons)$)/;

const isMapped = (key: string, { kind }: SpanKind): boolean =>
  /^ai\.(?:settings\.context|telemetry\.metadata)\./.test(key) ||
  (kind === 'tool' && MAPPED.test(key)) ||
  (kind === 'agent' && key === 'ai.telemetry.functionId') ||
  (kind === 'generation' && (MAPPED.test(key) || key.startsWith('ai.usage.') || TWINS.test(key)));
