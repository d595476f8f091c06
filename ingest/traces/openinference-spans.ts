/** Spans of the OpenInference conventions (Arize-ai/openinference, spec/semantic_conventions.md): lists are flattened into attribute names. */
import type { Message, Part } from '../events/events.ts';
import { given, isRecord, without } from '../events/json.ts';
import { isIdentifier } from '../events/text.ts';
import { responseContent } from '../formats/kit/openai-responses.ts';
import {
  argumentsByName,
  callPart,
  choiceOf,
  contentOf,
  finishReason,
  flattened,
  idAt,
  jsonIn,
  jsonOrText,
  leftover,
  messageOf,
  textAt,
  under,
} from '../formats/kit/span-attributes.ts';
import { usageOf } from '../formats/kit/usage.ts';
import { toLangchainMessage, toolResult } from './langchain-messages.ts';
import { nodeOf } from './langgraph.ts';
import { placeOf, restOf } from './otel-genai-spans.ts';
import type { Attributes, OtlpSpan } from './otlp/span.ts';
import type { About, Act, Choice, SpanKind } from './trace.ts';

export const OPENINFERENCE = 'openinference';

export const isOpeninference = ({ attributes }: OtlpSpan): boolean =>
  'openinference.span.kind' in attributes ||
  Object.keys(attributes).some((key) =>
    /^llm\.(?:input_messages|output_messages|token_count|invocation_parameters)\b/.test(key),
  );

export function openinferenceAct(span: OtlpSpan): Act {
  const { attributes } = span;
  const kind = attributes['openinference.span.kind'];
  const what = spanKindOf(span, kind);
  const flags = typeof kind === 'string' ? [] : ['unknown_span_kind'];
  return {
    ...placeOf(span, OPENINFERENCE),
    what,
    agent: agentOf(span, kind),
    about: aboutOf(attributes, span.parentId === null),
    flags,
    unmapped: without({ attributes: leftover(attributes, (key) => isMapped(key, what)), ...restOf(span) }),
  };
}

/** Its spans of agents are named `<agent>.run` (openinference-instrumentation-smolagents 0.1.43, _wrappers.py). */
const SMOLAGENTS = 'openinference.instrumentation.smolagents';

/** The agent that a span names itself; a node of LangGraph is one, and only the metadata of what runs in it name it. */
function agentOf({ attributes, name, scope }: OtlpSpan, kind: unknown): string | null {
  const named = idAt(attributes, 'agent.name');
  if (named !== undefined) return named;
  if (kind === 'AGENT') {
    const shown = scope === SMOLAGENTS ? name.replace(/\.run$/, '') : name;
    return idAt(attributes, 'graph.node.name', 'graph.node.id') ?? (isIdentifier(shown) ? shown : null);
  }
  return nodeOf(metadataOf(attributes));
}

function spanKindOf(span: OtlpSpan, kind: unknown): SpanKind {
  const { attributes, name } = span;
  switch (kind) {
    case 'LLM':
      return isCall(span) ? generationOf(attributes) : { kind: 'wrapper' };
    case 'TOOL': {
      const to = 'tool.name' in attributes ? undefined : HANDOFF.exec(name)?.[1];
      // The call that asked for it is the tool call; this span is what came of it.
      if (isIdentifier(to)) return { kind: 'handoff', from: null, to };
      return {
        kind: 'tool',
        tool: idAt(attributes, 'tool.name') ?? (isIdentifier(name) ? name : 'unknown'),
        callId: idAt(attributes, 'tool.id', 'tool_call.id') ?? null,
        ...given('asked', askedOf(attributes)),
        ...resultOf(valueAt(attributes, 'output')),
      };
    }
    case 'AGENT':
      return { kind: 'agent', description: without({ node: under(attributes, 'graph.node.') }) };
    case 'RETRIEVER':
    case 'RERANKER':
      return {
        kind: 'observation',
        seen: String(kind).toLowerCase(),
        content: without({
          input: valueAt(attributes, 'input'),
          documents: flattened(attributes, 'retrieval.documents').concat(
            flattened(attributes, 'reranker.output_documents'),
          ),
        }),
      };
    default:
      return { kind: 'wrapper' };
  }
}

/** What a tool was called with; smolagents has it as Python passes it. */
function askedOf(attributes: Attributes): unknown {
  const written = attributes['input.value'] ?? attributes['tool.parameters'];
  return argumentsByName(jsonIn(written)) ?? written;
}

/** The result of a tool; LlamaIndex puts it beside what went in. */
const resultOf = (output: unknown): ReturnType<typeof toolResult> =>
  isRecord(output) && 'raw_output' in output && 'raw_input' in output
    ? { ...given('output', output.raw_output), ...(output.is_error === true ? { status: 'error' } : {}) }
    : toolResult(output);

/** How a hand-off of the OpenAI Agents SDK is named; it has the kind of a tool. */
const HANDOFF = /^handoff to (.+)$/;

/** A framework's span around a call is of kind LLM too: without messages, tokens and an error it is no call. */
const isCall = (span: OtlpSpan): boolean =>
  placeOf(span, OPENINFERENCE).error !== undefined ||
  Object.keys(span.attributes).some((key) =>
    /^llm\.(?:input_messages|output_messages|token_count|prompts|choices)\./.test(key),
  );

/** A value beside its media type: parsed where that is JSON. */
function valueAt(attributes: Attributes, side: 'input' | 'output'): unknown {
  const value = attributes[`${side}.value`];
  return attributes[`${side}.mime_type`] === 'application/json' ? jsonOrText(value) : value;
}

function generationOf(attributes: Attributes): SpanKind {
  const input = flattened(attributes, 'llm.input_messages').map(toMessage);
  const output = flattened(attributes, 'llm.output_messages');
  const reason = finishReason(attributes['llm.finish_reason']);
  const params = jsonIn(attributes['llm.invocation_parameters']);
  const tools = flattened(attributes, 'llm.tools').map((tool) => jsonOrText(tool['tool.json_schema'] ?? tool));
  return {
    kind: 'generation',
    ...given('model', textAt(attributes, 'llm.request.model_name', 'llm.model_name')),
    ...(isRecord(params) ? { params } : {}),
    ...(input.length > 0 ? { input } : {}),
    ...(tools.length > 0 ? { tools } : {}),
    choices:
      output.length > 0 ? choicesOf(output, reason, isRecord(params) ? params : {}) : unlisted(attributes, reason),
    ...given(
      'usage',
      usageOf({ ...under(attributes, 'llm.token_count.'), cost: attributes['llm.cost.total'] ?? null }, 'within'),
    ),
    ...given('responseId', responseIdIn(attributes)),
    ...given('responseModel', textAt(attributes, 'llm.response.model_name')),
  };
}

/** The id that the provider gave its answer, which only the answer as a whole holds. */
function responseIdIn(attributes: Attributes): string | undefined {
  const answer = valueAt(attributes, 'output');
  return isRecord(answer) && isIdentifier(answer.id) ? answer.id : undefined;
}

/** Messages of one answer are candidates where several were asked for; else they are its items, such as reasoning, text and tool calls. */
function choicesOf(
  output: readonly Record<string, unknown>[],
  reason: string | undefined,
  { n, candidate_count: count }: Record<string, unknown>,
): Choice[] {
  const parts = output.map(partsOf);
  const reasonOf = (message: Record<string, unknown>) => finishReason(message['message.finish_reason']) ?? reason;
  const asked = Number(n ?? count ?? (parts.every(isPlain) ? output.length : 1));
  if (asked < 2 && output.length > 1) {
    return [choiceOf(0, contentOf(parts.flat()), reasonOf(output.at(-1)!))];
  }
  return output.map((message, index) => choiceOf(index, contentOf(parts[index]!), reasonOf(message)));
}

/**
 * The candidate of a span that lists no messages. Of a streamed answer in the OpenAI Agents SDK only the whole output has the response
 * (openinference-instrumentation-openai-agents 2.6.0, _processor.py).
 */
function unlisted(attributes: Attributes, reason: string | undefined): Choice[] {
  const answer = valueAt(attributes, 'output');
  const [response] = Array.isArray(answer) ? answer : [];
  const parts = isRecord(response) && Array.isArray(response.output) ? responseContent(response.output) : [];
  return [choiceOf(0, contentOf(parts), reason)];
}

const isPlain = (parts: readonly Part[]): boolean => parts.length > 0 && parts.every(({ type }) => type === 'text');

function toMessage(flat: Record<string, unknown>): Message {
  const rest = without(
    flat,
    ...Object.keys(flat).filter((key) =>
      /^message\.(?:role|name|content|contents|tool_calls|tool_call_id)(?:\.|$)/.test(key),
    ),
  );
  const answers = flat['message.tool_call_id'];
  return messageOf(flat['message.role'], partsOf(flat), {
    ...given('name', flat['message.name']),
    ...given('tool_call_id', answers),
    ...rest,
  });
}

function partsOf(flat: Record<string, unknown>): Part[] {
  const content = flat['message.content'];
  const contents = flattened(flat, 'message.contents').map(toPart);
  // Of a message with both, the plain text repeats the parts.
  const repeats =
    contents.some(({ type }) => type === 'text') && contents.map((part) => part.content ?? '').join('') === content;
  return [
    ...(typeof content === 'string' && !repeats ? [{ type: 'text', content }] : []),
    ...contents,
    ...flattened(flat, 'message.tool_calls').map(toCall),
  ];
}

function toPart(flat: Record<string, unknown>): Part {
  const type = flat['message_content.type'];
  const text = flat['message_content.text'];
  const rest = under(flat, 'message_content.') ?? {};
  if (typeof text === 'string') {
    return {
      type: typeof type === 'string' && type !== '' ? type : 'text',
      content: text,
      ...without(rest, 'type', 'text'),
    };
  }
  return { ...rest, type: typeof type === 'string' && type !== '' ? type : 'raw' };
}

const toCall = (flat: Record<string, unknown>): Part =>
  callPart(flat['tool_call.id'], flat['tool_call.function.name'], flat['tool_call.function.arguments']);

function metadataOf(attributes: Attributes): Record<string, unknown> {
  const metadata = jsonIn(attributes.metadata);
  return isRecord(metadata) ? metadata : {};
}

function aboutOf(attributes: Attributes, root: boolean): About {
  const known = metadataOf(attributes);
  const tags = attributes['tag.tags'];
  const input =
    root && attributes['input.mime_type'] !== 'application/json' ? textAt(attributes, 'input.value') : undefined;
  return {
    sessionId: idAt(attributes, 'session.id'),
    taskId: isIdentifier(known.task_id) ? known.task_id : undefined,
    ...(root
      ? {
          taskText: input,
          answer: answerOf(attributes),
          tags: without({ tags, metadata: without(known, 'task_id'), user: attributes['user.id'] }),
        }
      : {}),
  };
}

/** What the whole came to; of a graph of LangChain, whose output is its state, the last message. */
function answerOf(attributes: Attributes): string | undefined {
  const state = valueAt(attributes, 'output');
  if (!isRecord(state) || !Array.isArray(state.messages)) return textAt(attributes, 'output.value');
  const { content } = toLangchainMessage(state.messages.at(-1));
  return typeof content === 'string' ? content : undefined;
}

const MAPPED =
  /^(?:openinference\.span\.kind|agent\.name|session\.id|tool\.(?:name|id)|llm\.(?:(?:request\.|response\.)?model_name|finish_reason|invocation_parameters|cost\.total))$/;
const OF_GENERATIONS = /^llm\.(?:input_messages|output_messages|token_count|tools)\./;
const OF_TOOLS = new Set(['input.value', 'input.mime_type', 'output.value', 'output.mime_type']);

function isMapped(key: string, { kind }: SpanKind): boolean {
  if (kind === 'wrapper') return key === 'session.id';
  if (ANNOTATION.test(key)) return true;
  if (kind === 'generation') return MAPPED.test(key) || OF_GENERATIONS.test(key);
  if (kind === 'agent') return MAPPED.test(key) || key.startsWith('graph.node.');
  return MAPPED.test(key) || OF_TOOLS.has(key);
}

const ANNOTATION = /^(?:(?:trace|session)\.)?(?:annotations|evaluations)\.\d+\./;
