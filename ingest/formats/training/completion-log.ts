/**
 * One logged model call, `{request, response}`. `request.metadata` is the one place for task, run and agent; several records of one
 * run are one episode, whatever their order. Of a request's tool results only those after the last assistant message are new.
 */
import type { Draft, EventName } from '../../events/events.ts';
import { canonicalJson, given, hashId, isRecord, type JsonObject, without } from '../../events/json.ts';
import { anthropicChoice, fromAnthropic } from '../kit/anthropic-blocks.ts';
import { badMessage, type ChatMessage, toMessage } from '../kit/chat-message.ts';
import { prefixIds, resultDrafts, toolDrafts } from '../kit/chat-tools.ts';
import type { Conversion, NativeRecord } from '../kit/format.ts';
import { emitterFor, rawRecord, recordId } from '../kit/native.ts';
import { demand, Reader, unreadable } from '../kit/reader.ts';
import { isTokenIds } from '../kit/rollout-calls.ts';
import { answerUsage, withOurs } from '../kit/usage.ts';
import { taskIn } from './chat-row.ts';
import { withCallIds } from './chat-unnamed.ts';
import { writeCompletionLog } from './completion-log-write.ts';
import { spendRow } from './litellm-rows.ts';

/** What several records of one run state equally. */
const EPISODE = ['task.defined', 'episode.started', 'episode.finished'] as const;
export const LOG_RESTATES: readonly EventName[] = [...EPISODE, 'agent.defined', 'tool.returned'];

export function convertCompletionLog(format: string, native: JsonObject, record: NativeRecord): Conversion {
  const emit = emitterFor(format);
  const row = spendRow(native);
  const log = named(fromAnthropicLog('request' in native ? native : nested(row?.log ?? native)));
  const request = new Reader(log).object('request', 'the request object');
  const response = new Reader(log).object('response', 'the response object');
  const messages = request.list('messages', 'a list of messages') as readonly ChatMessage[];
  for (const [i, message] of messages.entries()) demand(badMessage(message, `request.messages[${i}]`));
  const metadata = request.has('metadata') ? request.object('metadata', 'an object of texts') : new Reader({});
  const [nativeTask, run, agent] = ['task_id', 'run_id', 'agent'].map((name) =>
    metadata.native[name] === undefined ? undefined : metadata.ownId(name),
  );
  const episodeId = run ?? recordId(format, record);
  const callId = hashId(format, 'call', record.canonical, run === undefined ? record.ordinal : 0);
  const task = taskIn(messages, nativeTask);
  const raw = rawRecord(emit, episodeId, record.canonical);
  const input = messages.map(toMessage);
  const call = {
    episode_id: episodeId,
    call_id: callId,
    ...given('agent_id', agent),
    role: metadata.id('role'),
    seq: wholeNumber(metadata.native.step),
    ...given('turn', wholeNumber(metadata.native.turn)),
  };
  const { model, tools } = request.native;
  const asked = emit.event(
    'generation.requested',
    [episodeId, callId],
    {
      ...call,
      ...(typeof model === 'string' ? { model } : given('unmapped', model === undefined ? undefined : { model })),
      input,
      tools,
      params: without(request.native, 'messages', 'model', 'tools', 'metadata'),
      native: { format, metadata: request.native.metadata },
    },
    row?.askedAt ?? null,
  );
  const { answer, choices, rest } = answerOf(request.native, response);
  const completedAt = row?.completedAt ?? secondsOf(response.native.created);
  const answered = (unmapped: Record<string, unknown> | undefined): Draft =>
    emit.event(
      'generation.completed',
      [episodeId, callId],
      { ...call, ...answer, native: { format }, raw: { artifact_id: raw.artifactId }, unmapped },
      completedAt,
    );
  const unmapped = without({ log: without(log, 'request', 'response'), ...rest });
  const exact = canonicalJson(writeCompletionLog([asked, answered(unmapped)])[0]) === record.canonical;
  const prefixes = prefixIds(episodeId, messages);
  const first = input[0]?.role === 'system' || input[0]?.role === 'developer' ? input[0].content : undefined;
  const member = { episode_id: episodeId, system_instructions: first ?? undefined };
  const drafts = [
    ...(task ? [emit.state('task.defined', task)] : []),
    // Each record of a run states its episode in the same words.
    emit.state('episode.started', {
      episode_id: episodeId,
      task_id: task?.task_id,
      group_id: metadata.id('group_id'),
      session_id: row?.sessionId,
      native: { format, form: 'completion-log' },
    }),
    emit.state('episode.finished', { episode_id: episodeId, outcome: 'unknown' }),
    ...(agent === undefined ? [] : [emit.state('agent.defined', { ...member, agent_id: agent, name: agent })]),
    raw.draft,
    asked,
    answered(exact ? unmapped : { record: native }),
    ...toolDrafts(emit, call, choices, prefixes.at(-1)!, completedAt),
    ...resultDrafts(emit, call, messages, prefixes),
  ];
  return { drafts, refusals: [], raw: record.canonical, repeated: run !== undefined && record.ordinal > 0 };
}

/** A log with the members of its request beside the response, as LiteLLM and OpenHands write it. */
function nested({ messages, tools, model, metadata, kwargs, response, ...log }: JsonObject): JsonObject {
  const given = without({ model, metadata, tools }) ?? {};
  return { ...log, request: { ...(isRecord(kwargs) ? kwargs : {}), ...given, messages }, response };
}

/** A log in which each tool call has an id: of an answer the one that the next request finds at its place. */
export function named(log: JsonObject): JsonObject {
  const { request, response } = log;
  if (!isRecord(request) || !isRecord(response) || !Array.isArray(request.messages)) return log;
  const messages = withCallIds(request.messages);
  const choices = Array.isArray(response.choices) ? (response.choices as unknown[]) : [];
  const answers = choices.map((choice) => {
    if (!isRecord(choice)) return choice;
    const [message] = (withCallIds([...(request.messages as unknown[]), choice.message]) as unknown[]).slice(-1);
    return message === choice.message ? choice : { ...choice, message };
  });
  const isSame = messages === request.messages && answers.every((answer, i) => answer === choices[i]);
  return isSame ? log : { ...log, request: { ...request, messages }, response: { ...response, choices: answers } };
}

/** A log of Anthropic's Messages API as one of the chat API; any other log as it is. */
function fromAnthropicLog(log: JsonObject): JsonObject {
  const { request, response } = log;
  const choice = isRecord(response) ? anthropicChoice(response) : null;
  const asked = isRecord(request) ? fromAnthropic(request.messages, request.system) : undefined;
  const isChanged = isRecord(request) && asked !== request.messages;
  return {
    ...log,
    ...(isChanged ? { request: { ...without(request, 'system'), messages: asked } } : {}),
    ...(choice
      ? {
          response: {
            ...without(response as JsonObject, 'type', 'role', 'content', 'stop_reason'),
            choices: [choice],
          },
        }
      : {}),
  };
}

/** Metadata holds texts, so numbers come as digits. */
function wholeNumber(value: unknown): number | undefined {
  const number = typeof value === 'string' && /^-?\d{1,15}$/.test(value) ? Number(value) : value;
  return Number.isSafeInteger(number) ? (number as number) : undefined;
}

/** Seconds since 1970 as the time of the answer; null where the source gives none. */
function secondsOf(created: unknown): string | null {
  if (typeof created !== 'number' || created < 0 || created > 253402300799) return null;
  return new Date(created * 1000).toISOString();
}

/** What the vocabulary has a place for in an answer, its choices, and what it has none for. Null has none, so that it is written back. */
function answerOf(request: JsonObject, response: Reader) {
  const { choices: listed, error, created } = response.native;
  const promptIds = tokensIn(response, 'prompt_token_ids', 'a list of token ids');
  const seen = new Set<unknown>();
  const isFailed = listed === undefined && error !== undefined;
  const choices = (isFailed ? [] : response.list('choices', 'a list of choices')).map((value, i) => {
    const at = `response.choices[${i}]`;
    if (!isRecord(value)) return unreadable('bad_type', at, 'a choice object', value);
    const choice = new Reader(value, at);
    const index = choice.any('index');
    if (!Number.isSafeInteger(index) || (index as number) < 0 || seen.has(index))
      return unreadable('bad_shape', `${at}.index`, 'a number no other choice has', index);
    seen.add(index);
    demand(badMessage(choice.any('message'), `${at}.message`));
    const ids = tokensIn(choice, 'token_ids', 'a list of token ids');
    return { choice, index: index as number, message: value.message as ChatMessage, ids, logprobs: logprobsOf(value) };
  });
  const answered = choices.map(({ choice, index, message, ids, logprobs }) => {
    const finish = choice.has('finish_reason') ? choice.text('finish_reason') : undefined;
    const values = Array.isArray(logprobs) ? logprobs : undefined;
    return { index, content: toMessage(message).content, finish_reason: finish, token_ids: ids, logprobs: values };
  });
  const [id, model, usage] = [
    response.has('id') ? response.id('id') : undefined,
    response.has('model') ? response.text('model') : undefined,
    response.has('usage') ? response.record('usage') : undefined,
  ];
  response.these(
    'choices',
    'error',
    ...(Number.isSafeInteger(created) && secondsOf(created) !== null ? ['created'] : []),
  );
  const rests = choices.map(({ choice, message: native }) => {
    const { content: _, role, ...message } = toMessage(native);
    return (
      without({ ...choice.rest(), message: without({ ...message, ...(role === 'assistant' ? {} : { role }) }) }) ?? {}
    );
  });
  const answer = {
    choices: answered,
    prompt_token_ids: promptIds,
    response_id: id,
    response_model: model,
    usage: usage ? withOurs(usage) : answerUsage(response.native),
    error,
    seed: Number.isSafeInteger(request.seed) ? (request.seed as number) : undefined,
    temperature: typeof request.temperature === 'number' ? request.temperature : undefined,
    flags: choices.some(({ logprobs }) => logprobs === 'mismatch') ? ['logprobs_mismatch'] : undefined,
  };
  const isFull = rests.some((rest) => Object.keys(rest).length > 0);
  return { answer, choices, rest: { response: response.rest(), choices: isFull ? rests : undefined } };
}

/** Token ids, or undefined where there are none; anything else refuses. */
function tokensIn(record: Reader, name: string, needed: string): number[] | undefined {
  if (!record.has(name)) return undefined;
  const ids = record.any(name);
  return isTokenIds(ids) ? ids : unreadable('bad_type', record.path(name), needed, ids);
}

/** One log-probability a token; `mismatch` where they are not as many as the tokens, null where there are none. */
function logprobsOf({ logprobs, token_ids: ids }: JsonObject): number[] | 'mismatch' | null {
  if (!isRecord(logprobs) || !Array.isArray(logprobs.content)) return null;
  const values = logprobs.content.map((token: unknown) => (isRecord(token) ? token.logprob : null));
  if (!values.every((value): value is number => typeof value === 'number')) return 'mismatch';
  return Array.isArray(ids) && ids.length !== values.length ? 'mismatch' : values;
}
