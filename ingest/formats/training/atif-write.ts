/**
 * Events as ATIF trajectories: of imported ones the documents they were read from, of any other episode a new document of version
 * 1.8. There a team of several agents becomes one that delegates to each of them in code, as the format has no other way.
 */

import { groupBy } from '../../events/group-by.ts';
import { asText, given, isRecord, type JsonObject } from '../../events/json.ts';
import { fromMessage } from '../kit/chat-message.ts';
import type { RestoredEvent } from '../kit/format.ts';
import { withoutOurs } from '../kit/usage.ts';
import { writeEpisode } from './atif-write-episode.ts';

export function writeAtif(episode: readonly RestoredEvent[]): readonly unknown[] {
  const frames = new Map<string, JsonObject>();
  for (const { name, data } of episode) {
    if (name === 'agent.defined' && isRecord(data.native) && data.native.format === 'atif') {
      frames.set(asText(data.native.trajectory), data);
    }
  }
  if (frames.size === 0) return writeEpisode(episode);
  const copies = new Map(
    episode.flatMap(({ name, data }) =>
      name === 'episode.started' && isRecord(data.unmapped) && isRecord(data.native)
        ? [[asText(data.native.trajectory), data.unmapped.record] as const]
        : [],
    ),
  );
  const documents: Documents = {
    children: groupBy([...frames], ([, frame]) => (frame.native as JsonObject).parent),
    events: groupBy(episode, ({ data }) => ((data.native ?? {}) as JsonObject).trajectory),
  };
  return (documents.children.get(undefined) ?? [])
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, frame]) => copies.get(key) ?? documentOf(key, frame, documents));
}

/** Frames by the key of the document around them, and events by the key of their own: looked for once, not for each of thousands. */
type Documents = {
  readonly children: ReadonlyMap<unknown, readonly (readonly [string, JsonObject])[]>;
  readonly events: ReadonlyMap<unknown, readonly RestoredEvent[]>;
};

function documentOf(key: string, frame: JsonObject, documents: Documents): JsonObject {
  const { ids, version } = frame.native as { ids: object; version: unknown };
  const { agent, ...rest } = (frame.unmapped ?? {}) as JsonObject;
  const children = (documents.children.get(key) ?? [])
    .toSorted(([, a], [, b]) => Number((a.native as JsonObject).position) - Number((b.native as JsonObject).position))
    .map(([child, inner]) => documentOf(child, inner, documents));
  return {
    schema_version: version,
    ...ids,
    agent: {
      name: frame.name,
      ...given('model_name', frame.model),
      ...given('tool_definitions', frame.tools),
      ...(agent as object | undefined),
    },
    ...rest,
    steps: stepsOf(documents.events.get(key) ?? []),
    ...(children.length > 0 ? { subagent_trajectories: children } : {}),
  };
}

function stepsOf(events: readonly RestoredEvent[]): JsonObject[] {
  const steps = groupBy(events, ({ data }) => (data.native as JsonObject).step);
  return [...steps]
    .flatMap(([id, all]) => (typeof id === 'number' ? [[id, all] as const] : []))
    .sort(([a], [b]) => a - b)
    .map(([id, all]) => stepOf(id, all));
}

function stepOf(id: number, events: readonly RestoredEvent[]): JsonObject {
  const native = events[0]!.data.native as JsonObject;
  const { step: more, metrics: moreMetrics } = Object.assign(
    {},
    ...events.map(({ data }) => data.unmapped ?? {}),
  ) as JsonObject;
  const generation = events.find((event) => event.name === 'generation.completed');
  const message = events.find((event) => event.name === 'message.sent');
  const calls = events.filter((event) => event.name === 'tool.called').sort((a, b) => indexOf(a) - indexOf(b));
  const results = events
    .filter(({ data }) => typeof (data.native as JsonObject).result === 'number')
    .sort((a, b) => Number((a.data.native as JsonObject).result) - Number((b.data.native as JsonObject).result));
  const output = generation ? answerOf(generation.data) : outputIn(message?.data);
  const { content = '', reasoning_content: thought, tool_calls: copied } = output;
  const usage = generation?.data.usage;
  return {
    step_id: id,
    source: native.source,
    message: content,
    ...given('timestamp', native.timestamp),
    ...given('reasoning_content', thought),
    ...(generation ? given('model_name', generation.data.response_model) : {}),
    ...(isRecord(usage)
      ? { metrics: { ...withoutOurs(usage), ...tokensOf(generation!.data), ...(moreMetrics as object | undefined) } }
      : {}),
    ...(calls.length > 0 ? { tool_calls: calls.map(({ data }) => callOf(data)) } : given('tool_calls', copied)),
    ...(results.length > 0 ? { observation: { results: results.map(resultOf) } } : {}),
    ...(more as object | undefined),
  };
}

const indexOf = ({ data }: RestoredEvent): number => Number(data.index ?? 0);

function answerOf(data: JsonObject): JsonObject {
  const [choice] = data.choices as JsonObject[];
  const { tool_calls: _, ...message } = fromMessage({ role: 'assistant', ...given('content', choice?.content) });
  return message;
}

/** The content of a message; of copied context also its reasoning and its calls. */
function outputIn(data: JsonObject | undefined): JsonObject {
  if (!data) return {};
  const { tool_calls: _, ...message } = fromMessage({ ...given('content', data.content) });
  return { ...message, ...given('tool_calls', (data.native as JsonObject).tool_calls) };
}

function tokensOf(data: JsonObject): JsonObject {
  const [choice] = data.choices as JsonObject[];
  return {
    ...given('prompt_token_ids', data.prompt_token_ids),
    ...given('completion_token_ids', choice?.token_ids),
    ...given('logprobs', choice?.logprobs),
  };
}

function callOf({ native, name, arguments: asked, unmapped }: JsonObject): JsonObject {
  return {
    tool_call_id: (native as JsonObject).tool_call_id,
    function_name: name,
    arguments: asked,
    ...((unmapped as JsonObject | undefined)?.call as object | undefined),
  };
}

function resultOf({ name, data }: RestoredEvent): JsonObject {
  const content = name === 'tool.returned' ? data.output : data.content;
  const message = content === undefined ? {} : fromMessage({ content });
  return {
    ...given('source_call_id', (data.native as JsonObject).source_call_id),
    ...message,
    ...(data.unmapped as object | undefined),
  };
}
