/** A call to a model server as drafts of events. Pure: ids and times are arguments. */
import type { TroupeError } from '../../../errors.ts';
import type { Content, Draft, Message, Part } from '../../../ingest/events/events.ts';
import { GATEWAY } from '../../../ingest/events/gateway-events.ts';
import {
  asText,
  canonicalJson,
  given,
  hashId,
  isRecord,
  type JsonObject,
  sha256,
  without,
} from '../../../ingest/events/json.ts';
import { isIdentifier } from '../../../ingest/events/text.ts';
import { anthropicChoice, fromAnthropic } from '../../../ingest/formats/kit/anthropic-blocks.ts';
import {
  badMessage,
  type ChatMessage,
  type ChatToolCall,
  textIn,
  toMessage,
} from '../../../ingest/formats/kit/chat-message.ts';
import { toolCallId } from '../../../ingest/formats/kit/chat-tools.ts';
import { APPARENT_ERROR, hasError } from '../../../ingest/formats/kit/conversation.ts';
import {
  calledIn,
  responseContent,
  responseInput,
  returnedIn,
  type ToolOutput,
} from '../../../ingest/formats/kit/openai-responses.ts';
import { answerUsage } from '../../../ingest/formats/kit/usage.ts';
import { named } from '../../../ingest/formats/training/completion-log.ts';
import { INCOMPLETE } from '../../../ingest/traces/trace.ts';
import { type CallFrame, callDrafts } from '../record.ts';
import { toolEmitter, toolEvents } from '../tools.ts';
import type { Kind } from './kind.ts';
import { costOf } from './price.ts';
import type { Upstream } from './settings.ts';
import { answerTokens, LOST, promptIdsOf, responseChoice } from './token-ids.ts';

export type UpstreamCall = CallFrame & {
  readonly kind: Kind;
  readonly upstream: Pick<Upstream, 'name' | 'prices' | 'tokenIds' | 'logprobs' | 'checkpoints'>;
  /** The policy of the route that fell back to the server. */
  readonly policy?: string | undefined;
  /** The server's name of the model. */
  readonly model: string;
  readonly request: JsonObject;
  /** The response, or the part of it that arrived. */
  readonly response: JsonObject | null;
  readonly status: number | null;
  /** Why it is incomplete: the connection, the caller, or the size. */
  readonly error: Pick<TroupeError, 'code' | 'message'> | null;
  /** Whether the response is a stream that ended before its last event, whoever ended it. */
  readonly incomplete?: boolean;
  readonly latencyMs: number;
  readonly firstTokenMs: number | null;
  /** The JSON of request and response; null if it is not stored. */
  readonly raw: string | null;
  readonly flags: readonly string[];
};

/** Counts that every call shows. */
const UNCOUNTED = { input_tokens: null, output_tokens: null };

/** The drafts of one call. */
export function upstreamDrafts(call: UpstreamCall): Draft[] {
  const { kind, request, response, upstream, model, raw, error } = call;
  const parts = partsOf(call);
  const usage = answerUsage(response);
  const price = upstream.prices[model] ?? upstream.prices[asText(response?.model)] ?? null;
  const failure = failureOf(call);
  const artifact = raw === null ? null : sha256(raw);
  const flags = [
    ...call.flags,
    ...(kind === 'embeddings' ? ['embedding'] : []),
    ...(kind === 'text' ? ['text_prompt'] : []),
  ];
  const answerFlags = [...flags, ...(call.incomplete ? [INCOMPLETE] : []), ...(parts.lost ? [LOST] : [])];
  return callDrafts(call, {
    requested: {
      model: asText(request.model),
      input: parts.input,
      ...given('tools', request.tools ?? undefined),
      params: without(request, 'messages', 'system', 'input', 'instructions', 'prompt', 'model', 'tools') ?? {},
      ...(flags.length > 0 ? { flags } : {}),
    },
    completed: {
      choices: parts.choices,
      ...given('prompt_token_ids', promptIdsOf(response) ?? undefined),
      ...(isIdentifier(response?.id) ? { response_id: response.id } : {}),
      ...(typeof response?.model === 'string' ? { response_model: response.model } : {}),
      ...given('checkpoint_id', upstream.checkpoints[model]),
      ...(Number.isSafeInteger(request.seed) ? { seed: request.seed } : {}),
      ...(typeof request.temperature === 'number' ? { temperature: request.temperature } : {}),
      ...(usage === undefined
        ? {}
        : {
            usage: {
              ...UNCOUNTED,
              ...usage,
              cost_usd: costOf(usage, price, kind === 'embeddings') ?? usage.cost_usd ?? null,
            },
          }),
      latency_ms: call.latencyMs,
      ...(failure === null ? {} : { error: failure }),
      ...(answerFlags.length > 0 ? { flags: answerFlags } : {}),
      ...(artifact === null ? {} : { raw: { artifact_id: artifact } }),
      unmapped: {
        upstream: upstream.name,
        ...given('policy', call.policy),
        first_token_ms: call.firstTokenMs,
        status: call.status,
      },
    },
    beside: [...parts.tools, ...(raw === null ? [] : [rawDraft(call, raw)])],
    outcome: error?.code === 'interrupted' ? 'aborted' : failure === null ? 'unknown' : 'error',
  });
}

function partsOf(call: UpstreamCall): AnswerParts {
  if (call.kind === 'responses') return ofResponses(call);
  if (call.kind === 'chat') return ofChoices({ ...call, ...(named(pairOf(call)) as ReturnType<typeof pairOf>) });
  if (call.kind !== 'messages') return ofChoices(call);
  const parts = ofChoices(asChat(call));
  return { ...parts, tools: [...parts.tools, ...servedIn(call)] };
}

const pairOf = ({ request, response }: UpstreamCall) => ({ request, response });

type AnswerParts = {
  readonly input: readonly Message[];
  readonly choices: readonly object[];
  readonly tools: readonly Draft[];
  /** Whether the server returned fewer token ids than it counted. */
  readonly lost: boolean;
};

/** Chat and text completions, and responses without choices. */
function ofChoices(call: UpstreamCall): AnswerParts {
  const { kind, request, response, completedAt, upstream } = call;
  const native = (Array.isArray(response?.choices) ? response.choices.filter(isRecord) : []).map((choice, i) => ({
    ...choice,
    index: Number.isSafeInteger(choice.index) && (choice.index as number) >= 0 ? (choice.index as number) : i,
  })) as (JsonObject & { readonly index: number })[];
  const { tokens, lost } = answerTokens(native, { upstream, request, response });
  const choices = native.map((choice, i) => ({
    index: choice.index,
    ...given('content', kind === 'text' ? (choice.text as string | undefined) : contentOf(choice.message)),
    ...given('finish_reason', finishOf(choice.finish_reason, call)),
    ...tokens[i],
  }));
  if (kind !== 'chat' && kind !== 'messages')
    return { input: textInput(request.prompt ?? request.input), choices, tools: [], lost };
  const messages = Array.isArray(request.messages) ? request.messages : [];
  const input = messages.map(asMessage);
  if (!messages.every(isMessage)) return { input, choices, tools: [], lost };
  const asking = native.filter(
    (choice): choice is JsonObject & { readonly index: number; readonly message: ChatMessage } =>
      isMessage(choice.message),
  );
  return { input, choices, tools: toolEvents(placeOf(call), messages, asking, { source: GATEWAY, completedAt }), lost };
}

/** A candidate of a stream that broke off before the server gave a reason has one of ours. */
const finishOf = (reason: unknown, { incomplete }: UpstreamCall): string | undefined =>
  typeof reason === 'string' ? reason : incomplete ? INCOMPLETE : undefined;

/** A call of Anthropic's Messages API, with its conversation and response in the shapes of the chat interface. */
function asChat(call: UpstreamCall): UpstreamCall {
  const { request, response } = call;
  const { messages, system } = withoutCacheMarks({ messages: request.messages, system: request.system }) as JsonObject;
  const instructions = system == null ? [] : [{ role: 'system', content: system }];
  const converted = fromAnthropic(messages);
  const choice = response === null ? null : anthropicChoice(response);
  return {
    ...call,
    request: { ...request, messages: [...instructions, ...(Array.isArray(converted) ? converted : [])] },
    response: response === null ? null : { ...response, choices: choice === null ? [] : [choice] },
  };
}

/** Clients move their cache marks from call to call; the messages are the same without them. */
function withoutCacheMarks(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutCacheMarks);
  if (!isRecord(value)) return value;
  return Object.fromEntries(
    Object.entries(value).flatMap(([name, member]) =>
      name === 'cache_control' ? [] : [[name, name === 'input' ? member : withoutCacheMarks(member)]],
    ),
  );
}

/** The Responses API: all output items are one candidate. */
function ofResponses(call: UpstreamCall): AnswerParts {
  const { request, response, upstream } = call;
  const output = Array.isArray(response?.output) ? response.output : [];
  const items = (list: unknown) => (Array.isArray(list) ? list.filter(isRecord) : []);
  const asked = new Map<string, ChatToolCall>();
  const returned = [...items(request.input), ...items(output)].flatMap((item): Result[] => {
    const called = calledIn(item);
    if (called) asked.set(called.id, called);
    const result = returnedIn(item);
    return result ? [{ ...result, of: asked.get(result.id) ?? { ...UNKNOWN_CALL, id: result.id } }] : [];
  });
  const called = items(output).flatMap((item) => calledIn(item) ?? []);
  const { tokens, lost } = answerTokens([responseChoice(response)], { upstream, request, response });
  return {
    input: responseInput(request.input, request.instructions),
    choices:
      output.length === 0
        ? []
        : [
            {
              index: 0,
              content: responseContent(output),
              ...given('finish_reason', finishOf(call.incomplete ? null : response?.status, call)),
              ...tokens[0],
            },
          ],
    tools: flatTools(call, { returned, called }),
    lost,
  };
}

/** Tools that Anthropic's server ran itself: call and result are blocks of its answer, among its texts. */
function servedIn(call: UpstreamCall): Draft[] {
  const blocks = Array.isArray(call.response?.content) ? call.response.content.filter(isRecord) : [];
  const called = blocks.flatMap(({ type, id, name, input }): ChatToolCall[] => {
    const isOwn = type === 'server_tool_use' || type === 'mcp_tool_use';
    if (!isOwn || !isIdentifier(id) || !isIdentifier(name)) return [];
    const kind = type === 'mcp_tool_use' ? 'mcp' : 'server';
    return [{ id, name, type: kind, arguments: input ?? null, arguments_raw: null, parse_error: null }];
  });
  const returned = blocks.flatMap(({ tool_use_id: id, content, is_error: failed }): Result[] => {
    const of = called.find((one) => one.id === id);
    return of ? [{ of, status: failed === true || isFailure(content) ? 'error' : 'ok', output: content }] : [];
  });
  return flatTools(call, { returned, called, from: blocks.filter(({ type }) => type === 'tool_use').length });
}

const isFailure = (content: unknown): boolean => isRecord(content) && /_error$/.test(asText(content.type));

type Result = Omit<ToolOutput, 'id'> & { readonly of: ChatToolCall };

/** Of a call that an earlier response made and the request does not repeat nothing but its id is known. */
const UNKNOWN_CALL = { name: '', type: '', arguments: null, arguments_raw: null, parse_error: null };

type FlatTools = {
  readonly returned: readonly Result[];
  readonly called: readonly ChatToolCall[];
  /** Number of the first call in its step. */
  readonly from?: number;
};

/** Calls of tools, and results of these and of earlier ones. */
function flatTools(call: UpstreamCall, { returned, called, from = 0 }: FlatTools): Draft[] {
  const { episodeId, callId, completedAt } = call;
  const emitter = toolEmitter(GATEWAY, callId);
  const own = (asked: ChatToolCall) => toolCallId(episodeId, hashId(episodeId), asked);
  return [
    ...returned.map(({ of, status, output }) =>
      emitter.state('tool.returned', {
        episode_id: episodeId,
        tool_call_id: own(of),
        status,
        ...given('output', output),
        native: { tool_call_id: of.id },
        ...(status === 'ok' && hasError(output) ? { flags: [APPARENT_ERROR] } : {}),
      }),
    ),
    ...called.map((asked, i) => {
      const { id, ...rest } = asked;
      const [index, native] = [from + i, { tool_call_id: id, choice: 0 }];
      const data = { ...placeOf(call), tool_call_id: own(asked), index, ...rest, native };
      return emitter.event('tool.called', [index], data, completedAt);
    }),
  ];
}

const placeOf = ({ episodeId, callId, context: { agent, turn } }: UpstreamCall) => ({
  episode_id: episodeId,
  call_id: callId,
  ...given('agent_id', agent ?? undefined),
  ...given('turn', turn ?? undefined),
});

const isMessage = (value: unknown): value is ChatMessage => badMessage(value, '') === null;

/** A message that is not of the chat API is stored unchanged, as raw content. */
const asMessage = (value: unknown): Message =>
  isMessage(value) ? toMessage(value) : { role: 'unknown', content: [{ type: 'raw', content: value }] };

function contentOf(message: unknown): Content | null | undefined {
  if (message === undefined) return undefined;
  if (!isRecord(message)) return asMessage(message).content ?? null;
  const content = asMessage({ role: 'assistant', ...message }).content ?? null;
  const beside = besideContent(message);
  if (beside.length === 0) return content;
  const text = typeof content === 'string' && content !== '' ? [{ type: 'text', content }] : [];
  return [...(Array.isArray(content) ? content : text), ...beside];
}

/** What a model answers with that stands beside the content: a refusal, speech with its words, pictures. */
const besideContent = ({ refusal, audio, images }: JsonObject): Part[] => [
  ...(typeof refusal === 'string' && refusal !== '' ? [{ type: 'refusal', refusal } as Part] : []),
  ...(isRecord(audio) ? [{ ...audio, type: 'audio' }] : []),
  ...(Array.isArray(images) ? (images.filter((one) => isRecord(one) && typeof one.type === 'string') as Part[]) : []),
];

/** Texts and lists of them; token ids have no text of their own and stay in the raw record. */
function textInput(prompt: unknown): Message[] {
  const texts = typeof prompt === 'string' ? [prompt] : Array.isArray(prompt) ? prompt : [];
  return texts.flatMap((text) => (typeof text === 'string' ? [{ role: 'user', content: text }] : []));
}

/** Characters of a reason that is no text. */
const LONGEST_REASON = 2000;

/**
 * Reasons to end an answer that mean a failure behind the server, which has answered with status 200 by then: of Mistral and OpenRouter, Z.ai,
 * DeepSeek, vLLM and SGLang, and the states of the Responses API.
 */
const BROKEN = /^(?:error|network_error|insufficient_system_resource|abort|failed|cancelled)$/i;

/** Why an answer ended that a failure ended; undefined where none did. */
function brokenBecause(response: JsonObject | null): unknown {
  const choices = Array.isArray(response?.choices) ? response.choices.filter(isRecord) : [];
  for (const { finish_reason: reason, native_finish_reason: native, error } of [
    ...choices,
    { finish_reason: response?.status },
    { finish_reason: response?.stop_reason },
  ] as readonly JsonObject[])
    if (typeof reason === 'string' && BROKEN.test(reason))
      return error ?? { message: `The model server ended the answer with the reason ${asText(native ?? reason)}.` };
  return undefined;
}

/** The error of the call; null if it succeeded. */
function failureOf({ status, response, error }: UpstreamCall): object | null {
  if (error !== null) return { code: error.code, message: error.message, ...(status === null ? {} : { status }) };
  const reported = response?.error ?? brokenBecause(response);
  if ((status ?? 200) < 400 && reported == null) return null;
  // Servers made with FastAPI explain a refusal by `detail`, a text or a list; SGLang and older ones by `message`.
  const reason = textIn(reported) ?? response?.detail ?? response?.message ?? null;
  const message =
    typeof reason === 'string' || reason === null ? reason : canonicalJson(reason).slice(0, LONGEST_REASON);
  const own = isRecord(reported) ? reported : { message };
  return { code: 'upstream_error', status, ...own };
}

function rawDraft({ callId, episodeId, completedAt }: UpstreamCall, raw: string): Draft {
  const digest = sha256(raw);
  const data = {
    artifact_id: digest,
    episode_id: episodeId,
    role: 'raw-record',
    media_type: 'application/json',
    sha256: digest,
    size: Buffer.byteLength(raw),
  };
  return { name: 'artifact.attached', source: GATEWAY, id: `${callId}/raw`, time: completedAt, data } as Draft;
}
