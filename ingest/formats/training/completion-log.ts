/**
 * One logged model call, `{request, response}`. `request.metadata` is the one place for task, run and agent; several records of one
 * run are one episode, whatever their order. Of a request's tool results only those after the last assistant message are new.
 */
import type { Refusal } from '../../../errors.ts';
import type { Draft, EventData, Message } from '../../events/events.ts';
import { canonicalJson, given, hashId, isRecord, type JsonObject, without } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import { anthropicChoice, fromAnthropic } from '../kit/anthropic-blocks.ts';
import { badMessage, type ChatMessage, toMessage } from '../kit/chat-message.ts';
import { prefixIds, resultDrafts, toolDrafts } from '../kit/chat-tools.ts';
import type { Conversion, NativeRecord } from '../kit/format.ts';
import { badIdentifier, type Emitter, rawRecord, recordId, refusal, refused } from '../kit/native.ts';
import { answerUsage, withOurs } from '../kit/usage.ts';
import { taskDraft } from './chat-row.ts';
import { withCallIds } from './chat-unnamed.ts';
import { writeCompletionLog } from './completion-log-write.ts';
import { spendRow } from './litellm-rows.ts';

type NativeChoice = JsonObject & { readonly index: number; readonly message: ChatMessage };

export function convertCompletionLog(
  emit: Emitter,
  format: string,
  native: JsonObject,
  record: NativeRecord,
): Conversion {
  const row = spendRow(native);
  const log = named(fromAnthropicLog('request' in native ? native : nested(row?.log ?? native)));
  const bad = badLog(log);
  if (bad) return refused(bad);
  const request = log.request as JsonObject & { readonly messages: readonly ChatMessage[] };
  const response = log.response as JsonObject;
  const metadata = (request.metadata ?? {}) as JsonObject;
  const { task_id: nativeTask, run_id: run, agent } = metadata as { task_id?: string; run_id?: string; agent?: string };
  const episodeId = run ?? recordId(format, record);
  const callId = hashId(format, 'call', record.canonical, run === undefined ? record.ordinal : 0);
  const { taskId, drafts: task } = taskDraft(emit, request.messages, nativeTask ?? undefined);
  const raw = rawRecord(emit, episodeId, record.canonical);
  const choices = (response.choices ?? []) as NativeChoice[];
  const input = request.messages.map(toMessage);
  const call = {
    episode_id: episodeId,
    call_id: callId,
    ...given('agent_id', agent ?? undefined),
    ...given('role', isIdentifier(metadata.role) ? metadata.role : undefined),
    ...given('seq', wholeNumber(metadata.step)),
    ...given('turn', wholeNumber(metadata.turn)),
  };
  const params = without(request, 'messages', 'model', 'tools', 'metadata');
  const completedAt = row?.completedAt ?? timeOf(response.created);
  const asked = emit.event(
    'generation.requested',
    [episodeId, callId],
    {
      ...call,
      ...(typeof request.model === 'string'
        ? { model: request.model }
        : given('unmapped', unmappedModel(request.model))),
      input,
      ...given('tools', request.tools),
      ...given('params', params),
      native: { format, ...given('metadata', request.metadata) },
    },
    row?.askedAt ?? null,
  );
  const answered = (unmapped: JsonObject | undefined): Draft =>
    emit.event(
      'generation.completed',
      [episodeId, callId],
      {
        ...call,
        ...answerOf(request, response, choices),
        native: { format },
        raw: { artifact_id: raw.artifactId },
        ...given('unmapped', unmapped as Record<string, unknown> | undefined),
      },
      completedAt,
    );
  const rest = restOf(log, response, choices);
  const exact = canonicalJson(writeCompletionLog([asked, answered(rest)])[0]) === record.canonical;
  const prefixes = prefixIds(episodeId, request.messages);
  const drafts: Draft[] = [
    ...task,
    ...episodeDrafts(emit, format, { episodeId, taskId, group: metadata.group_id, session: row?.sessionId }),
    ...agentDrafts(emit, episodeId, agent, input),
    raw.draft,
    asked,
    answered(exact ? rest : { record: native }),
    ...toolDrafts(emit, call, choices, prefixes.at(-1)!, completedAt),
    ...resultDrafts(emit, call, request.messages, prefixes),
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

function badLog({ request, response }: JsonObject): Refusal | null {
  if (!isRecord(request)) return refusal('bad_type', 'request', 'the request object', request);
  if (!isRecord(response)) return refusal('bad_type', 'response', 'the response object', response);
  const { messages, metadata } = request;
  if (!Array.isArray(messages)) return refusal('bad_type', 'request.messages', 'a list of messages', messages);
  for (const [i, message] of messages.entries()) {
    const bad = badMessage(message, `request.messages[${i}]`);
    if (bad) return bad;
  }
  if (metadata !== undefined && metadata !== null && !isRecord(metadata)) {
    return refusal('bad_type', 'request.metadata', 'an object of texts', metadata);
  }
  for (const name of ['task_id', 'run_id', 'agent']) {
    const value = (metadata as JsonObject | undefined)?.[name];
    const bad = value === undefined ? null : badIdentifier(value, `request.metadata.${name}`);
    if (bad) return bad;
  }
  return badResponse(response);
}

function badResponse({ choices, error, prompt_token_ids: prompt }: JsonObject): Refusal | null {
  if (prompt !== undefined && prompt !== null && !isTokenIds(prompt)) {
    return refusal('bad_type', 'response.prompt_token_ids', 'a list of token ids', prompt);
  }
  if (choices === undefined && error !== undefined) return null;
  if (!Array.isArray(choices)) return refusal('bad_type', 'response.choices', 'a list of choices', choices);
  const seen = new Set<unknown>();
  for (const [i, choice] of choices.entries()) {
    const field = `response.choices[${i}]`;
    if (!isRecord(choice)) return refusal('bad_type', field, 'a choice object', choice);
    if (!Number.isSafeInteger(choice.index) || (choice.index as number) < 0 || seen.has(choice.index)) {
      return refusal('bad_shape', `${field}.index`, 'a number no other choice has', choice.index);
    }
    seen.add(choice.index);
    const bad = badMessage(choice.message, `${field}.message`);
    if (bad) return bad;
    if (choice.token_ids !== undefined && choice.token_ids !== null && !isTokenIds(choice.token_ids)) {
      return refusal('bad_type', `${field}.token_ids`, 'a list of token ids', choice.token_ids);
    }
  }
  return null;
}

const isTokenIds = (value: unknown): value is number[] =>
  Array.isArray(value) && value.every((id) => Number.isSafeInteger(id) && id >= 0);

/** Metadata holds texts, so numbers come as digits. */
function wholeNumber(value: unknown): number | undefined {
  const number = typeof value === 'string' && /^-?\d{1,15}$/.test(value) ? Number(value) : value;
  return Number.isSafeInteger(number) ? (number as number) : undefined;
}

const unmappedModel = (model: unknown): Record<string, unknown> | undefined =>
  model === undefined ? undefined : { model };

/** Seconds since 1970 as the time of the answer; null where the source gives none. */
function timeOf(created: unknown): string | null {
  if (typeof created !== 'number' || created < 0 || created > 253402300799) return null;
  return new Date(created * 1000).toISOString();
}

/** The episode of a run, stated by each of its records in the same words. */
function episodeDrafts(
  emit: Emitter,
  format: string,
  run: {
    readonly episodeId: string;
    readonly taskId: string | null;
    readonly group: unknown;
    readonly session?: string | undefined;
  },
): Draft[] {
  return [
    emit.state('episode.started', {
      episode_id: run.episodeId,
      ...(run.taskId === null ? {} : { task_id: run.taskId }),
      ...(isIdentifier(run.group) ? { group_id: run.group } : {}),
      ...given('session_id', run.session),
      native: { format, form: 'completion-log' },
    }),
    emit.state('episode.finished', { episode_id: run.episodeId, outcome: 'unknown' }),
  ];
}

function agentDrafts(emit: Emitter, episodeId: string, agent: string | undefined, input: readonly Message[]): Draft[] {
  if (agent === undefined) return [];
  const prompt = input[0]?.role === 'system' || input[0]?.role === 'developer' ? input[0].content : undefined;
  const instructions = prompt === undefined || prompt === null ? {} : { system_instructions: prompt };
  return [emit.state('agent.defined', { episode_id: episodeId, agent_id: agent, name: agent, ...instructions })];
}

/** What the vocabulary has a place for in an answer. */
function answerOf(
  request: JsonObject,
  response: JsonObject,
  choices: readonly NativeChoice[],
): Pick<EventData<'generation.completed'>, 'choices'> & Partial<EventData<'generation.completed'>> {
  const mismatched = choices.some((choice) => logprobsOf(choice) === 'mismatch');
  return {
    choices: choices.map((choice) => {
      const logprobs = logprobsOf(choice);
      return {
        index: choice.index,
        ...given('content', toMessage(choice.message).content),
        ...(typeof choice.finish_reason === 'string' ? { finish_reason: choice.finish_reason } : {}),
        ...(isTokenIds(choice.token_ids) ? { token_ids: choice.token_ids } : {}),
        ...(Array.isArray(logprobs) ? { logprobs } : {}),
      };
    }),
    ...(isTokenIds(response.prompt_token_ids) ? { prompt_token_ids: response.prompt_token_ids } : {}),
    ...(isIdentifier(response.id) ? { response_id: response.id } : {}),
    ...(typeof response.model === 'string' ? { response_model: response.model } : {}),
    ...given('usage', isRecord(response.usage) ? withOurs(response.usage) : answerUsage(response)),
    ...given('error', response.error),
    ...(Number.isSafeInteger(request.seed) ? { seed: request.seed as number } : {}),
    ...(typeof request.temperature === 'number' ? { temperature: request.temperature } : {}),
    ...(mismatched ? { flags: ['logprobs_mismatch'] } : {}),
  };
}

/** One log-probability a token; `mismatch` where they are not as many as the tokens, null where there are none. */
function logprobsOf({ logprobs, token_ids: ids }: NativeChoice): number[] | 'mismatch' | null {
  if (!isRecord(logprobs) || !Array.isArray(logprobs.content)) return null;
  const values = logprobs.content.map((token: unknown) => (isRecord(token) ? token.logprob : null));
  if (!values.every((value): value is number => typeof value === 'number')) return 'mismatch';
  return Array.isArray(ids) && ids.length !== values.length ? 'mismatch' : values;
}

function restOf(
  log: JsonObject,
  response: JsonObject,
  choices: readonly NativeChoice[],
): Record<string, unknown> | undefined {
  const known = [
    'choices',
    ...(isIdentifier(response.id) ? ['id'] : []),
    ...(typeof response.model === 'string' ? ['model'] : []),
    ...(isRecord(response.usage) ? ['usage'] : []),
    ...(isTokenIds(response.prompt_token_ids) ? ['prompt_token_ids'] : []),
    ...(Number.isSafeInteger(response.created) && timeOf(response.created) !== null ? ['created'] : []),
    'error',
  ];
  const restOfChoices = choices.map((choice) => {
    const { content: _, role, ...message } = toMessage(choice.message);
    return (
      without({
        ...without(
          choice,
          'index',
          'message',
          ...(typeof choice.finish_reason === 'string' ? ['finish_reason'] : []),
          ...(isTokenIds(choice.token_ids) ? ['token_ids'] : []),
        ),
        message: without({ ...message, ...(role === 'assistant' ? {} : { role }) }),
      }) ?? {}
    );
  });
  return without({
    log: without(log, 'request', 'response'),
    response: without(response, ...known),
    choices: restOfChoices.some((rest) => Object.keys(rest).length > 0) ? restOfChoices : undefined,
  });
}
