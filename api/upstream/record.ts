/** What a call that went to a model server says, as drafts of events. Pure: ids and times are handed in. */
import type { TroupeError } from '../../errors.ts';
import type { Content, Draft, Message } from '../../ingest/events.ts';
import { badMessage, type ChatMessage, readArguments, textIn, toMessage } from '../../ingest/formats/chat-message.ts';
import { prefixIds, resultDrafts, toolDrafts } from '../../ingest/formats/chat-tools.ts';
import { type Emitter, given, isIdentifier, without } from '../../ingest/formats/native.ts';
import { responseContent, responseInput } from '../../ingest/formats/openai-responses.ts';
import { hashId, isRecord, sha256 } from '../../ingest/json.ts';
import { type CallFrame, callDrafts, SOURCE } from '../gateway-record.ts';
import { costOf, usageOf } from './price.ts';
import type { Upstream } from './settings.ts';

type Fields = Readonly<Record<string, unknown>>;
export type Kind = 'chat' | 'text' | 'responses' | 'embeddings';

export type UpstreamCall = CallFrame & {
  readonly kind: Kind;
  readonly upstream: Pick<Upstream, 'name' | 'prices'>;
  /** What the server calls the model. */
  readonly model: string;
  readonly request: Fields;
  /** The answer, as far as there is one. */
  readonly response: Fields | null;
  readonly status: number | null;
  /** Why it is not whole: the connection, the caller, or the size. */
  readonly error: TroupeError | null;
  readonly latencyMs: number;
  readonly firstTokenMs: number | null;
  /** The canonical JSON of request and answer, where it is kept. */
  readonly raw: string | null;
  readonly flags: readonly string[];
};

/** The drafts of one call. */
export function upstreamDrafts(call: UpstreamCall): Draft[] {
  const { kind, request, response, upstream, model, raw, error } = call;
  const said = kind === 'responses' ? ofResponses(call) : ofChoices(call);
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
      input: said.input,
      ...given('tools', request.tools ?? undefined),
      params: without(request, 'messages', 'input', 'instructions', 'prompt', 'model', 'tools') ?? {},
      ...(flags.length > 0 ? { flags } : {}),
    },
    completed: {
      choices: said.choices,
      ...(isTokenIds(response?.prompt_token_ids) ? { prompt_token_ids: response.prompt_token_ids } : {}),
      ...(isIdentifier(response?.id) ? { response_id: response.id } : {}),
      ...(typeof response?.model === 'string' ? { response_model: response.model } : {}),
      ...(Number.isSafeInteger(request.seed) ? { seed: request.seed } : {}),
      ...(typeof request.temperature === 'number' ? { temperature: request.temperature } : {}),
      ...(usage === null ? {} : { usage: { ...usage, cost_usd: costOf(usage, price, kind === 'embeddings') } }),
      latency_ms: call.latencyMs,
      ...(failure === null ? {} : { error: failure }),
      ...(flags.length > 0 ? { flags } : {}),
      ...(artifact === null ? {} : { raw: { artifact_id: artifact } }),
      unmapped: { upstream: upstream.name, first_token_ms: call.firstTokenMs, status: call.status },
    },
    beside: [...said.tools, ...(raw === null ? [] : [rawDraft(call, raw)])],
    outcome: error?.code === 'interrupted' ? 'aborted' : failure === null ? 'unknown' : 'error',
  });
}

type AnswerParts = {
  readonly input: readonly Message[];
  readonly choices: readonly object[];
  readonly tools: readonly Draft[];
};

/** Chat and text completions, and what has no choices at all. */
function ofChoices(call: UpstreamCall): AnswerParts {
  const { kind, request, response, callId, episodeId, context } = call;
  const native = (Array.isArray(response?.choices) ? response.choices.filter(isRecord) : []).map((choice, i) => ({
    ...choice,
    index: Number.isSafeInteger(choice.index) && (choice.index as number) >= 0 ? (choice.index as number) : i,
  })) as (Fields & { readonly index: number })[];
  const choices = native.map((choice) => ({
    index: choice.index,
    ...given('content', kind === 'text' ? (choice.text as string | undefined) : contentOf(choice.message)),
    ...(typeof choice.finish_reason === 'string' ? { finish_reason: choice.finish_reason } : {}),
    ...tokensOf(choice),
  }));
  if (kind !== 'chat') return { input: textInput(request.prompt ?? request.input), choices, tools: [] };
  const messages = Array.isArray(request.messages) ? request.messages : [];
  const input = messages.map(asMessage);
  if (!messages.every(isMessage)) return { input, choices, tools: [] };
  const agent = context.agent ?? undefined;
  const prefixes = prefixIds(episodeId, agent, messages);
  const asking = native.filter((choice): choice is Fields & { readonly index: number; readonly message: ChatMessage } =>
    isMessage(choice.message),
  );
  const where = placeOf(call);
  return {
    input,
    choices,
    tools: [
      ...resultDrafts(EMITTER, where, messages, prefixes),
      ...toolDrafts(emitterOf(callId), where, asking, prefixes.at(-1)!, call.completedAt),
    ],
  };
}

/** The Responses API: all output items are one candidate. */
function ofResponses(call: UpstreamCall): AnswerParts {
  const { request, response, callId } = call;
  const output = Array.isArray(response?.output) ? response.output : [];
  const where = placeOf(call);
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
        : [{ index: 0, content, ...(typeof response?.status === 'string' ? { finish_reason: response.status } : {}) }],
    tools: [
      ...results.map((item) =>
        EMITTER.state('tool.returned', {
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
              emitterOf(callId).event(
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

/** Facts that a later request may state in the same words have ids of what they say; those of one call have the call's. */
const EMITTER: Pick<Emitter, 'state'> & Emitter = {
  state: (name, data) =>
    ({ name, source: SOURCE, id: hashId(SOURCE, name, data), time: null, data }) as unknown as Draft,
  event: (name, place, data, time = null) =>
    ({ name, source: SOURCE, id: hashId(SOURCE, name, ...place), time, data }) as unknown as Draft,
};
const emitterOf = (callId: string): Emitter => ({
  ...EMITTER,
  event: (name, place, data, time) => EMITTER.event(name, [callId, ...place], data, time),
});

const isMessage = (value: unknown): value is ChatMessage => badMessage(value, '') === null;

/** A message that is none of the chat API's is kept as it came. */
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

const isTokenIds = (value: unknown): value is number[] =>
  Array.isArray(value) && value.every((id) => Number.isSafeInteger(id) && id >= 0);
const numbers = (values: readonly unknown[]): values is number[] =>
  values.every((value) => typeof value === 'number' && Number.isFinite(value) && Math.abs(value) < 3.4e38);

/** Token ids, and one log-probability a token; those that do not fit the token ids stay in the raw record. */
function tokensOf({ token_ids: ids, logprobs }: Fields): object {
  const tokens = isRecord(logprobs) && Array.isArray(logprobs.content) ? logprobs.content.filter(isRecord) : [];
  const values =
    isRecord(logprobs) && Array.isArray(logprobs.token_logprobs)
      ? logprobs.token_logprobs
      : tokens.map(({ logprob }) => logprob);
  const fits = values.length > 0 && numbers(values) && (!isTokenIds(ids) || ids.length === values.length);
  const best = tokens.map(({ top_logprobs: top }) => (Array.isArray(top) ? top.filter(isRecord) : []));
  return {
    ...(isTokenIds(ids) ? { token_ids: ids } : {}),
    ...(fits ? { logprobs: values } : {}),
    ...(fits && best.some((top) => top.length > 0) ? { top_logprobs: best } : {}),
  };
}

/** What went wrong; null where nothing did. */
function failureOf({ status, response, error }: UpstreamCall): object | null {
  if (error !== null) return { code: error.code, message: error.message, ...(status === null ? {} : { status }) };
  const said = response?.error;
  if ((status ?? 200) < 400 && said == null) return null;
  const own = isRecord(said) ? said : { message: textIn(said) ?? null };
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
