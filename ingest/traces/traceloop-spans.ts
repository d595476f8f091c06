/**
 * Spans of Traceloop's OpenLLMetry (traceloop/openllmetry, openllmetry-js): workflows, tasks, agents and tools as entities, model calls
 * in the GenAI conventions or, in older versions, as flattened lists. A tool span has no call id.
 */
import type { Message, Part } from '../events/events.ts';
import { given, isRecord, without } from '../events/json.ts';
import { isIdentifier } from '../events/text.ts';
import {
  argumentsByName,
  callPart,
  choiceOf,
  contentOf,
  finishReason,
  flattened,
  idAt,
  jsonOrText,
  leftover,
  messageOf,
  roleOf,
  textAt,
  under,
} from '../formats/kit/span-attributes.ts';
import { usageOf } from '../formats/kit/usage.ts';
import { toolResult } from './langchain-messages.ts';
import { nodeOf } from './langgraph.ts';
import { genaiSpanKind, generationOf, isGenaiMapped, placeOf, reasonsIn, restOf, unseen } from './otel-genai-spans.ts';
import type { Attributes, OtlpSpan } from './otlp/span.ts';
import type { About, Act, SpanKind } from './trace.ts';

export const TRACELOOP = 'traceloop';

const FLAT = /^gen_ai\.(?:prompt|completion)\.\d+\./;

export const isTraceloop = ({ attributes }: OtlpSpan): boolean =>
  Object.keys(attributes).some((key) => key.startsWith('traceloop.') || FLAT.test(key)) ||
  'llm.request.type' in attributes;

/** What a framework has its spans carry on: of LangGraph the metadata of the run. */
const associated = (attributes: OtlpSpan['attributes']) => ({
  langgraph_node: attributes['traceloop.association.properties.langgraph_node'],
  langgraph_checkpoint_ns: attributes['traceloop.association.properties.langgraph_checkpoint_ns'],
});

export function traceloopAct(span: OtlpSpan): Act {
  const { attributes } = span;
  const what = spanKindOf(span);
  const roleless = what.kind === 'generation' && what.input?.some((message) => message.role === 'unknown');
  const agent = attributes['traceloop.span.kind'] === 'agent' ? idAt(attributes, 'traceloop.entity.name') : undefined;
  return {
    ...placeOf(span, TRACELOOP),
    what,
    agent: agent ?? idAt(attributes, 'gen_ai.agent.name') ?? nodeOf(associated(attributes)),
    about: aboutOf(span),
    ...(roleless ? { flags: ['unknown_role'] } : {}),
    unmapped: without({ attributes: leftover(attributes, (key) => isMapped(key, what)), ...restOf(span) }),
  };
}

function spanKindOf(span: OtlpSpan): SpanKind {
  const { attributes } = span;
  const name = idAt(attributes, 'traceloop.entity.name') ?? (isIdentifier(span.name) ? span.name : 'unknown');
  const kind = attributes['traceloop.span.kind'];
  if (kind === 'agent') return { kind: 'agent' };
  if (kind === 'tool') {
    return {
      kind: 'tool',
      tool: name,
      callId: idAt(attributes, 'gen_ai.tool.call.id') ?? null,
      ...given('asked', argumentsOf(attributes['traceloop.entity.input'])),
      ...resultOf(attributes['traceloop.entity.output']),
    };
  }
  if (kind !== undefined) return { kind: 'wrapper' };
  const genai = genaiSpanKind(span);
  if (Object.keys(attributes).some((key) => FLAT.test(key))) return flatGeneration(attributes);
  if (genai.kind !== 'wrapper') return genai;
  const type = attributes['llm.request.type'];
  return type === 'chat' || type === 'completion' ? flatGeneration(attributes) : genai;
}

/** What a tool returned; LangChain's tools return it in a message, beside the settings of the run. */
function resultOf(written: unknown): ReturnType<typeof toolResult> {
  const read = jsonOrText(written);
  return toolResult(isRecord(read) && isRecord(read.kwargs) && 'output' in read ? read.output : read);
}

/** What a tool was called with; LangChain's tools have it in `inputs`, decorated functions as Python passes it. */
function argumentsOf(written: unknown): unknown {
  const read = jsonOrText(written);
  if (isRecord(read) && isRecord(read.kwargs) && isRecord(read.inputs)) return read.inputs;
  return argumentsByName(read) ?? read;
}

/** The conversation of flattened attributes, which agent-lightning 0.3 also has. */
export function flatGeneration(attributes: Attributes): SpanKind {
  const newer = generationOf(attributes);
  if (newer.kind !== 'generation') return newer;
  const input = flattened(attributes, 'gen_ai.prompt').map(toMessage);
  const output = flattened(attributes, 'gen_ai.completion');
  const total = attributes['llm.usage.total_tokens'];
  const usage = usageOf({ ...under(attributes, 'gen_ai.usage.'), ...given('total_tokens', total) }, 'within');
  const tools = flattened(attributes, 'llm.request.functions');
  return {
    ...newer,
    ...(input.length > 0 ? { input } : {}),
    ...(tools.length > 0 ? { tools } : {}),
    choices: output.length > 0 ? output.map(toChoice) : newer.input ? newer.choices : unseen(reasonsIn(attributes)),
    ...given('usage', usage),
  };
}

const toChoice = (flat: Record<string, unknown>, index: number) =>
  choiceOf(index, contentOf(partsOf(flat)), finishReason(flat.finish_reason));

function toMessage(flat: Record<string, unknown>): Message {
  const rest = without(flat, ...Object.keys(flat).filter((key) => /^(?:role|content|tool_calls)(?:\.|$)/.test(key)));
  return messageOf(roleOf(flat.role), partsOf(flat), rest);
}

function partsOf(flat: Record<string, unknown>): Part[] {
  const { content } = flat;
  const calls = flattened(flat, 'tool_calls');
  const read = jsonOrText(content);
  const parts: Part[] =
    typeof content !== 'string' || (content === '' && calls.length > 0)
      ? []
      : Array.isArray(read) && read.every((part) => isRecord(part) && typeof part.type === 'string')
        ? read.map((part) =>
            part.type === 'text' && typeof part.text === 'string'
              ? { ...without(part, 'text'), type: 'text', content: part.text }
              : part,
          )
        : [{ type: 'text', content }];
  return [...parts, ...calls.map((call) => callPart(call.id, call.name, call.arguments))];
}

const PROPERTIES = 'traceloop.association.properties.';

/** What LangGraph says of the node that a call is made in: no fact about the episode. */
const OF_A_NODE = /^(?:langgraph_|ls_|checkpoint_ns$|__)/;

function aboutOf({ attributes, parentId }: OtlpSpan): About {
  const properties = under(attributes, PROPERTIES);
  const known = properties ?? {};
  const root = parentId === null && attributes['traceloop.span.kind'] === 'workflow';
  const output = root ? jsonOrText(attributes['traceloop.entity.output']) : undefined;
  return {
    taskId: idAt(known, 'task_id'),
    sessionId: idAt(known, 'session_id', 'run_id', 'chat_id') ?? idAt(attributes, 'gen_ai.conversation.id'),
    groupId: idAt(known, 'group_id'),
    ...(typeof output === 'string' && output !== '' ? { answer: output } : {}),
    tags: without({
      ...(properties
        ? without(properties, 'task_id', ...Object.keys(properties).filter((name) => OF_A_NODE.test(name)))
        : {}),
      ...(root ? { workflow: textAt(attributes, 'traceloop.entity.name') } : {}),
    }),
  };
}

function isMapped(key: string, { kind }: SpanKind): boolean {
  if (key.startsWith(PROPERTIES)) return true;
  if (kind === 'wrapper') return false;
  if (key === 'traceloop.span.kind' || key === 'traceloop.entity.name') return true;
  if (kind === 'generation') {
    return (
      isGenaiMapped(key) ||
      FLAT.test(key) ||
      key === 'llm.usage.total_tokens' ||
      key.startsWith('llm.request.functions.')
    );
  }
  return kind === 'tool' && (key === 'traceloop.entity.input' || key === 'traceloop.entity.output');
}
