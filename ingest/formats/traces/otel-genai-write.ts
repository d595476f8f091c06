/**
 * An episode as OTLP spans and log records of the GenAI conventions. An episode whose calls all came in these conventions is given back
 * unchanged, in the one form of `otlp/normal.ts`; any other is written as spans of its own, with ids derived from its ids.
 */
import { asText, canonicalJson, given, hashId, isRecord, type JsonObject, without } from '../../events/json.ts';
import { toAttributes } from '../../traces/otlp/any-value.ts';
import type { Native } from '../../traces/otlp/span.ts';
import type { RestoredEvent } from '../kit/format.ts';
import { startOf } from '../kit/native.ts';

/** One request of traces and, where there are log records, one of logs. */
export function writeOtlp(events: readonly RestoredEvent[]): readonly unknown[] {
  const natives = unique(events.flatMap(({ data }) => nativeOf(data)));
  const foreign = events.some(({ name, data }) => name === 'generation.completed' && nativeOf(data).length === 0);
  const items = natives.length > 0 && !foreign ? natives : spansOf(events);
  const spans = items.filter(({ span }) => span);
  const logs = items.filter(({ log }) => log);
  return [
    ...(spans.length > 0 ? [{ resourceSpans: grouped(spans, 'scopeSpans', 'spans', ({ span }) => span) }] : []),
    ...(logs.length > 0 ? [{ resourceLogs: grouped(logs, 'scopeLogs', 'logRecords', ({ log }) => log) }] : []),
  ];
}

const nativeOf = ({ unmapped }: JsonObject): Native[] =>
  isRecord(unmapped) && isRecord(unmapped.otlp) ? [unmapped.otlp as Native] : [];

/** Each item once, in the order of its times: an event may have been derived twice, beside more of its trace. */
function unique(items: readonly Native[]): Native[] {
  const found = new Map(items.map((item) => [canonicalJson(item), item]));
  const orderOf = ({ span, log }: Native): string =>
    [span?.startTimeUnixNano ?? log?.timeUnixNano, span?.endTimeUnixNano]
      .map((time) => asText(time ?? '').padStart(20, '0'))
      .join('/');
  return [...found]
    .sort(([a, one], [b, other]) => (orderOf(one) + a < orderOf(other) + b ? -1 : 1))
    .map(([, item]) => item);
}

function grouped(items: readonly Native[], scopes: string, name: string, itemOf: (item: Native) => unknown): unknown[] {
  const resources = new Map<string, { resource: unknown; scopes: Map<string, { scope: unknown; items: unknown[] }> }>();
  for (const item of items) {
    const key = canonicalJson(item.resource ?? {});
    const group = resources.get(key) ?? { resource: item.resource, scopes: new Map() };
    resources.set(key, group);
    const inner = canonicalJson(item.scope ?? {});
    const scope = group.scopes.get(inner) ?? { scope: item.scope, items: [] };
    group.scopes.set(inner, scope);
    scope.items.push(itemOf(item));
  }
  return [...resources.values()].map(({ resource, scopes: inside }) => ({
    ...given('resource', resource),
    [scopes]: [...inside.values()].map(({ scope, items: members }) => ({ ...given('scope', scope), [name]: members })),
  }));
}

/** Spans for an episode that was recorded another way: a workflow, in it each call and each tool run. */
function spansOf(events: readonly RestoredEvent[]): Native[] {
  const episode = events.map(({ data }) => data.episode_id).find((id) => typeof id === 'string') as string | undefined;
  if (episode === undefined) return [];
  const traceId = hashId('otlp-trace', episode);
  const spanIdOf = (kind: string, id: unknown): string => hashId('otlp-span', episode, kind, id).slice(0, 16);
  const root = spanIdOf('episode', episode);
  const times = events.flatMap(({ time }) => (time === null ? [] : [time])).sort();
  const named = (name: string): readonly RestoredEvent[] => events.filter((event) => event.name === name);
  const byCall = new Map(named('generation.requested').map((event) => [event.data.call_id, event]));
  const called = new Map(named('tool.called').map((event) => [event.data.tool_call_id, event]));
  const answers = new Map(named('generation.completed').map(({ data }) => [data.call_id, idsIn(data.choices)]));
  /** The id of the call in the model's answer. The episode may have given the call an id of its own, to keep ids unique. */
  const idInAnswer = (asked: RestoredEvent | undefined): unknown => {
    const id = isRecord(asked?.data.native) ? asked.data.native.tool_call_id : undefined;
    return answers.get(asked?.data.call_id)?.has(id) ? id : undefined;
  };
  const finished = named('episode.finished')[0];
  const span = (id: string, parent: string | null, name: string, kind: number, more: SpanParts): Native => ({
    scope: { name: 'troupe' },
    span: {
      traceId,
      spanId: id,
      ...(parent === null ? {} : { parentSpanId: parent }),
      name,
      kind,
      startTimeUnixNano: nanosOf(more.start ?? more.end),
      endTimeUnixNano: nanosOf(more.end ?? more.start),
      attributes: toAttributes(more.attributes),
      ...(more.failed ? { status: { code: 2, ...given('message', more.message) } } : {}),
    },
  });
  return [
    span(root, null, 'invoke_workflow troupe', 1, {
      start: times[0] ?? null,
      end: finished?.time ?? times.at(-1) ?? null,
      attributes: {
        'gen_ai.operation.name': 'invoke_workflow',
        'gen_ai.conversation.id': episode,
        ...given('troupe.task_id', startOf(events).task_id ?? undefined),
      },
      failed: finished?.data.outcome === 'error',
    }),
    ...named('generation.completed').map((answered) => {
      const asked = byCall.get(answered.data.call_id);
      const model = asked?.data.model;
      return span(
        spanIdOf('call', answered.data.call_id),
        root,
        typeof model === 'string' ? `chat ${model}` : 'chat',
        3,
        {
          start: asked?.time ?? null,
          end: answered.time,
          attributes: callAttributes(asked?.data ?? {}, answered.data),
          failed: answered.data.error != null,
          message: answered.data.error,
        },
      );
    }),
    ...named('tool.returned').map(({ data, time }) => {
      const asked = called.get(data.tool_call_id);
      const tool = asText(asked?.data.name ?? 'unknown');
      return span(
        spanIdOf('tool', data.tool_call_id),
        asked?.data.call_id == null ? root : spanIdOf('call', asked.data.call_id),
        `execute_tool ${tool}`,
        1,
        {
          start: asked?.time ?? null,
          end: time,
          attributes: {
            'gen_ai.operation.name': 'execute_tool',
            'gen_ai.tool.name': tool,
            'gen_ai.tool.call.id': idInAnswer(asked) ?? data.tool_call_id,
            ...given('gen_ai.tool.call.arguments', textOrNone(asked?.data.arguments_raw ?? asked?.data.arguments)),
            ...given('gen_ai.tool.call.result', textOrNone(data.output)),
            ...(data.status === 'ok' ? {} : { 'error.type': data.status }),
          },
          failed: data.status !== 'ok',
          message: data.error,
        },
      );
    }),
  ];
}

/** Ids of the tool calls in all candidates of an answer. */
const idsIn = (choices: unknown): ReadonlySet<unknown> =>
  new Set(
    (Array.isArray(choices) ? choices : []).flatMap((choice: { readonly content?: unknown }) =>
      (Array.isArray(choice.content) ? choice.content : []).flatMap((part) =>
        isRecord(part) && part.type === 'tool_call' ? [part.id] : [],
      ),
    ),
  );

type SpanParts = {
  readonly start: string | null;
  readonly end: string | null;
  readonly attributes: JsonObject;
  readonly failed?: boolean;
  readonly message?: unknown;
};

const textOrNone = (value: unknown): string | undefined =>
  value === undefined || value === null ? undefined : typeof value === 'string' ? value : canonicalJson(value);

function callAttributes(asked: JsonObject, answered: JsonObject): JsonObject {
  const usage = isRecord(answered.usage) ? answered.usage : {};
  const choices = (answered.choices ?? []) as JsonObject[];
  return {
    'gen_ai.operation.name': 'chat',
    ...given('gen_ai.agent.name', answered.agent_id ?? undefined),
    ...given('gen_ai.request.model', asked.model ?? undefined),
    ...given('gen_ai.response.model', answered.response_model ?? undefined),
    ...given('gen_ai.response.id', answered.response_id ?? undefined),
    ...prefixed('gen_ai.request.', asked.params),
    ...given('gen_ai.usage.input_tokens', usage.input_tokens),
    ...given('gen_ai.usage.output_tokens', usage.output_tokens),
    ...given('gen_ai.usage.cache_read.input_tokens', usage.cached_input_tokens),
    ...given('gen_ai.usage.reasoning.output_tokens', usage.reasoning_tokens),
    ...(Array.isArray(asked.input) ? { 'gen_ai.input.messages': JSON.stringify(asked.input.map(toNative)) } : {}),
    'gen_ai.output.messages': JSON.stringify(
      choices.map(({ content, finish_reason: reason }) =>
        toNative({ role: 'assistant', content, finish_reason: reason ?? 'stop' }),
      ),
    ),
    'gen_ai.response.finish_reasons': choices.map(({ finish_reason: reason }) => reason ?? 'stop'),
    ...given('gen_ai.tool.definitions', asked.tools == null ? undefined : JSON.stringify(asked.tools)),
  };
}

const prefixed = (prefix: string, members: unknown): JsonObject =>
  isRecord(members) ? Object.fromEntries(Object.entries(members).map(([name, value]) => [prefix + name, value])) : {};

/** A message as the conventions write it: always in parts. */
function toNative(message: unknown): Record<string, unknown> {
  const { content, role, ...rest } = message as JsonObject;
  const parts = typeof content === 'string' ? [{ type: 'text', content }] : Array.isArray(content) ? content : [];
  const answers = role === 'tool' && rest.tool_call_id !== undefined && parts.length > 0;
  return answers
    ? {
        role,
        parts: [
          {
            type: 'tool_call_response',
            id: rest.tool_call_id,
            response: typeof content === 'string' ? content : parts,
          },
        ],
        ...without(rest, 'tool_call_id'),
      }
    : { role, parts, ...rest };
}

const nanosOf = (time: string | null): string => {
  if (time === null) return '0';
  const fraction = (/\.(\d+)/.exec(time)?.[1] ?? '').padEnd(9, '0').slice(0, 9);
  return `${Math.floor(Date.parse(time) / 1000)}${fraction}`;
};
