/** A completion request, checked field by field: a field that is silently ignored would make the record wrong. */
import type { IncomingHttpHeaders } from 'node:http';
import { TroupeError } from '../../errors.ts';
import { isRecord, type JsonObject } from '../../ingest/events/json.ts';
import { writtenArguments } from '../../ingest/events/spelling.ts';
import { isIdentifier } from '../../ingest/events/text.ts';
import { badMessage, type ChatMessage } from '../../ingest/formats/kit/chat-message.ts';
import type { PromptAsk, SampleAsk } from '../../trainer/sample/infer-wire.ts';
import { type Constraint, oneConstraint, readForced, readFormat } from './constraint.ts';
import type { OwnModel } from './policy-servers.ts';
import { flag, readSampling, refuse, refuseUnsupported, type Sampling, whole } from './sampling.ts';
import { readOneCall, readTools, type Tool } from './tools.ts';

/** The prompt: a conversation, a text, or token ids. */
export type Prompt =
  | { readonly messages: readonly ChatMessage[]; readonly tools: readonly Tool[] | null }
  | { readonly text: string }
  | { readonly ids: readonly number[] };

export type CompletionRequest = {
  /** The name as sent. */
  readonly model: string;
  /** Null if the name is not of the form of a model of this project. */
  readonly who: OwnModel | null;
  readonly prompt: Prompt;
  readonly sampling: Sampling;
  /** What the response has to be; null: any text. */
  readonly constraint: Constraint | null;
  /** Whether the response has log-probabilities. */
  readonly logprobs: boolean;
  /** Whether log-probabilities name tokens by id and not by text, as in vLLM. */
  readonly tokensAsIds: boolean;
  /** Whether the response is streamed, and whether the stream has the token usage; null: one body. */
  readonly stream: { readonly usage: boolean } | null;
  /** The route that sent it to a policy, if it names another model. */
  readonly route?: string;
  /** JsonObject of the body that a response of the Responses API repeats. */
  readonly repeats: Readonly<Record<string, unknown>>;
};

/**
 * Where a call of a replay comes from: `of` is the call that it repeats, `at` the one in whose place it stands; `with` an answer that was given
 * after the place, `without` a prompt after it that the answer there was left out of.
 */
export type Lineage =
  | { readonly of: object }
  | { readonly at: object }
  | { readonly with: object }
  | { readonly without: object };

/** The caller's agent, role, task, episode and turn. Null: a header that was not sent. */
export type CallContext = {
  readonly episode: string | null;
  readonly task: string | null;
  readonly group: string | null;
  readonly agent: string | null;
  readonly role: string | null;
  readonly turn: number | null;
  /** The step that all answers were expanded from. */
  readonly parent: string | null;
  /** Of a call of a replay: what of its source it takes the place of. */
  readonly replay?: Lineage;
};

/** As many as the OpenAI interface allows. */
export const MAX_TOP_LOGPROBS = 20;
/** New tokens of a text completion that names no limit, as in the OpenAI interface. */
const TEXT_MAX_TOKENS = 16;

/** A body of /v1/chat/completions. Throws `usage` naming the first unsupported field. */
export function readChatRequest(body: unknown): CompletionRequest {
  const { model, messages, ...fields } = opened(body);
  refuseUnsupported(fields, { functions: [], reasoning_effort: ['none'], audio: [] });
  // Here an empty object asks for a search.
  if (fields.web_search_options != null) throw refuse('web_search_options', 'left out', fields.web_search_options);
  if (!Array.isArray(messages) || messages.length === 0) throw refuse('messages', 'a list of messages', messages);
  for (const [i, message] of messages.entries()) checkMessage(message, `messages[${i}]`);
  const logprobs = flag('logprobs', fields.logprobs);
  const topLogprobs = whole('top_logprobs', fields.top_logprobs, 0, MAX_TOP_LOGPROBS) ?? 0;
  if (topLogprobs > 0 && !logprobs) throw refuse('top_logprobs', '0 where logprobs is not true', topLogprobs);
  const tools = readTools(fields);
  const forced = readForced('tool_choice', fields.tool_choice, tools);
  return {
    model,
    who: ownModel(model),
    prompt: { messages: (messages as ChatMessage[]).map(withWrittenCalls), tools },
    constraint: oneConstraint(
      readFormat('response_format', fields.response_format),
      { forced, tools },
      'response_format',
    ),
    sampling: {
      ...readSampling(fields),
      maxTokens:
        whole('max_completion_tokens', fields.max_completion_tokens, 1) ?? whole('max_tokens', fields.max_tokens, 1),
      topLogprobs,
      oneCall: readOneCall(fields, tools),
    },
    logprobs,
    tokensAsIds: tokensAsIds(fields),
    stream: readStream(fields),
    repeats: {},
  };
}

/** A body of /v1/completions: one prompt, a text or a list of token ids. Throws `usage` as `readChatRequest` does. */
export function readTextRequest(body: unknown): CompletionRequest {
  const { model, prompt, ...fields } = opened(body);
  refuseUnsupported(fields, { suffix: [''] });
  const logprobs = whole('logprobs', fields.logprobs, 0, MAX_TOP_LOGPROBS);
  return {
    model,
    who: ownModel(model),
    prompt: onePrompt(prompt),
    constraint: readFormat('response_format', fields.response_format),
    sampling: {
      ...readSampling(fields),
      maxTokens: whole('max_tokens', fields.max_tokens, 1) ?? TEXT_MAX_TOKENS,
      topLogprobs: logprobs ?? 0,
      oneCall: false,
    },
    logprobs: logprobs !== null,
    tokensAsIds: tokensAsIds(fields),
    stream: readStream(fields),
    repeats: {},
  };
}

const tokensAsIds = ({ return_tokens_as_token_ids: asked }: Readonly<Record<string, unknown>>): boolean =>
  flag('return_tokens_as_token_ids', asked);

/** Throws `usage` for what is no message of the chat interface, and for parts that a chat template cannot show a model. */
function checkMessage(message: unknown, field: string): void {
  const bad = badMessage(message, field);
  if (bad) throw new TroupeError('usage', `${bad.field} should be ${bad.expected}; it is ${bad.got}.`, bad);
  const { content } = message as ChatMessage;
  if (!Array.isArray(content)) return;
  const other = content.findIndex(({ type, text }) => type !== 'text' || typeof text !== 'string');
  if (other >= 0)
    throw refuse(`${field}.content[${other}]`, '{"type":"text","text":…}', content[other], 'A policy reads text only.');
}

/** The arguments of calls are text in the chat interface; some clients send an object. */
function withWrittenCalls(message: ChatMessage): ChatMessage {
  const calls = Array.isArray(message.tool_calls) ? (message.tool_calls as JsonObject[]) : [];
  const isObject = ({ function: asked }: JsonObject): boolean => isRecord(asked) && isRecord(asked.arguments);
  if (!calls.some(isObject)) return message;
  const written = (call: JsonObject): JsonObject => {
    const asked = call.function as JsonObject;
    return isObject(call) ? { ...call, function: { ...asked, arguments: writtenArguments(asked.arguments) } } : call;
  };
  return { ...message, tool_calls: calls.map(written) };
}

function readStream({
  stream,
  stream_options: options,
}: Readonly<Record<string, unknown>>): CompletionRequest['stream'] {
  if (options != null && !isRecord(options)) throw refuse('stream_options', 'an object', options);
  const usage = flag('stream_options.include_usage', options?.include_usage);
  return flag('stream', stream) ? { usage } : null;
}

/** A body with a model in it. Throws `usage` for another. */
export function opened(body: unknown): Record<string, unknown> & { readonly model: string } {
  if (!isRecord(body)) throw refuse('body', 'a JSON object', body);
  if (typeof body.model !== 'string') throw refuse('model', 'policy:NAME or checkpoint:ID', body.model);
  return body as Record<string, unknown> & { readonly model: string };
}

/** A list of one prompt is that prompt. */
function onePrompt(value: unknown): Prompt {
  if (typeof value === 'string' && value !== '') return { text: value };
  if (Array.isArray(value) && value.length > 0) {
    if (value.every((id) => Number.isSafeInteger(id) && id >= 0)) return { ids: value };
    if (value.length === 1) return onePrompt(value[0]);
  }
  throw refuse('prompt', 'one text or one list of token ids, not empty', value, 'Send one request per prompt.');
}

/** The model of this project that a name means; null if it has another form. */
export function ownModel(model: string): OwnModel | null {
  const match = /^(policy|checkpoint):(.+)$/s.exec(model);
  return match && isIdentifier(match[2]) ? { kind: match[1] as OwnModel['kind'], name: match[2] as string } : null;
}

/** The request to the sampling process. */
export function toAsk({ prompt, sampling, logprobs, constraint }: CompletionRequest, seed: number): SampleAsk {
  const { n, temperature, maxTokens, stop, topK, topP, minP, topLogprobs, rawLogprobs, oneCall } = sampling;
  return {
    ...promptOf(prompt),
    n,
    temperature,
    seed,
    ...(maxTokens === null ? {} : { max_tokens: maxTokens }),
    ...(stop.length === 0 ? {} : { stop }),
    ...(topK === 0 ? {} : { top_k: topK }),
    ...(topP === 1 ? {} : { top_p: topP }),
    ...(minP === 0 ? {} : { min_p: minP }),
    ...(topLogprobs === 0 ? {} : { top_logprobs: topLogprobs }),
    ...(rawLogprobs ? { raw_logprobs: true } : {}),
    // A forced call is the only one anyway.
    ...(oneCall && constraint === null ? { one_call: true } : {}),
    ...(logprobs ? { token_texts: true } : {}),
    ...(constraint === null ? {} : constrained(constraint)),
  };
}

function constrained(constraint: Constraint): Pick<SampleAsk, 'json_schema' | 'tool_choice'> {
  if ('schema' in constraint) return { json_schema: constraint.schema };
  return { tool_choice: constraint.tool === null ? 'required' : { name: constraint.tool } };
}

/** A prompt in the shape of the sampling process. */
export function promptOf(prompt: Prompt): PromptAsk {
  if ('text' in prompt) return { prompt: prompt.text };
  if ('ids' in prompt) return { prompt_ids: prompt.ids };
  return { messages: prompt.messages, ...(prompt.tools === null ? {} : { tools: prompt.tools }) };
}

export const CONTEXT_HEADERS = {
  'Troupe-Episode': 'episode the call belongs to; without it the call is an episode of its own',
  'Troupe-Task': 'task of the episode',
  'Troupe-Group': 'group of the episode',
  'Troupe-Agent': 'agent that calls',
  'Troupe-Role': 'role it plays',
  'Troupe-Turn': 'round of the environment, from 0',
  'Troupe-Parent': 'step that this call was expanded from, in a tree of answers',
} as const;

/**
 * The context of a call, from its headers and its path (`/e/<episode>/a/<agent>/…`). The path names the episode, whatever a header
 * says; the agent that a call names is more precise than that of the address, which all agents of a program may share. Claude Code
 * names its session and the sub-agent that calls: they are the episode where none is named, and the agent. Throws `usage` for
 * unusable ids.
 */
export function readContext(
  headers: IncomingHttpHeaders,
  path: { readonly episode?: string; readonly agent?: string },
): CallContext {
  const id = (header: string): string | null => {
    const value = headers[header.toLowerCase()];
    if (value === undefined || value === '') return null;
    return checkedId(header, value);
  };
  const turn = headers['troupe-turn'];
  if (turn !== undefined && turn !== '' && !/^\d{1,9}$/.test(String(turn)))
    throw refuse('Troupe-Turn', 'a whole number from 0', turn);
  return {
    episode:
      path.episode === undefined
        ? (id('Troupe-Episode') ?? id('X-Claude-Code-Session-Id'))
        : checkedId('episode', path.episode),
    task: id('Troupe-Task'),
    group: id('Troupe-Group'),
    agent:
      id('X-Claude-Code-Agent-Id') ??
      id('Troupe-Agent') ??
      (path.agent === undefined ? null : checkedId('agent', path.agent)),
    role: id('Troupe-Role'),
    turn: turn ? Number(turn) : null,
    parent: id('Troupe-Parent'),
  };
}

function checkedId(field: string, value: unknown): string {
  if (isIdentifier(value)) return value;
  throw refuse(field, 'a text of 1 to 512 bytes without U+0000', value);
}
