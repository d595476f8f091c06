/**
 * Spans of the OpenTelemetry GenAI conventions, semantic-conventions v1.41 (docs/gen-ai) and the repository
 * semantic-conventions-genai that continues it, with the older names that are still sent.
 */
import { asText, given, without } from '../events/json.ts';
import { isIdentifier } from '../events/text.ts';
import {
  choiceOf,
  finishReason,
  idAt,
  jsonIn,
  jsonOrText,
  leftover,
  textAt,
  under,
} from '../formats/kit/span-attributes.ts';
import { usageOf } from '../formats/kit/usage.ts';
import { choicesIn, instructionsIn, messagesIn } from './genai-messages.ts';
import { isContentEvent, isEvaluation, OTEL_GENAI } from './otel-genai-logs.ts';
import type { Attributes, OtlpSpan } from './otlp/span.ts';
import type { About, Act, Choice, SpanKind } from './trace.ts';

const GENERATIONS = new Set(['chat', 'text_completion', 'generate_content', 'completion']);
/** Spans of an agent's own work: where it has no name, its id stands for it. */
const NAMES_AGENTS = new Set(['invoke_agent', 'plan']);
const TIMED_OUT = /^(?:time(?:d[ _-]?)?out|deadline_exceeded|.*TimeoutError)$/i;

/** What a span of these conventions is; a span of any other kind is a wrapper. */
export function genaiSpanKind(span: OtlpSpan): SpanKind {
  const { attributes } = span;
  const operation = attributes['gen_ai.operation.name'];
  if (GENERATIONS.has(operation as string)) return generationOf(attributes);
  if (operation === 'execute_tool') {
    const tool = idAt(attributes, 'gen_ai.tool.name') ?? /^execute_tool (.+)$/.exec(span.name)?.[1];
    // Google's ADK repeats tools that ran at once in a span of the name `(merged tools)`.
    if (tool === '(merged tools)') return { kind: 'wrapper' };
    return toolOf(attributes, isIdentifier(tool) ? tool : 'unknown');
  }
  if (operation === 'invoke_agent' || operation === 'create_agent') {
    return {
      kind: 'agent',
      ...given('instructions', instructionsIn(attributes['gen_ai.system_instructions'])),
      ...given('model', textAt(attributes, 'gen_ai.request.model')),
      ...given('tools', jsonIn(attributes['gen_ai.tool.definitions'])),
      description: without({
        id: attributes['gen_ai.agent.id'],
        description: attributes['gen_ai.agent.description'],
        version: attributes['gen_ai.agent.version'],
      }),
    };
  }
  // The call that wrote the plan is a span within it; the plan span itself seldom holds the plan.
  if (operation === 'plan')
    return { kind: 'decision', decided: 'plan', decision: jsonIn(attributes['gen_ai.output.messages']) ?? null };
  if (operation === 'retrieval') {
    return {
      kind: 'observation',
      seen: 'retrieval',
      content: {
        query: attributes['gen_ai.retrieval.query.text'] ?? null,
        documents: jsonOrText(attributes['gen_ai.retrieval.documents']) ?? null,
      },
    };
  }
  return { kind: 'wrapper' };
}

/** The agent that a span names itself. Since semantic-conventions-genai v0.1.0 a workflow has its name in `gen_ai.agent.name`. */
const genaiAgent = (attributes: Attributes): string | undefined =>
  isWorkflow(attributes) ? undefined : namedAgent(attributes);

const isWorkflow = (attributes: Attributes): boolean => attributes['gen_ai.operation.name'] === 'invoke_workflow';

const namedAgent = (attributes: Attributes): string | undefined =>
  idAt(attributes, 'gen_ai.agent.name') ??
  (NAMES_AGENTS.has(attributes['gen_ai.operation.name'] as string) ? idAt(attributes, 'gen_ai.agent.id') : undefined);

/** A model call, from its attributes; the older names where the newer are absent. */
export const generationOf = (attributes: Attributes): SpanKind => readGeneration(attributes).what;

/** `unread` is true where content is there and is no list of messages: the native span keeps it. */
function readGeneration(attributes: Attributes): { readonly what: SpanKind; readonly unread: boolean } {
  const input = messagesIn(attributes['gen_ai.input.messages']);
  const instructions = instructionsIn(attributes['gen_ai.system_instructions']);
  const reasons = reasonsIn(attributes);
  const output = choicesIn(attributes['gen_ai.output.messages'], reasons);
  const messages = [
    ...(instructions === undefined ? [] : [{ role: 'system', content: instructions }]),
    ...(input ?? []),
  ];
  const what: SpanKind = {
    kind: 'generation',
    model: textAt(attributes, 'gen_ai.request.model'),
    params: paramsOf(attributes),
    input: input === undefined && instructions === undefined ? undefined : messages,
    tools: jsonIn(attributes['gen_ai.tool.definitions']),
    choices: output ?? unseen(reasons),
    usage: spanUsage(attributes),
    responseId: idAt(attributes, 'gen_ai.response.id'),
    responseModel: textAt(attributes, 'gen_ai.response.model'),
  };
  const unread =
    (input === undefined && attributes['gen_ai.input.messages'] !== undefined) ||
    (output === undefined && attributes['gen_ai.output.messages'] !== undefined);
  return { what, unread };
}

/** Candidates of which only the end is known, since the content was not captured. */
export const unseen = (reasons: readonly unknown[]): Choice[] =>
  (reasons.length === 0 ? [undefined] : reasons).map((reason, index) =>
    choiceOf(index, undefined, finishReason(reason)),
  );

export function reasonsIn(attributes: Attributes): readonly unknown[] {
  const reasons = jsonIn(attributes['gen_ai.response.finish_reasons']);
  return Array.isArray(reasons) ? reasons : [];
}

function paramsOf(attributes: Attributes): Record<string, unknown> | undefined {
  return without(under(attributes, 'gen_ai.request.') ?? {}, 'model');
}

/** What programs put under these names includes what a cache held, whatever the names say. */
export const spanUsage = (attributes: Attributes): Record<string, unknown> | undefined =>
  usageOf(under(attributes, 'gen_ai.usage.'), 'within');

function toolOf(attributes: Attributes, tool: string): SpanKind {
  const failure = attributes['error.type'];
  // Strands Agents says in messages what the tool was given and returned: always in the older conventions, of a failure in the newer.
  const given = messagesIn(attributes['gen_ai.input.messages'])?.[0]?.content;
  const output = unquoted(attributes['gen_ai.tool.call.result']) ?? resultIn(attributes['gen_ai.output.messages']);
  return {
    kind: 'tool',
    tool,
    callId: idAt(attributes, 'gen_ai.tool.call.id') ?? null,
    type: textAt(attributes, 'gen_ai.tool.type'),
    asked: attributes['gen_ai.tool.call.arguments'] ?? given ?? undefined,
    output,
    ...(typeof failure === 'string' && TIMED_OUT.test(failure) ? { status: 'timeout' as const } : {}),
  };
}

/** A result is given as is, or as JSON: a text in quotes is the text. */
const unquoted = (result: unknown): unknown =>
  typeof result === 'string' && result.startsWith('"') ? jsonOrText(result) : result;

function resultIn(messages: unknown): unknown {
  const content = choicesIn(messages, [])?.[0]?.content;
  const [part] = (Array.isArray(content) ? content : []) as { readonly type: string; readonly response?: unknown }[];
  return part?.type === 'tool_call_response' ? part.response : (content ?? undefined);
}

/** AutoGen keys the agents of a team by an id that it makes for the team. It is the same in all traces of a run, and in all its runs. */
const autogenTeam = (attributes: Attributes): string | undefined =>
  attributes['gen_ai.system'] === 'autogen'
    ? /^.+_([\da-f-]{36})\/\1$/.exec(asText(attributes['gen_ai.agent.id']))?.[1]
    : undefined;

const aboutGenai = (attributes: Attributes): About => ({
  sessionId: idAt(attributes, 'gen_ai.conversation.id', 'session.id') ?? autogenTeam(attributes),
  taskId: idAt(attributes, 'troupe.task_id', 'task_id'),
  groupId: idAt(attributes, 'troupe.group_id'),
  ...given('tags', workflowTag(attributes)),
});

function workflowTag(attributes: Attributes): { readonly workflow: string } | undefined {
  const workflow =
    textAt(attributes, 'gen_ai.workflow.name') ??
    (isWorkflow(attributes) ? textAt(attributes, 'gen_ai.agent.name') : undefined);
  return workflow === undefined ? undefined : { workflow };
}

const MAPPED =
  /^gen_ai\.(?:operation\.name|input\.messages|output\.messages|system_instructions|conversation\.id|workflow\.name|usage\..*|request\..*)$|^gen_ai\.tool\.(?:definitions|name|type|call\.(?:id|arguments|result))$|^gen_ai\.response\.(?:id|model|finish_reasons)$|^gen_ai\.agent\.(?:name|id|description|version)$|^gen_ai\.retrieval\.(?:query\.text|documents)$|^(?:troupe\.)?task_id$|^troupe\.group_id$/s;

export const isGenaiMapped = (key: string): boolean => MAPPED.test(key);

/** A span by itself as an act. */
export function genaiAct(span: OtlpSpan): Act {
  const { attributes } = span;
  const asksModel = GENERATIONS.has(attributes['gen_ai.operation.name'] as string);
  const { what, unread } = asksModel ? readGeneration(attributes) : { what: genaiSpanKind(span), unread: false };
  const leaves = leftover(attributes, what.kind === 'wrapper' ? isNothing : isGenaiMapped);
  const rest = restOf(span);
  if (leaves) rest.attributes = leaves;
  return {
    format: OTEL_GENAI,
    trace: span.traceId,
    id: span.spanId,
    parent: span.parentId,
    name: span.name,
    start: span.start,
    end: span.end,
    error: errorOf(span).error,
    what,
    agent: genaiAgent(attributes) ?? null,
    about: aboutGenai(attributes),
    flags: unread ? UNREAD : undefined,
    unmapped: without(rest),
    native: span.native,
  };
}

const UNREAD = ['unread_content'];
const isNothing = (): boolean => false;

/** What every span has, whatever its conventions. */
export function placeOf(span: OtlpSpan, format: string): Omit<Act, 'what'> {
  return {
    format,
    trace: span.traceId,
    id: span.spanId,
    parent: span.parentId,
    name: span.name,
    start: span.start,
    end: span.end,
    ...errorOf(span),
  };
}

function errorOf(span: OtlpSpan): { error?: unknown } {
  if (span.error === null) return {};
  const exception = span.events.find(({ name }) => name === 'exception')?.attributes;
  const type = span.attributes['error.type'];
  if (!exception && type === undefined) return { error: span.error };
  return { error: without({ message: span.error, type, exception: exception ?? undefined }) };
}

/** Events of a span, its resource and scope, where they are not empty. */
export function restOf(span: OtlpSpan): Record<string, unknown> {
  const rest: Record<string, unknown> = {};
  const events = span.events.filter(({ name }) => name !== 'exception' && !isContentEvent(name) && !isEvaluation(name));
  if (events.length > 0) rest.events = events;
  if (Object.keys(span.resource).length > 0) rest.resource = span.resource;
  if (span.scope !== '') rest.scope = span.scope;
  return rest;
}
