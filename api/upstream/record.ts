/** A call to a model server as drafts of events. Pure: ids and times are arguments. */
import type { TroupeError } from '../../errors.ts';
import type { Content, Draft, Message } from '../../ingest/events.ts';
import { anthropicChoice, fromAnthropic } from '../../ingest/formats/anthropic-blocks.ts';
import { badMessage, type ChatMessage, readArguments, textIn, toMessage } from '../../ingest/formats/chat-message.ts';
import { given, isIdentifier, without } from '../../ingest/formats/native.ts';
import { responseContent, responseInput } from '../../ingest/formats/openai-responses.ts';
import { canonicalJson, hashId, isRecord, sha256 } from '../../ingest/json.ts';
import { type CallFrame, callDrafts, SOURCE } from '../gateway-record.ts';
import { toolEmitter, toolEvents } from '../gateway-tools.ts';
import type { Kind } from './kind.ts';
import { costOf, usageOf } from './price.ts';
import type { Upstream } from './settings.ts';
import { promptIdsOf, responseTokensOf, tokensOf } from './token-ids.ts';

type Fields = Readonly<Record<string, unknown>>;

export type UpstreamCall = CallFrame & {
  readonly kind: Kind;
  readonly upstream: Pick<Upstream, 'name' | 'prices' | 'tokenIds' | 'logprobs' | 'checkpoints'>;
  /** The policy of the route that fell back to the server. */
  readonly policy?: string | undefined;
  /** The server's name of the model. */
  readonly model: string;
  readonly request: Fields;
  /** The response, or the part of it that arrived. */
  readonly response: Fields | null;
  readonly status: number | null;
  /** Why it is incomplete: the connection, the caller, or the size. */
  readonly error: Pick<TroupeError, 'code' | 'message'> | null;
  readonly latencyMs: number;
  readonly firstTokenMs: number | null;
  /** The canonical JSON of request and response; null if it is not stored. */
  readonly raw: string | null;
  readonly flags: readonly string[];
};

/** The drafts of one call. */
export function upstreamDrafts(call: UpstreamCall): Draft[] {
  const { kind, request, response, upstream, model, raw, error } = call;
  const parts = kind === 'responses' ? ofResponses(call) : ofChoices(kind === 'messages' ? asChat(call) : call);
  const usage = usageOf(response?.usage);
  const price = upstream.prices[model] ?? upstream.prices[String(response?.model)] ?? null;
  const failure = failureOf(call);
  const artifact = raw === null ? null : sha256(raw);
  const flags = [
    ...call.flags,
    ...(kind === 'embeddings' ? ['embedding'] : []),
    ...(kind === 'text' ? ['text_prompt'] : []),
  ];
  return callDrafts(call, {
    requested: {
      model: String(request.model),
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
      ...(usage === null ? {} : { usage: { ...usage, cost_usd: costOf(usage, price, kind === 'embeddings') } }),
      latency_ms: call.latencyMs,
      ...(failure === null ? {} : { error: failure }),
      ...(flags.length > 0 ? { flags } : {}),
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

type AnswerParts = {
  readonly input: readonly Message[];
  readonly choices: readonly object[];
  readonly tools: readonly Draft[];
};

/** Chat and text completions, and responses without choices. */
function ofChoices(call: UpstreamCall): AnswerParts {
  const { kind, request, response, completedAt, upstream } = call;
  const native = (Array.isArray(response?.choices) ? response.choices.filter(isRecord) : []).map((choice, i) => ({
    ...choice,
    index: Number.isSafeInteger(choice.index) && (choice.index as number) >= 0 ? (choice.index as number) : i,
  })) as (Fields & { readonly index: number })[];
  const choices = native.map((choice) => ({
    index: choice.index,
    ...given('content', kind === 'text' ? (choice.text as string | undefined) : contentOf(choice.message)),
    ...(typeof choice.finish_reason === 'string' ? { finish_reason: choice.finish_reason } : {}),
    ...tokensOf(choice, { upstream, request, response }),
  }));
  if (kind !== 'chat' && kind !== 'messages')
    return { input: textInput(request.prompt ?? request.input), choices, tools: [] };
  const messages = Array.isArray(request.messages) ? request.messages : [];
  const input = messages.map(asMessage);
  if (!messages.every(isMessage)) return { input, choices, tools: [] };
  const asking = native.filter((choice): choice is Fields & { readonly index: number; readonly message: ChatMessage } =>
    isMessage(choice.message),
  );
  return { input, choices, tools: toolEvents(placeOf(call), messages, asking, { source: SOURCE, completedAt }) };
}

/** A call of Anthropic's Messages API, with its conversation and response in the shapes of the chat interface. */
function asChat(call: UpstreamCall): UpstreamCall {
  const { request, response } = call;
  const { messages, system } = withoutCacheMarks({ messages: request.messages, system: request.system }) as Fields;
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
  const { request, response, callId, upstream } = call;
  const output = Array.isArray(response?.output) ? response.output : [];
  const where = placeOf(call);
  const emitter = toolEmitter(SOURCE, callId);
  const own = (id: string) => `${id.slice(0, 64)}/${hashId(call.episodeId, where.agent_id ?? null, id).slice(0, 12)}`;
  const asked = output.filter((item) => isRecord(item) && item.type === 'function_call') as Fields[];
  const results = (Array.isArray(request.input) ? request.input : []).filter(
    (item) => isRecord(item) && item.type === 'function_call_output' && isIdentifier(item.call_id),
  ) as Fields[];
  const content = responseContent(output);
  return {
    input: responseInput(request.input, request.instructions),
    choices:
      output.length === 0
        ? []
        : [
            {
              index: 0,
              content,
              ...(typeof response?.status === 'string' ? { finish_reason: response.status } : {}),
              ...responseTokensOf({ upstream, request, response }),
            },
          ],
    tools: [
      ...results.map((item) =>
        emitter.state('tool.returned', {
          episode_id: call.episodeId,
          tool_call_id: own(item.call_id as string),
          status: 'ok',
          ...given('output', item.output),
          native: { tool_call_id: item.call_id },
        }),
      ),
      ...asked.flatMap((item, index) =>
        isIdentifier(item.call_id) && isIdentifier(item.name)
          ? [
              emitter.event(
                'tool.called',
                [index],
                {
                  ...where,
                  tool_call_id: own(item.call_id),
                  index,
                  name: item.name,
                  type: 'function',
                  ...readArguments(item.arguments),
                  native: { tool_call_id: item.call_id, choice: 0 },
                },
                call.completedAt,
              ),
            ]
          : [],
      ),
    ],
  };
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

const contentOf = (message: unknown): Content | null | undefined =>
  message === undefined
    ? undefined
    : (asMessage(isRecord(message) ? { role: 'assistant', ...message } : message).content ?? null);

/** Texts and lists of them; token ids have no text of their own and stay in the raw record. */
function textInput(prompt: unknown): Message[] {
  const texts = typeof prompt === 'string' ? [prompt] : Array.isArray(prompt) ? prompt : [];
  return texts.flatMap((text) => (typeof text === 'string' ? [{ role: 'user', content: text }] : []));
}

/** Characters of a reason that is no text. */
const LONGEST_REASON = 2000;

/** The error of the call; null if it succeeded. */
function failureOf({ status, response, error }: UpstreamCall): object | null {
  if (error !== null) return { code: error.code, message: error.message, ...(status === null ? {} : { status }) };
  const reported = response?.error;
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
  return { name: 'artifact.attached', source: SOURCE, id: `${callId}/raw`, time: completedAt, data } as Draft;
}
